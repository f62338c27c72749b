// tf.train.Example (tensorflow/core/example/example.proto): a record of named features, each a list
// of byte strings, floats or int64s. This header writes one Example, and reads one without a
// schema; example_parser.h parses many at once into the columns of a schema.
//
//   ExampleBuilder example;
//   example.SetBytes("image", jpeg);
//   example.SetInt64("class", 3);
//   example.SetFloatList("one_hot_class", {0, 0, 0, 1});
//   PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
//
//   PENSTOCK_ASSIGN_OR_RETURN(FeatureMap features, ReadExample(record));
//   for (const auto& [name, values] : features) Print(name, values.ToString());
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"

namespace penstock::record {

// Builder of one serialized Example. The bytes do not depend on the order of the calls: they equal
// protobuf's deterministic serialization (features sorted by name, numbers packed). Setting a name
// again replaces its value. Names must be UTF-8, as protobuf requires; this is not checked. Values
// are copied.
class ExampleBuilder {
 public:
  void SetBytes(absl::string_view name, absl::string_view value) { SetBytesList(name, {value}); }
  void SetInt64(absl::string_view name, int64_t value) { SetInt64List(name, {value}); }
  void SetFloat(absl::string_view name, float value) { SetFloatList(name, {value}); }
  void SetBytesList(absl::string_view name, absl::Span<const absl::string_view> values);
  void SetInt64List(absl::string_view name, absl::Span<const int64_t> values);
  void SetFloatList(absl::string_view name, absl::Span<const float> values);
  // Sets the elements of `values` in row-major order; the dtype must be kString, kI64 or kF32. An
  // invalid Array makes a feature without a list, which ReadExample returns as an invalid Array.
  void SetArray(absl::string_view name, const base::Array& values);

  // Removes all features.
  void Clear() { features_.clear(); }

  std::string Serialize() const;
  // Same as Serialize, reusing the memory of `out`.
  void SerializeTo(std::string* out) const;

 private:
  std::map<std::string, std::string, std::less<>> features_;  // encoded Feature messages
};

// The features of a record by name, each a one-dimensional array (kString, kI64 or kF32). A feature
// without a list is an invalid Array.
using FeatureMap = std::map<std::string, base::Array>;

// Parses all features. Strings are views into `record`, which must outlive them. A malformed record
// is DataLoss with the byte offset; the caller adds the record's origin. Meant for inspecting
// records, because it allocates an array per feature; use ExampleParser to read many.
absl::StatusOr<FeatureMap> ReadExample(absl::string_view record);

// Summary of a record for messages: names, types and numbers of values of at most `max_features`
// features, "class int64 (1), image bytes (1), size int64 (2)", or a description of why it is
// malformed.
std::string DescribeExample(absl::string_view record, int max_features = 20);

}  // namespace penstock::record
