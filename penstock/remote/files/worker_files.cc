#include "penstock/remote/files/worker_files.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/allowed_paths.h"
#include "penstock/io/file_system.h"
#include "penstock/io/write_check.h"
#include "penstock/remote/files/file_limits.h"
#include "penstock/remote/worker/folder_locks.h"
#include "penstock/remote/worker/host_copy.h"
#include "penstock/remote/worker/session_gate.h"
#include "penstock/remote/worker/session_threads.h"
#include "penstock/save/tensor_bundle_write.h"

namespace penstock::remote {
namespace {

// A client waits for each reply but those of a few threads.
constexpr int kMaxWaiting = 64;
constexpr size_t kMaxOpen = 256;
// Names of usual lengths fit into one message.
constexpr size_t kMaxListed = 100'000;

FilesReply::Info InfoOf(const io::FileInfo& info) {
  FilesReply::Info out;
  out.set_uri(info.uri);
  out.set_directory(info.is_directory);
  out.set_size(info.size);
  out.set_modified(info.modified_unix_seconds);
  out.set_version(info.version);
  out.set_link(info.is_link);
  return out;
}

struct Answer {
  Reply reply = {};
  std::vector<Slice> payload = {};
};

absl::StatusOr<Answer> AnswerOf(const absl::StatusOr<io::FileInfo>& info) {
  PENSTOCK_RETURN_IF_ERROR(info.status());
  Answer answer;
  *answer.reply.mutable_files()->add_infos() = InfoOf(*info);
  return answer;
}

absl::StatusOr<Answer> AnswerOf(const absl::StatusOr<std::vector<io::FileInfo>>& infos,
                                const std::string& folder) {
  PENSTOCK_RETURN_IF_ERROR(infos.status());
  if (infos->size() > kMaxListed) {
    return absl::ResourceExhaustedError(absl::StrCat(io::DisplayName(folder), " has ",
                                                     infos->size(), " files; the worker lists ",
                                                     kMaxListed, " for a client"));
  }
  Answer answer;
  for (const io::FileInfo& info : *infos) {
    *answer.reply.mutable_files()->add_infos() = InfoOf(info);
  }
  return answer;
}

absl::StatusOr<Answer> AnswerOf(const absl::Status& status) {
  PENSTOCK_RETURN_IF_ERROR(status);
  return Answer();
}

}  // namespace

struct WorkerFiles::State {
  explicit State(SessionState& session)
      : gate(&session),
        fs(data::MakeAllowedFileSystem(
            session.options().file_system != nullptr ? session.options().file_system
                                                     : io::FileSystem::Default(),
            std::make_shared<const data::AllowedPaths>(session.options().readable,
                                                       session.options().writable))) {}

  // On the thread. `arrays`: of a bundle.
  absl::StatusOr<Answer> Execute(const Files& body, const std::vector<Slice>& payload,
                                 const base::NamedArrays& arrays);
  absl::StatusOr<Answer> Open(const Files::Open& open);
  absl::StatusOr<Answer> Create(const Files::Open& create);
  absl::StatusOr<Answer> Read(const Files::Read& read);
  absl::Status Append(uint64_t file, const std::vector<Slice>& payload);
  absl::Status Publish(uint64_t file);
  absl::Status CheckNewFile(uint64_t file) const;
  absl::Status Lock(const Files::Open& folder);

  SessionGate gate;
  const std::shared_ptr<io::FileSystem> fs;
  // Requests that wait: of closes, or others.
  std::atomic<int>& Waiting(bool closes) { return closes ? closing : waiting; }
  std::atomic<int> waiting{0}, closing{0};
  absl::flat_hash_map<uint64_t, std::unique_ptr<io::RandomAccessFile>> inputs;
  absl::flat_hash_map<uint64_t, std::unique_ptr<io::OutputStream>> outputs;
  absl::flat_hash_map<uint64_t, std::shared_ptr<void>> locks;

  ThreadEnd ended;  // set by the thread's last task

  void End() {
    inputs.clear();
    outputs.clear();
    locks.clear();
    ended.Set();
  }
};

absl::Status WorkerFiles::State::CheckNewFile(uint64_t file) const {
  if (file == 0 || inputs.contains(file) || outputs.contains(file) || locks.contains(file)) {
    return absl::InvalidArgumentError(absl::StrCat("there is a file ", file, " already"));
  }
  if (inputs.size() + outputs.size() + locks.size() < kMaxOpen) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the session has ", kMaxOpen, " files open"));
}

absl::StatusOr<Answer> WorkerFiles::State::Open(const Files::Open& open) {
  PENSTOCK_RETURN_IF_ERROR(CheckNewFile(open.file()));
  PENSTOCK_ASSIGN_OR_RETURN(auto file, fs->OpenRandomAccess(open.uri()));
  Answer answer;
  FilesReply::Info& info = *answer.reply.mutable_files()->add_infos();
  info.set_size(file->size());
  info.set_version(file->version());
  inputs.emplace(open.file(), std::move(file));
  return answer;
}

absl::StatusOr<Answer> WorkerFiles::State::Create(const Files::Open& create) {
  PENSTOCK_RETURN_IF_ERROR(CheckNewFile(create.file()));
  PENSTOCK_ASSIGN_OR_RETURN(auto stream, fs->Create(create.uri()));
  outputs.emplace(create.file(), std::move(stream));
  return Answer();
}

absl::Status WorkerFiles::State::Lock(const Files::Open& folder) {
  PENSTOCK_RETURN_IF_ERROR(CheckNewFile(folder.file()));
  PENSTOCK_ASSIGN_OR_RETURN(auto lock, LockFolder(gate, *fs, folder.uri()));
  locks.emplace(folder.file(), std::move(lock));
  return absl::OkStatus();
}

absl::StatusOr<Answer> WorkerFiles::State::Read(const Files::Read& read) {
  const auto file = inputs.find(read.file());
  if (file == inputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no open file ", read.file()));
  }
  if (read.bytes() < 0 || read.bytes() > kMaxFilePart) {
    return absl::InvalidArgumentError(absl::StrCat("a read of ", read.bytes(), " bytes; at most ",
                                                   kMaxFilePart, " in one request"));
  }
  const auto bytes = std::make_shared<std::string>(static_cast<size_t>(read.bytes()), '\0');
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t size,
                            file->second->Read(read.offset(), absl::MakeSpan(*bytes)));
  Answer answer;
  answer.reply.mutable_files();
  answer.payload.push_back(
      {bytes, reinterpret_cast<const std::byte*>(bytes->data()), static_cast<size_t>(size)});
  return answer;
}

absl::Status WorkerFiles::State::Append(uint64_t file, const std::vector<Slice>& payload) {
  const auto stream = outputs.find(file);
  if (stream == outputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no new file ", file));
  }
  for (const Slice& slice : payload) {
    PENSTOCK_RETURN_IF_ERROR(stream->second->Append(
        absl::string_view(reinterpret_cast<const char*>(slice.data), slice.size)));
  }
  return absl::OkStatus();
}

absl::Status WorkerFiles::State::Publish(uint64_t file) {
  const auto stream = outputs.find(file);
  if (stream == outputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no new file ", file));
  }
  const std::unique_ptr<io::OutputStream> closed = std::move(stream->second);
  outputs.erase(stream);
  return closed->Close();
}

absl::StatusOr<Answer> WorkerFiles::State::Execute(const Files& body,
                                                   const std::vector<Slice>& payload,
                                                   const base::NamedArrays& arrays) {
  switch (body.body_case()) {
    case Files::kStat:
      return AnswerOf(fs->Stat(body.stat()));
    case Files::kList:
      return AnswerOf(fs->List(body.list()), body.list());
    case Files::kListRecursive:
      return AnswerOf(fs->ListRecursive(body.list_recursive()), body.list_recursive());
    case Files::kRemove:
      return AnswerOf(fs->Remove(body.remove()));
    case Files::kRemoveRecursively:
      return AnswerOf(fs->RemoveRecursively(body.remove_recursively()));
    case Files::kCreateFolder:
      return AnswerOf(fs->CreateFolder(body.create_folder()));
    case Files::kCheckFile:
      return AnswerOf(io::CheckWritableFile(*fs, body.check_file()));
    case Files::kCheckFolder:
      return AnswerOf(io::CheckWritableFolder(*fs, body.check_folder()));
    case Files::kOpen:
      return Open(body.open());
    case Files::kRead:
      return Read(body.read());
    case Files::kCreate:
      return Create(body.create());
    case Files::kAppend:
      return AnswerOf(Append(body.append(), payload));
    case Files::kPublish:
      return AnswerOf(Publish(body.publish()));
    case Files::kClose:
      inputs.erase(body.close());
      outputs.erase(body.close());
      locks.erase(body.close());
      return Answer();
    case Files::kLockForTraining:
      return AnswerOf(Lock(body.lock_for_training()));
    case Files::kWriteBundle:
      return AnswerOf(save::tensor_bundle::WriteBundle(*fs, body.write_bundle().prefix(), arrays,
                                                       {.name_based = true}));
    case Files::BODY_NOT_SET:
      break;
  }
  return absl::UnimplementedError("this worker does not know this request about files");
}

WorkerFiles::WorkerFiles(SessionState& session)
    : session_(session), thread_{std::make_shared<State>(session), nullptr} {}

WorkerFiles::~WorkerFiles() {
  const std::shared_ptr<State> state = thread_.state;
  if (thread_.pool != nullptr) {
    thread_.pool->Schedule([state] { state->End(); });
    std::vector<Thread> threads;
    threads.push_back(std::move(thread_));
    EndThreads(
        std::move(threads), session_.options().limits.feed_end_seconds,
        [](const Thread& thread, double seconds) { return thread.state->ended.Await(seconds); });
  }
  state->gate.Close();
}

absl::Status WorkerFiles::Handle(Call& call) {
  const uint64_t request = call.body.id();
  if (request == 0) return absl::InvalidArgumentError("Files without a request id");
  const std::shared_ptr<State> state = thread_.state;
  // A client closes many files at once without waiting. Their number has a limit of its own: a file
  // that stayed open would count until the session ends.
  const bool closes = call.body.files().has_close();
  const int limit = closes ? 2 * static_cast<int>(kMaxOpen) : kMaxWaiting;
  if (state->Waiting(closes) >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(limit, " requests about files wait for the worker's disk"));
  }
  // Bounds what waits.
  if (call.bytes > 2 * kMaxFilePart) {
    return absl::ResourceExhaustedError(absl::StrCat("a request about files has ", call.bytes,
                                                     " bytes; at most ", kMaxFilePart,
                                                     " of a file travel in one"));
  }
  Files& body = *call.body.mutable_files();
  auto arrays = std::make_shared<base::NamedArrays>();
  if (body.has_write_bundle()) {
    const Files::Bundle& bundle = body.write_bundle();
    PENSTOCK_ASSIGN_OR_RETURN(*arrays, CopyToHost(session_, bundle.names(), bundle.buffers()));
  }
  if (thread_.pool == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(
        thread_.pool, base::ThreadPool::Make(1, "files", base::ThreadPool::Priority::kBackground));
  }
  ++state->Waiting(closes);
  thread_.pool->Schedule([state, closes, request, body = std::move(body),
                          payload = std::move(call.payload), arrays]() mutable {
    absl::StatusOr<Answer> answer =
        base::CatchExceptions([&] { return state->Execute(body, payload, *arrays); });
    arrays.reset();
    --state->Waiting(closes);
    answer.ok()
        ? state->gate.SendReply(request, std::move(answer->reply), std::move(answer->payload))
        : state->gate.SendError(request, answer.status());
  });
  return absl::OkStatus();
}

}  // namespace penstock::remote
