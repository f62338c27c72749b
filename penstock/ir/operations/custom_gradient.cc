// Results with another gradient than that of the operations that compute them: a user-defined one,
// or that of the rematerialized operations.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/region.h"

namespace penstock::ir {
namespace {

using G = const GradientArgs&;

// ---- Optimization barrier ----

const OpDef kBarrier = {
    .name = "stablehlo.optimization_barrier",
    .infer = [](const Node& node) -> InferResult { return TypesOfValues(node.operands); },
    .gradient = [](G g) -> Values { return g.cotangents; },
    .print =
        [](Printer& printer, const Node& node) {
          const auto type = [](std::string* out, const TensorType& t) { out->append(MlirType(t)); };
          printer.Line(node, absl::StrCat(node.op->name, " ", printer.Names(node.operands), " : ",
                                          absl::StrJoin(node.results, ", ", type)));
        }};

// ---- Results with another gradient ----
// Operands: the inputs, then the results, computed from the inputs by ordinary operations. Results:
// those results. The gradient goes directly to the inputs.

size_t NumInputs(const Node& node) {
  return static_cast<size_t>(node.attributes.Get<int64_t>("inputs"));
}

InferResult InferResults(const Node& node) {
  return TypesOfValues(absl::MakeConstSpan(node.operands).subspan(NumInputs(node)));
}

Values DecomposeResults(Graph&, const Node& node, const Values& in) {
  return Values(in.begin() + NumInputs(node), in.end());
}

// `more`: values of `forward` besides its results that become results of the node.
Values Emit(const OpDef& op, const Values& inputs, const Region& forward, Attributes attributes,
            const Region& region, const Values& more = {}) {
  Graph& graph = *inputs[0].graph();
  Values within(forward->results().begin(), forward->results().end());
  within.insert(within.end(), more.begin(), more.end());
  const Values made = graph.Inline(*forward, forward->parameters(), inputs, within);
  if (!graph.status().ok()) return Values(1);
  Values operands = inputs;
  operands.insert(operands.end(), made.begin(), made.end());
  attributes.Set("inputs", static_cast<int64_t>(inputs.size()));
  const Values out = graph.Emit(op, operands, std::move(attributes), {region});
  return out.empty() ? Values(made.size()) : out;
}

// The cotangents of float results, zeros where there are none.
Values FloatCotangents(G g) {
  Values cotangents;
  for (size_t i = 0; i < g.results.size(); ++i) {
    if (!IsDifferentiable(g.results[i].type())) continue;
    cotangents.push_back(g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(g.results[i], 0));
  }
  return cotangents;
}

// Region: (inputs, results, cotangents of float results) -> cotangents of the inputs selected by
// "given".
const OpDef kCustomGradient = {
    .name = "penstock.custom_gradient",
    .infer = InferResults,
    .gradient = [](G g) -> Values {
      Values arguments(g.node.operands.begin(), g.node.operands.begin() + NumInputs(g.node));
      const Values cotangents = FloatCotangents(g);
      arguments.insert(arguments.end(), g.results.begin(), g.results.end());
      arguments.insert(arguments.end(), cotangents.begin(), cotangents.end());
      Graph& graph = *g.results[0].graph();
      const Values gradients = graph.Inline(*g.node.regions[0], arguments);
      Values out(g.node.operands.size());
      if (!graph.status().ok()) return out;
      const auto& given = g.node.attributes.Get<std::vector<int64_t>>("given");
      for (size_t k = 0; k < given.size(); ++k) out[given[k]] = gradients[k];
      return out;
    },
    .decompose = DecomposeResults};

// A zero (ui32) that compilers cannot fold, and that depends on these values.
Value ZeroAfter(const Values& values) {
  Value sum;
  for (const Value& v : values) {
    if (IsZeros(v) || v.shape().num_elements() == 0) continue;
    const std::vector<int64_t> begin(v.rank()), end(v.rank(), 1);
    const Value first = Reshape(Convert(Slice(v, begin, end), DType::kF32), Shape());
    const Value ones = PopulationCount(BitcastConvert(first, DType::kU32));  // at most 32
    sum = sum.valid() ? sum + ones : ones;
  }
  // A sum of a million of them would still be below 2^31.
  return sum.valid() ? ShiftRightLogical(sum, SplatLike(sum, 31)) : sum;
}

// Operands: x, a zero from ZeroAfter. Result: x, bit for bit, but only after the zero is computed.
Values DecomposeAfter(Graph&, const Node&, const Values& in) {
  const Value x = in[0], zero = in[1];
  if (x.dtype() == DType::kBool) return {Or(x, Convert(zero, DType::kBool))};
  if (!base::IsFloat(x.dtype())) return {x + Convert(zero, x.dtype())};
  const int bits = base::BitWidth(x.dtype());
  const DType integer = bits == 16 ? DType::kU16 : bits == 32 ? DType::kU32 : DType::kU64;
  return {BitcastConvert(BitcastConvert(x, integer) + Convert(zero, integer), x.dtype())};
}

const OpDef kAfter = {.name = "penstock.after",
                      .infer = [](const Node& node) -> InferResult {
                        return std::vector<TensorType>{node.operands[0].type()};
                      },
                      .gradient = [](G g) -> Values {
                        return {g.cotangent(), Value()};
                      },
                      .decompose = DecomposeAfter};

// Region: inputs -> results, to be rematerialized. The last "saved" results of the node are values
// within the region that are not: products and convolutions. In the backward region they are
// computed like everything else, since gradients flow through them; inlining it replaces them. They
// have cotangents themselves when a gradient is differentiated.
//
// A barrier prevents the compiler from reusing values of the forward pass, but does not delay the
// recomputation: XLA:CPU drops barriers before it schedules operations, recomputes as soon as
// possible, and stores everything a second time. Therefore a zero that depends on the cotangents is
// added to the inputs.
Values RematerializeGradient(G g) {
  const Graph& forward = *g.node.regions[0];
  const size_t inputs = NumInputs(g.node);
  Graph& graph = *g.results[0].graph();
  const size_t results = g.results.size() - g.node.attributes.Get<int64_t>("saved");
  Values arguments(g.node.operands.begin(), g.node.operands.begin() + inputs);
  std::vector<size_t> given;  // results that have a cotangent
  for (size_t i = 0; i < g.results.size(); ++i) {
    if (g.cotangents[i].valid() && IsDifferentiable(g.results[i].type())) given.push_back(i);
  }
  for (size_t i : given) arguments.push_back(g.cotangents[i]);
  const size_t parameters = arguments.size();
  std::vector<size_t> wanted;
  for (size_t i = 0; i < inputs; ++i) {
    if (g.wants(static_cast<int>(i))) wanted.push_back(i);
  }
  Values within(forward.results().begin(), forward.results().end());
  const Values expensive = results < g.results.size() ? ExpensiveValues(forward) : Values();
  within.insert(within.end(), expensive.begin(), expensive.end());
  Values replaced;  // values of the backward region that `arguments` stand for
  const Region backward = BuildRegion(
      graph, "backward", TypesOfValues(arguments), [&](Graph& inside, const Values& p) -> Values {
        const Values out = inside.Inline(forward, forward.parameters(),
                                         Values(p.begin(), p.begin() + inputs), within);
        Values ys, xs;
        for (size_t i : wanted) xs.push_back(p[i]);
        if (!inside.status().ok()) return xs;
        for (size_t i : given) ys.push_back(out[i]);
        replaced = p;
        replaced.insert(replaced.end(), out.begin() + results, out.end());
        return Gradients(ys, xs, Values(p.begin() + inputs, p.end()));
      });
  Values out(g.node.operands.size());
  if (!backward->status().ok()) {
    graph.Fail(backward->status());
    return out;
  }
  arguments.insert(arguments.end(), g.results.begin() + results, g.results.end());
  // The barrier hides from the compiler that it has computed this before.
  std::vector<bool> read;
  NeededNodes(*backward, replaced, backward->results(), &read);
  Values held;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (read[i]) held.push_back(arguments[i]);
  }
  held = OptimizationBarrier(held);
  for (size_t i = 0, at = 0; i < arguments.size(); ++i) {
    if (read[i]) arguments[i] = held[at++];
  }
  const Value zero = ZeroAfter(Values(arguments.begin() + inputs, arguments.begin() + parameters));
  for (size_t i = 0; i < arguments.size() && zero.valid(); ++i) {
    const bool is_cotangent = i >= inputs && i < parameters;
    if (read[i] && !is_cotangent && arguments[i].rank() > 0) {
      arguments[i] = EmitOne(kAfter, {arguments[i], zero});
    }
  }
  const Values gradients = graph.Inline(*backward, replaced, arguments, backward->results());
  for (size_t k = 0; k < gradients.size(); ++k) out[wanted[k]] = gradients[k];
  return out;
}

const OpDef kRematerialize = {.name = "penstock.rematerialize",
                              .infer = InferResults,
                              .gradient = RematerializeGradient,
                              .decompose = DecomposeResults};

// The body's region, or null after an error of the graph.
Region Forward(const Values& inputs, const Body& body) {
  if (inputs.empty() || !AllValid(inputs)) return nullptr;
  Graph& graph = *inputs[0].graph();
  Region region = BuildRegion(graph, "forward", TypesOfValues(inputs), body);
  if (region->status().ok()) return region;
  graph.Emit(kRematerialize, {}, {}, {region});  // takes the error over
  return nullptr;
}

}  // namespace

Values OptimizationBarrier(const Values& xs) {
  if (xs.empty() || !AllValid(xs)) return xs;
  const Values out = xs[0].graph()->Emit(kBarrier, xs);
  return out.empty() ? Values(xs.size()) : out;
}

Values CustomGradient(const Values& inputs, const Body& forward, const BackwardBody& backward) {
  const Region body = Forward(inputs, forward);
  if (body == nullptr) return Values(1);
  Graph& graph = *inputs[0].graph();
  std::vector<TensorType> types = TypesOfValues(inputs);
  const std::vector<TensorType> results = TypesOfValues(body->results());
  types.insert(types.end(), results.begin(), results.end());
  for (const TensorType& type : results) {
    if (IsDifferentiable(type)) types.push_back(type);
  }
  std::vector<int64_t> given;
  const Region region = BuildRegion(graph, "backward", types, [&](Graph& inside, const Values& p) {
    auto next = p.begin() + inputs.size() + results.size();
    BackwardIn in{.inputs = Values(p.begin(), p.begin() + inputs.size()),
                  .results = Values(p.begin() + inputs.size(), next),
                  .cotangents = {}};
    for (const TensorType& type : results) {
      in.cotangents.push_back(IsDifferentiable(type) ? *next++ : Value());
    }
    const Values gradients = backward(inside, in);
    bool fits = gradients.size() == inputs.size();
    Values valid;
    for (size_t i = 0; fits && i < inputs.size(); ++i) {
      if (!gradients[i].valid()) continue;
      fits = gradients[i].type() == inputs[i].type() && IsDifferentiable(inputs[i].type());
      given.push_back(static_cast<int64_t>(i));
      valid.push_back(gradients[i]);
    }
    if (!fits) {
      inside.Fail(absl::InvalidArgumentError(
          absl::StrCat("custom_gradient: expects a cotangent, or none, for each of ",
                       Listed(TypesOfValues(inputs)), " that is a float, got ", gradients.size(),
                       ": ", Listed(TypesOfValues(valid)))));
    }
    return valid;
  });
  return Emit(kCustomGradient, inputs, body, {{"given", given}}, region);
}

Values Rematerialize(const Values& inputs, const Body& body, const RematerializeOptions& options) {
  const Region forward = Forward(inputs, body);
  if (forward == nullptr) return Values(1);
  const Values saved = options.save_products ? ExpensiveValues(*forward) : Values();
  Values out = Emit(kRematerialize, inputs, forward,
                    {{"saved", static_cast<int64_t>(saved.size())}}, forward, saved);
  out.resize(forward->results().size());
  return out;
}

OpList CustomGradientOps() {
  static constexpr const OpDef* kOps[] = {&kBarrier, &kCustomGradient, &kAfter, &kRematerialize};
  return kOps;
}

}  // namespace penstock::ir
