#include "penstock/remote/checkpoint/worker_checkpoints.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/allowed_paths.h"
#include "penstock/io/file_system.h"
#include "penstock/io/write_check.h"
#include "penstock/remote/checkpoint/arrays_blob.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/folder_locks.h"
#include "penstock/remote/worker/host_copy.h"
#include "penstock/remote/worker/session_gate.h"
#include "penstock/remote/worker/session_threads.h"
#include "penstock/save/checkpoint.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxStores = 16;

std::optional<double> ScoreOf(bool has, double score) {
  return has ? std::optional<double>(score) : std::nullopt;
}

// The client shows it beside errors of its own files, and its user may have other credentials.
absl::Status OnTheWorker(const absl::Status& status) {
  return base::WithContext(status, "on the worker");
}

// Strings of messages must be UTF-8, and the name of a folder may be anything.
std::string WarningOf(const absl::Status& status) {
  return base::ReplaceInvalidUtf8(std::string(status.message()));
}

Reply ReplyOf(CheckpointsReply body) {
  Reply reply;
  *reply.mutable_checkpoints() = std::move(body);
  return reply;
}

}  // namespace

// What the threads of stores use; it may outlive the session.
struct WorkerCheckpoints::Shared {
  explicit Shared(SessionState& session)
      : gate(&session),
        client(session.shared_client()),
        file_system(data::MakeAllowedFileSystem(
            session.options().file_system != nullptr ? session.options().file_system
                                                     : io::FileSystem::Default(),
            std::make_shared<const data::AllowedPaths>(session.options().readable,
                                                       session.options().writable))) {}

  SessionGate gate;
  const std::shared_ptr<runtime::Client> client;
  const std::shared_ptr<io::FileSystem> file_system;
};

struct WorkerCheckpoints::Store {
  Store(std::shared_ptr<Shared> with, std::string uri, save::CheckpointOptions options)
      : shared(std::move(with)),
        folder(std::move(uri)),
        manager(*shared->file_system, folder, options) {}

  // On the store's thread. Each returns the reply.
  absl::Status Lock() {
    PENSTOCK_ASSIGN_OR_RETURN(lock, LockFolder(shared->gate, *shared->file_system, folder));
    return absl::OkStatus();
  }
  absl::StatusOr<Reply> Save(const save::Checkpoint& checkpoint) {
    const absl::StatusOr<save::Saved> saved = manager.Save(checkpoint);
    last_failed = !saved.ok();
    PENSTOCK_RETURN_IF_ERROR(saved.status());
    CheckpointsReply reply;
    reply.set_bytes(saved->info.num_bytes);
    if (!saved->cleanup.ok()) reply.set_warning(WarningOf(saved->cleanup));
    return ReplyOf(std::move(reply));
  }
  absl::StatusOr<Reply> Annotate(const Checkpoints::Annotate& annotate) {
    CheckpointsReply reply;
    // There is nothing to annotate after a save that failed, and its error says why.
    if (last_failed) return ReplyOf(std::move(reply));
    PENSTOCK_ASSIGN_OR_RETURN(const save::Saved saved,
                              manager.Annotate(annotate.step(), annotate.state(),
                                               ScoreOf(annotate.has_score(), annotate.score())));
    if (!saved.cleanup.ok()) reply.set_warning(WarningOf(saved.cleanup));
    return ReplyOf(std::move(reply));
  }
  absl::StatusOr<Reply> Read();
  absl::StatusOr<Reply> Load(const Checkpoints::Load& load,
                             const std::vector<runtime::Device>& devices);
  absl::StatusOr<Reply> LoadTo(const std::vector<runtime::Device>& devices,
                               const Checkpoints::Load& load, std::vector<uint64_t>& added);
  absl::StatusOr<Reply> Newest() {
    PENSTOCK_ASSIGN_OR_RETURN(const save::CheckpointList list, manager.List());
    CheckpointsReply reply;
    reply.set_step(list.complete.empty() ? -1 : list.complete.back().step);
    return ReplyOf(std::move(reply));
  }
  absl::Status AddBuffer(uint64_t handle, const runtime::Buffer& buffer);

  const std::shared_ptr<Shared> shared;
  const std::string folder;
  std::shared_ptr<void> lock;  // as long as the store is open
  save::CheckpointManager manager;
  base::NamedArrays found;  // of the checkpoint that was read, until it was loaded
  bool last_failed = false;

  ThreadEnd ended;  // set by the thread's last task
};

absl::StatusOr<Reply> WorkerCheckpoints::Store::Read() {
  PENSTOCK_ASSIGN_OR_RETURN(save::Restored restored, manager.ReadLatest());
  CheckpointsReply reply;
  reply.set_step(restored.checkpoint.step);
  reply.set_state(restored.checkpoint.state);
  if (restored.checkpoint.score.has_value()) reply.set_score(*restored.checkpoint.score);
  for (const auto& [name, array] : restored.checkpoint.arrays) {
    CheckpointsReply::Array& out = *reply.add_arrays();
    out.set_name(name);
    *out.mutable_type() = ToMessage(ir::TensorType{array.dtype(), array.shape()});
  }
  for (const save::CorruptCheckpoint& skipped : restored.skipped) {
    CheckpointsReply::Skipped& out = *reply.add_skipped();
    out.set_step(skipped.step);
    out.set_uri(skipped.uri);
    *out.mutable_why() = ToMessage(skipped.why);
  }
  found = std::move(restored.checkpoint.arrays);
  last_failed = false;
  return ReplyOf(std::move(reply));
}

absl::Status WorkerCheckpoints::Store::AddBuffer(uint64_t handle, const runtime::Buffer& buffer) {
  absl::Status status = SessionHasEnded();
  shared->gate.Use([&](SessionState& session) {
    status = session.CheckNewHandles({&handle, 1});
    status.Update(session.CheckBytes({&buffer.type(), 1}));
    if (status.ok()) session.AddBuffer(handle, buffer);
  });
  return status;
}

absl::StatusOr<Reply> WorkerCheckpoints::Store::Load(const Checkpoints::Load& load,
                                                     const std::vector<runtime::Device>& devices) {
  std::vector<uint64_t> added;
  absl::StatusOr<Reply> reply = base::CatchExceptions([&] { return LoadTo(devices, load, added); });
  if (!reply.ok()) {
    // The client has no buffers then, whose end would free these.
    shared->gate.Use([&](SessionState& session) { session.Delete(added).IgnoreError(); });
  }
  return reply;
}

// `added`: the buffers that the session has got, also after an error.
absl::StatusOr<Reply> WorkerCheckpoints::Store::LoadTo(const std::vector<runtime::Device>& devices,
                                                       const Checkpoints::Load& load,
                                                       std::vector<uint64_t>& added) {
  const auto find = [&](const std::string& name) -> absl::StatusOr<base::Array> {
    const base::Array* array = found.Find(name);
    if (array != nullptr) return *array;
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint that was read has no array '", name.substr(0, 200), "'"));
  };
  CheckpointsReply reply;
  uint64_t handle = load.first_buffer();
  for (const runtime::Device& device : devices) {
    for (const std::string& name : load.names()) {
      PENSTOCK_ASSIGN_OR_RETURN(const base::Array array, find(name));
      // Executions take the buffers, so each needs memory of its own.
      PENSTOCK_ASSIGN_OR_RETURN(const runtime::Buffer buffer,
                                shared->client->Put(array.Clone(), device));
      PENSTOCK_RETURN_IF_ERROR(AddBuffer(handle, buffer));
      added.push_back(handle++);
    }
  }
  if (!load.other_names().empty()) {
    base::NamedArrays others;
    for (const std::string& name : load.other_names()) {
      PENSTOCK_ASSIGN_OR_RETURN(base::Array array, find(name));
      others.Set(name, std::move(array));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array blob, ToBlob(others));
    PENSTOCK_ASSIGN_OR_RETURN(const runtime::Buffer buffer, shared->client->Put(blob, devices[0]));
    PENSTOCK_RETURN_IF_ERROR(AddBuffer(load.others(), buffer));
    added.push_back(load.others());
    reply.set_others_bytes(blob.num_bytes());
  }
  if (!load.names().empty()) found = {};
  return ReplyOf(std::move(reply));
}

WorkerCheckpoints::WorkerCheckpoints(SessionState& session)
    : session_(session), shared_(std::make_shared<Shared>(session)) {}

WorkerCheckpoints::~WorkerCheckpoints() {
  for (auto& [handle, thread] : stores_) {
    thread.pool->Schedule([store = thread.store] {
      store->lock = nullptr;
      store->ended.Set();
    });
    closing_.push_back(std::move(thread));
  }
  stores_.clear();
  EndThreads(
      std::move(closing_), session_.options().limits.feed_end_seconds,
      [](const Thread& thread, double seconds) { return thread.store->ended.Await(seconds); });
  shared_->gate.Close();
}

absl::Status WorkerCheckpoints::Open(uint64_t handle, uint64_t request,
                                     const Checkpoints::Open& open) {
  std::erase_if(closing_, [](const Thread& thread) { return thread.store->ended.Await(0); });
  if (stores_.size() + closing_.size() >= kMaxStores) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the session has ", kMaxStores, " folders of checkpoints open"));
  }
  if (handle == 0 || stores_.contains(handle)) {
    return absl::InvalidArgumentError(absl::StrCat("there is a store ", handle, " already"));
  }
  const save::CheckpointOptions options = {.keep = open.keep(), .keep_best = open.keep_best()};
  const auto store = std::make_shared<Store>(shared_, open.folder(), options);
  PENSTOCK_ASSIGN_OR_RETURN(
      auto pool, base::ThreadPool::Make(1, "checkpoint", base::ThreadPool::Priority::kBackground));
  pool->Schedule([store, request, check = open.check()] {
    const absl::Status status = base::CatchExceptions([&] {
      return check ? io::CheckWritableFolder(*store->shared->file_system, store->folder)
                   : store->Lock();
    });
    status.ok() ? store->shared->gate.SendReply(request, Reply())
                : store->shared->gate.SendError(request, OnTheWorker(status));
  });
  stores_.emplace(handle, Thread{store, std::move(pool)});
  return absl::OkStatus();
}

absl::Status WorkerCheckpoints::Save(Thread& thread, uint64_t request, Checkpoints::Save save) {
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays arrays,
                            CopyToHost(session_, save.names(), save.buffers()));
  auto checkpoint = std::make_shared<save::Checkpoint>(
      save::Checkpoint{.step = save.step(),
                       .arrays = std::move(arrays),
                       .state = save.state(),
                       .score = ScoreOf(save.has_score(), save.score())});
  if (save.others() != 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const runtime::Buffer blob, session_.FindBuffer(save.others()));
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array bytes_of_others, blob.Get());
    PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays others, FromBlob(bytes_of_others));
    for (const std::string& name : save.other_names()) {
      const base::Array* array = others.Find(name);
      if (array == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("array '", name, "' was not sent"));
      }
      checkpoint->arrays.Set(name, *array);
    }
  }
  thread.pool->Schedule([store = thread.store, request, checkpoint]() mutable {
    absl::StatusOr<Reply> reply = base::CatchExceptions([&] { return store->Save(*checkpoint); });
    checkpoint.reset();
    reply.ok() ? store->shared->gate.SendReply(request, *std::move(reply))
               : store->shared->gate.SendError(request, OnTheWorker(reply.status()));
  });
  return absl::OkStatus();
}

absl::Status WorkerCheckpoints::Handle(Call& call) {
  const uint64_t request = call.body.id();
  Checkpoints& body = *call.body.mutable_checkpoints();
  if (request == 0) return absl::InvalidArgumentError("Checkpoints without a request id");
  const std::lock_guard<std::mutex> lock(mutex_);
  if (body.has_open()) return Open(body.store(), request, body.open());
  const auto found = stores_.find(body.store());
  if (found == stores_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no store ", body.store()));
  }
  Thread& thread = found->second;
  if (body.has_save()) {
    const absl::Status begun = base::CatchExceptions(
        [&] { return Save(thread, request, std::move(*body.mutable_save())); });
    // There is nothing to annotate then, either.
    if (!begun.ok()) thread.pool->Schedule([store = thread.store] { store->last_failed = true; });
    return begun;
  }
  std::vector<runtime::Device> devices;
  for (const int index : body.load().devices()) {
    PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device, session_.device(index));
    devices.push_back(*device);
  }
  if (body.has_load() && devices.empty()) {
    return absl::InvalidArgumentError("a checkpoint is loaded to no device");
  }
  const bool close = body.body_case() == Checkpoints::kClose;
  thread.pool->Schedule([store = thread.store, request, body = std::move(body), devices] {
    absl::StatusOr<Reply> reply = base::CatchExceptions([&]() -> absl::StatusOr<Reply> {
      switch (body.body_case()) {
        case Checkpoints::kAnnotate:
          return store->Annotate(body.annotate());
        case Checkpoints::kRead:
          return store->Read();
        case Checkpoints::kLoad:
          return store->Load(body.load(), devices);
        case Checkpoints::kNewest:
          return store->Newest();
        case Checkpoints::kRemoveNewer:
          PENSTOCK_RETURN_IF_ERROR(store->manager.RemoveNewerThan(body.remove_newer()));
          return Reply();
        case Checkpoints::kClose:
          store->lock = nullptr;
          return Reply();
        default:
          return absl::UnimplementedError("this worker does not know this request of checkpoints");
      }
    });
    reply.ok() ? store->shared->gate.SendReply(request, *std::move(reply))
               : store->shared->gate.SendError(request, OnTheWorker(reply.status()));
    if (body.body_case() == Checkpoints::kClose) store->ended.Set();
  });
  if (!close) return absl::OkStatus();
  closing_.push_back(std::move(thread));
  stores_.erase(found);
  return absl::OkStatus();
}

}  // namespace penstock::remote
