#include "penstock/remote/worker/host_copy.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/remote/wire/wire_types.h"

namespace penstock::remote {

absl::StatusOr<base::NamedArrays> CopyToHost(SessionState& session,
                                             absl::Span<const std::string* const> names,
                                             absl::Span<const uint64_t> handles) {
  if (names.size() != handles.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.size(), " names of ", handles.size(), " buffers"));
  }
  runtime::Buffers buffers;
  PENSTOCK_RETURN_IF_ERROR(session.FindBuffers(handles, buffers));
  int64_t bytes = 0;
  for (const runtime::Buffer& buffer : buffers) bytes += BytesOf(buffer.type());
  if (const base::MemoryHeadroom room = base::AvailableMemory(); bytes > room.bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the state has ", base::PrintBytes(bytes), ", and ", room.limited_by,
                     " of the worker has only ", base::PrintBytes(room.bytes), " free to copy it"));
  }
  base::NamedArrays arrays;
  // All transfers are started before the first one is waited for.
  std::vector<std::shared_ptr<runtime::Event>> events;
  absl::Status status;
  for (size_t i = 0; i < buffers.size() && status.ok(); ++i) {
    const ir::TensorType& type = buffers[i].type();
    const base::Array array = base::Array::Uninitialized(type.dtype, type.shape);
    absl::StatusOr<std::shared_ptr<runtime::Event>> event = buffers[i].GetAsync(array);
    status.Update(event.status());
    if (event.ok()) events.push_back(*std::move(event));
    arrays.Set(*names[i], array);
  }
  for (const auto& event : events) status.Update(event->Await());
  PENSTOCK_RETURN_IF_ERROR(status);
  return arrays;
}

}  // namespace penstock::remote
