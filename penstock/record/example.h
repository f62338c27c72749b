// tf.train.Example (tensorflow/core/example/example.proto): a record of named features, each a list
// of byte strings, floats or int64s. Here one is written, and one is read without knowing what is
// in it; example_parser.h reads many at once into the columns of a schema.
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

// Builds the bytes of one Example. The bytes depend only on what was set, not on the order: they
// are those of protobuf's deterministic serialization (features sorted by name, numbers packed).
// Setting a name again replaces it. Names are UTF-8, as protobuf wants them; this is not checked.
// Values are copied.
class ExampleBuilder {
 public:
  void SetBytes(absl::string_view name, absl::string_view value) { SetBytesList(name, {value}); }
  void SetInt64(absl::string_view name, int64_t value) { SetInt64List(name, {value}); }
  void SetFloat(absl::string_view name, float value) { SetFloatList(name, {value}); }
  void SetBytesList(absl::string_view name, absl::Span<const absl::string_view> values);
  void SetInt64List(absl::string_view name, absl::Span<const int64_t> values);
  void SetFloatList(absl::string_view name, absl::Span<const float> values);
  // The elements of `values` in row-major order; dtype kString, kI64 or kF32 (contract). An Array
  // that is not valid() makes a feature without a list, as ReadExample gives it.
  void SetArray(absl::string_view name, const base::Array& values);

  // Forgets all features.
  void Clear() { features_.clear(); }

  std::string Serialize() const;
  // The same, into memory that is used again.
  void SerializeTo(std::string* out) const;

 private:
  std::map<std::string, std::string, std::less<>> features_;  // encoded Feature messages
};

// What a record holds: a one-dimensional array (kString, kI64 or kF32) for each feature, by name. A
// feature that was written without any list is an Array that is not valid().
using FeatureMap = std::map<std::string, base::Array>;

// Reads every feature. Strings are views into `record`, which must outlive them. Damage is DataLoss
// and names the byte; the caller adds where the record stands. For looking at records: it makes an
// array for each feature; ExampleParser is the way to read many.
absl::StatusOr<FeatureMap> ReadExample(absl::string_view record);

// "class int64 (1), image bytes (1), size int64 (2)": names, types and numbers of values of at most
// `max_features` features, or what is wrong with the record.
std::string DescribeExample(absl::string_view record, int max_features = 20);

}  // namespace penstock::record
