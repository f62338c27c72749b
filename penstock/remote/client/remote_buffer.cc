#include "penstock/remote/client/remote_buffer.h"

#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/runtime/program_check.h"

namespace penstock::remote {

RemoteBuffer::RemoteBuffer(std::shared_ptr<ClientSession> session, uint64_t handle,
                           ir::TensorType type, Devices devices, int device,
                           std::shared_ptr<const ir::Program> program,
                           std::shared_ptr<FetchedResults> fetched, int place)
    : session_(std::move(session)),
      handle_(handle),
      type_(std::move(type)),
      devices_(std::move(devices)),
      device_(static_cast<size_t>(device)),
      program_(std::move(program)),
      fetched_(std::move(fetched)),
      place_(place) {}

RemoteBuffer::~RemoteBuffer() {
  // The worker frees donated buffers with the execution.
  if (!donated_) session_->Delete(handle_, BytesOf(type_));
}

absl::Status RemoteBuffer::CheckLive() const {
  if (!donated()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      program_ == nullptr ? "" : absl::StrCat(runtime::ProgramName(*program_), ": "),
      "this buffer (", base::DTypeName(type_.dtype), type_.shape.ToString(), " on ",
      device().description,
      ") was donated to an execution, so its contents are gone; use that execution's result, or "
      "read the buffer before it is donated"));
}

absl::Status RemoteBuffer::Await() {
  PENSTOCK_RETURN_IF_ERROR(CheckLive());
  // The results of an execution are ready at the same time.
  if (fetched_ != nullptr) return session_->Await(fetched_->event);
  Request request;
  request.mutable_await()->set_buffer(handle_);
  return session_->Call(std::move(request)).status();
}

absl::StatusOr<base::Array> RemoteBuffer::Get() {
  PENSTOCK_RETURN_IF_ERROR(CheckLive());
  if (place_ >= 0) {
    PENSTOCK_RETURN_IF_ERROR(session_->Await(fetched_->event));
    return fetched_->arrays[static_cast<size_t>(place_)].Clone();
  }
  base::Array out = base::Array::Uninitialized(type_.dtype, type_.shape);
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Event> event, GetAsync(out));
  PENSTOCK_RETURN_IF_ERROR(event->Await());
  return out;
}

absl::StatusOr<std::shared_ptr<runtime::Event>> RemoteBuffer::GetAsync(base::Array out) {
  if (out.dtype() != type_.dtype || !(out.shape() == type_.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("GetAsync was given memory for ", out.TypeString(), ", but the buffer holds ",
                     base::DTypeName(type_.dtype), type_.shape.ToString()));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckLive());
  const auto event = std::make_shared<RemoteEvent>(session_);
  // Both callbacks own the session: it lives until the copy is done, even if the caller drops everything. Not longer:
  // who waits for the copy may end the session next.
  if (place_ >= 0) {
    fetched_->event.OnReady([event, out, fetched = fetched_, place = static_cast<size_t>(place_),
                             session = session_](const absl::Status& status) mutable {
      if (status.ok() && out.num_bytes() > 0) {
        std::memcpy(out.mutable_raw(), fetched->arrays[place].raw(),
                    static_cast<size_t>(out.num_bytes()));
      }
      session.reset();
      event->Complete(status);
    });
    return event;
  }
  PENSTOCK_RETURN_IF_ERROR(session_->SendGet(
      handle_, out,
      [event, out, session = session_](const absl::StatusOr<ReceivedReply>& reply) mutable {
        absl::Status status = reply.status();
        if (reply.ok() && reply->reply.has_got()) {
          size_t bytes = 0;
          for (const Slice& slice : reply->payload) bytes += slice.size;
          if (bytes == static_cast<size_t>(out.num_bytes())) {
            CopyPayload(reply->payload, static_cast<std::byte*>(out.mutable_raw()));
          } else {
            status = absl::InternalError(
                absl::StrCat("the worker sent ", bytes, " bytes for ", out.TypeString()));
          }
        }
        session.reset();
        event->Complete(status);
      }));
  return event;
}

}  // namespace penstock::remote
