#include "penstock/session/run/loop_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/ops.h"

namespace penstock::session {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

// Element `index` of a stack.
Value ElementOf(const Value& stack, const Value& index) {
  Values begin{index};
  std::vector<int64_t> sizes(stack.shape().begin(), stack.shape().end());
  sizes[0] = 1;
  for (int i = 1; i < stack.rank(); ++i) begin.push_back(ir::SplatLike(index, 0));
  return ir::Squeeze(ir::DynamicSlice(stack, begin, sizes), {0});
}

// The step's argument in iteration `index`.
Value ArgumentOf(const LoopParameter& parameter, const Value& carried, const Value& index) {
  switch (parameter.kind) {
    case LoopParameter::kBatch:
      return ElementOf(carried, index);
    case LoopParameter::kRandom:  // the column of seeds, then that of counts
      return carried + ir::Iota(*index.graph(), carried.type(), 1) *
                           ir::BroadcastTo(ir::Convert(index, carried.dtype()), carried.shape());
    case LoopParameter::kInvariant:
    case LoopParameter::kState:
      return carried;
  }
  return carried;
}

// Which of the step's results replace parameters.
std::vector<bool> StateResults(const ir::Graph& step, absl::Span<const LoopParameter> parameters) {
  std::vector<bool> is_state(step.results().size(), false);
  for (const LoopParameter& parameter : parameters) {
    if (parameter.kind == LoopParameter::kState) is_state[parameter.result] = true;
  }
  return is_state;
}

// The step's parameters in the loop's graph.
absl::StatusOr<Values> Parameters(ir::Graph& graph, const ir::Graph& step,
                                  absl::Span<const LoopParameter> parameters, int64_t depth) {
  Values values;
  for (size_t i = 0; i < parameters.size(); ++i) {
    ir::TensorType type = step.parameters()[i].type();
    const std::string& name = step.parameter_names()[i];
    if (parameters[i].kind == LoopParameter::kBatch) {
      if (type.shape.rank() == base::kMaxRank) {
        return absl::InvalidArgumentError(
            absl::StrCat("RunLoop stacks the batches of '", name, "', which is ", type.ToString(),
                         "; a stack would have more than ", base::kMaxRank, " axes"));
      }
      type.shape = type.shape.Prepend(depth);
    }
    values.push_back(graph.Parameter(type, name));
  }
  return values;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ir::Graph>> LoopGraph(const ir::Graph& step,
                                                     absl::Span<const LoopParameter> parameters,
                                                     int64_t depth) {
  PENSTOCK_RETURN_IF_ERROR(step.status());
  auto loop = std::make_unique<ir::Graph>(absl::StrCat(step.name(), "_loop"), step.num_replicas());
  const ir::TensorType i32{DType::kI32, {}};
  PENSTOCK_ASSIGN_OR_RETURN(const Values arguments, Parameters(*loop, step, parameters, depth));
  // Carried: index, number of steps, parameters, results that are no state.
  Values carried{ir::Splat(*loop, i32, 0), loop->Parameter(i32, "steps")};
  carried.insert(carried.end(), arguments.begin(), arguments.end());
  const size_t first_fetch = carried.size();
  const std::vector<bool> is_state = StateResults(step, parameters);
  for (size_t r = 0; r < is_state.size(); ++r) {
    if (!is_state[r]) carried.push_back(ir::Splat(*loop, step.results()[r].type(), 0));
  }
  const auto more = [](ir::Graph&, const Values& at) { return ir::Less(at[0], at[1]); };
  const auto body = [&](ir::Graph& inside, const Values& at) -> Values {
    Values in;
    for (size_t i = 0; i < parameters.size(); ++i) {
      in.push_back(ArgumentOf(parameters[i], at[2 + i], at[0]));
    }
    const Values results = inside.Inline(step, in);
    if (results.size() != is_state.size()) return {};
    Values out{at[0] + 1.0, at[1]};
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool state = parameters[i].kind == LoopParameter::kState;
      out.push_back(state ? results[parameters[i].result] : at[2 + i]);
    }
    for (size_t r = 0; r < results.size(); ++r) {
      if (!is_state[r]) out.push_back(results[r]);
    }
    return out;
  };
  const Values done = ir::While(carried, more, body);
  PENSTOCK_RETURN_IF_ERROR(loop->status());
  Values results(is_state.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].kind == LoopParameter::kState) results[parameters[i].result] = done[2 + i];
  }
  size_t next = first_fetch;
  for (size_t r = 0; r < is_state.size(); ++r) {
    if (!is_state[r]) results[r] = done[next++];
  }
  loop->SetResults(results, step.result_names());
  PENSTOCK_RETURN_IF_ERROR(loop->status());
  return loop;
}

int64_t LoopDepthThatFits(int64_t steps, int64_t bytes, int64_t free_bytes) {
  // Of each step: the batch, its place in a stack, and the same for the next execution.
  constexpr int64_t kCopies = 4;
  const int64_t fitting = free_bytes / 2 / kCopies / std::max<int64_t>(bytes, 1);
  return std::clamp<int64_t>(fitting, 1, steps);
}

}  // namespace penstock::session
