#include "penstock/session/gradients.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/rewrite.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/lowering.h"
#include "penstock/session/run/plan.h"
#include "penstock/session/tpu/shard_region.h"
#include "penstock/session/variable_table.h"

namespace penstock::session {
namespace {

// The variable that a node reads; null if it reads none.
const VariableDef* ReadBy(const Node& node) {
  const auto* use = dynamic_cast<const VariableUse*>(node.extra.get());
  return use != nullptr && node.inputs.empty() ? use->variable : nullptr;
}

// The variable for which a tensor stands; null if it stands for itself.
const VariableDef* MeantBy(const Tensor& tensor) {
  const auto* use = dynamic_cast<const VariableUse*>(tensor.node()->extra.get());
  return use != nullptr && !use->is_own_tensor ? ReadBy(*tensor.node()) : nullptr;
}

// What counts as a constant, of the given tensors. In TensorFlow, operations stop and not tensors;
// those of branches and loops have one output each there.
Tensors AllStops(const Tensors& given) {
  Tensors stops;
  const auto add = [&](const Tensor& tensor) {
    if (!base::IsFloat(tensor.dtype())) return;
    if (std::find(stops.begin(), stops.end(), tensor) == stops.end()) stops.push_back(tensor);
  };
  for (const Tensor& tensor : given) {
    if (MeantBy(tensor) != nullptr) continue;
    if (dynamic_cast<const BodyOwner*>(tensor.node()->extra.get()) != nullptr) {
      add(tensor);
    } else {
      for (const Tensor& output : Operation(tensor).outputs()) add(output);
    }
  }
  return stops;
}

// The variables that the bodies of a node read, directly or in bodies within.
void AddReadsInBodies(const Node& node, std::vector<const VariableDef*>& variables) {
  const auto* owner = dynamic_cast<const BodyOwner*>(node.extra.get());
  if (owner == nullptr) return;
  for (const auto& body : owner->bodies) {
    for (const Node* inner : body->nodes) {
      if (const VariableDef* variable = ReadBy(*inner)) variables.push_back(variable);
      AddReadsInBodies(*inner, variables);
    }
  }
}

// What gradients flow through from some tensors, against the direction of the data.
class Upstream {
 public:
  Upstream(const Tensors& from, Tensors stops) : stops_(std::move(stops)) {
    for (const Tensor& tensor : from) Visit(tensor);
    while (!stack_.empty()) {
      const Node* const node = stack_.back();
      stack_.pop_back();
      if (node->type == "StopGradient") continue;
      AddReadsInBodies(*node, read_in_bodies_);
      for (const Tensor& input : node->inputs) Visit(input);
    }
  }

  bool Has(const Tensor& tensor) const {
    const VariableDef* const variable = MeantBy(tensor);
    if (variable == nullptr) return tensors_.contains(tensor);
    const auto& inside = read_in_bodies_;
    return !ReadsOf(*variable).empty() ||
           std::find(inside.begin(), inside.end(), variable) != inside.end();
  }
  // The reads of a variable that are no stops.
  Tensors ReadsOf(const VariableDef& variable) const {
    Tensors reads;
    for (Node* node : nodes_) {
      if (ReadBy(*node) == &variable) reads.push_back(Tensor(node, 0));
    }
    return reads;
  }
  // The tensors at which it stopped. Others are not computed for a gradient.
  Tensors Stopped() const {
    Tensors stopped;
    for (const Tensor& tensor : stops_) {
      if (tensors_.contains(tensor)) stopped.push_back(tensor);
    }
    return stopped;
  }
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  void Visit(const Tensor& tensor) {
    if (!base::IsFloat(tensor.dtype()) || !tensors_.insert(tensor).second) return;
    if (std::find(stops_.begin(), stops_.end(), tensor) != stops_.end()) return;
    if (!visited_.insert(tensor.node()).second) return;
    nodes_.push_back(tensor.node());
    stack_.push_back(tensor.node());
  }

  const Tensors stops_;
  absl::flat_hash_set<Tensor> tensors_;
  absl::flat_hash_set<const Node*> visited_;
  std::vector<Node*> nodes_, stack_;
  std::vector<const VariableDef*> read_in_bodies_;
};

// Which of a gradient operation's inputs are what.
struct GradientInputs {
  size_t num_ys = 0;
  std::vector<int> cotangents = {};  // input of each y's incoming gradient; -1: ones
  struct X {
    std::vector<int> inputs = {};  // the tensor, or reads of a variable
    const VariableDef* variable = nullptr;
  };
  std::vector<X> x = {};
  size_t first_stop = 0, num_stops = 0;
};

// The values of an x, of which it has the gradients' sum: those that reads of a variable have seen.
ir::Values ValuesOf(Lowering& lowering, const GradientInputs::X& x, const ir::Values& in) {
  if (x.variable == nullptr) return {in[static_cast<size_t>(x.inputs[0])]};
  ir::Values all = lowering.ReadsOfAssigned(*x.variable), values;
  for (const int input : x.inputs) all.push_back(in[static_cast<size_t>(input)]);
  for (ir::Value& value : all) {
    // The own value of a read that ReadValue made.
    if (ir::OpName(value.node()) == "stablehlo.optimization_barrier") {
      value = value.node().operands[0];
    }
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

ir::Values LowerGradients(Lowering& lowering, const GradientInputs& map, const ir::Values& in) {
  ir::Values ys(in.begin(), in.begin() + static_cast<int64_t>(map.num_ys));
  const auto first_stop = in.begin() + static_cast<int64_t>(map.first_stop);
  const ir::Values stops(first_stop, first_stop + static_cast<int64_t>(map.num_stops));
  ir::Values constants;
  for (const ir::Value& stop : stops) constants.push_back(ir::StopGradient(stop));
  ir::Values cotangents, xs;
  std::vector<size_t> ends;  // of the values of each x, in xs
  for (size_t i = 0; i < ys.size(); ++i) {
    const int given = map.cotangents[i];
    cotangents.push_back(given < 0 ? ir::SplatLike(ys[i], 1) : in[static_cast<size_t>(given)]);
  }
  for (const GradientInputs::X& x : map.x) {
    const ir::Values values = ValuesOf(lowering, x, in);
    xs.insert(xs.end(), values.begin(), values.end());
    ends.push_back(xs.size());
  }
  if (!stops.empty()) {
    // Together, as operands of one operation that nothing uses: then an x between a stop and a y is
    // the value on which the new y depends.
    ir::Values both = ys;
    both.insert(both.end(), xs.begin(), xs.end());
    const ir::Value joint = ir::Substitute(ir::OptimizationBarrier(both)[0], stops, constants);
    if (!joint.valid()) return {};
    both = lowering.graph().node(joint.node_id()).operands;
    std::copy_n(both.begin(), ys.size(), ys.begin());
    std::copy_n(both.begin() + static_cast<int64_t>(ys.size()), xs.size(), xs.begin());
  }
  const ir::Values gradients = ir::Gradients(ys, xs, cotangents);
  if (!lowering.graph().status().ok()) return {};
  ir::Values sums;
  size_t at = 0;
  for (const size_t end : ends) {
    ir::Value sum = gradients[at++];
    while (at < end) sum = sum + gradients[at++];
    sums.push_back(sum);
  }
  return sums;
}

absl::Status CheckGradientArguments(const Tensors& ys, const Tensors& xs,
                                    const GradientsOptions& options) {
  if (ys.empty()) return absl::InvalidArgumentError("there are no ys");
  if (!options.grad_ys.empty() && options.grad_ys.size() != ys.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ys.size(), " ys have ", options.grad_ys.size(), " grad_ys"));
  }
  for (const Tensors* list : {&ys, &xs}) {
    for (const Tensor& tensor : *list) {
      const char* const what = list == &ys ? "y" : "x";
      if (!tensor.valid()) {
        return absl::InvalidArgumentError(absl::StrCat("a ", what, " is an invalid tensor"));
      }
      if (!base::IsFloat(tensor.dtype())) {
        return absl::InvalidArgumentError(absl::StrCat("the ", what, " '", tensor.name(), "' is ",
                                                       TypeString(tensor),
                                                       "; only floats have gradients"));
      }
    }
  }
  for (const Tensor& stop : options.stop_gradients) {
    if (!stop.valid()) return absl::InvalidArgumentError("a stop_gradient is an invalid tensor");
  }
  for (size_t i = 0; i < options.grad_ys.size(); ++i) {
    const Tensor& given = options.grad_ys[i];
    if (!given.valid()) continue;
    if (given.dtype() != ys[i].dtype() || !given.shape().IsCompatibleWith(ys[i].shape())) {
      return absl::InvalidArgumentError(absl::StrCat("the incoming gradient of '", ys[i].name(),
                                                     "', ", TypeString(ys[i]), ", is ",
                                                     TypeString(given)));
    }
  }
  return absl::OkStatus();
}

// An error if a gradient would have to flow through a loop without a limit.
absl::Status CheckLoops(const Upstream& upstream, const Tensors& xs, const Tensors& stops) {
  for (const Node* node : upstream.nodes()) {
    const auto* owner = dynamic_cast<const BodyOwner*>(node->extra.get());
    if (owner == nullptr || !owner->is_unlimited_loop) continue;
    std::vector<const VariableDef*> inside;
    AddReadsInBodies(*node, inside);
    const Upstream before(node->inputs, stops);
    for (const Tensor& x : xs) {
      const VariableDef* const variable = MeantBy(x);
      const bool is_read = std::find(inside.begin(), inside.end(), variable) != inside.end();
      if (!before.Has(x) && (variable == nullptr || !is_read)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the loop '", node->name, "' (", node->where.file, ":", node->where.line,
                       ") has no gradient, because the number of its iterations has no limit; "
                       "set WhileLoopOptions::maximum_iterations"));
    }
  }
  return absl::OkStatus();
}

// An error if a gradient would have to flow from outside into a computation of tpu::Shard: outside
// each shard has the same gradient, and within the shards' gradients differ.
absl::Status CheckShards(const Upstream& upstream, const Tensors& xs, const Tensors& stops) {
  for (const Node* node : upstream.nodes()) {
    if (!JoinsShards(*node)) continue;
    const Upstream before(node->inputs, stops);
    for (const Tensor& x : xs) {
      if (!before.Has(x)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the output '", node->name, "' of tpu::Shard (", node->where.file, ":", node->where.line,
          ") has no gradient; compute gradients and minimize in the computation"));
    }
  }
  return absl::OkStatus();
}

// The operation of a call: its inputs, what they are, and its outputs.
struct GradientOperation {
  GradientInputs map = {};
  Tensors inputs = {};
  std::vector<Node::Output> outputs = {};
  std::vector<size_t> differentiated = {};  // indices of xs, one for each output
};

GradientOperation PlanGradients(const Tensors& ys, const Tensors& xs,
                                const GradientsOptions& options, const Upstream& upstream) {
  GradientOperation plan{.map = {.num_ys = ys.size()}, .inputs = ys};
  const auto add = [&](const Tensor& tensor) {
    plan.inputs.push_back(tensor);
    return static_cast<int>(plan.inputs.size()) - 1;
  };
  for (size_t i = 0; i < ys.size(); ++i) {
    const bool given = !options.grad_ys.empty() && options.grad_ys[i].valid();
    plan.map.cotangents.push_back(given ? add(options.grad_ys[i]) : -1);
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!upstream.Has(xs[i]) && options.unconnected == UnconnectedGradients::kNone) continue;
    const VariableDef* const variable = MeantBy(xs[i]);
    std::vector<int> places = {add(variable != nullptr ? Tensor(variable->handle, 0) : xs[i])};
    if (variable != nullptr) {
      for (const Tensor& read : upstream.ReadsOf(*variable)) places.push_back(add(read));
    }
    plan.map.x.push_back({std::move(places), variable});
    plan.outputs.push_back({xs[i].dtype(), xs[i].shape()});
    plan.differentiated.push_back(i);
  }
  const Tensors stopped = upstream.Stopped();
  plan.map.first_stop = plan.inputs.size();
  plan.map.num_stops = stopped.size();
  for (const Tensor& stop : stopped) add(stop);
  return plan;
}

}  // namespace

Tensors Gradients(const Tensors& ys, const Tensors& xs, const GradientsOptions& options,
                  SourceLocation where) {
  const Tensors none(xs.size());
  const auto fail = [&](const absl::Status& status) {
    Tensors all = ys;
    all.insert(all.end(), xs.begin(), xs.end());
    FailOp(all, absl::StrCat("Gradients '", options.name, "'"), status.message(), where);
    return none;
  };
  if (const absl::Status s = CheckGradientArguments(ys, xs, options); !s.ok()) return fail(s);
  const Tensors stops = AllStops(options.stop_gradients);
  const Upstream upstream(ys, stops);
  if (const absl::Status s = CheckLoops(upstream, xs, stops); !s.ok()) return fail(s);
  if (const absl::Status s = CheckShards(upstream, xs, stops); !s.ok()) return fail(s);
  GradientOperation operation = PlanGradients(ys, xs, options, upstream);
  if (operation.differentiated.empty()) return none;
  Graph& graph = *ys[0].graph();
  auto& separate = graph.Extension<DifferentiatedNodes>();
  const Tensors stopped = upstream.Stopped();
  for (const Tensors* tensors : {&xs, &stopped}) {
    for (const Tensor& tensor : *tensors) separate.insert(tensor.node());
  }
  Node* const node = graph.AddNode(
      {.type = kGradientsType, .name = options.name, .outputs = std::move(operation.outputs)},
      std::move(operation.inputs),
      [map = std::move(operation.map)](Lowering& lowering, const ir::Values& in) {
        return LowerGradients(lowering, map, in);
      },
      where);
  Tensors gradients = none;
  for (size_t k = 0; node != nullptr && k < operation.differentiated.size(); ++k) {
    gradients[operation.differentiated[k]] = Tensor(node, static_cast<int>(k));
  }
  return gradients;
}

}  // namespace penstock::session
