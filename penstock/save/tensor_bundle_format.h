// Parts of the TensorBundle format that the reader and the writer share. Internal to
// tensor_bundle*.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"

namespace penstock::save::tensor_bundle {

// Key of the string that describes the objects of a checkpoint (TrackableObjectGraph).
inline constexpr absl::string_view kObjectGraph = "_CHECKPOINTABLE_OBJECT_GRAPH";
inline constexpr absl::string_view kValueSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";

// PREFIX of "PREFIX.index" and "PREFIX.data-00000-of-00001"; other names are prefixes.
std::string PrefixOf(absl::string_view uri);
// PREFIX.index
std::string IndexFile(absl::string_view prefix);
// PREFIX.data-00000-of-00001
std::string DataFile(absl::string_view prefix, int shard, int num_shards);
// The number of shards in the name of a data file; 0 for other names. `prefix` has no folder.
int ShardsOfDataFile(absl::string_view name, absl::string_view prefix);

// Names of arrays and keys of an object-based checkpoint.
std::string NameOfKey(absl::string_view key);
std::string KeyOfName(absl::string_view name);

// VARIABLE/.OPTIMIZER_SLOT/OPTIMIZER/SLOT, the name of what an optimizer keeps of a variable.
struct SlotName {
  absl::string_view variable, optimizer, slot;
};
std::optional<SlotName> ParseSlotName(absl::string_view name);

// Range of a slice along one axis; length -1: the whole axis.
struct SliceExtent {
  int64_t start = 0, length = -1;
};
// Key of the entry of a slice (EncodeTensorNameSlice, tensorflow/core/util/saved_tensor_slice_util.cc).
std::string SliceKey(absl::string_view tensor, absl::Span<const SliceExtent> extents);

// Values of TensorFlow's enum DataType.
inline constexpr int kTensorFlowString = 7, kTensorFlowResource = 20, kTensorFlowVariant = 21;
absl::StatusOr<base::DType> DTypeOfTensorFlow(int dtype);
absl::StatusOr<int> TensorFlowDType(base::DType dtype);

// The elements of a tensor of strings: lengths, their checksum, bytes. `crc` is the masked checksum
// of the entry.
absl::StatusOr<std::vector<std::string>> DecodeStrings(absl::string_view bytes, int64_t count,
                                                       uint32_t crc);
std::string EncodeStrings(absl::Span<const absl::string_view> strings, uint32_t* crc);

// Calls `visit` with the bytes of each object of a TrackableObjectGraph.
absl::Status ForEachObject(absl::string_view graph,
                           absl::FunctionRef<absl::Status(absl::string_view)> visit);

}  // namespace penstock::save::tensor_bundle
