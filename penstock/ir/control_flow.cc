// Loops and branches. Bodies are closed graphs: they see only their parameters.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Region = std::shared_ptr<const Graph>;

std::vector<TensorType> TypesOfValues(absl::Span<const Value> values) {
  std::vector<TensorType> types;
  for (const Value& v : values) types.push_back(v.type());
  return types;
}

std::string Listed(absl::Span<const TensorType> types) {
  return absl::StrCat(
      "(",
      absl::StrJoin(types, ", ",
                    [](std::string* out, const TensorType& t) { out->append(t.ToString()); }),
      ")");
}

// A body: parameters of these types, results from `build`.
Region BuildRegion(const Graph& outer, const char* name, absl::Span<const TensorType> types,
                   const std::function<Values(Graph&, const Values&)>& build) {
  auto region = std::make_shared<Graph>(name, outer.num_replicas());
  const Scope scope(*region, outer.current_origin());
  Values parameters;
  for (size_t i = 0; i < types.size(); ++i) {
    parameters.push_back(region->Parameter(types[i], absl::StrCat("state", i)));
  }
  region->SetResults(build(*region, parameters));
  return region;
}

bool AllValid(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](const Value& v) { return v.valid(); });
}

absl::Status CheckResults(const Node& node, const Graph& region,
                          absl::Span<const TensorType> wanted, const char* what) {
  const std::vector<TensorType> got = TypesOfValues(region.results());
  if (absl::MakeConstSpan(got) == wanted) return absl::OkStatus();
  return OpError(node,
                 absl::StrCat(what, " must give ", Listed(wanted), ", it gives ", Listed(got)));
}

// ---- While ----
// Regions: condition, body. Operands and results: the state.

InferResult InferWhile(const Node& node) {
  const std::vector<TensorType> state = TypesOfValues(node.operands);
  const TensorType pred{DType::kBool, {}};
  PENSTOCK_RETURN_IF_ERROR(CheckResults(node, *node.regions[0], {pred}, "the condition"));
  PENSTOCK_RETURN_IF_ERROR(CheckResults(node, *node.regions[1], state, "the body"));
  return state;
}

// "stablehlo.while(%2 = %0, %3 = %1) : types", with the names that the regions use. `values` are
// names from outside.
struct LoopHead {
  std::string text;
  std::vector<std::string> inside;
};

LoopHead HeadOf(Printer& printer, const std::vector<std::string>& values,
                const std::vector<TensorType>& types) {
  LoopHead head;
  std::vector<std::string> bindings, mlir_types;
  for (size_t i = 0; i < values.size(); ++i) {
    head.inside.push_back(printer.FreshName());
    bindings.push_back(absl::StrCat(head.inside.back(), " = ", values[i]));
    mlir_types.push_back(MlirType(types[i]));
  }
  head.text = absl::StrCat("stablehlo.while(", absl::StrJoin(bindings, ", "),
                           ") : ", absl::StrJoin(mlir_types, ", "));
  return head;
}

void PrintWhile(Printer& printer, const Node& node) {
  std::vector<std::string> values;
  for (const Value& operand : node.operands) values.push_back(printer.Name(operand));
  const LoopHead head = HeadOf(printer, values, node.results);
  printer.OpenLine(node, head.text);
  printer.PlainLine("cond {");
  printer.Indent(1);
  printer.Body(*node.regions[0], head.inside, "stablehlo.return");
  printer.Indent(-1);
  printer.PlainLine("} do {");
  printer.Indent(1);
  printer.Body(*node.regions[1], head.inside, "stablehlo.return");
  printer.Indent(-1);
  printer.CloseLine("}");
}

const OpDef kWhile = {.name = "stablehlo.while", .infer = InferWhile, .print = PrintWhile};

// ---- For ----
// A while that runs `count` times and has a gradient. Operands: the state. Region: (index i32,
// state...) -> state. Results: the last state; then, for the gradient, each state as it was before
// each iteration, [count, ...]. Those are printed, and so kept, only where a gradient asks for
// them.

InferResult InferFor(const Node& node) {
  const std::vector<TensorType> state = TypesOfValues(node.operands);
  PENSTOCK_RETURN_IF_ERROR(CheckResults(node, *node.regions[0], state, "the body"));
  std::vector<TensorType> results = state;
  for (const TensorType& type : state) {
    if (type.shape.rank() == base::kMaxRank) {
      return OpError(node, absl::StrCat("a state has at most ", base::kMaxRank - 1, " axes, got ",
                                        type.ToString()));
    }
    results.push_back({type.dtype, type.shape.Prepend(node.attributes.Get<int64_t>("count"))});
  }
  return results;
}

// "%7 = stablehlo.dynamic_update_slice ...": `state` becomes row `index` of `history`.
std::string PrintHistory(Printer& printer, const std::string& history, const TensorType& type,
                         const std::string& state, const std::string& index,
                         const std::string& zero) {
  TensorType row = type;
  row.shape.set_dim(0, 1);
  const std::string as_row = printer.FreshName(), updated = printer.FreshName();
  printer.PlainLine(absl::StrCat(as_row, " = stablehlo.reshape ", state, " : (",
                                 MlirType({type.dtype, type.shape.RowShape()}), ") -> ",
                                 MlirType(row)));
  std::string begin = index, begin_types = "tensor<i32>";
  for (int i = 1; i < type.shape.rank(); ++i) {
    absl::StrAppend(&begin, ", ", zero);
    absl::StrAppend(&begin_types, ", tensor<i32>");
  }
  printer.PlainLine(absl::StrCat(updated, " = stablehlo.dynamic_update_slice ", history, ", ",
                                 as_row, ", ", begin, " : (", MlirType(type), ", ", MlirType(row),
                                 ", ", begin_types, ") -> ", MlirType(type)));
  return updated;
}

void PrintFor(Printer& printer, const Node& node) {
  const TensorType i32{DType::kI32, {}};
  const size_t n = node.operands.size();
  // The loop's state: the index, the node's state, the histories that are asked for.
  std::vector<std::string> values{printer.Splat(i32, 0)};
  std::vector<TensorType> types{i32};
  for (const Value& operand : node.operands) {
    values.push_back(printer.Name(operand));
    types.push_back(operand.type());
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < n; ++i) {
    if (!printer.IsUsed(static_cast<int>(n + i))) continue;
    kept.push_back(i);
    types.push_back(node.results[n + i]);
    values.push_back(printer.Splat(types.back(), 0));
  }
  const std::string loop = printer.FreshName();
  const auto result = [&](size_t i) {
    return types.size() == 1 ? loop : absl::StrCat(loop, "#", i);
  };
  std::vector<std::string> results(2 * n);
  for (size_t i = 0; i < n; ++i) results[i] = result(1 + i);
  for (size_t k = 0; k < kept.size(); ++k) results[n + kept[k]] = result(1 + n + k);
  printer.NameResults(std::move(results));

  const LoopHead head = HeadOf(printer, values, types);
  const std::string &index = head.inside[0], more = printer.FreshName();
  printer.PlainLine(absl::StrCat(loop, types.size() == 1 ? "" : absl::StrCat(":", types.size()),
                                 " = ", head.text));
  printer.PlainLine("cond {");
  printer.Indent(1);
  const std::string limit =
      printer.Splat(i32, static_cast<double>(node.attributes.Get<int64_t>("count")));
  printer.PlainLine(absl::StrCat(more, " = stablehlo.compare LT, ", index, ", ", limit,
                                 ", SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"));
  printer.PlainLine(absl::StrCat("stablehlo.return ", more, " : tensor<i1>"));
  printer.Indent(-1);
  printer.PlainLine("} do {");
  printer.Indent(1);
  const std::string one = printer.Splat(i32, 1), next = printer.FreshName();
  printer.PlainLine(absl::StrCat(next, " = stablehlo.add ", index, ", ", one, " : tensor<i32>"));
  std::vector<std::string> ends{next};
  const std::string zero = kept.empty() ? "" : printer.Splat(i32, 0);
  const std::vector<std::string> state(head.inside.begin(), head.inside.begin() + 1 + n);
  for (std::string& name : printer.Nodes(*node.regions[0], state)) ends.push_back(std::move(name));
  for (size_t k = 0; k < kept.size(); ++k) {
    ends.push_back(PrintHistory(printer, head.inside[1 + n + k], types[1 + n + k],
                                state[1 + kept[k]], index, zero));
  }
  const auto mlir_type = [](std::string* out, const TensorType& t) { out->append(MlirType(t)); };
  printer.PlainLine(absl::StrCat("stablehlo.return ", absl::StrJoin(ends, ", "), " : ",
                                 absl::StrJoin(types, ", ", mlir_type)));
  printer.Indent(-1);
  printer.CloseLine("}");
}

// Whether the body hands state `i` on as it is.
bool IsConstant(const Graph& body, size_t i) {
  return body.results()[i] == body.parameters()[1 + i];
}

Value RowOf(Value rows, Value index) {
  Values begin{index};
  std::vector<int64_t> sizes(rows.shape().begin(), rows.shape().end());
  sizes[0] = 1;
  for (int i = 1; i < rows.rank(); ++i) begin.push_back(SplatLike(index, 0));
  return Squeeze(DynamicSlice(rows, begin, sizes), {0});
}

// From the last iteration to the first, through the body's gradient. Its loop's state: cotangents
// of the float states, then what does not change: the states' histories (the states themselves,
// where constant) and the cotangents of those histories, for a gradient of a gradient.
Values ForGradient(const GradientArgs& g) {
  const Graph& body = *g.node.regions[0];
  const int64_t count = g.node.attributes.Get<int64_t>("count");
  const size_t n = g.node.operands.size();
  std::vector<size_t> floats, added;
  Values start;
  for (size_t i = 0; i < n; ++i) {
    if (!IsDifferentiable(g.operand(i).type())) continue;
    floats.push_back(i);
    start.push_back(g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(g.operand(i), 0));
  }
  for (size_t i = 0; i < n; ++i) {
    start.push_back(IsConstant(body, i) ? g.operand(i) : g.results[n + i]);
  }
  for (size_t f = 0; f < floats.size(); ++f) {
    if (!g.cotangents[n + floats[f]].valid()) continue;
    added.push_back(f);
    start.push_back(g.cotangents[n + floats[f]]);
  }
  const auto backward = [&](Graph& inside, Value index, const Values& state) -> Values {
    const Value back = static_cast<double>(count - 1) - index;
    Values arguments{back}, ys, xs, cotangents(state.begin(), state.begin() + floats.size());
    for (size_t i = 0; i < n; ++i) {
      const Value& kept = state[floats.size() + i];
      arguments.push_back(IsConstant(body, i) ? kept : RowOf(kept, back));
    }
    const Values out = inside.Inline(body, arguments);
    if (out.empty()) return {};
    for (size_t i : floats) {
      ys.push_back(out[i]);
      xs.push_back(arguments[1 + i]);
    }
    Values next = Gradients(ys, xs, cotangents);
    for (size_t k = 0; k < added.size(); ++k) {
      next[added[k]] = next[added[k]] + RowOf(state[floats.size() + n + k], back);
    }
    next.insert(next.end(), state.begin() + floats.size(), state.end());
    return next;
  };
  const Values done = For(count, start, backward);
  Values out(n);
  for (size_t f = 0; f < floats.size(); ++f) out[floats[f]] = done[f];
  return out;
}

const OpDef kFor = {
    .name = "penstock.for", .infer = InferFor, .gradient = ForGradient, .print = PrintFor};

// Which states the body neither changes nor reads: they need not travel through the loop.
std::vector<bool> IdleStates(const Graph& body) {
  std::vector<bool> read(body.num_nodes()), idle(body.results().size());
  for (size_t i = 0; i < idle.size(); ++i) {
    idle[i] = IsConstant(body, i);
    if (!idle[i]) read[body.results()[i].node_id()] = true;
  }
  for (int id = body.num_nodes(); id-- > 0;) {
    if (!read[id]) continue;
    for (const Value& v : body.node(id).operands) read[v.node_id()] = true;
  }
  for (size_t i = 0; i < idle.size(); ++i) {
    idle[i] = idle[i] && !read[body.parameters()[1 + i].node_id()];
  }
  return idle;
}

// ---- Cond ----
// Operands: the predicate, then what both branches are given. Regions: then, else.

InferResult InferCond(const Node& node) {
  const TensorType& pred = node.operands[0].type();
  if (!(pred == TensorType{DType::kBool, {}})) {
    return OpError(node, absl::StrCat("the predicate is a bool scalar, got ", pred.ToString()));
  }
  const std::vector<TensorType> types = TypesOfValues(node.regions[0]->results());
  PENSTOCK_RETURN_IF_ERROR(CheckResults(node, *node.regions[1], types, "the else branch"));
  return types;
}

void PrintCond(Printer& printer, const Node& node) {
  std::vector<std::string> names;
  for (size_t i = 1; i < node.operands.size(); ++i) names.push_back(printer.Name(node.operands[i]));
  const std::string pred = printer.Name(node.operands[0]);
  std::vector<std::string> types;
  for (const TensorType& type : node.results) types.push_back(MlirType(type));
  printer.OpenLine(node, absl::StrCat("\"stablehlo.if\"(", pred, ") ({"));
  printer.Indent(1);
  printer.Body(*node.regions[0], names, "stablehlo.return");
  printer.Indent(-1);
  printer.PlainLine("}, {");
  printer.Indent(1);
  printer.Body(*node.regions[1], names, "stablehlo.return");
  printer.Indent(-1);
  printer.CloseLine(absl::StrCat("}) : (", MlirType(node.operands[0].type()), ") -> (",
                                 absl::StrJoin(types, ", "), ")"));
}

// The branch that ran is run again, backwards.
Values CondGradient(const GradientArgs& g) {
  Values operands(g.node.operands.begin() + 1, g.node.operands.end());
  const size_t n = operands.size();
  std::vector<size_t> wanted;
  for (size_t i = 0; i < n; ++i) {
    if (IsDifferentiable(operands[i].type())) wanted.push_back(i);
  }
  std::vector<size_t> given;
  for (size_t i = 0; i < g.cotangents.size(); ++i) {
    if (!g.cotangents[i].valid()) continue;
    given.push_back(i);
    operands.push_back(g.cotangents[i]);
  }
  const auto backward = [&](const Graph& branch) -> Body {
    return [&, n](Graph& inside, const Values& state) {
      const Values out = inside.Inline(branch, Values(state.begin(), state.begin() + n));
      Values ys, xs, cotangents(state.begin() + n, state.end());
      for (size_t i : given) ys.push_back(out.empty() ? Value() : out[i]);
      for (size_t i : wanted) xs.push_back(state[i]);
      return Gradients(ys, xs, cotangents);
    };
  };
  const Values gradients =
      Cond(g.operand(0), operands, backward(*g.node.regions[0]), backward(*g.node.regions[1]));
  Values out(n + 1);
  for (size_t i = 0; i < wanted.size(); ++i) out[1 + wanted[i]] = gradients[i];
  return out;
}

const OpDef kCond = {
    .name = "stablehlo.if", .infer = InferCond, .gradient = CondGradient, .print = PrintCond};

}  // namespace

Values While(const Values& init, const std::function<Value(Graph&, const Values&)>& condition,
             const Body& body) {
  if (init.empty() || !AllValid(init)) return Values(init.size());
  Graph& graph = *init[0].graph();
  const std::vector<TensorType> types = TypesOfValues(init);
  const Values out =
      graph.Emit(kWhile, init, {},
                 {BuildRegion(graph, "condition", types,
                              [&](Graph& g, const Values& s) { return Values{condition(g, s)}; }),
                  BuildRegion(graph, "body", types, body)});
  return out.empty() ? Values(init.size()) : out;
}

Values For(int64_t count, const Values& init,
           const std::function<Values(Graph&, Value, const Values&)>& body) {
  if (init.empty() || !AllValid(init)) return Values(init.size());
  Graph& graph = *init[0].graph();
  if (count < 0 || count > std::numeric_limits<int32_t>::max()) {
    graph.Fail(
        absl::InvalidArgumentError(absl::StrCat("for: runs 0 to 2147483647 times, not ", count)));
    return Values(init.size());
  }
  if (count == 0) return init;
  std::vector<TensorType> types = TypesOfValues(init);
  types.insert(types.begin(), {DType::kI32, {}});
  Region region = BuildRegion(graph, "body", types, [&](Graph& g, const Values& parameters) {
    return body(g, parameters[0], Values(parameters.begin() + 1, parameters.end()));
  });
  std::vector<bool> idle(init.size());
  if (region->status().ok() && region->results().size() == init.size()) idle = IdleStates(*region);
  Values moving;
  for (size_t i = 0; i < init.size(); ++i) {
    if (!idle[i]) moving.push_back(init[i]);
  }
  if (moving.empty()) return init;
  if (moving.size() < init.size()) {
    std::vector<TensorType> moving_types = TypesOfValues(moving);
    moving_types.insert(moving_types.begin(), {DType::kI32, {}});
    const Region whole = region;
    region = BuildRegion(graph, "body", moving_types, [&](Graph& g, const Values& parameters) {
      Values arguments{parameters[0]}, results;
      for (size_t i = 0, at = 1; i < idle.size(); ++i) {
        arguments.push_back(idle[i] ? Value() : parameters[at++]);
      }
      const Values out = g.Inline(*whole, arguments);
      for (size_t i = 0; i < out.size(); ++i) {
        if (!idle[i]) results.push_back(out[i]);
      }
      return results;
    });
  }
  const Values done = graph.Emit(kFor, moving, {{"count", count}}, {region});
  if (done.empty()) return Values(init.size());
  Values out = init;
  for (size_t i = 0, at = 0; i < init.size(); ++i) {
    if (!idle[i]) out[i] = done[at++];
  }
  return out;
}

Values Cond(Value pred, const Values& operands, const Body& then_body, const Body& else_body) {
  if (!pred.valid() || !AllValid(operands)) return Values(1);
  Graph& graph = *pred.graph();
  const std::vector<TensorType> types = TypesOfValues(operands);
  const Region then_region = BuildRegion(graph, "then", types, then_body);
  Values all{pred};
  all.insert(all.end(), operands.begin(), operands.end());
  const Values out =
      graph.Emit(kCond, all, {}, {then_region, BuildRegion(graph, "else", types, else_body)});
  return out.empty() ? Values(then_region->results().size()) : out;
}

OpList ControlFlowOps() {
  static constexpr const OpDef* kOps[] = {&kWhile, &kFor, &kCond};
  return kOps;
}

}  // namespace penstock::ir
