// Loops, branches, and calls of foreign kernels. Bodies are closed graphs: they see only their
// parameters.
#include <algorithm>

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
  const Origin origin = outer.current_origin();
  Scope scope(*region, origin.scope);
  Values parameters;
  for (size_t i = 0; i < types.size(); ++i)
    parameters.push_back(region->Parameter(types[i], absl::StrCat("state", i)));
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

void PrintWhile(Printer& printer, const Node& node) {
  std::vector<std::string> names, bindings, types;
  for (const Value& operand : node.operands) {
    names.push_back(printer.FreshName());
    bindings.push_back(absl::StrCat(names.back(), " = ", printer.Name(operand)));
    types.push_back(MlirType(operand.type()));
  }
  printer.OpenLine(node, absl::StrCat("stablehlo.while(", absl::StrJoin(bindings, ", "),
                                      ") : ", absl::StrJoin(types, ", ")));
  printer.Indent(1);
  printer.PlainLine("cond {");
  printer.Indent(1);
  printer.Body(*node.regions[0], names, "stablehlo.return");
  printer.Indent(-1);
  printer.PlainLine("} do {");
  printer.Indent(1);
  printer.Body(*node.regions[1], names, "stablehlo.return");
  printer.Indent(-2);
  printer.CloseLine(node, "  }");
}

const OpDef kWhile = {.name = "stablehlo.while", .infer = InferWhile, .print = PrintWhile};

// ---- For ----
// A while that runs `count` times and has a gradient. Operands: the state. Region: (index i32,
// state...) -> state.

InferResult InferFor(const Node& node) {
  const std::vector<TensorType> state = TypesOfValues(node.operands);
  PENSTOCK_RETURN_IF_ERROR(CheckResults(node, *node.regions[0], state, "the body"));
  return state;
}

void PrintFor(Printer& printer, const Node& node) {
  const std::string i32 = MlirType({DType::kI32, {}}), i1 = MlirType({DType::kBool, {}});
  const std::string zero = printer.Scalar(DType::kI32, 0, node);
  std::vector<std::string> names{printer.FreshName()},
      bindings{absl::StrCat(names[0], " = ", zero)}, types{i32};
  for (const Value& operand : node.operands) {
    names.push_back(printer.FreshName());
    bindings.push_back(absl::StrCat(names.back(), " = ", printer.Name(operand)));
    types.push_back(MlirType(operand.type()));
  }
  // The loop's first result is the index; the node's results follow.
  printer.OpenLineAfter(node, 1,
                        absl::StrCat("stablehlo.while(", absl::StrJoin(bindings, ", "),
                                     ") : ", absl::StrJoin(types, ", ")));
  printer.Indent(1);
  printer.PlainLine("cond {");
  printer.Indent(1);
  const std::string limit =
      printer.Scalar(DType::kI32, static_cast<double>(node.attributes.Get<int64_t>("count")), node);
  const std::string more = printer.FreshName();
  printer.PlainLine(absl::StrCat(more, " = stablehlo.compare LT, ", names[0], ", ", limit,
                                 ", SIGNED : (", i32, ", ", i32, ") -> ", i1));
  printer.PlainLine(absl::StrCat("stablehlo.return ", more, " : ", i1));
  printer.Indent(-1);
  printer.PlainLine("} do {");
  printer.Indent(1);
  const std::string one = printer.Scalar(DType::kI32, 1, node), next = printer.FreshName();
  printer.PlainLine(absl::StrCat(next, " = stablehlo.add ", names[0], ", ", one, " : ", i32));
  printer.Body(*node.regions[0], names, absl::StrCat("stablehlo.return ", next, ","), i32);
  printer.Indent(-2);
  printer.CloseLine(node, "  }");
}

// Runs forward once more and keeps every state, then backward through the bodies' gradients.
Values ForGradient(const GradientArgs& g) {
  Graph& graph = *g.operand(0).graph();
  const Graph& body = *g.node.regions[0];
  const int64_t count = g.node.attributes.Get<int64_t>("count");
  const Values& init = g.node.operands;
  const size_t n = init.size();
  const auto at = [](Graph& inside, Value index, const Value& state) {
    Values begin{index};
    for (int i = 0; i < state.rank(); ++i) begin.push_back(Splat(inside, {DType::kI32, {}}, 0));
    return begin;
  };
  // State: the state, then all states so far, [count, ...].
  Values start = init;
  for (const Value& v : init)
    start.push_back(Splat(graph, {v.dtype(), v.shape().Prepend(count)}, 0));
  const Values forward = For(count, start, [&](Graph& inside, Value index, const Values& state) {
    Values arguments{index};
    arguments.insert(arguments.end(), state.begin(), state.begin() + n);
    Values next = inside.Inline(body, arguments);
    for (size_t i = 0; i < n; ++i) {
      next.push_back(
          DynamicUpdateSlice(state[n + i], ExpandDims(state[i], 0), at(inside, index, state[i])));
    }
    return next;
  });
  if (!AllValid(forward)) return Values(n);
  // State: cotangents of the differentiable ones, then all states, which do not change.
  std::vector<size_t> floats;
  Values backward;
  for (size_t i = 0; i < n; ++i) {
    if (!IsDifferentiable(init[i].type())) continue;
    floats.push_back(i);
    backward.push_back(g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(init[i], 0));
  }
  backward.insert(backward.end(), forward.begin() + n, forward.end());
  const Values done = For(count, backward, [&](Graph& inside, Value index, const Values& state) {
    const Value back = static_cast<double>(count - 1) - index;
    Values arguments{back};
    for (size_t i = 0; i < n; ++i) {
      const Value& all = state[floats.size() + i];
      std::vector<int64_t> sizes(all.shape().begin(), all.shape().end());
      sizes[0] = 1;
      arguments.push_back(Squeeze(DynamicSlice(all, at(inside, back, init[i]), sizes), {0}));
    }
    const Values out = inside.Inline(body, arguments);
    Values ys, xs, cotangents;
    for (size_t f = 0; f < floats.size(); ++f) {
      ys.push_back(out.empty() ? Value() : out[floats[f]]);
      xs.push_back(arguments[1 + floats[f]]);
      cotangents.push_back(state[f]);
    }
    Values next = Gradients(ys, xs, cotangents);
    next.insert(next.end(), state.begin() + floats.size(), state.end());
    return next;
  });
  Values out(n);
  for (size_t f = 0; f < floats.size(); ++f) out[floats[f]] = done[f];
  return out;
}

const OpDef kFor = {
    .name = "penstock.for", .infer = InferFor, .gradient = ForGradient, .print = PrintFor};

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
  printer.CloseLine(node, absl::StrCat("}) : (", MlirType(node.operands[0].type()), ") -> (",
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

// ---- Custom call ----

std::string MlirAttribute(const Attribute& attribute) {
  if (const auto* b = std::get_if<bool>(&attribute)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&attribute)) return absl::StrCat(*i, " : i64");
  if (const auto* d = std::get_if<double>(&attribute))
    return absl::StrCat(MlirDense(Array::Scalar(*d)).substr(6, 22), " : f64");
  if (const auto* s = std::get_if<std::string>(&attribute)) return absl::StrCat("\"", *s, "\"");
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attribute)) return MlirArray(*v);
  return "unit";
}

const OpDef kCustomCall = {
    .name = "stablehlo.custom_call",
    .infer = [](const Node& node) -> InferResult {
      std::vector<TensorType> types;
      const auto& dtypes = node.attributes.Get<std::vector<int64_t>>("result_dtypes");
      const auto& dims =
          node.attributes.Get<std::vector<int64_t>>("result_dims");  // rank, extents, rank, ...
      size_t at = 0;
      for (int64_t dtype : dtypes) {
        const int64_t rank = dims[at++];
        types.push_back(
            {static_cast<DType>(dtype), Shape(absl::MakeConstSpan(dims).subspan(at, rank))});
        at += rank;
      }
      return types;
    },
    .print =
        [](Printer& printer, const Node& node) {
          std::vector<std::string> config;
          for (const auto& [name, value] : node.attributes) {
            if (absl::string_view(name).substr(0, 7) == "config_")
              config.push_back(absl::StrCat(name.substr(7), " = ", MlirAttribute(value)));
          }
          printer.Line(
              node,
              absl::StrCat("stablehlo.custom_call @", node.attributes.Get<std::string>("target"),
                           "(", printer.Names(node.operands),
                           ") {api_version = 4 : i32, backend_config = {",
                           absl::StrJoin(config, ", "), "}} : ", FunctionType(node)));
        }};

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
  std::vector<TensorType> types = TypesOfValues(init);
  types.insert(types.begin(), {DType::kI32, {}});
  const Region region = BuildRegion(graph, "body", types, [&](Graph& g, const Values& parameters) {
    return body(g, parameters[0], Values(parameters.begin() + 1, parameters.end()));
  });
  const Values out = graph.Emit(kFor, init, {{"count", count}}, {region});
  return out.empty() ? Values(init.size()) : out;
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

Values CustomCall(Graph& graph, absl::string_view target, const Values& operands,
                  const std::vector<TensorType>& results, const Attributes& attributes) {
  std::vector<int64_t> dtypes, dims;
  for (const TensorType& type : results) {
    dtypes.push_back(static_cast<int64_t>(type.dtype));
    dims.push_back(type.shape.rank());
    dims.insert(dims.end(), type.shape.begin(), type.shape.end());
  }
  Attributes all{{"target", std::string(target)}, {"result_dtypes", dtypes}, {"result_dims", dims}};
  for (const auto& [name, value] : attributes) all.Set(absl::StrCat("config_", name), value);
  const Values out = graph.Emit(kCustomCall, operands, all);
  return out.empty() ? Values(results.size()) : out;
}

OpList ControlFlowOps() {
  static constexpr const OpDef* kOps[] = {&kWhile, &kFor, &kCond, &kCustomCall};
  return kOps;
}

}  // namespace penstock::ir
