#include "penstock/remote/feed/worker_feeds.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <list>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/clock.h"
#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/base/with_commas.h"
#include "penstock/data/cache/uploaded_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/data/travel/allowed_paths.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/data/travel/report_json.h"
#include "penstock/remote/feed/batch_description.h"
#include "penstock/remote/worker/session_gate.h"
#include "penstock/remote/worker/session_state.h"
#include "penstock/remote/worker/session_threads.h"
#include "penstock/train/device_feed.h"
#include "penstock/train/device_rows.h"
#include "penstock/train/feed.h"

namespace penstock::remote {
namespace {

// Datasets whose caches are kept, and requests of a feed that wait.
constexpr size_t kMaxDatasets = 16;
constexpr int kMaxWaiting = 16;
// Data sets of the client that are kept.
constexpr size_t kMaxKept = 256;
// Between two reports of a pipeline, in seconds.
constexpr double kReportSeconds = 0.5;

}  // namespace

// Elements that the client has sent.
struct WorkerFeeds::Kept {
  std::shared_ptr<data::UploadedRows> rows;
  int64_t limit = 0;  // of bytes
  std::string limited_by = {};
  bool complete = false;
};

// What the threads of feeds use; it may outlive the session.
struct WorkerFeeds::Shared {
  explicit Shared(SessionState& session)
      : gate(&session),
        client(session.shared_client()),
        allowed(std::make_shared<const data::AllowedPaths>(session.options().readable,
                                                           session.options().writable)),
        file_system(data::MakeAllowedFileSystem(io::FileSystem::Default(), allowed)) {}

  absl::StatusOr<data::Dataset> DatasetOf(const train::FeedRequest& request,
                                          const std::string& text);
  absl::StatusOr<std::shared_ptr<const data::UploadedRows>> RowsOf(
      const train::FeedRequest& request, int64_t number);
  absl::StatusOr<base::ThreadPool*> DataPool();
  absl::StatusOr<std::vector<runtime::Device>> DevicesOf(const train::FeedRequest& request);
  // The buffers of request.device_buffers.
  absl::StatusOr<train::DeviceRows> DeviceRowsOf(const train::FeedRequest& request);
  // Memory for rows on the devices, within the session's limit.
  absl::StatusOr<train::RowsRoom> RoomFor(absl::Span<const runtime::Device> devices);
  absl::StatusOr<data::IteratorOptions> OptionsOf(const train::FeedRequest& request);

  SessionGate gate;  // the way from a feed's thread to the session
  const std::shared_ptr<runtime::Client> client;
  const std::shared_ptr<const data::AllowedPaths> allowed;
  const std::shared_ptr<io::FileSystem> file_system;

  std::mutex mutex;
  // The last ones used first.
  struct Known {
    uint64_t id;
    std::string text;
    std::vector<uint64_t> rows;
    data::Dataset dataset;
  };
  std::list<Known> datasets;
  absl::flat_hash_map<uint64_t, Kept> kept;
  std::unique_ptr<base::ThreadPool> data_pool;  // computes elements, for all feeds
  const std::shared_ptr<train::GatherPrograms> gather_programs =
      std::make_shared<train::GatherPrograms>();
};

struct WorkerFeeds::Feed {
  explicit Feed(std::shared_ptr<Shared> with) : shared(std::move(with)) {}

  // On the feed's thread.
  // Returns FeedOpened.description.
  absl::StatusOr<std::string> Open(const OpenFeed& request);
  absl::StatusOr<std::string> ReadToDevices(const train::FeedRequest& request,
                                            const data::Dataset& dataset,
                                            const std::vector<runtime::Device>& devices);
  absl::StatusOr<Reply> Next(const FeedNext& request);
  // Under the handles `first` and following.
  absl::Status AddBuffers(uint64_t first, const runtime::Buffers& buffers);

  // From any thread: what runs ends soon, unless it reads a file.
  void Interrupt() {
    closed = true;
    const std::lock_guard<std::mutex> lock(mutex);
    if (feed != nullptr) feed->Interrupt();
    if (reading != nullptr) reading->Interrupt();
  }

  const std::shared_ptr<Shared> shared;
  std::mutex mutex;                         // guards the pointers, which the thread changes
  std::unique_ptr<train::HostFeed> feed;    // used by the thread
  std::shared_ptr<data::Iterator> reading;  // of ReadToDevices
  absl::Status status;                      // of opening it
  double reported = 0;
  std::atomic<int> waiting = 0;
  std::atomic<bool> closed = false;

  ThreadEnd ended;  // set by the thread's last task

  void End() {
    std::unique_ptr<train::HostFeed> destroyed;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      destroyed = std::move(feed);
    }
    destroyed.reset();
    ended.Set();
  }
};

WorkerFeeds::WorkerFeeds(SessionState& session)
    : session_(session), shared_(std::make_shared<Shared>(session)) {}

WorkerFeeds::~WorkerFeeds() {
  for (auto& [handle, thread] : feeds_) {
    thread.feed->Interrupt();
    thread.pool->Schedule([feed = thread.feed] { feed->End(); });
    closing_.push_back(std::move(thread));
  }
  feeds_.clear();
  EndThreads(
      std::move(closing_), session_.options().limits.feed_end_seconds,
      [](const Thread& thread, double seconds) { return thread.feed->ended.Await(seconds); });
  shared_->gate.Close();
}

void WorkerFeeds::JoinEndedLocked() {
  for (size_t i = 0; i < closing_.size();) {
    if (closing_[i].feed->ended.Await(0)) {
      std::swap(closing_[i], closing_.back());
      closing_.pop_back();
    } else {
      ++i;
    }
  }
}

absl::StatusOr<WorkerFeeds::Thread*> WorkerFeeds::FindLocked(uint64_t handle) {
  const auto found = feeds_.find(handle);
  if (found == feeds_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no feed ", handle));
  }
  return &found->second;
}

// ---- Opening ----

absl::Status WorkerFeeds::Open(Call& call) {
  const uint64_t id = call.body.id(), handle = call.body.open_feed().feed();
  const auto feed = std::make_shared<Feed>(shared_);
  const std::lock_guard<std::mutex> lock(mutex_);
  JoinEndedLocked();
  const size_t count = feeds_.size() + closing_.size();
  if (static_cast<int64_t>(count) >= session_.limits().max_feeds) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the session has ", count, " feeds, as many as it may have (max_feeds)",
        closing_.empty() ? ""
                         : absl::StrCat("; ", closing_.size(), " of them are closed but read")));
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto pool, base::ThreadPool::Make(1, "remote_feed"));
  const auto [at, added] = feeds_.emplace(handle, Thread{feed, std::move(pool)});
  if (!added) {
    return absl::InvalidArgumentError(absl::StrCat("there is a feed ", handle, " already"));
  }
  at->second.pool->Schedule([id, feed, request = call.body.open_feed()] {
    absl::StatusOr<std::string> description =
        feed->closed ? absl::CancelledError("the feed was closed before it was opened")
                     : base::CatchExceptions([&] { return feed->Open(request); });
    feed->status = description.status();
    if (!feed->status.ok()) return feed->shared->gate.SendError(id, feed->status);
    Reply reply;
    reply.mutable_feed_opened()->set_description(*std::move(description));
    feed->shared->gate.SendReply(id, std::move(reply));
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<runtime::Device>> WorkerFeeds::Shared::DevicesOf(
    const train::FeedRequest& request) {
  if (request.devices.empty()) return absl::InvalidArgumentError("a feed needs a device");
  std::vector<runtime::Device> devices;
  absl::Status status = SessionHasEnded();
  gate.Use([&](SessionState& session) {
    status = absl::OkStatus();
    for (const int index : request.devices) {
      const absl::StatusOr<const runtime::Device*> device = session.device(index);
      status.Update(device.status());
      if (device.ok()) devices.push_back(**device);
    }
  });
  PENSTOCK_RETURN_IF_ERROR(status);
  return devices;
}

absl::StatusOr<train::DeviceRows> WorkerFeeds::Shared::DeviceRowsOf(
    const train::FeedRequest& request) {
  const size_t columns = request.device_columns.size(), replicas = request.devices.size();
  if (columns == 0 || request.device_buffers.size() != columns * replicas) {
    return absl::InvalidArgumentError(absl::StrCat(request.device_buffers.size(),
                                                   " buffers of rows for ", columns, " columns on ",
                                                   replicas, " devices"));
  }
  runtime::Buffers all;
  absl::Status status = SessionHasEnded();
  gate.Use(
      [&](SessionState& session) { status = session.FindBuffers(request.device_buffers, all); });
  PENSTOCK_RETURN_IF_ERROR(status);
  train::DeviceRows rows = {.names = request.device_columns};
  for (size_t i = 0; i < all.size(); ++i) {
    const ir::TensorType& type = all[i].type();
    if (i < columns) {
      if (type.shape.rank() == 0 || type.shape.dim(0) != all[0].type().shape.dim(0)) {
        return absl::InvalidArgumentError("columns of rows have different numbers of rows");
      }
      rows.types.push_back(type);
    } else if (!(type == rows.types[i % columns])) {
      return absl::InvalidArgumentError("the devices have rows of different types");
    }
    if (i % columns == 0) rows.replicas.emplace_back();
    rows.replicas.back().push_back(all[i]);
  }
  return rows;
}

absl::StatusOr<train::RowsRoom> WorkerFeeds::Shared::RoomFor(
    absl::Span<const runtime::Device> devices) {
  train::RowsRoom room = train::RoomForRows(*client, devices);
  // On CPU devices all use the arrays that were read.
  room.copies = 1;
  absl::Status status = SessionHasEnded();
  gate.Use([&](SessionState& session) {
    status = absl::OkStatus();
    const int64_t left =
        std::max<int64_t>(session.limits().max_buffer_bytes - session.stats().buffer_bytes, 0);
    if (left / room.devices >= room.free.bytes) return;
    room.free = {.bytes = left, .where = "as much as a session may have (max_buffer_bytes)"};
    room.copies = room.devices;
  });
  PENSTOCK_RETURN_IF_ERROR(status);
  return room;
}

absl::StatusOr<data::IteratorOptions> WorkerFeeds::Shared::OptionsOf(
    const train::FeedRequest& request) {
  data::IteratorOptions options = {.file_system = file_system, .seed = request.seed};
  PENSTOCK_ASSIGN_OR_RETURN(options.pool, DataPool());
  options.epoch = request.epoch;
  options.deterministic = request.deterministic;
  if (request.state.has_value()) {
    options.state = request.state;
    options.seed = {};
  }
  return options;
}

absl::StatusOr<std::string> WorkerFeeds::Feed::Open(const OpenFeed& open) {
  PENSTOCK_ASSIGN_OR_RETURN(const train::FeedRequest request,
                            train::FeedRequestFromJson(open.options()));
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<runtime::Device> devices, shared->DevicesOf(request));
  PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset dataset,
                            shared->DatasetOf(request, open.dataset()));
  if (request.first_row_buffer != 0) return ReadToDevices(request, dataset, devices);
  std::shared_ptr<const train::DeviceRows> rows;
  if (!request.device_buffers.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(train::DeviceRows found, shared->DeviceRowsOf(request));
    rows = std::make_shared<const train::DeviceRows>(std::move(found));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const data::IteratorOptions options, shared->OptionsOf(request));
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator(options));
  train::Feed::Options with = {.columns = request.columns,
                               .with_labels = request.with_labels,
                               .class_weight = request.class_weight,
                               .batch_rows = request.batch_rows};
  std::unique_ptr<train::HostFeed> made;
  if (rows == nullptr) {
    made = std::make_unique<train::Feed>(std::move(iterator), request.ports, *shared->client,
                                         std::move(devices), std::move(with));
  } else {
    made = std::make_unique<train::DeviceFeed>(std::move(iterator), request.ports, *shared->client,
                                               std::move(devices), std::move(with), std::move(rows),
                                               shared->gather_programs);
  }
  const std::lock_guard<std::mutex> lock(mutex);
  feed = std::move(made);
  if (closed) feed->Interrupt();
  return ToJson(BatchDescription{.state = feed->State().ToString()});
}

absl::StatusOr<std::string> WorkerFeeds::Feed::ReadToDevices(
    const train::FeedRequest& request, const data::Dataset& dataset,
    const std::vector<runtime::Device>& devices) {
  PENSTOCK_ASSIGN_OR_RETURN(data::IteratorOptions options, shared->OptionsOf(request));
  options = train::OptionsOfFirstEpoch(std::move(options));
  PENSTOCK_ASSIGN_OR_RETURN(const train::RowsRoom room, shared->RoomFor(devices));
  const train::RowsFit fits = [&](int64_t rows, int64_t bytes) {
    return train::CheckRowsFit(room, rows, bytes);
  };
  PENSTOCK_ASSIGN_OR_RETURN(const train::RowsSource source, train::SourceOfRows(dataset, options));
  if (const int64_t bytes = train::BytesOfRows(dataset.spec(), source.expected); bytes >= 0) {
    PENSTOCK_RETURN_IF_ERROR(fits(source.expected, bytes));
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> iterator,
                            source.batches.MakeIterator(options));
  {
    const std::lock_guard<std::mutex> lock(mutex);
    reading = std::move(iterator);
    if (closed) reading->Interrupt();
  }
  absl::StatusOr<train::RowColumns> columns = train::ReadRows(*reading, source.expected, fits);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    reading = nullptr;
  }
  PENSTOCK_RETURN_IF_ERROR(columns.status());
  RowsDescription description = {.names = columns->names};
  int64_t bytes = 0;
  for (const base::Array& array : columns->arrays) {
    description.types.push_back({array.dtype(), array.shape()});
    bytes += array.num_bytes();
  }
  runtime::Buffers buffers;
  for (const runtime::Device& device : devices) {
    PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffers more,
                              shared->client->PutAll(columns->arrays, device));
    for (runtime::Buffer& buffer : more) {
      PENSTOCK_RETURN_IF_ERROR(buffer.Await());
      buffers.push_back(std::move(buffer));
    }
  }
  PENSTOCK_RETURN_IF_ERROR(AddBuffers(request.first_row_buffer, buffers));
  description.note = train::DescribeRows(room, columns->rows(), bytes);
  return ToJson(description);
}

absl::StatusOr<std::shared_ptr<const data::UploadedRows>> WorkerFeeds::Shared::RowsOf(
    const train::FeedRequest& request, int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool known = number >= 0 && number < static_cast<int64_t>(request.rows.size());
  const auto found = known ? kept.find(request.rows[static_cast<size_t>(number)]) : kept.end();
  if (found == kept.end() || !found->second.complete) {
    return absl::InvalidArgumentError(absl::StrCat("there are no rows ", number));
  }
  return found->second.rows;
}

absl::StatusOr<data::Dataset> WorkerFeeds::Shared::DatasetOf(const train::FeedRequest& request,
                                                             const std::string& text) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto it = datasets.begin(); it != datasets.end(); ++it) {
      if (it->id != request.dataset_id || it->text != text || it->rows != request.rows) continue;
      datasets.splice(datasets.begin(), datasets, it);
      return it->dataset;
    }
  }
  const auto check = [this](absl::string_view uri, bool write) {
    return allowed->Check(uri, write);
  };
  PENSTOCK_ASSIGN_OR_RETURN(
      data::Dataset dataset,
      data::DatasetFromJson(
          text, {.check = check, .file_system = file_system, .uploaded_rows = [&](int64_t number) {
                   return RowsOf(request, number);
                 }}));
  const std::lock_guard<std::mutex> lock(mutex);
  datasets.push_front({request.dataset_id, text, request.rows, dataset});
  if (datasets.size() > kMaxDatasets) datasets.pop_back();
  return dataset;
}

absl::StatusOr<base::ThreadPool*> WorkerFeeds::Shared::DataPool() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (data_pool == nullptr) {
    // As train's EpochIterators: on CPU devices decoding must not take a core from a step.
    const auto priority = client->platform() == "cpu" ? base::ThreadPool::Priority::kBackground
                                                      : base::ThreadPool::Priority::kNormal;
    PENSTOCK_ASSIGN_OR_RETURN(data_pool,
                              base::ThreadPool::Make(base::NumCores(), "data", priority));
  }
  return data_pool.get();
}

// ---- Rows of the client ----

absl::Status WorkerFeeds::KeepRows(Call& call) {
  const remote::KeepRows& request = call.body.keep_rows();
  std::list<Shared::Known> unused;  // destroyed after the lock was released
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  if (request.drop()) {
    for (auto it = shared_->datasets.begin(); it != shared_->datasets.end();) {
      const auto next = std::next(it);
      if (std::find(it->rows.begin(), it->rows.end(), request.rows()) != it->rows.end()) {
        unused.splice(unused.end(), shared_->datasets, it);
      }
      it = next;
    }
    if (shared_->kept.erase(request.rows()) == 0) {
      return absl::InvalidArgumentError("there are no such rows to drop");
    }
  } else {
    if (!shared_->kept.contains(request.rows()) && shared_->kept.size() >= kMaxKept) {
      return absl::ResourceExhaustedError(absl::StrCat("the session keeps the rows of ", kMaxKept,
                                                       " data sets, as many as it may"));
    }
    Kept& kept = shared_->kept[request.rows()];
    const absl::Status status = AddRows(request, kept);
    if (!status.ok()) {
      // Its bytes are dropped, as those that are on their way.
      kept.rows.reset();
      return status;
    }
    kept.complete = request.end();
    if (request.end()) {
      Reply reply;
      RowsKept& out = *reply.mutable_rows_kept();
      out.set_elements(kept.rows->elements());
      out.set_bytes(kept.rows->bytes());
      out.set_free_bytes(base::AvailableMemory().bytes);
      session_.SendReply(call.body.id(), std::move(reply));
      return absl::OkStatus();
    }
  }
  if (call.body.id() != 0) session_.SendReply(call.body.id(), Reply());
  return absl::OkStatus();
}

// Called with the lock of shared_.
absl::Status WorkerFeeds::AddRows(const remote::KeepRows& request, Kept& kept) {
  std::string record;
  if (request.upload() != 0) {
    PENSTOCK_ASSIGN_OR_RETURN(record, session_.TakeText(request.upload(), request.bytes()));
  }
  if (!request.description().empty()) {
    if (kept.rows != nullptr) return absl::InvalidArgumentError("these rows exist already");
    PENSTOCK_ASSIGN_OR_RETURN(data::PartDescription part,
                              data::PartDescription::FromJson(request.description()));
    int64_t others = 0;
    for (const auto& [handle, other] : shared_->kept) {
      if (other.rows != nullptr) others += other.rows->bytes();
    }
    const base::MemoryHeadroom room = base::AvailableMemory();
    const int64_t allowed = std::max<int64_t>(
        session_.limits().max_buffer_bytes - session_.stats().buffer_bytes - others, 0);
    kept.limit = std::min(room.bytes / 2, allowed);
    kept.limited_by = allowed < room.bytes / 2
                          ? "as much as a session may have (max_buffer_bytes)"
                          : absl::StrCat("half of what is free: ", base::PrintBytes(room.bytes),
                                         " of ", room.limited_by);
    kept.rows = std::make_shared<data::UploadedRows>(std::move(part));
  }
  if (kept.rows == nullptr || kept.complete) {
    return absl::InvalidArgumentError("rows are sent to a handle that takes none");
  }
  if (!record.empty()) PENSTOCK_RETURN_IF_ERROR(kept.rows->Add(std::move(record)));
  const data::UploadedRows& rows = *kept.rows;
  // From a few elements, not when memory is full.
  constexpr int64_t kElementsForEstimate = 256;
  double bytes = static_cast<double>(rows.bytes());
  const int64_t total = request.total_elements();
  const bool estimated = rows.elements() > 0 && rows.elements() < total &&
                         rows.elements() >= std::min(total, kElementsForEstimate);
  if (estimated) bytes *= static_cast<double>(total) / static_cast<double>(rows.elements());
  if (bytes <= static_cast<double>(kept.limit)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "Cache(\"worker\") does not fit: ",
      estimated ? absl::StrCat(base::WithCommas(total), " elements take about ")
                : absl::StrCat("the first ", base::WithCommas(rows.elements()), " elements take "),
      base::PrintBytes(static_cast<int64_t>(std::min(bytes, 9e18))), "; the worker's memory has ",
      base::PrintBytes(kept.limit), " for them, ", kept.limited_by));
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
  const std::lock_guard<std::mutex> lock(mutex_);
  PENSTOCK_ASSIGN_OR_RETURN(Thread * thread, FindLocked(next.feed()));
  const std::shared_ptr<Feed>& feed = thread->feed;
  if (++feed->waiting > kMaxWaiting) {
    --feed->waiting;
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxWaiting, " batches of a feed are requested at once"));
  }
  thread->pool->Schedule([id, feed, next] {
    --feed->waiting;
    SessionGate& gate = feed->shared->gate;
    if (feed->closed) return gate.SendError(id, absl::CancelledError("the feed was closed"));
    absl::StatusOr<Reply> reply = base::CatchExceptions([&] { return feed->Next(next); });
    if (!reply.ok()) return gate.SendError(id, reply.status());
    gate.SendReply(id, *std::move(reply));
  });
  return absl::OkStatus();
}

absl::StatusOr<Reply> WorkerFeeds::Feed::Next(const FeedNext& next) {
  PENSTOCK_RETURN_IF_ERROR(status);
  if (feed == nullptr) return absl::InvalidArgumentError("the feed has no batches: it read rows");
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<train::DeviceBatch> batch,
                            feed->Next(next.depth(), next.steps()));
  Reply reply;
  FeedBatch& out = *reply.mutable_feed_batch();
  BatchDescription description = {.state = feed->State().ToString(),
                                  .batch_rows = feed->batch_rows()};
  const double now = base::Clock::Real()->Seconds();
  if (!batch.has_value() || now - reported >= kReportSeconds) {
    description.report = data::ReportToJson(feed->Report());
    reported = now;
  }
  if (!batch.has_value()) {
    out.set_end(true);
    out.set_description(ToJson(description));
    return reply;
  }
  runtime::Buffers buffers;
  for (const runtime::Buffers& replica : batch->replicas) {
    buffers.insert(buffers.end(), replica.begin(), replica.end());
  }
  PENSTOCK_RETURN_IF_ERROR(AddBuffers(next.first_buffer(), buffers));
  description.types = *batch->types;
  out.set_steps(batch->steps);
  out.set_examples(batch->examples);
  out.set_bytes(batch->bytes);
  out.set_description(ToJson(description));
  return reply;
}

absl::Status WorkerFeeds::Feed::AddBuffers(uint64_t first, const runtime::Buffers& buffers) {
  std::vector<uint64_t> handles;
  std::vector<ir::TensorType> types;
  for (const runtime::Buffer& buffer : buffers) {
    handles.push_back(first + handles.size());
    types.push_back(buffer.type());
  }
  absl::Status added = SessionHasEnded();
  shared->gate.Use([&](SessionState& session) {
    added = session.CheckNewHandles(handles);
    added.Update(session.CheckBytes(types));
    if (!added.ok()) return;
    for (size_t i = 0; i < buffers.size(); ++i) session.AddBuffer(handles[i], buffers[i]);
  });
  return added;
}

absl::Status WorkerFeeds::Close(Call& call) {
  const uint64_t id = call.body.id(), handle = call.body.close_feed().feed();
  const std::lock_guard<std::mutex> lock(mutex_);
  PENSTOCK_ASSIGN_OR_RETURN(Thread * thread, FindLocked(handle));
  thread->feed->Interrupt();
  thread->pool->Schedule([feed = thread->feed] { feed->End(); });
  closing_.push_back(std::move(*thread));
  feeds_.erase(handle);
  if (id != 0) session_.SendReply(id, Reply());
  return absl::OkStatus();
}

}  // namespace penstock::remote
