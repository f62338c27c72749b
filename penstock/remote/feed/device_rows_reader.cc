#include "penstock/remote/feed/device_rows_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/feed/batch_description.h"

namespace penstock::remote {
namespace {

// Handles reserved for the columns, whose number is known when they are there.
constexpr int64_t kHandlesOfRows = 1 << 16;

}  // namespace

absl::StatusOr<train::RowsThere> ReadRowsToDevices(const std::shared_ptr<ClientSession>& session,
                                                   const Devices& devices,
                                                   train::FeedRequest request) {
  request.first_row_buffer = session->NewHandles(kHandlesOfRows);
  const uint64_t feed = session->NewHandles(1);
  Request message;
  OpenFeed& open = *message.mutable_open_feed();
  open.set_feed(feed);
  open.set_dataset(request.dataset);
  open.set_options(train::FeedRequestToJson(request));
  absl::StatusOr<ReceivedReply> reply = session->Call(std::move(message));
  Request close;
  close.mutable_close_feed()->set_feed(feed);
  // Requests a reply: without one, an error would end the session.
  session->Send(std::move(close), {}, [](absl::StatusOr<ReceivedReply>) {}).IgnoreError();
  PENSTOCK_RETURN_IF_ERROR(reply.status());
  PENSTOCK_ASSIGN_OR_RETURN(RowsDescription rows,
                            RowsDescriptionFromJson(reply->reply.feed_opened().description()));
  if (static_cast<int64_t>(rows.types.size() * request.devices.size()) > kHandlesOfRows) {
    return absl::InternalError(
        absl::StrCat("the worker read rows of ", rows.types.size(), " columns"));
  }
  train::RowsThere there = {.rows = {.names = std::move(rows.names), .types = rows.types},
                            .note = std::move(rows.note)};
  uint64_t handle = request.first_row_buffer;
  for (const int device : request.devices) {
    runtime::Buffers& buffers = there.rows.replicas.emplace_back();
    for (const ir::TensorType& type : rows.types) {
      buffers.emplace_back(
          std::make_shared<RemoteBuffer>(session, handle++, type, devices, device));
    }
  }
  return there;
}

}  // namespace penstock::remote
