// Conversions between the messages of protocol.proto and the types that they describe. Reading a message
// checks it: what comes from the network may be anything.
//
//   *message.mutable_program() = ToMessage(program);
//   PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, FromMessage(message.program()));
//   PENSTOCK_ASSIGN_OR_RETURN(ir::TensorType type, FromMessage(tensor.type()));   // extents are checked
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/remote/link/link.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// A tensor up to this size travels in the control message, a larger one in chunks of kChunkBytes on bulk.
inline constexpr int64_t kInlinedBytes = int64_t{64} << 10;
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;
// Results that come with the reply of their execution: each at most kFetchedBytes, together kInlinedBytes.
inline constexpr int64_t kFetchedBytes = int64_t{4} << 10;
// A program's text above this size travels in chunks.
inline constexpr int64_t kInlinedTextBytes = int64_t{1} << 20;

Status ToMessage(const absl::Status& status);
absl::Status FromMessage(const Status& message);

TensorType ToMessage(const ir::TensorType& type);
// INVALID_ARGUMENT: an unknown dtype, one that devices do not have, more than base::kMaxRank extents, a
// negative one, or more than INT64_MAX bytes.
absl::StatusOr<ir::TensorType> FromMessage(const TensorType& message);
int64_t BytesOf(const ir::TensorType& type);

Program ToMessage(const ir::Program& program);
// Checks what an ir::Program promises (types, indices of origins); CheckProgram does the rest. INVALID_ARGUMENT also for a
// text that would overflow the stack of the compiler's parser, and for bytecode.
absl::StatusOr<ir::Program> FromMessage(const Program& message);

Device ToMessage(const runtime::Device& device);
runtime::Device FromMessage(const Device& message, int index);

// Copies the payload's bytes to `out`, which has room for payload_bytes().
void CopyPayload(absl::Span<const Slice> payload, std::byte* out);
// Removes the first `bytes` from the payload and returns them; the payload must have that many.
std::vector<Slice> TakePayload(std::vector<Slice>& payload, size_t bytes);

}  // namespace penstock::remote
