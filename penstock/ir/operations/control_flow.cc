// While and Cond. Loops with a trip count are in scan.cc.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/region.h"

namespace penstock::ir {
namespace {

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
  std::vector<std::string> values;
  for (const Value& operand : node.operands) values.push_back(printer.Name(operand));
  const LoopHeader head = HeaderOf(printer, values, node.results);
  printer.OpenLine(node, head.text);
  printer.PlainLine("cond {");
  printer.Indent(1);
  printer.Body(*node.regions[0], head.names, "stablehlo.return");
  printer.Indent(-1);
  printer.PlainLine("} do {");
  printer.Indent(1);
  printer.Body(*node.regions[1], head.names, "stablehlo.return");
  printer.Indent(-1);
  printer.CloseLine("}");
}

const OpDef kWhile = {.name = "stablehlo.while", .infer = InferWhile, .print = PrintWhile};

// ---- Cond ----
// Operands: the predicate, then the operands of both branches. Regions: then, else.

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

// Recomputes the branch that ran and differentiates it.
Values CondGradient(const GradientArgs& g) {
  Values operands(g.node.operands.begin() + 1, g.node.operands.end());
  const size_t n = operands.size();
  std::vector<size_t> wanted;
  for (size_t i = 0; i < n; ++i) {
    if (g.wants(static_cast<int>(i) + 1)) wanted.push_back(i);
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
  const Region repeated = BuildRegion(graph, "body", types, body);
  Values out =
      graph.Emit(kWhile, init, {},
                 {BuildRegion(graph, "condition", types,
                              [&](Graph& g, const Values& s) { return Values{condition(g, s)}; }),
                  repeated});
  if (out.empty()) return Values(init.size());
  // Loop-invariant states bypass the loop.
  for (size_t i = 0; i < out.size(); ++i) {
    if (repeated->results()[i] == repeated->parameters()[i]) out[i] = init[i];
  }
  return out;
}

Values Cond(Value pred, const Values& operands, const Body& then_body, const Body& else_body) {
  if (!pred.valid() || !AllValid(operands)) return Values(1);
  Graph& graph = *pred.graph();
  const std::vector<TensorType> types = TypesOfValues(operands);
  size_t count = 0;  // of results; a region with an error has none
  const auto counted = [&](Graph& inside, const Values& state) {
    Values results = then_body(inside, state);
    count = results.size();
    return results;
  };
  const Region then_region = BuildRegion(graph, "then", types, counted);
  Values all{pred};
  all.insert(all.end(), operands.begin(), operands.end());
  const Values out =
      graph.Emit(kCond, all, {}, {then_region, BuildRegion(graph, "else", types, else_body)});
  return out.empty() ? Values(count) : out;
}

OpList ControlFlowOps() {
  static constexpr const OpDef* kOps[] = {&kWhile, &kCond};
  return kOps;
}

}  // namespace penstock::ir
