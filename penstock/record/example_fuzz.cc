// Arbitrary bytes as a tf.train.Example: parsing terminates and stays in bounds; reading, writing
// and reading again is a round trip; and ExampleParser agrees with ReadExample.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/base/status.h"
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"

namespace penstock::record {
namespace {

using base::Array;
using base::DType;

void CheckSame(const FeatureMap& a, const FeatureMap& b) {
  PENSTOCK_CHECK(a.size() == b.size());
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    PENSTOCK_CHECK(i->first == j->first && i->second.valid() == j->second.valid());
    PENSTOCK_CHECK(!i->second.valid() || BitwiseEqual(i->second, j->second));
  }
}

// Compares one column of ExampleParser with the feature of ReadExample.
void CheckColumn(const ExampleFeature& feature, const Array& got, const FeatureMap& read) {
  const auto found = read.find(feature.name);
  const bool missing = found == read.end() || !found->second.valid();
  if (missing) {
    PENSTOCK_CHECK(feature.variable_length
                       ? got.num_elements() == 0
                       : BitwiseEqual(got.Reshape(feature.shape).value(), *feature.default_value));
    return;
  }
  const Array flat = got.Reshape({got.num_elements()}).value();
  PENSTOCK_CHECK(BitwiseEqual(flat, found->second));
}

void CheckParser(absl::string_view record, const absl::StatusOr<FeatureMap>& read) {
  // Feature names used in testdata/example_corpus.
  static const ExampleParser parser =
      ExampleParser::Create(
          {.features = {{.name = "steps", .dtype = DType::kI64, .variable_length = true},
                        {.name = "tags", .dtype = DType::kString, .variable_length = true},
                        {.name = "box",
                         .dtype = DType::kF32,
                         .shape = {4},
                         .default_value = Array::Of<float>({4}, {1, 2, 3, 4})},
                        {.name = "class",
                         .dtype = DType::kI64,
                         .default_value = Array::Scalar<int64_t>(7)}}})
          .value();
  std::vector<Array> columns = parser.NewColumns(1);
  RaggedRows rows;
  const absl::Status status = parser.ParseRange({record}, 0, absl::MakeSpan(columns), &rows,
                                                [](int64_t) { return std::string("fuzz:0:0"); });
  // ExampleParser skips parts of the record, so it may accept a record that ReadExample rejects.
  if (!read.ok()) return;
  const std::vector<ExampleFeature>& features = parser.schema().features;
  if (!status.ok()) {
    bool unfit = false;
    for (const ExampleFeature& feature : features) {
      const auto found = read->find(feature.name);
      if (found == read->end() || !found->second.valid()) continue;
      unfit |= found->second.dtype() != feature.dtype ||
               (!feature.variable_length &&
                found->second.num_elements() != feature.shape.num_elements());
    }
    PENSTOCK_CHECK(unfit && absl::IsInvalidArgument(status));
    return;
  }
  const std::vector<Ragged> ragged = parser.JoinRagged({rows});
  for (size_t f = 0; f < features.size(); ++f) {
    CheckColumn(features[f], features[f].variable_length ? ragged[f].values : columns[f], *read);
  }
}

}  // namespace
}  // namespace penstock::record

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::record;
  const absl::string_view record(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<FeatureMap> read = ReadExample(record);
  CheckParser(record, read);
  if (!read.ok()) return 0;
  ExampleBuilder builder;
  for (const auto& [name, values] : *read) builder.SetArray(name, values);
  const std::string again = builder.Serialize();
  CheckSame(*read, ReadExample(again).value());
  DescribeExample(record);
  return 0;
}
