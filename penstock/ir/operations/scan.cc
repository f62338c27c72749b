// Loops with a trip count: over rows of values, with rows of values as results.
#include "penstock/ir/operations/scan.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/dynamic_forms.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/region.h"

namespace penstock::ir {
namespace {

InferResult InferScan(const Node& node) {
  const Loop loop = Loop::Of(node);
  std::vector<TensorType> results = TypesOfValues(node.regions[0]->results());
  for (size_t i = loop.states; i < results.size(); ++i) {
    TensorType& type = results[i];
    if (type.shape.rank() == base::kMaxRank) {
      return OpError(node, absl::StrCat("a row has at most ", base::kMaxRank - 1, " axes, got ",
                                        type.ToString()));
    }
    type.shape = type.shape.Prepend(loop.count);
  }
  return results;
}

// ---- Printing ----

// Lines that read or write a row of a stack: [index, 0, 0...].
class Rows {
 public:
  Rows(Printer& printer, std::string index)
      : printer_(printer), index_(std::move(index)), zero_(printer.Splat(kIndexType, 0)) {}

  std::string Read(const std::string& stack, const TensorType& type) {
    std::vector<std::string> begin(static_cast<size_t>(type.shape.rank()), zero_);
    begin[0] = index_;
    const std::string part = printer_.FreshName(), row = printer_.FreshName();
    const std::string slice =
        DynamicSliceText(printer_, stack, type, begin, kIndexType.dtype, One(type));
    printer_.PlainLine(absl::StrCat(part, " = ", slice));
    const TensorType row_type{type.dtype, type.shape.RowShape()};
    const std::string reshape = ReshapeText(printer_, part, One(type), row_type);
    printer_.PlainLine(absl::StrCat(row, " = ", reshape));
    return row;
  }

  // The stack with this row replaced.
  std::string Write(const std::string& stack, const TensorType& type, const std::string& row) {
    const std::string part = printer_.FreshName(), updated = printer_.FreshName();
    const TensorType row_type{type.dtype, type.shape.RowShape()};
    const std::string reshape = ReshapeText(printer_, row, row_type, One(type));
    printer_.PlainLine(absl::StrCat(part, " = ", reshape));
    printer_.PlainLine(absl::StrCat(updated, " = stablehlo.dynamic_update_slice ", stack, ", ",
                                    part, ", ", Begin(type), " : (", MlirType(type), ", ",
                                    MlirType(One(type)), ", ", BeginTypes(type), ") -> ",
                                    MlirType(type)));
    return updated;
  }

 private:
  static TensorType One(TensorType type) {
    type.shape.set_dim(0, 1);
    return type;
  }
  std::string Begin(const TensorType& type) const {
    std::string begin = index_;
    for (int i = 1; i < type.shape.rank(); ++i) absl::StrAppend(&begin, ", ", zero_);
    return begin;
  }
  static std::string BeginTypes(const TensorType& type) {
    const std::vector<std::string> types(type.shape.rank(), MlirType(kIndexType));
    return absl::StrJoin(types, ", ");
  }

  Printer& printer_;
  const std::string index_, zero_;
};

// Prints a while loop. Its state: the iteration number, the operands, the ys that are used.
void PrintScan(Printer& printer, const Node& node) {
  const Loop loop = Loop::Of(node);
  std::vector<std::string> values{printer.Splat(kIndexType, 0)};
  std::vector<TensorType> types{kIndexType};
  for (const Value& operand : node.operands) {
    values.push_back(printer.Name(operand));
    types.push_back(operand.type());
  }
  std::vector<size_t> kept;  // results that are printed as stacks
  for (size_t i = loop.states; i < node.results.size(); ++i) {
    if (!printer.IsUsed(static_cast<int>(i))) continue;
    kept.push_back(i);
    types.push_back(node.results[i]);
    values.push_back(printer.Splat(types.back(), 0));
  }
  const std::string name = printer.FreshName();
  const auto element = [&](size_t i) {
    return types.size() == 1 ? name : absl::StrCat(name, "#", i);
  };
  const size_t first_stack = 1 + node.operands.size();
  std::vector<std::string> results(node.results.size());
  for (size_t i = 0; i < loop.states; ++i) results[i] = element(1 + i);
  for (size_t k = 0; k < kept.size(); ++k) results[kept[k]] = element(first_stack + k);
  printer.NameResults(std::move(results));

  const LoopHeader head = HeaderOf(printer, values, types);
  const std::string &step = head.names[0], more = printer.FreshName();
  printer.PlainLine(absl::StrCat(name, types.size() == 1 ? "" : absl::StrCat(":", types.size()),
                                 " = ", head.text));
  printer.PlainLine("cond {");
  printer.Indent(1);
  const std::string limit = printer.Splat(kIndexType, static_cast<double>(loop.count));
  printer.PlainLine(absl::StrCat(more, " = stablehlo.compare LT, ", step, ", ", limit,
                                 ", SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"));
  printer.PlainLine(absl::StrCat("stablehlo.return ", more, " : tensor<i1>"));
  printer.Indent(-1);
  printer.PlainLine("} do {");
  printer.Indent(1);
  const std::string one = printer.Splat(kIndexType, 1), next = printer.FreshName();
  printer.PlainLine(absl::StrCat(next, " = stablehlo.add ", step, ", ", one, " : tensor<i32>"));
  std::string index = step;
  if (loop.reverse) {
    const std::string last = printer.Splat(kIndexType, static_cast<double>(loop.count - 1));
    index = printer.FreshName();
    printer.PlainLine(
        absl::StrCat(index, " = stablehlo.subtract ", last, ", ", step, " : tensor<i32>"));
  }
  Rows rows(printer, index);
  std::vector<std::string> parameters{index};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool is_x = i >= loop.states && i < loop.states + loop.xs;
    parameters.push_back(is_x ? rows.Read(head.names[1 + i], types[1 + i]) : head.names[1 + i]);
  }
  const std::vector<std::string> given = printer.Nodes(*node.regions[0], parameters);
  std::vector<std::string> ends{next};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ends.push_back(i < loop.states ? given[i] : head.names[1 + i]);
  }
  for (size_t k = 0; k < kept.size(); ++k) {
    const size_t at = first_stack + k;
    ends.push_back(rows.Write(head.names[at], types[at], given[kept[k]]));
  }
  const auto mlir_type = [](std::string* out, const TensorType& t) { out->append(MlirType(t)); };
  printer.PlainLine(absl::StrCat("stablehlo.return ", absl::StrJoin(ends, ", "), " : ",
                                 absl::StrJoin(types, ", ", mlir_type)));
  printer.Indent(-1);
  printer.CloseLine("}");
}

const OpDef kScan = {
    .name = "penstock.scan", .infer = InferScan, .gradient = ScanGradient, .print = PrintScan};

}  // namespace

// ---- Building ----

Trimmed Trim(const Graph& outer, const Region& body, size_t states,
             const std::vector<Known>& known) {
  Values given(body->parameters().begin(), body->parameters().end());
  const size_t parameters = given.size();
  for (const Known& k : known) given.push_back(k.value);
  Trimmed trimmed{body, {}};
  NeededNodes(*body, given, body->results(), &trimmed.read);
  for (size_t k = 0; k < known.size(); ++k) {
    if (trimmed.read[parameters + k]) trimmed.read[known[k].parameter] = true;
  }
  trimmed.read.resize(parameters);
  std::fill_n(trimmed.read.begin(), 1 + states, true);
  std::vector<TensorType> types;
  for (size_t i = 0; i < parameters; ++i) {
    if (trimmed.read[i]) types.push_back(given[i].type());
  }
  if (types.size() == parameters && known.empty()) return trimmed;
  trimmed.region = BuildRegion(outer, "body", types, [&](Graph& inside, const Values& left) {
    Values replacements(parameters);
    for (size_t i = 0, at = 0; i < parameters; ++i) {
      if (trimmed.read[i]) replacements[i] = left[at++];
    }
    for (const Known& k : known) replacements.push_back(replacements[k.parameter]);
    return inside.Inline(*body, given, replacements, body->results());
  });
  return trimmed;
}

Values EmitScan(Graph& graph, const Loop& loop, const Values& states, const Values& xs,
                const Values& constants, const Region& region) {
  Values operands = states;
  operands.insert(operands.end(), xs.begin(), xs.end());
  operands.insert(operands.end(), constants.begin(), constants.end());
  return graph.Emit(kScan, operands,
                    {{"count", loop.count},
                     {"reverse", loop.reverse},
                     {"save_products", loop.save_products},
                     {"states", static_cast<int64_t>(states.size())},
                     {"xs", static_cast<int64_t>(xs.size())}},
                    {region});
}

namespace {

// ---- API ----

Graph* GraphOf(const Values& a, const Values& b, const Values& c) {
  for (const Values* values : {&a, &b, &c}) {
    if (!values->empty() && values->front().valid()) return values->front().graph();
  }
  return nullptr;
}

// Checks that the body's states have init's types; otherwise an error of the graph.
bool CheckStates(Graph& graph, absl::string_view name, absl::Span<const TensorType> expected,
                 absl::Span<const TensorType> got) {
  if (expected == got) return true;
  graph.Fail(absl::InvalidArgumentError(absl::StrCat(
      name, ": the body must return ", Listed(expected), ", it returns ", Listed(got))));
  return false;
}

bool CheckCount(Graph& graph, absl::string_view name, int64_t count) {
  if (count >= 0 && count <= std::numeric_limits<int32_t>::max()) return true;
  graph.Fail(absl::InvalidArgumentError(
      absl::StrCat(name, ": the number of iterations must be 0 to 2147483647, got ", count)));
  return false;
}

// An error inside a body has its own origin.
bool CheckRegion(Graph& graph, const Region& region) {
  if (region->status().ok()) return true;
  graph.Emit(kScan, {}, {}, {region});  // takes the error over
  return false;
}

}  // namespace

Values For(int64_t count, const Values& init,
           const std::function<Values(Graph&, Value, const Values&)>& body) {
  const Values nothing(init.size());
  if (init.empty() || !AllValid(init)) return nothing;
  Graph& graph = *init[0].graph();
  if (!CheckCount(graph, "for", count)) return nothing;
  if (count == 0) return init;
  const std::vector<TensorType> types = TypesOfValues(init);
  std::vector<TensorType> parameters = types;
  parameters.insert(parameters.begin(), kIndexType);
  const Region whole = BuildRegion(graph, "body", parameters, [&](Graph& g, const Values& p) {
    return body(g, p[0], Values(p.begin() + 1, p.end()));
  });
  if (!CheckRegion(graph, whole) ||
      !CheckStates(graph, "for", types, TypesOfValues(whole->results()))) {
    return nothing;
  }
  // Loop-invariant states become constants.
  Values states, constants, order{whole->parameters()[0]}, results;
  std::vector<size_t> moving;
  for (size_t i = 0; i < init.size(); ++i) {
    if (whole->results()[i] == whole->parameters()[1 + i]) continue;
    moving.push_back(i);
    states.push_back(init[i]);
    order.push_back(whole->parameters()[1 + i]);
    results.push_back(whole->results()[i]);
  }
  if (moving.empty()) return init;
  for (size_t i = 0, m = 0; i < init.size(); ++i) {
    if (m < moving.size() && moving[m] == i) {
      ++m;
      continue;
    }
    constants.push_back(init[i]);
    order.push_back(whole->parameters()[1 + i]);
  }
  Region region = whole;
  if (!constants.empty()) {
    region = BuildRegion(graph, "body", TypesOfValues(order), [&](Graph& g, const Values& p) {
      return g.Inline(*whole, order, p, results);
    });
  }
  const Trimmed trimmed = Trim(graph, region, states.size());
  Values read;
  for (size_t i = 0; i < constants.size(); ++i) {
    if (trimmed.read[1 + states.size() + i]) read.push_back(constants[i]);
  }
  const Values done = EmitScan(graph, {.count = count}, states, {}, read, trimmed.region);
  if (done.empty()) return nothing;
  Values out = init;
  for (size_t m = 0; m < moving.size(); ++m) out[moving[m]] = done[m];
  return out;
}

ScanOut Scan(const Values& init, const Values& xs, const Values& constants,
             const std::function<ScanOut(Graph&, const ScanIn&)>& body,
             const ScanOptions& options) {
  ScanOut out{.state = Values(init.size()), .y = {}};
  Graph* const graph = GraphOf(init, xs, constants);
  if (graph == nullptr || !AllValid(init) || !AllValid(xs) || !AllValid(constants)) return out;
  int64_t count = options.count;
  for (const Value& x : xs) {
    if (x.rank() > 0 && count < 0) count = x.shape().dim(0);
    if (x.rank() > 0 && x.shape().dim(0) == count) continue;
    graph->Fail(absl::InvalidArgumentError(
        absl::StrCat("scan: expects ", count < 0 ? "some number of" : absl::StrCat(count),
                     " rows of each x, got ", Listed(TypesOfValues(xs)))));
    return out;
  }
  if (!CheckCount(*graph, "scan", count)) return out;
  std::vector<TensorType> parameters{kIndexType};
  for (const Value& v : init) parameters.push_back(v.type());
  for (const Value& v : xs) parameters.push_back(RowOf(v.type()));
  for (const Value& v : constants) parameters.push_back(v.type());
  std::vector<TensorType> given;  // states
  const Region whole = BuildRegion(*graph, "body", parameters, [&](Graph& g, const Values& p) {
    const auto rows = p.begin() + 1 + init.size();
    ScanOut step = body(g, {.index = p[0],
                            .state = Values(p.begin() + 1, rows),
                            .x = Values(rows, rows + xs.size()),
                            .constants = Values(rows + xs.size(), p.end())});
    if (AllValid(step.state)) given = TypesOfValues(step.state);
    Values results = std::move(step.state);
    results.insert(results.end(), step.y.begin(), step.y.end());
    return results;
  });
  if (!CheckRegion(*graph, whole) || !CheckStates(*graph, "scan", TypesOfValues(init), given)) {
    return out;
  }
  if (count == 0) {
    out.state = init;
    for (size_t i = init.size(); i < whole->results().size(); ++i) {
      const TensorType& row = whole->results()[i].type();
      out.y.push_back(Splat(*graph, {row.dtype, row.shape.Prepend(0)}, 0));
    }
    return out;
  }
  const Trimmed trimmed = Trim(*graph, whole, init.size());
  Values read_xs, read_constants;
  for (size_t i = 0; i < xs.size() + constants.size(); ++i) {
    if (!trimmed.read[1 + init.size() + i]) continue;
    (i < xs.size() ? read_xs : read_constants)
        .push_back(i < xs.size() ? xs[i] : constants[i - xs.size()]);
  }
  const Loop loop{
      .count = count, .reverse = options.reverse, .save_products = options.save_products};
  const Values done = EmitScan(*graph, loop, init, read_xs, read_constants, trimmed.region);
  if (done.empty()) return out;
  out.state.assign(done.begin(), done.begin() + init.size());
  out.y.assign(done.begin() + init.size(), done.end());
  return out;
}

OpList ScanOps() {
  static constexpr const OpDef* kOps[] = {&kScan};
  return kOps;
}

}  // namespace penstock::ir
