#include "penstock/remote/feed/worker_feeds.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/data/travel/report_json.h"
#include "penstock/remote/feed/batch_description.h"
#include "penstock/remote/worker/session_state.h"
#include "penstock/train/feed.h"

namespace penstock::remote {
namespace {

// Datasets whose caches are kept, and requests of a feed that wait.
constexpr size_t kMaxDatasets = 16;
constexpr int kMaxWaiting = 16;
// Between two reports of a pipeline, in seconds.
constexpr double kReportSeconds = 0.5;

}  // namespace

struct WorkerFeeds::Feed {
  std::unique_ptr<train::Feed> feed;  // made and used by the thread
  absl::Status status;                // of opening it
  double reported = 0;
  std::atomic<int> waiting = 0;
  std::atomic<bool> closed = false;
  // Destroyed first: its thread uses the others.
  std::unique_ptr<base::ThreadPool> thread;
};

WorkerFeeds::WorkerFeeds(SessionState& session)
    : session_(session),
      allowed_(std::make_shared<const data::AllowedPaths>(session.options().readable,
                                                          session.options().writable)),
      file_system_(data::MakeAllowedFileSystem(io::FileSystem::Default(), allowed_)) {}

WorkerFeeds::~WorkerFeeds() {
  for (auto& [handle, feed] : feeds_) feed->closed = true;
  feeds_.clear();  // their threads use the other members
}

absl::StatusOr<std::shared_ptr<WorkerFeeds::Feed>> WorkerFeeds::Find(uint64_t handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = feeds_.find(handle);
  if (found == feeds_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no feed ", handle));
  }
  return found->second;
}

// ---- Opening ----

absl::Status WorkerFeeds::Open(Call& call) {
  const uint64_t id = call.body.id(), handle = call.body.open_feed().feed();
  auto feed = std::make_shared<Feed>();
  PENSTOCK_ASSIGN_OR_RETURN(feed->thread, base::ThreadPool::Make(1, "remote_feed"));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (static_cast<int64_t>(feeds_.size()) >= session_.limits().max_feeds) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the session has ", feeds_.size(), " feeds, as many as it may have (max_feeds)"));
    }
    if (!feeds_.emplace(handle, feed).second) {
      return absl::InvalidArgumentError(absl::StrCat("there is a feed ", handle, " already"));
    }
  }
  feed->thread->Schedule([this, id, feed = feed.get(), request = call.body.open_feed()] {
    if (feed->closed) return;
    feed->status = base::CatchExceptions([&] { return OpenNow(*feed, request); });
    if (!feed->status.ok()) return session_.SendError(id, feed->status);
    Reply reply;
    reply.mutable_feed_opened()->set_description(
        ToJson(BatchDescription{.state = feed->feed->State().ToString()}));
    session_.SendReply(id, std::move(reply));
  });
  return absl::OkStatus();
}

absl::Status WorkerFeeds::OpenNow(Feed& feed, const OpenFeed& open) {
  PENSTOCK_ASSIGN_OR_RETURN(const train::FeedRequest request,
                            train::FeedRequestFromJson(open.options()));
  if (request.devices.empty()) return absl::InvalidArgumentError("a feed needs a device");
  std::vector<runtime::Device> devices;
  for (const int index : request.devices) {
    PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device, session_.device(index));
    devices.push_back(*device);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset dataset,
                            DatasetOf(request.dataset_id, open.dataset()));
  data::IteratorOptions options = {.file_system = file_system_, .seed = request.seed};
  PENSTOCK_ASSIGN_OR_RETURN(options.pool, DataPool());
  options.epoch = request.epoch;
  options.deterministic = request.deterministic;
  if (request.state.has_value()) {
    options.state = request.state;
    options.seed = {};
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator(options));
  feed.feed = std::make_unique<train::Feed>(
      std::move(iterator), request.ports, session_.client(), std::move(devices),
      train::Feed::Options{.columns = request.columns,
                           .with_labels = request.with_labels,
                           .class_weight = request.class_weight,
                           .batch_rows = request.batch_rows});
  return absl::OkStatus();
}

absl::StatusOr<data::Dataset> WorkerFeeds::DatasetOf(uint64_t id, const std::string& text) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = datasets_.begin(); it != datasets_.end(); ++it) {
      if (it->id != id || it->text != text) continue;
      datasets_.splice(datasets_.begin(), datasets_, it);
      return it->dataset;
    }
  }
  const auto check = [allowed = allowed_](absl::string_view uri, bool write) {
    return allowed->Check(uri, write);
  };
  PENSTOCK_ASSIGN_OR_RETURN(
      data::Dataset dataset,
      data::DatasetFromJson(text, {.check = check, .file_system = file_system_}));
  const std::lock_guard<std::mutex> lock(mutex_);
  datasets_.push_front({id, text, dataset});
  if (datasets_.size() > kMaxDatasets) datasets_.pop_back();
  return dataset;
}

absl::StatusOr<base::ThreadPool*> WorkerFeeds::DataPool() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (data_pool_ == nullptr) {
    // As train's EpochIterators: on CPU devices decoding must not take a core from a step.
    const auto priority = session_.client().platform() == "cpu"
                              ? base::ThreadPool::Priority::kBackground
                              : base::ThreadPool::Priority::kNormal;
    PENSTOCK_ASSIGN_OR_RETURN(data_pool_,
                              base::ThreadPool::Make(base::NumCores(), "data", priority));
  }
  return data_pool_.get();
}

// ---- Batches ----

absl::Status WorkerFeeds::Next(Call& call) {
  const uint64_t id = call.body.id();
  const FeedNext& next = call.body.feed_next();
  constexpr int64_t kMaxDepth = int64_t{1} << 16;
  if (next.depth() < 1 || next.depth() > kMaxDepth || next.steps() < 1 ||
      next.steps() > next.depth()) {
    return absl::InvalidArgumentError(
        absl::StrCat(next.steps(), " steps of ", next.depth(), " in an execution"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<Feed> feed, Find(next.feed()));
  if (++feed->waiting > kMaxWaiting) {
    --feed->waiting;
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxWaiting, " batches of a feed are requested at once"));
  }
  feed->thread->Schedule([this, id, feed = feed.get(), next] {
    --feed->waiting;
    if (feed->closed) return session_.SendError(id, absl::CancelledError("the feed was closed"));
    absl::StatusOr<Reply> reply = base::CatchExceptions([&] { return NextNow(*feed, next); });
    if (!reply.ok()) return session_.SendError(id, reply.status());
    session_.SendReply(id, *std::move(reply));
  });
  return absl::OkStatus();
}

absl::StatusOr<Reply> WorkerFeeds::NextNow(Feed& feed, const FeedNext& next) {
  PENSTOCK_RETURN_IF_ERROR(feed.status);
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<train::DeviceBatch> batch,
                            feed.feed->Next(next.depth(), next.steps()));
  Reply reply;
  FeedBatch& out = *reply.mutable_feed_batch();
  BatchDescription description = {.state = feed.feed->State().ToString(),
                                  .batch_rows = feed.feed->batch_rows()};
  const double now = base::Clock::Real()->Seconds();
  if (!batch.has_value() || now - feed.reported >= kReportSeconds) {
    description.report = data::ReportToJson(feed.feed->Report());
    feed.reported = now;
  }
  if (!batch.has_value()) {
    out.set_end(true);
    out.set_description(ToJson(description));
    return reply;
  }
  std::vector<uint64_t> handles;
  std::vector<ir::TensorType> types;
  for (const runtime::Buffers& replica : batch->replicas) {
    for (const runtime::Buffer& buffer : replica) {
      handles.push_back(next.first_buffer() + handles.size());
      types.push_back(buffer.type());
    }
  }
  PENSTOCK_RETURN_IF_ERROR(session_.CheckNewHandles(handles));
  PENSTOCK_RETURN_IF_ERROR(session_.CheckBytes(types));
  size_t i = 0;
  for (const runtime::Buffers& replica : batch->replicas) {
    for (const runtime::Buffer& buffer : replica) session_.AddBuffer(handles[i++], buffer);
  }
  description.types = *batch->types;
  out.set_steps(batch->steps);
  out.set_examples(batch->examples);
  out.set_bytes(batch->bytes);
  out.set_description(ToJson(description));
  return reply;
}

absl::Status WorkerFeeds::Close(Call& call) {
  std::shared_ptr<Feed> feed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = feeds_.find(call.body.close_feed().feed());
    if (found == feeds_.end()) return absl::InvalidArgumentError("there is no such feed to close");
    feed = std::move(found->second);
    feeds_.erase(found);
  }
  feed->closed = true;
  const uint64_t id = call.body.id();
  // Its thread may be reading a batch; a thread of the session waits for it.
  return session_.RunWait([this, id, feed = std::move(feed)]() mutable {
    feed->thread.reset();
    feed.reset();
    if (id != 0) session_.SendReply(id, Reply());
  });
}

}  // namespace penstock::remote
