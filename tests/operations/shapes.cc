#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Values;

Values Split(const Call& c) {
  if (c.options.contains("parts")) {
    return ir::Split(c.x[0], static_cast<int>(c.Int("parts")), c.Int("axis"));
  }
  return ir::Split(c.x[0], c.Ints("sizes"), c.Int("axis"));
}

Values Pad(const Call& c) {
  std::vector<ir::PadAxis> padding;
  for (const auto& axis : c.options.at("padding")) padding.push_back({axis[0], axis[1], axis[2]});
  return {ir::Pad(c.x[0], c.Number("value"), padding)};
}

}  // namespace

OperationTable ShapeCalls() {
  return {
      {"BroadcastInDim",
       [](const Call& c) -> Values {
         return {ir::BroadcastInDim(c.x[0], c.ShapeOf("shape"), c.Ints("axes"))};
       }},
      {"BroadcastTo",
       [](const Call& c) -> Values { return {ir::BroadcastTo(c.x[0], c.ShapeOf("shape"))}; }},
      {"Reshape",
       [](const Call& c) -> Values { return {ir::Reshape(c.x[0], c.ShapeOf("shape"))}; }},
      {"Transpose",
       [](const Call& c) -> Values { return {ir::Transpose(c.x[0], c.Ints("axes"))}; }},
      {"ExpandDims",
       [](const Call& c) -> Values { return {ir::ExpandDims(c.x[0], c.Int("axis"))}; }},
      {"Squeeze", [](const Call& c) -> Values { return {ir::Squeeze(c.x[0], c.Ints("axes"))}; }},
      {"Reverse", [](const Call& c) -> Values { return {ir::Reverse(c.x[0], c.Ints("axes"))}; }},
      {"Concatenate",
       [](const Call& c) -> Values { return {ir::Concatenate(c.x, c.Int("axis"))}; }},
      {"Slice",
       [](const Call& c) -> Values {
         return {ir::Slice(c.x[0], c.Ints("begin"), c.Ints("end"), c.Ints("strides"))};
       }},
      {"SliceAxis",
       [](const Call& c) -> Values {
         return {
             ir::SliceAxis(c.x[0], c.Int("axis"), c.Int("begin"), c.Int("end"), c.Int("stride"))};
       }},
      {"Split", Split},
      {"Pad", Pad},
      {"DynamicSlice",
       [](const Call& c) -> Values {
         return {ir::DynamicSlice(c.x[0], Values(c.x.begin() + 1, c.x.end()), c.Ints("sizes"))};
       }},
      {"DynamicUpdateSlice",
       [](const Call& c) -> Values {
         return {ir::DynamicUpdateSlice(c.x[0], c.x[1], Values(c.x.begin() + 2, c.x.end()))};
       }},
  };
}

}  // namespace penstock::tests
