#include "penstock/remote/feed/client_feed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/report_json.h"
#include "penstock/remote/client/remote_event.h"
#include "penstock/remote/feed/batch_description.h"

namespace penstock::remote {
namespace {

// Handles reserved for the buffers of a request, whose number is known when it is answered.
constexpr int64_t kHandlesOfBatch = 1 << 16;

}  // namespace

struct ClientFeed::Answer {
  RemoteEvent event;
  BatchDescription description;  // valid when the event is complete without an error
  std::optional<train::DeviceBatch> batch;

  absl::Status Read(const FeedBatch& reply, const std::shared_ptr<ClientSession>& session,
                    const Devices& devices, const std::vector<int>& replicas, uint64_t handle);
};

// The types of the buffers of one replica, in their order (train/feed_host.h).
absl::StatusOr<std::vector<ir::TensorType>> BufferTypes(const train::BatchTypes& types,
                                                        bool with_labels) {
  std::vector<ir::TensorType> all;
  const bool stacked = types.depth > 1;
  for (const auto* list : {&types.inputs, &types.labels, &types.weights}) {
    for (const ir::TensorType& type : *list) {
      if (stacked && type.shape.rank() == base::kMaxRank) {
        return absl::InternalError("the worker sent a stack of too many axes");
      }
      all.push_back(stacked ? ir::TensorType{type.dtype, type.shape.Prepend(types.depth)} : type);
    }
  }
  if (with_labels || stacked) {
    all.push_back({base::DType::kI32, stacked ? base::Shape({types.depth}) : base::Shape()});
  }
  if (stacked) all.push_back({base::DType::kI32, {}});
  return all;
}

absl::Status ClientFeed::Answer::Read(const FeedBatch& reply,
                                      const std::shared_ptr<ClientSession>& session,
                                      const Devices& devices, const std::vector<int>& replicas,
                                      uint64_t handle) {
  PENSTOCK_ASSIGN_OR_RETURN(description, BatchDescriptionFromJson(reply.description()));
  if (reply.end()) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<ir::TensorType> types,
                            BufferTypes(description.types, /*with_labels=*/true));
  if (reply.steps() < 1 || reply.steps() > description.types.depth || reply.examples() < 1 ||
      static_cast<int64_t>(types.size() * replicas.size()) > kHandlesOfBatch) {
    return absl::InternalError(absl::StrCat("the worker sent a batch of ", reply.steps(),
                                            " steps, ", reply.examples(), " examples and ",
                                            types.size(), " tensors"));
  }
  batch.emplace();
  batch->steps = reply.steps();
  batch->examples = reply.examples();
  batch->bytes = reply.bytes();
  for (const int device : replicas) {
    runtime::Buffers& buffers = batch->replicas.emplace_back();
    for (const ir::TensorType& type : types) {
      buffers.emplace_back(
          std::make_shared<RemoteBuffer>(session, handle++, type, devices, device));
    }
  }
  return absl::OkStatus();
}

ClientFeed::ClientFeed(std::shared_ptr<ClientSession> session, Devices devices,
                       train::FeedRequest request)
    : session_(std::move(session)), devices_(std::move(devices)), request_(std::move(request)) {}

ClientFeed::~ClientFeed() { CloseNow(); }

absl::Status ClientFeed::Open() {
  if (feed_ != 0) return absl::OkStatus();
  feed_ = session_->NewHandles(1);
  remote::Request request;
  OpenFeed& open = *request.mutable_open_feed();
  open.set_feed(feed_);
  open.set_dataset(request_.dataset);
  open.set_options(train::FeedRequestToJson(request_));
  opened_ = std::make_shared<Answer>();
  return session_->Send(
      std::move(request), {}, [answer = opened_](absl::StatusOr<ReceivedReply> reply) {
        absl::Status status = reply.status();
        if (reply.ok()) {
          auto read = BatchDescriptionFromJson(reply->reply.feed_opened().description());
          status = read.status();
          if (read.ok()) answer->description = *std::move(read);
        }
        answer->event.Complete(status);
      });
}

void ClientFeed::CloseNow() {
  requested_.clear();
  if (feed_ == 0) return;
  remote::Request request;
  request.mutable_close_feed()->set_feed(std::exchange(feed_, 0));
  // Requests a reply: without one, an error would end the session.
  session_->Send(std::move(request), {}, [](absl::StatusOr<ReceivedReply>) {}).IgnoreError();
}

absl::Status ClientFeed::Request(Take take) {
  const uint64_t first = session_->NewHandles(kHandlesOfBatch);
  remote::Request request;
  FeedNext& next = *request.mutable_feed_next();
  next.set_feed(feed_);
  next.set_depth(take.depth);
  next.set_steps(take.steps);
  next.set_first_buffer(first);
  const auto answer = std::make_shared<Answer>();
  PENSTOCK_RETURN_IF_ERROR(session_->Send(
      std::move(request), {},
      [answer, session = session_, devices = devices_, replicas = request_.devices,
       first](absl::StatusOr<ReceivedReply> reply) mutable {
        absl::Status status = reply.status();
        if (reply.ok()) {
          status = answer->Read(reply->reply.feed_batch(), session, devices, replicas, first);
        }
        session.reset();  // the waiting thread may release its own next and end the process
        answer->event.Complete(status);
      }));
  requested_.push_back({take, answer});
  return absl::OkStatus();
}

void ClientFeed::Expect(const std::vector<Take>& calls) {
  expected_ = calls;
  is_expected_ = true;
}

absl::Status ClientFeed::RequestAhead(Take otherwise) {
  PENSTOCK_RETURN_IF_ERROR(Open());
  while (requested_.size() < static_cast<size_t>(ahead_)) {
    const size_t i = requested_.size();
    if (is_expected_ && i >= expected_.size() && i > 0) break;
    PENSTOCK_RETURN_IF_ERROR(Request(is_expected_ && i < expected_.size() ? expected_[i]
                                     : i > 0                              ? requested_.back().take
                                                                          : otherwise));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ClientFeed::HasNext() {
  if (requested_.empty() || requested_.size() < static_cast<size_t>(ahead_)) {
    PENSTOCK_RETURN_IF_ERROR(RequestAhead({}));
  }
  PENSTOCK_RETURN_IF_ERROR(session_->Await(opened_->event));
  const std::shared_ptr<Answer> answer = requested_.front().answer;
  PENSTOCK_RETURN_IF_ERROR(session_->Await(answer->event));
  if (!answer->description.report.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(report_, data::ReportFromJson(answer->description.report));
    answer->description.report.clear();
  }
  return answer->batch.has_value();
}

// As long as it is the round trip that limits, the time between two batches is a part of it, and ahead_
// grows.
void ClientFeed::MeasurePace() {
  const double now = base::Clock::Real()->Seconds();
  if (last_next_ > 0) {
    const double newest = between_ == 0 ? 1 : 0.125;
    between_ += newest * (now - last_next_ - between_);
    const double within = session_->round_trip_seconds() / std::max(between_, 1e-6);
    ahead_ = kAhead + static_cast<int>(std::min<double>(kMaxAhead - kAhead, std::ceil(within)));
  }
  last_next_ = now;
}

absl::StatusOr<std::optional<train::DeviceBatch>> ClientFeed::Next(int64_t depth, int64_t steps) {
  MeasurePace();
  if (requested_.empty()) PENSTOCK_RETURN_IF_ERROR(RequestAhead({depth, steps}));
  PENSTOCK_ASSIGN_OR_RETURN(bool more, HasNext());
  const Requested* front = &requested_.front();
  // At the end of the data the requested count does not matter.
  if (more && (front->take.depth != depth || front->answer->batch->steps > steps)) {
    PENSTOCK_RETURN_IF_ERROR(Reposition());
    PENSTOCK_RETURN_IF_ERROR(Request({depth, steps}));
    PENSTOCK_ASSIGN_OR_RETURN(more, HasNext());
    front = &requested_.front();
  }
  const std::shared_ptr<Answer> answer = front->answer;
  PENSTOCK_ASSIGN_OR_RETURN(request_.state, data::IteratorState::Parse(answer->description.state));
  if (!more) return std::nullopt;  // requested_ keeps the end
  requested_.pop_front();
  if (!expected_.empty()) expected_.erase(expected_.begin());
  request_.batch_rows = answer->description.batch_rows;
  if (types_ == nullptr || !(*types_ == answer->description.types)) {
    types_ = std::make_shared<const train::BatchTypes>(answer->description.types);
  }
  answer->batch->types = types_;
  return std::exchange(answer->batch, std::nullopt);
}

absl::Status ClientFeed::Reposition() {
  if (!request_.state.has_value()) {
    PENSTOCK_ASSIGN_OR_RETURN(request_.state,
                              data::IteratorState::Parse(opened_->description.state));
  }
  CloseNow();
  return Open();
}

data::IteratorState ClientFeed::State() const {
  if (request_.state.has_value()) return *request_.state;
  if (opened_ == nullptr || !session_->Await(opened_->event).ok()) return data::IteratorState();
  const auto state = data::IteratorState::Parse(opened_->description.state);
  return state.ok() ? *state : data::IteratorState();
}

std::vector<std::string> ClientFeed::Hints() const {
  std::vector<std::string> hints;
  for (const data::StageStats& stage : report_.stages) {
    if (!stage.hint.empty()) hints.push_back(absl::StrCat(stage.stage, ": ", stage.hint));
  }
  return hints;
}

}  // namespace penstock::remote
