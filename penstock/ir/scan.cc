// Loops that count: over rows of values, with rows of values as results, and a gradient that is a
// loop of the same kind from the other end.
#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/region.h"

namespace penstock::ir {
namespace {

const TensorType kIndexType{DType::kI32, {}};

// Operands: states, xs, constants. Region: (index, states, a row of each x, constants) -> (states,
// ys). Results: the last states, the ys stacked. `region` may give more ys than the program asked
// for: those that a gradient reads.
struct Loop {
  int64_t count = 0;
  bool reverse = false, keep_products = true;
  size_t states = 0, xs = 0, constants = 0;

  static Loop Of(const Node& node) {
    Loop loop;
    loop.count = node.attributes.Get<int64_t>("count");
    loop.reverse = node.attributes.Get<bool>("reverse");
    loop.keep_products = node.attributes.Get<bool>("keep_products");
    loop.states = node.attributes.Get<int64_t>("states");
    loop.xs = node.attributes.Get<int64_t>("xs");
    loop.constants = node.operands.size() - loop.states - loop.xs;
    return loop;
  }
};

TensorType RowOf(const TensorType& type) { return {type.dtype, type.shape.RowShape()}; }

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

// Lines for a row of a stack: [index, 0, 0...].
class Rows {
 public:
  Rows(Printer& printer, std::string index)
      : printer_(printer), index_(std::move(index)), zero_(printer.Splat(kIndexType, 0)) {}

  std::string Read(const std::string& stack, const TensorType& type) {
    const std::string part = printer_.FreshName(), row = printer_.FreshName();
    std::vector<int64_t> sizes(type.shape.begin(), type.shape.end());
    sizes[0] = 1;
    printer_.PlainLine(absl::StrCat(part, " = stablehlo.dynamic_slice ", stack, ", ", Begin(type),
                                    ", sizes = ", MlirList(sizes), " : (", MlirType(type), ", ",
                                    BeginTypes(type), ") -> ", MlirType(One(type))));
    printer_.PlainLine(absl::StrCat(row, " = stablehlo.reshape ", part, " : (", MlirType(One(type)),
                                    ") -> ", MlirType({type.dtype, type.shape.RowShape()})));
    return row;
  }

  // The stack with this row in it.
  std::string Write(const std::string& stack, const TensorType& type, const std::string& row) {
    const std::string part = printer_.FreshName(), updated = printer_.FreshName();
    printer_.PlainLine(absl::StrCat(part, " = stablehlo.reshape ", row, " : (",
                                    MlirType({type.dtype, type.shape.RowShape()}), ") -> ",
                                    MlirType(One(type))));
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

// A while. Its state: the number of the iteration, the operands, the ys that anything uses.
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

  const LoopHead head = HeadOf(printer, values, types);
  const std::string &step = head.inside[0], more = printer.FreshName();
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
    parameters.push_back(is_x ? rows.Read(head.inside[1 + i], types[1 + i]) : head.inside[1 + i]);
  }
  const std::vector<std::string> given = printer.Nodes(*node.regions[0], parameters);
  std::vector<std::string> ends{next};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ends.push_back(i < loop.states ? given[i] : head.inside[1 + i]);
  }
  for (size_t k = 0; k < kept.size(); ++k) {
    const size_t at = first_stack + k;
    ends.push_back(rows.Write(head.inside[at], types[at], given[kept[k]]));
  }
  const auto mlir_type = [](std::string* out, const TensorType& t) { out->append(MlirType(t)); };
  printer.PlainLine(absl::StrCat("stablehlo.return ", absl::StrJoin(ends, ", "), " : ",
                                 absl::StrJoin(types, ", ", mlir_type)));
  printer.Indent(-1);
  printer.CloseLine("}");
}

Values ScanGradient(const GradientArgs& g);

const OpDef kScan = {
    .name = "penstock.scan", .infer = InferScan, .gradient = ScanGradient, .print = PrintScan};

// ---- Building ----

// A value of a body that one of its parameters knows.
struct Known {
  Value value;
  size_t parameter;
};

struct Trimmed {
  Region region;
  std::vector<bool> read;  // by the parameters that there were
};

// The body without the rows and constants that it does not read. The index and the states stay.
Trimmed Trim(const Graph& outer, const Region& body, size_t states,
             const std::vector<Known>& known = {}) {
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
                     {"keep_products", loop.keep_products},
                     {"states", static_cast<int64_t>(states.size())},
                     {"xs", static_cast<int64_t>(xs.size())}},
                    {region});
}

// ---- The gradient ----

// Products and convolutions that the body's results need.
Values CostlyValues(const Graph& body) {
  Values costly;
  const std::vector<bool> needed = NeededNodes(body, body.parameters(), body.results());
  for (int id = 0; id < body.num_nodes(); ++id) {
    const Node& node = body.node(id);
    if (needed[id] && node.op->costly && node.results.size() == 1) {
      costly.push_back(const_cast<Graph&>(body).value(id));
    }
  }
  return costly;
}

// Stacks of `values` of the loop's body, one row an iteration; the loop is made to give those that
// it does not give yet.
Values StacksOf(Graph& graph, int id, const Values& values) {
  const Region body = graph.node(id).regions[0];
  const size_t states = Loop::Of(graph.node(id)).states;
  Values stacks(values.size()), results(body->results().begin(), body->results().end());
  std::vector<size_t> added;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = std::find(results.begin() + states, results.end(), values[i]);
    if (at != results.end()) {
      stacks[i] = graph.value(id, static_cast<int>(at - results.begin()));
    } else {
      added.push_back(i);
    }
  }
  if (added.empty()) return stacks;
  for (size_t i : added) results.push_back(values[i]);
  const Region extended = BuildRegion(graph, "body", TypesOfValues(body->parameters()),
                                      [&](Graph& inside, const Values& p) {
                                        return inside.Inline(*body, body->parameters(), p, results);
                                      });
  const Values new_stacks = graph.Extend(id, {extended});
  for (size_t k = 0; k < added.size(); ++k) stacks[added[k]] = new_stacks[k];
  return stacks;
}

// Sums over iterations of 16-bit floats are kept in 32 bits.
TensorType SumType(const TensorType& type) {
  return {base::ByteWidth(type.dtype) < 4 ? DType::kF32 : type.dtype, type.shape};
}

// The loop back. Its states: cotangents of the float states, sums of those of the constants. Its
// rows: the states before each iteration, the products, the xs, the ys' cotangents. It gives the
// cotangents of the rows of the xs. Rows that it does not read are not kept.
struct Backward {
  explicit Backward(const GradientArgs& g)
      : g(g), loop(Loop::Of(g.node)), graph(*g.results[0].graph()), body(g.node.regions[0]) {
    if (loop.keep_products) costly = CostlyValues(*body);
    for (size_t i = 0; i < loop.states; ++i) {
      if (!IsDifferentiable(g.operand(i).type())) continue;
      floats.push_back(i);
      start.push_back(g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(g.operand(i), 0));
    }
    for (size_t i = loop.states; i < g.node.operands.size(); ++i) {
      if (!g.wants(i)) continue;
      if (i < loop.states + loop.xs) {
        wanted_xs.push_back(i);
      } else {
        summed.push_back(i);
        start.push_back(Splat(graph, SumType(g.operand(i).type()), 0));
      }
    }
    for (size_t i = loop.states; i < g.cotangents.size(); ++i) {
      if (g.cotangents[i].valid()) given_ys.push_back(i);
    }
  }

  // index, states, rows, constants.
  std::vector<TensorType> Types() const {
    std::vector<TensorType> types{kIndexType};
    for (const Value& v : start) types.push_back(v.type());
    for (size_t i = 0; i < loop.states; ++i) types.push_back(g.operand(i).type());
    for (const Value& v : costly) types.push_back(v.type());
    for (size_t i = 0; i < loop.xs; ++i) types.push_back(RowOf(g.operand(loop.states + i).type()));
    for (size_t y : given_ys) types.push_back(RowOf(g.cotangents[y].type()));
    for (size_t i = 0; i < loop.constants; ++i) {
      types.push_back(g.operand(loop.states + loop.xs + i).type());
    }
    return types;
  }
  size_t first_history() const { return 1 + start.size(); }
  size_t first_product() const { return first_history() + loop.states; }
  size_t first_x() const { return first_product() + costly.size(); }
  size_t first_y() const { return first_x() + loop.xs; }
  size_t first_constant() const { return first_y() + given_ys.size(); }

  // One iteration, from its parameters; `products` are those that it computes again.
  Values Step(Graph& inside, const Values& p, Values& products) const {
    Values arguments{p[0]};
    const auto add = [&](size_t first, size_t count) {
      arguments.insert(arguments.end(), p.begin() + first, p.begin() + first + count);
    };
    add(first_history(), loop.states);
    add(first_x(), loop.xs);
    add(first_constant(), loop.constants);
    Values wanted(body->results().begin(), body->results().end());
    wanted.insert(wanted.end(), costly.begin(), costly.end());
    const Values out = inside.Inline(*body, body->parameters(), arguments, wanted);
    if (!inside.status().ok()) return {};
    products.assign(out.end() - costly.size(), out.end());
    Values ys, xs, cotangents;
    for (size_t f = 0; f < floats.size(); ++f) {
      ys.push_back(out[floats[f]]);
      cotangents.push_back(p[1 + f]);
      xs.push_back(arguments[1 + floats[f]]);
    }
    for (size_t k = 0; k < given_ys.size(); ++k) {
      ys.push_back(out[given_ys[k]]);
      cotangents.push_back(p[first_y() + k]);
    }
    for (size_t i : summed) xs.push_back(arguments[1 + i]);
    for (size_t i : wanted_xs) xs.push_back(arguments[1 + i]);
    Values next = Gradients(ys, xs, cotangents);
    for (size_t k = floats.size(); k < start.size(); ++k) next[k] = AddCotangent(p[1 + k], next[k]);
    return next;
  }

  Values Run() const {
    Values products;
    const Region whole =
        BuildRegion(graph, "backward", Types(),
                    [&](Graph& inside, const Values& p) { return Step(inside, p, products); });
    Values out(g.node.operands.size());
    if (!whole->status().ok()) {
      graph.Fail(whole->status());
      return out;
    }
    std::vector<Known> known;
    for (size_t k = 0; k < costly.size(); ++k) known.push_back({products[k], first_product() + k});
    const Trimmed trimmed = Trim(graph, whole, start.size(), known);

    Values kept;  // of the body
    for (size_t i = 0; i < loop.states + costly.size(); ++i) {
      if (!trimmed.read[first_history() + i]) continue;
      kept.push_back(i < loop.states ? body->parameters()[1 + i] : costly[i - loop.states]);
    }
    Values xs = StacksOf(graph, g.results[0].node_id(), kept), constants;
    const auto add = [&](Values& to, size_t parameter, const Value& value) {
      if (trimmed.read[parameter]) to.push_back(value);
    };
    for (size_t i = 0; i < loop.xs; ++i) add(xs, first_x() + i, g.operand(loop.states + i));
    for (size_t k = 0; k < given_ys.size(); ++k) add(xs, first_y() + k, g.cotangents[given_ys[k]]);
    for (size_t i = 0; i < loop.constants; ++i) {
      add(constants, first_constant() + i, g.operand(loop.states + loop.xs + i));
    }
    Loop back = loop;
    back.reverse = !loop.reverse;
    const Values done = EmitScan(graph, back, start, xs, constants, trimmed.region);
    if (done.empty()) return out;
    for (size_t f = 0; f < floats.size(); ++f) out[floats[f]] = done[f];
    for (size_t k = 0; k < summed.size(); ++k) {
      out[summed[k]] = Convert(done[floats.size() + k], g.operand(summed[k]).dtype());
    }
    for (size_t k = 0; k < wanted_xs.size(); ++k) out[wanted_xs[k]] = done[start.size() + k];
    return out;
  }

  const GradientArgs& g;
  const Loop loop;
  Graph& graph;
  const Region body;
  Values costly;                                  // of the body
  std::vector<size_t> floats, summed, wanted_xs;  // operands
  std::vector<size_t> given_ys;                   // results
  Values start;
};

Values ScanGradient(const GradientArgs& g) { return Backward(g).Run(); }

// ---- What programs call ----

Graph* GraphOf(const Values& a, const Values& b, const Values& c) {
  for (const Values* values : {&a, &b, &c}) {
    if (!values->empty() && values->front().valid()) return values->front().graph();
  }
  return nullptr;
}

// The body's states, or the error of the graph that they are not of init's types.
bool CheckStates(Graph& graph, absl::string_view name, absl::Span<const TensorType> wanted,
                 absl::Span<const TensorType> got) {
  if (wanted == got) return true;
  graph.Fail(absl::InvalidArgumentError(
      absl::StrCat(name, ": the body must give ", Listed(wanted), ", it gives ", Listed(got))));
  return false;
}

bool CheckCount(Graph& graph, absl::string_view name, int64_t count) {
  if (count >= 0 && count <= std::numeric_limits<int32_t>::max()) return true;
  graph.Fail(
      absl::InvalidArgumentError(absl::StrCat(name, ": runs 0 to 2147483647 times, not ", count)));
  return false;
}

// An error inside a body says itself where it stands.
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
  // States that do not change are constants.
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
        absl::StrCat("scan: wants ", count < 0 ? "some number of" : absl::StrCat(count),
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
      .count = count, .reverse = options.reverse, .keep_products = options.keep_products};
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
