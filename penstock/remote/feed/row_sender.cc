#include "penstock/remote/feed/row_sender.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/data/cache/uploaded_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/io/file_system.h"

namespace penstock::remote {
namespace {

void Drop(ClientSession& session, uint64_t handle) {
  Request request;
  request.mutable_keep_rows()->set_rows(handle);
  request.mutable_keep_rows()->set_drop(true);
  // Requests a reply: without one, an error would end the session.
  session.Send(std::move(request), {}, [](absl::StatusOr<ReceivedReply>) {}).IgnoreError();
}

// The first error of requests in flight.
struct Errors {
  std::mutex mutex;
  absl::Status first;

  absl::Status Get() {
    const std::lock_guard<std::mutex> lock(mutex);
    return first;
  }
};

// Sends the records of a part under one handle.
class PartUpload {
 public:
  PartUpload(ClientSession& session, std::string description, int64_t total_elements)
      : session_(session),
        handle_(session.NewHandles(1)),
        description_(std::move(description)),
        total_elements_(total_elements) {}

  uint64_t handle() const { return handle_; }

  // Blocks while the window of the link is full.
  absl::Status Add(const base::Array& record) {
    PENSTOCK_RETURN_IF_ERROR(errors_->Get());
    const absl::string_view bytes = record.values<absl::string_view>()[0];
    remote::Request request = NewRequest();
    KeepRows& keep = *request.mutable_keep_rows();
    keep.set_upload(session_.NewHandles(1));
    keep.set_bytes(static_cast<int64_t>(bytes.size()));
    PENSTOCK_RETURN_IF_ERROR(
        session_.SendChunks(keep.upload(), record.owner(), bytes.data(), keep.bytes()));
    return session_.Send(std::move(request), {},
                         [errors = errors_](const absl::StatusOr<ReceivedReply>& reply) {
                           const std::lock_guard<std::mutex> lock(errors->mutex);
                           errors->first.Update(reply.status());
                         });
  }

  absl::StatusOr<train::KeptRows> End() {
    remote::Request request = NewRequest();
    request.mutable_keep_rows()->set_end(true);
    const absl::StatusOr<ReceivedReply> reply = session_.Call(std::move(request));
    PENSTOCK_RETURN_IF_ERROR(errors_->Get());
    PENSTOCK_RETURN_IF_ERROR(reply.status());
    const RowsKept& kept = reply->reply.rows_kept();
    return train::KeptRows{
        .handle = handle_,
        .elements = kept.elements(),
        .bytes = kept.bytes(),
        .where =
            absl::StrCat("the worker's memory (free: ", base::PrintBytes(kept.free_bytes()), ")"),
        .sent = true};
  }

 private:
  remote::Request NewRequest() {
    remote::Request request;
    KeepRows& keep = *request.mutable_keep_rows();
    keep.set_rows(handle_);
    keep.set_description(std::exchange(description_, ""));
    keep.set_total_elements(total_elements_);
    return request;
  }

  ClientSession& session_;
  const uint64_t handle_;
  std::string description_;  // until it is sent
  const int64_t total_elements_;
  const std::shared_ptr<Errors> errors_ = std::make_shared<Errors>();
};

absl::StatusOr<train::KeptRows> SendPart(ClientSession& session, const data::DatasetPart& part,
                                         const data::IteratorOptions& read) {
  data::IteratorOptions options = read;
  if (options.file_system == nullptr) options.file_system = io::FileSystem::Default();
  // A cache holds the elements of the first epoch.
  if (options.state.has_value()) options.seed = options.state->seed;
  options.state = {};
  options.epoch = options.skip = 0;
  PENSTOCK_ASSIGN_OR_RETURN(
      const data::PartDescription description,
      data::PartDescription::Of(*part.description, {.file_system = options.file_system}));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t total,
                            data::Dataset::Of(part.description).Cardinality(options));
  if (total == data::kInfiniteCardinality) {
    return absl::InvalidArgumentError(
        "Cache(\"worker\") of an infinite dataset; put Repeat() after it");
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      auto iterator,
      data::SerializedRows(part.description, part.first_stage).MakeIterator(options));
  PartUpload upload(session, description.ToJson(), total);
  absl::Status status;
  while (status.ok()) {
    base::NamedArrays record;
    const absl::StatusOr<bool> more = iterator->Next(&record);
    status = more.status();
    if (!more.ok() || !*more) break;
    status = upload.Add(*record.Find("rows"));
  }
  absl::StatusOr<train::KeptRows> kept =
      status.ok() ? upload.End() : absl::StatusOr<train::KeptRows>(status);
  if (!kept.ok()) Drop(session, upload.handle());
  return kept;
}

}  // namespace

absl::StatusOr<train::KeptRows> RowSender::Send(const std::shared_ptr<ClientSession>& session,
                                                const data::DatasetPart& part,
                                                const data::IteratorOptions& read) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < sent_.size();) {
    const bool ours = sent_[i].session.lock() == session;
    const auto known = sent_[i].part.lock();
    if (ours && known == part.description) {
      train::KeptRows kept = sent_[i].kept;
      kept.sent = false;
      return kept;
    }
    if (ours && known != nullptr) {
      ++i;
      continue;
    }
    if (ours) Drop(*session, sent_[i].kept.handle);
    std::swap(sent_[i], sent_.back());
    sent_.pop_back();
  }
  PENSTOCK_ASSIGN_OR_RETURN(train::KeptRows kept, SendPart(*session, part, read));
  sent_.push_back({part.description, session, kept});
  return kept;
}

}  // namespace penstock::remote
