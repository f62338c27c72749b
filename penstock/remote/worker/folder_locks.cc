#include "penstock/remote/worker/folder_locks.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/canonical_name.h"
#include "penstock/train/training_lock.h"

namespace penstock::remote {
namespace {

constexpr double kReleaseSeconds = 8;  // for what the other session still writes

}  // namespace

struct FolderLocks::Held {
  // Forgotten before it is released: who comes next may come at once.
  ~Held() {
    const std::lock_guard<std::mutex> guard(holders->mutex);
    holders->sessions.erase(name);
  }

  const std::shared_ptr<void> lock;
  const std::shared_ptr<Holders> holders;
  const std::string name;
};

std::string FolderLocks::HolderOf(const std::string& folder) const {
  const std::lock_guard<std::mutex> guard(holders_->mutex);
  const auto found = holders_->sessions.find(io::CanonicalName(folder));
  return found == holders_->sessions.end() ? "" : found->second;
}

absl::StatusOr<std::shared_ptr<void>> FolderLocks::Lock(io::FileSystem& fs,
                                                        const std::string& folder,
                                                        const std::string& session,
                                                        EndHolder end_holder) {
  const std::string holder = HolderOf(folder);
  // None: no session has it, though another process of this machine may, or another training of this client.
  const bool held = !holder.empty() && holder != session;
  const absl::Status ends = held ? end_holder(holder) : absl::OkStatus();
  const double until = base::Clock::Real()->Seconds() + (held && ends.ok() ? kReleaseSeconds : 0);
  absl::StatusOr<std::shared_ptr<void>> lock;
  do {  // each attempt waits for a moment
    lock = train::LockForTraining(fs, folder);
  } while (absl::IsFailedPrecondition(lock.status()) && base::Clock::Real()->Seconds() < until);
  if (absl::IsFailedPrecondition(lock.status()) && !ends.ok()) {
    return base::WithContext(ends, lock.status().message());
  }
  if (!lock.ok() || *lock == nullptr) return lock;
  std::string name = io::CanonicalName(folder);
  {
    const std::lock_guard<std::mutex> guard(holders_->mutex);
    holders_->sessions[name] = session;
  }
  return std::shared_ptr<void>(new Held{*std::move(lock), holders_, std::move(name)});
}

absl::StatusOr<std::shared_ptr<void>> LockFolder(SessionGate& gate, io::FileSystem& fs,
                                                 const std::string& folder) {
  std::shared_ptr<FolderLocks> locks;
  std::string id;
  gate.Use([&](SessionState& session) {
    locks = session.options().folder_locks;
    id = session.options().id;
  });
  if (locks == nullptr) return train::LockForTraining(fs, folder);
  return locks->Lock(fs, folder, id, [&](const std::string& holder) {
    absl::Status ends = SessionHasEnded();
    gate.Use([&](SessionState& session) { ends = session.options().end_holder(holder); });
    return ends;
  });
}

}  // namespace penstock::remote
