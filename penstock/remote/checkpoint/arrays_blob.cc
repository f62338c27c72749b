#include "penstock/remote/checkpoint/arrays_blob.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/bytes.h"
#include "penstock/save/safetensors.h"

namespace penstock::remote {
absl::StatusOr<base::Array> ToBlob(const base::NamedArrays& arrays) {
  io::BytesStream stream("arrays");
  PENSTOCK_RETURN_IF_ERROR(save::WriteSafetensors(stream, {.arrays = arrays}));
  const auto size = static_cast<int64_t>(stream.bytes().size());
  base::Array blob = base::Array::Uninitialized(base::DType::kU8, {size});
  std::memcpy(blob.mutable_raw(), stream.bytes().data(), stream.bytes().size());
  return blob;
}

absl::StatusOr<base::NamedArrays> FromBlob(const base::Array& blob) {
  if (blob.dtype() != base::DType::kU8 || blob.rank() != 1) {
    return absl::InvalidArgumentError("arrays must come as bytes, uint8 [n]");
  }
  const absl::string_view bytes(static_cast<const char*>(blob.raw()),
                                static_cast<size_t>(blob.num_bytes()));
  PENSTOCK_ASSIGN_OR_RETURN(
      save::SafetensorsReader reader,
      save::SafetensorsReader::Open(std::make_unique<io::BytesFile>("arrays", bytes)));
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights, reader.ReadAll());
  return std::move(weights.arrays);
}

}  // namespace penstock::remote
