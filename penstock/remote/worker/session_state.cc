#include "penstock/remote/worker/session_state.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/remote/checkpoint/worker_checkpoints.h"
#include "penstock/remote/feed/worker_feeds.h"
#include "penstock/remote/files/worker_files.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/session_requests.h"
#include "penstock/remote/worker/session_table.h"

namespace penstock::remote {
namespace {

// Requests that wait for an upload, or for a buffer; a client that sends more is not one of ours.
constexpr size_t kMaxWaiting = size_t{1} << 16;
constexpr int64_t kMaxWaitingBytes = int64_t{256} << 20;
// Replies that the client does not acknowledge.
constexpr int64_t kMaxUnacknowledgedBytes = int64_t{256} << 20;
constexpr int64_t kRequestsBetweenChecks = 256;
constexpr size_t kMaxActivity = 200;  // characters of the client's
constexpr double kIdleSeconds = 5;    // without a request: the session is idle

}  // namespace

SessionState::SessionState(std::shared_ptr<runtime::Client> client, DeviceSessionOptions options)
    : client_(std::move(client)),
      options_(std::move(options)),
      last_request_(base::Clock::Real()->Seconds()) {
  for (const runtime::Device& device : client_->devices()) {
    const bool ours = options_.devices.empty() ||
                      std::find(options_.devices.begin(), options_.devices.end(), device.index) !=
                          options_.devices.end();
    if (ours) devices_.push_back(&device);
  }
}

SessionState::~SessionState() = default;

// Called by handlers only, one at a time.
WorkerCheckpoints& SessionState::checkpoints() {
  if (checkpoints_ == nullptr) checkpoints_ = std::make_unique<WorkerCheckpoints>(*this);
  return *checkpoints_;
}

WorkerFiles& SessionState::files() {
  if (files_ == nullptr) files_ = std::make_unique<WorkerFiles>(*this);
  return *files_;
}

WorkerFeeds& SessionState::feeds() {
  if (feeds_ == nullptr) feeds_ = std::make_unique<WorkerFeeds>(*this);
  return *feeds_;
}

void SessionState::Attach(Link* control, Link* bulk) {
  control_.Set(control);
  bulk_.Set(bulk);
}

// ---- Order ----

void SessionState::OnControlMessage(Message message) {
  ControlMessage parsed;
  if (!parsed.ParseFromString(message.header) || !parsed.has_request()) {
    return End(absl::InvalidArgumentError("the control message is no request"));
  }
  absl::Status excess;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    const auto bytes = static_cast<int64_t>(message.header.size() + message.payload_bytes());
    queue_bytes_ += bytes;
    queue_.push_back({std::move(*parsed.mutable_request()), std::move(message.payload), bytes});
    if (queue_.size() > kMaxWaiting || queue_bytes_ > kMaxWaitingBytes) {
      excess = absl::ResourceExhaustedError(
          absl::StrCat(queue_.size(), " requests (", queue_bytes_, " bytes) wait for an upload"));
    }
  }
  if (!excess.ok()) return End(excess);
  Drain();
}

void SessionState::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (running_) return;
  running_ = true;
  while (!queue_.empty() && !ended_ && IsReadyLocked(queue_.front())) {
    Call call = std::move(queue_.front());
    queue_.pop_front();
    queue_bytes_ -= call.bytes;
    lock.unlock();
    Run(call);
    lock.lock();
  }
  running_ = false;
  idle_.notify_all();
}

bool SessionState::IsUploadingLocked(uint64_t handle) const {
  const auto found = buffers_.find(handle);
  return found != buffers_.end() && found->second.uploading;
}

bool SessionState::IsReadyLocked(const Call& call) const {
  const Request& request = call.body;
  if (request.has_compile() && request.compile().text_bytes() > 0) {
    const uint64_t handle = request.compile().executable();
    // Its chunks were taken for something else: the handler says so.
    if (buffers_.contains(handle) || programs_.contains(handle)) return true;
    const auto found = uploads_.find(handle);
    if (found == uploads_.end() || found->second->received < found->second->total) return false;
  }
  if (request.has_keep_rows() && request.keep_rows().upload() != 0) {
    const auto found = uploads_.find(request.keep_rows().upload());
    if (found == uploads_.end() || found->second->received < found->second->total) return false;
  }
  if (request.has_get() && get_bytes_ > 0) {
    const auto found = buffers_.find(request.get().buffer());
    if (found != buffers_.end() && found->second.bytes > limits().max_get_bytes - get_bytes_) {
      return false;
    }
  }
  if (uploading_ == 0) return true;
  const auto uploading = [&](uint64_t handle) { return IsUploadingLocked(handle); };
  if (std::any_of(request.delete_().begin(), request.delete_().end(), uploading)) return false;
  if (request.has_execute()) {
    const auto& arguments = request.execute().arguments();
    return std::none_of(arguments.begin(), arguments.end(), uploading);
  }
  const auto& saved = request.has_files() ? request.files().write_bundle().buffers()
                                          : request.checkpoints().save().buffers();
  if (std::any_of(saved.begin(), saved.end(), uploading)) return false;
  const auto& copied = request.copy_buffers().buffers();
  if (std::any_of(copied.begin(), copied.end(), uploading)) return false;
  return !(request.has_get() && uploading(request.get().buffer())) &&
         !(request.has_await() && uploading(request.await().buffer()));
}

void SessionState::Run(Call& call) {
  bool check = false;
  std::vector<runtime::Buffer> destroyed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_request_ = base::Clock::Real()->Seconds();
    if (!call.body.activity().empty()) {
      client_activity_ = call.body.activity().substr(0, kMaxActivity);
    }
    if (call.body.training_step() != 0) training_step_ = call.body.training_step();
    // The client measures the round trip by requests without a body.
    begun_ = begun_ || call.body.body_case() != Request::BODY_NOT_SET;
    check = ++requests_ % kRequestsBetweenChecks == 0;
    destroyed.swap(to_destroy_);
  }
  destroyed.clear();
  if (check) {
    int64_t bytes = 0;
    control_.Use([&](Link& link) { bytes = link.stats().unacknowledged_bytes; });
    if (bytes > kMaxUnacknowledgedBytes) {
      return End(absl::ResourceExhaustedError(
          absl::StrCat(bytes, " bytes of replies are not acknowledged")));
    }
  }
  absl::Status status = Delete(call.body.delete_());
  if (status.ok()) {
    status = base::CatchExceptions([&] { return HandleRequest(*this, call); });
  }
  if (status.ok()) return;
  if (call.body.id() != 0) return SendError(call.body.id(), status);
  End(status);
}

// ---- Threads ----

absl::Status SessionState::Schedule(std::unique_ptr<base::ThreadPool>& pool, int threads,
                                    const char* name, std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pool == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(pool, base::ThreadPool::Make(threads, name));
  }
  pool->Schedule(std::move(task));
  return absl::OkStatus();
}

absl::Status SessionState::RunCompile(int64_t bytes, std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (compile_bytes_ > 0 && bytes > limits().max_program_bytes - compile_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "programs of ", compile_bytes_, " bytes are being compiled or wait for it; with ", bytes,
          " more they would exceed ", limits().max_program_bytes, " (max_program_bytes)"));
    }
    compile_bytes_ += bytes;
  }
  return Schedule(compiler_, 2, "remote_compile", [this, bytes, task = std::move(task)] {
    bool ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended = ended_;
    }
    if (!ended) task();
    const std::lock_guard<std::mutex> lock(mutex_);
    compile_bytes_ -= bytes;
  });
}

absl::Status SessionState::RunWait(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waits_ >= static_cast<int64_t>(kMaxWaiting)) {
      return absl::ResourceExhaustedError(absl::StrCat(waits_, " requests wait for buffers"));
    }
    ++waits_;
  }
  return Schedule(waiter_, 1, "remote_wait", [this, task = std::move(task)] {
    task();
    const std::lock_guard<std::mutex> lock(mutex_);
    --waits_;
  });
}

void SessionState::BeginAsync() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++async_;
}

void SessionState::EndAsync() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--async_ == 0) idle_.notify_all();
}

void SessionState::BeginGet(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  get_bytes_ += bytes;
}

void SessionState::EndGet(int64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    get_bytes_ -= bytes;
    if (queue_.empty()) return;
  }
  Drain();
}

void SessionState::Shutdown() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_ = true;
    queue_.clear();
    idle_.wait(lock, [&] { return !running_; });
  }
  // Tasks of the waiter begin callbacks and tasks of the sender, so they end first.
  TakePool(waiter_).reset();
  feeds_
      .reset();  // after the waiter, which ends feeds that were closed; their threads make buffers
  checkpoints_.reset();
  files_.reset();
  absl::flat_hash_map<uint64_t, Entry> buffers;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Upload>> uploads;
  std::vector<runtime::Buffer> destroyed;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [&] { return async_ == 0; });
    destroyed.swap(to_destroy_);
    buffers.swap(buffers_);
    uploads.swap(uploads_);
    buffer_bytes_ = 0;
  }
  TakePool(sender_).reset();
  for (auto& [handle, entry] : buffers) entry.buffer.Await().IgnoreError();
  buffers.clear();
  uploads.clear();
  destroyed.clear();
  // Last, since a compile cannot be interrupted, and may last for minutes: it needs none of the above.
  TakePool(compiler_).reset();
  absl::flat_hash_map<uint64_t, std::shared_ptr<runtime::Executable>> programs;
  const std::lock_guard<std::mutex> lock(mutex_);
  programs.swap(programs_);
}

std::unique_ptr<base::ThreadPool> SessionState::TakePool(std::unique_ptr<base::ThreadPool>& pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::move(pool);
}

// ---- What monitors see ----

const SessionState::Compilation* SessionState::OldestCompilationLocked() const {
  const Compilation* oldest = nullptr;
  for (const auto& [handle, compilation] : compiling_) {
    if (oldest == nullptr || compilation.since < oldest->since) oldest = &compilation;
  }
  return oldest;
}

// The program that has been compiled for longest, else what the client says, else what the last requests were.
std::string SessionState::ActivityLocked(double now) const {
  if (const Compilation* const oldest = OldestCompilationLocked(); oldest != nullptr) {
    return absl::StrCat("compiling ", oldest->name, " for ", LegibleSeconds(now - oldest->since));
  }
  const double idle = now - last_request_;
  // A request whose reply waits for the devices is no idleness.
  if (idle >= kIdleSeconds && async_ == 0) return absl::StrCat("idle for ", LegibleSeconds(idle));
  if (!client_activity_.empty()) return client_activity_;
  if (uploading_ > 0) return "receiving tensors";
  if (executions_ == 0) return begun_ ? "preparing" : "opened";
  return absl::StrCat("running ", last_program_, ", ", executions_, " executions");
}

SessionStats SessionState::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const double now = base::Clock::Real()->Seconds();
  SessionStats stats{.buffers = static_cast<int64_t>(buffers_.size()),
                     .buffer_bytes = buffer_bytes_,
                     .programs = static_cast<int64_t>(programs_.size()),
                     .executions = executions_,
                     .busy_seconds = busy_seconds_ + (busy_ > 0 ? now - busy_since_ : 0),
                     .last_request_seconds = compiling_.empty() ? last_request_ : now,
                     .activity = ActivityLocked(now),
                     .training_step = training_step_};
  if (const Compilation* const oldest = OldestCompilationLocked(); oldest != nullptr) {
    stats.compiling = oldest->name;
  }
  if (!last_error_.ok()) {
    stats.last_error =
        absl::StrCat(LegibleSeconds(now - last_error_seconds_),
                     " ago: ", last_error_.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
  return stats;
}

}  // namespace penstock::remote
