// The bodies equal those of control_flow.py.
#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Graph;
using ir::Value;
using ir::Values;

Values While(const Call& c) {
  const Value zero = ir::Splat(c.graph, {base::DType::kI32, {}}, 0);
  return ir::While(
      {c.x[0], zero},
      [](Graph&, const Values& s) {
        const Value sum = ir::ReduceSum(ir::Abs(s[0]));
        return ir::Less(sum, ir::SplatLike(sum, 100));
      },
      [](Graph&, const Values& s) -> Values {
        return {s[0] * 1.5, s[1] + 1.0};
      });
}

Values For(const Call& c) {
  return ir::For(
      c.Int("count"), {c.x[0], c.x[1]}, [](Graph& graph, Value index, const Values& s) -> Values {
        const Value zero = ir::Splat(graph, {base::DType::kI32, {}}, 0);
        const std::vector<int64_t> one_row{1, s[0].shape().dim(1)};
        const Value row = ir::DynamicSlice(s[0], {index, zero}, one_row);
        const Value next = ir::DynamicSlice(s[0], {index + 1.0, zero}, one_row);
        const Value put =
            ir::DynamicUpdateSlice(s[0], ir::Sin(row) * next + s[1], {index + 1.0, zero});
        return {put, s[1] * ir::ReduceMean(row)};
      });
}

// Arguments: state, x, w, u, b.
Values NextState(Graph&, const Values& in) {
  return {ir::Tanh(ir::MatMul(in[0], in[2]) + ir::MatMul(in[1], in[3]) + in[4])};
}

Values Scan(const Call& c) {
  const bool rematerialize = c.Flag("rematerialize");
  const ir::ScanOut out = ir::Scan(
      {c.x[1]}, {c.x[0]}, {c.x[2], c.x[3], c.x[4]},
      [&](Graph& graph, const ir::ScanIn& in) {
        const Values given{in.state[0], in.x[0], in.constants[0], in.constants[1], in.constants[2]};
        const Value h =
            (rematerialize ? ir::Rematerialize(given, NextState) : NextState(graph, given))[0];
        return ir::ScanOut{.state = {h}, .y = {h * h, ir::ReduceSum(h, {1})}};
      },
      {.reverse = c.Flag("reverse"), .save_products = c.Flag("save_products")});
  return {out.state[0], out.y[0], out.y[1]};
}

Values Cond(const Call& c) {
  return ir::Cond(
      c.x[0], {c.x[1], c.x[2]},
      [](Graph&, const Values& in) -> Values {
        return {ir::Sin(in[0]) * in[1], in[0]};
      },
      [](Graph&, const Values& in) -> Values {
        return {ir::Exp(in[1]), ir::Square(in[1])};
      });
}

Values CustomGradient(const Call& c) {
  return ir::CustomGradient(
      c.x, [](Graph&, const Values& in) -> Values { return {in[0] * in[1]}; },
      [](Graph&, const ir::BackwardIn& in) -> Values {
        const Value g = in.cotangents[0];
        return {2.0 * in.inputs[1] * g, -in.results[0] * g};
      });
}

Values Rematerialize(const Call& c) {
  return ir::Rematerialize(c.x, [](Graph&, const Values& in) -> Values {
    return {ir::Tanh(ir::MatMul(ir::Sin(in[0]), in[1]))};
  });
}

Values OptimizationBarrier(const Call& c) {
  const Values same = ir::OptimizationBarrier(c.x);
  return {same[0] * 3.0, ir::Sin(same[1])};
}

}  // namespace

OperationTable ControlFlowCalls() {
  return {{"While", While},
          {"For", For},
          {"Scan", Scan},
          {"Cond", Cond},
          {"CustomGradient", CustomGradient},
          {"Rematerialize", Rematerialize},
          {"OptimizationBarrier", OptimizationBarrier}};
}

}  // namespace penstock::tests
