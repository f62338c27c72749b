#include "penstock/session/run/loop_lowering.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/session/variable.h"

namespace penstock::session {
namespace {

using Defs = std::vector<const VariableDef*>;

void Append(ir::Values& to, const ir::Values& more) {
  to.insert(to.end(), more.begin(), more.end());
}

ir::Values OuterValues(const LoweredBody& body) {
  ir::Values values;
  for (const LoweredBody::Captured& captured : body.captured) values.push_back(captured.outer);
  return values;
}

// The results of `body`, in `graph`: those that it returns, then the values of `assigned`, of which
// those that this body does not assign are `unassigned`.
ir::Values InlineBody(ir::Graph& graph, const LoweredBody& body, const ir::Values& arguments,
                      const Defs& assigned, const ir::Values& unassigned) {
  const ir::Values all = graph.Inline(*body.graph, arguments);
  if (all.size() != body.graph->results().size()) return {};
  ir::Values results(all.begin(), all.begin() + static_cast<int64_t>(body.num_results));
  for (size_t i = 0; i < assigned.size(); ++i) {
    const auto at = std::find(body.assigned.begin(), body.assigned.end(), assigned[i]);
    const size_t place = body.num_results + static_cast<size_t>(at - body.assigned.begin());
    results.push_back(at == body.assigned.end() ? unassigned[i] : all[place]);
  }
  return results;
}

ir::Values Part(const ir::Values& values, size_t begin, size_t count) {
  const auto first = values.begin() + static_cast<int64_t>(begin);
  return ir::Values(first, first + static_cast<int64_t>(count));
}

// Assigns the values after `count` results to the variables and returns the results.
ir::Values Finish(Lowering& lowering, const Defs& assigned, const ir::Values& all, size_t count) {
  if (all.size() < count + assigned.size()) return {};
  for (size_t i = 0; i < assigned.size(); ++i) lowering.Assign(*assigned[i], all[count + i]);
  return Part(all, 0, count);
}

}  // namespace

ir::Values LowerCond(Lowering& lowering, ir::Value pred, const Body& yes, const Body& no) {
  const LoweredBody bodies[] = {lowering.LowerBody(yes, {}, false),
                                lowering.LowerBody(no, {}, false)};
  if (bodies[0].graph == nullptr || bodies[1].graph == nullptr) return {};
  Defs assigned = bodies[0].assigned;
  for (const VariableDef* variable : bodies[1].assigned) {
    if (std::find(assigned.begin(), assigned.end(), variable) == assigned.end()) {
      assigned.push_back(variable);
    }
  }
  const size_t count = bodies[0].num_results;
  if (count + assigned.size() == 0) return {};
  ir::Values operands;
  for (const VariableDef* variable : assigned) operands.push_back(lowering.Read(*variable));
  size_t begin = assigned.size();
  ir::Body branches[2];
  for (int b = 0; b < 2; ++b) {
    const LoweredBody& body = bodies[b];
    Append(operands, OuterValues(body));
    branches[b] = [&, begin](ir::Graph& inside, const ir::Values& state) {
      return InlineBody(inside, body, Part(state, begin, body.captured.size()), assigned,
                        Part(state, 0, assigned.size()));
    };
    begin += body.captured.size();
  }
  return Finish(lowering, assigned, ir::Cond(pred, operands, branches[0], branches[1]), count);
}

namespace {

// A loop over the state [iteration, running,] loop variables, assigned variables, captured values.
class LoweredLoop {
 public:
  LoweredLoop(Lowering& lowering, const ir::Values& init, const LoopBodies& loop)
      : lowering_(lowering), loop_(loop), num_variables_(init.size()), state_(init) {
    std::vector<ir::TensorType> types;
    for (const ir::Value& value : init) types.push_back(value.type());
    condition_ = lowering.LowerBody(*loop.condition, types, true);
    body_ = lowering.LowerBody(*loop.body, types, true);
    if (condition_.graph == nullptr || body_.graph == nullptr || !Check(types)) return;
    for (const VariableDef* variable : body_.assigned) state_.push_back(lowering.Read(*variable));
    Append(state_, OuterValues(condition_));
    Append(state_, OuterValues(body_));
    ok_ = true;
  }

  ir::Values Run() {
    if (!ok_) return {};
    const bool differentiable = loop_.maximum_iterations >= 0 && lowering_.has_gradients();
    return Finish(lowering_, body_.assigned, differentiable ? RunFor() : RunWhile(),
                  num_variables_);
  }

 private:
  size_t num_changing() const { return num_variables_ + body_.assigned.size(); }

  bool Check(const std::vector<ir::TensorType>& types) {
    if (!condition_.assigned.empty()) {
      lowering_.Fail(absl::InvalidArgumentError(absl::StrCat("the condition of the loop assigns '",
                                                             condition_.assigned[0]->name,
                                                             "'; assign variables in its body")));
      return false;
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const ir::TensorType& result = body_.graph->results()[i].type();
      if (result == types[i]) continue;
      lowering_.Fail(absl::InvalidArgumentError(
          absl::StrCat("loop variable ", i, " is ", types[i].ToString(), ", and the body returns ",
                       result.ToString(), "; shapes stay the same in a loop")));
      return false;
    }
    return true;
  }

  // The arguments of a body, from the iteration and the state.
  ir::Values Arguments(const LoweredBody& body, size_t first_captured, ir::Value iteration,
                       const ir::Values& state) const {
    ir::Values arguments{iteration};
    Append(arguments, Part(state, 0, num_variables_));
    for (size_t i = 0; i < body.captured.size(); ++i) {
      const VariableDef* const variable = body.captured[i].variable;
      const auto at = std::find(body_.assigned.begin(), body_.assigned.end(), variable);
      // A variable that the body assigns has its value at the start of the iteration.
      arguments.push_back(at == body_.assigned.end()
                              ? state[first_captured + i]
                              : state[num_variables_ + (at - body_.assigned.begin())]);
    }
    return arguments;
  }

  ir::Value Continues(ir::Graph& graph, ir::Value iteration, const ir::Values& state) const {
    const ir::Values result = InlineBody(
        graph, condition_, Arguments(condition_, num_changing(), iteration, state), {}, {});
    return result.empty() ? ir::Value() : result[0];
  }

  // The variables and assigned variables after an iteration.
  ir::Values Next(ir::Graph& graph, ir::Value iteration, const ir::Values& state) const {
    const size_t first = num_changing() + condition_.captured.size();
    return InlineBody(graph, body_, Arguments(body_, first, iteration, state), body_.assigned, {});
  }

  ir::Values RunWhile() {
    ir::Values init{ir::Splat(lowering_.graph(), {DType::kI32, {}}, 0)};
    Append(init, state_);
    const auto rest = [](const ir::Values& all) { return Part(all, 1, all.size() - 1); };
    ir::Values out = ir::While(
        init,
        [&](ir::Graph& graph, const ir::Values& all) {
          const ir::Value more = Continues(graph, all[0], rest(all));
          if (loop_.maximum_iterations < 0) return more;
          const double limit = static_cast<double>(loop_.maximum_iterations);
          return ir::And(more, ir::Less(all[0], ir::SplatLike(all[0], limit)));
        },
        [&](ir::Graph& graph, const ir::Values& all) -> ir::Values {
          const ir::Values next = Next(graph, all[0], rest(all));
          if (next.empty()) return {};
          ir::Values after{all[0] + 1.0};
          Append(after, next);
          Append(after, Part(all, after.size(), all.size() - after.size()));
          return after;
        });
    return out.size() < 1 + num_changing() ? ir::Values() : Part(out, 1, num_changing());
  }

  ir::Values RunFor() {
    ir::Values init{ir::Splat(lowering_.graph(), {DType::kBool, {}}, 1)};
    Append(init, state_);
    ir::Values out = ir::For(
        loop_.maximum_iterations, init,
        [&](ir::Graph& graph, ir::Value index, const ir::Values& all) -> ir::Values {
          const ir::Values state = Part(all, 1, all.size() - 1);
          const ir::Value running = ir::And(all[0], Continues(graph, index, state));
          ir::Values operands{index};
          Append(operands, state);
          const ir::Values changed = ir::Cond(
              running, operands,
              [&](ir::Graph& inside, const ir::Values& in) {
                return Next(inside, in[0], Part(in, 1, in.size() - 1));
              },
              [&](ir::Graph&, const ir::Values& in) { return Part(in, 1, num_changing()); });
          ir::Values after{running};
          Append(after, changed);
          if (after.size() != 1 + num_changing()) return {};
          Append(after, Part(all, after.size(), all.size() - after.size()));
          return after;
        });
    return out.size() < 1 + num_changing() ? ir::Values() : Part(out, 1, num_changing());
  }

  Lowering& lowering_;
  const LoopBodies loop_;
  const size_t num_variables_;
  ir::Values state_;
  LoweredBody condition_, body_;
  bool ok_ = false;
};

}  // namespace

ir::Values LowerWhile(Lowering& lowering, const ir::Values& init, const LoopBodies& loop) {
  return LoweredLoop(lowering, init, loop).Run();
}

}  // namespace penstock::session
