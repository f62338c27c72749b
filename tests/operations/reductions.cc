#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Value;
using ir::Values;

template <Value (*kFunction)(Value, const ir::Axes&, bool)>
Values OverAxes(const Call& c) {
  return {kFunction(c.x[0], c.Ints("axes"), c.Flag("keep_dims"))};
}

template <Value (*kFunction)(Value, int64_t, bool)>
Values Running(const Call& c) {
  return {kFunction(c.x[0], c.Int("axis"), c.Flag("reverse"))};
}

Values Sort(const Call& c) {
  const int64_t axis = c.Int("axis");
  const bool descending = c.Flag("descending");
  return c.x.size() == 1 ? Values{ir::Sort(c.x[0], axis, descending)}
                         : ir::Sort(c.x, axis, descending);
}

Values TopK(const Call& c) {
  const ir::TopKResult top = ir::TopK(c.x[0], c.Int("k"), c.Int("axis"));
  return {top.values, top.indices};
}

Values BatchNorm(const Call& c) {
  const ir::BatchNormResult result =
      ir::BatchNormTraining(c.x[0], c.x[1], c.x[2], c.x.size() > 3 ? c.x[3] : Value(),
                            {.axis = c.Int("axis"), .epsilon = c.Number("epsilon")});
  return {result.y, result.mean, result.variance};
}

}  // namespace

OperationTable ReductionCalls() {
  return {
      {"ReduceSum", OverAxes<ir::ReduceSum>},
      {"ReduceMean", OverAxes<ir::ReduceMean>},
      {"ReduceProduct", OverAxes<ir::ReduceProduct>},
      {"ReduceMax", OverAxes<ir::ReduceMax>},
      {"ReduceMin", OverAxes<ir::ReduceMin>},
      {"ReduceAnd", OverAxes<ir::ReduceAnd>},
      {"ReduceOr", OverAxes<ir::ReduceOr>},
      {"LogSumExp", OverAxes<ir::LogSumExp>},
      {"ArgMax",
       [](const Call& c) -> Values {
         return {ir::ArgMax(c.x[0], c.Int("axis"), c.Type("dtype"))};
       }},
      {"AllFinite", [](const Call& c) -> Values { return {ir::AllFinite(c.x)}; }},
      {"CumSum", Running<ir::CumSum>},
      {"CumProd", Running<ir::CumProd>},
      {"CumMax", Running<ir::CumMax>},
      {"CumMin", Running<ir::CumMin>},
      {"Sort", Sort},
      {"ArgSort",
       [](const Call& c) -> Values {
         return {ir::ArgSort(c.x[0], c.Int("axis"), c.Flag("descending"))};
       }},
      {"TopK", TopK},
      {"Softmax", [](const Call& c) -> Values { return {ir::Softmax(c.x[0], c.Int("axis"))}; }},
      {"LogSoftmax",
       [](const Call& c) -> Values { return {ir::LogSoftmax(c.x[0], c.Int("axis"))}; }},
      {"BatchNormTraining", BatchNorm},
  };
}

}  // namespace penstock::tests
