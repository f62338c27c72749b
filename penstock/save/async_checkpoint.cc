#include "penstock/save/async_checkpoint.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::save {

AsyncCheckpointManager::AsyncCheckpointManager(io::FileSystem& fs, absl::string_view folder,
                                               AsyncCheckpointOptions options)
    : manager_(fs, folder, options.checkpoints), options_(std::move(options)) {}

AsyncCheckpointManager::~AsyncCheckpointManager() {
  if (const absl::Status status = Wait(); !status.ok()) Warn(status.message());
}

void AsyncCheckpointManager::Warn(absl::string_view text) const {
  if (!options_.warn) {
    std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(text.size()), text.data());
    return;
  }
  // The thread of a pool must not throw.
  (void)base::CatchExceptions([&] {
    options_.warn(text);
    return absl::OkStatus();
  });
}

void AsyncCheckpointManager::Save(Checkpoint checkpoint) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !working_; });
  save_ = std::move(checkpoint);
  Begin(lock);
}

void AsyncCheckpointManager::Annotate(int64_t step, std::string state,
                                      std::optional<double> score) {
  std::unique_lock lock(mutex_);
  annotation_ = Annotation{step, std::move(state), score};
  Begin(lock);
}

void AsyncCheckpointManager::Begin(std::unique_lock<std::mutex>& lock) {
  if (working_) return;
  working_ = true;
  if (options_.asynchronous && pool_ == nullptr) {
    // Steps on CPU devices are as slow as their slowest thread, so this one yields to them.
    auto pool = base::ThreadPool::Make(1, "checkpoint", base::ThreadPool::Priority::kBackground);
    if (pool.ok()) pool_ = *std::move(pool);
  }
  lock.unlock();
  if (pool_ != nullptr) {
    pool_->Schedule([this] { Work(); });
  } else {
    Work();
  }
}

void AsyncCheckpointManager::Work() {
  std::unique_lock lock(mutex_);
  while (save_.has_value() || annotation_.has_value()) {
    if (save_.has_value()) {
      std::optional<Checkpoint> checkpoint = std::exchange(save_, std::nullopt);
      lock.unlock();
      absl::Status status = base::CatchExceptions([&] { return DoSave(*checkpoint); });
      checkpoint.reset();  // frees the copy of the state before waiting threads are notified
      lock.lock();
      last_failed_ = !status.ok();
      if (error_.ok()) error_ = std::move(status);
      continue;
    }
    const Annotation annotation = *std::exchange(annotation_, std::nullopt);
    if (last_failed_) continue;  // there is nothing to annotate, and the error says why
    lock.unlock();
    DoAnnotate(annotation);
    lock.lock();
  }
  working_ = false;
  idle_.notify_all();
}

absl::Status AsyncCheckpointManager::DoSave(const Checkpoint& checkpoint) {
  const absl::StatusOr<Saved> saved = manager_.Save(checkpoint);
  if (!saved.ok()) {
    return base::WithContext(saved.status(),
                             absl::StrCat("saving a checkpoint of step ", checkpoint.step));
  }
  if (!saved->cleanup.ok()) {
    Warn(
        absl::StrCat("the checkpoint of step ", checkpoint.step,
                     " is saved, but older ones could not be removed: ", saved->cleanup.message()));
  }
  return absl::OkStatus();
}

void AsyncCheckpointManager::DoAnnotate(const Annotation& annotation) {
  const absl::StatusOr<Saved> saved = base::CatchExceptions(
      [&] { return manager_.Annotate(annotation.step, annotation.state, annotation.score); });
  const absl::Status& status = saved.ok() ? saved->cleanup : saved.status();
  if (status.ok()) return;
  Warn(absl::StrCat("the checkpoint of step ", annotation.step, " is saved, but ",
                    saved.ok()                     ? "older ones could not be removed: "
                    : annotation.score.has_value() ? "its score could not be added: "
                                                   : "the end of its epoch could not be recorded: ",
                    status.message()));
}

bool AsyncCheckpointManager::busy() const {
  const std::lock_guard lock(mutex_);
  return working_;
}

absl::Status AsyncCheckpointManager::TakeError() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, absl::OkStatus());
}

void AsyncCheckpointManager::AwaitIdle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !working_; });
}

absl::Status AsyncCheckpointManager::Wait() {
  AwaitIdle();
  return TakeError();
}

CheckpointManager& AsyncCheckpointManager::WhenIdle() {
  AwaitIdle();
  return manager_;
}

}  // namespace penstock::save
