#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Value;
using ir::Values;

template <Value (*kFunction)(Value, const ir::TensorType&, double, double)>
Values Normal(const Call& c) {
  return {kFunction(c.x[0], c.TypeAndShape(), c.Number("mean"), c.Number("stddev"))};
}

Values Threefry(const Call& c) {
  const auto [x0, x1] = ir::Threefry2x32(c.x[0], c.x[1], c.x[2]);
  return {x0, x1};
}

Values FoldIn(const Call& c) {
  if (c.x.size() == 2) return {ir::FoldIn(c.x[0], c.x[1])};
  return {ir::FoldIn(c.x[0], static_cast<uint32_t>(c.Int("data")))};
}

}  // namespace

OperationTable RandomNumberCalls() {
  return {
      {"RandomKey",
       [](const Call& c) -> Values {
         return {ir::RandomKey(c.graph, static_cast<uint64_t>(c.Int("seed")))};
       }},
      {"Threefry2x32", Threefry},
      {"FoldIn", FoldIn},
      {"SplitKey",
       [](const Call& c) { return ir::SplitKey(c.x[0], static_cast<int>(c.Int("count"))); }},
      {"RandomBits",
       [](const Call& c) -> Values { return {ir::RandomBits(c.x[0], c.TypeAndShape())}; }},
      {"RandomUniform",
       [](const Call& c) -> Values {
         return {ir::RandomUniform(c.x[0], c.TypeAndShape(), c.Number("low"), c.Number("high"))};
       }},
      {"RandomNormal", Normal<ir::RandomNormal>},
      {"RandomTruncatedNormal", Normal<ir::RandomTruncatedNormal>},
      {"RandomBernoulli",
       [](const Call& c) -> Values {
         return {ir::RandomBernoulli(c.x[0], c.ShapeOf("shape"), c.Number("probability"))};
       }},
      {"RandomInt",
       [](const Call& c) -> Values {
         return {ir::RandomInt(c.x[0], c.TypeAndShape(), c.Int("low"), c.Int("high"))};
       }},
  };
}

}  // namespace penstock::tests
