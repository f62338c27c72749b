#include "penstock/lazy/backward.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/lazy/tensor_hooks.h"

namespace penstock::lazy {
namespace {

using ir::Node;
using ir::Value;
using ir::Values;

// Operations whose gradient needs none of their values: PyTorch can differentiate them again
// without retain_graph, and so can we.
bool SavesNothing(const Node& node) {
  static constexpr absl::string_view kNames[] = {
      "stablehlo.add",     "stablehlo.subtract",    "stablehlo.negate",
      "stablehlo.reshape", "stablehlo.transpose",   "stablehlo.broadcast_in_dim",
      "stablehlo.convert", "stablehlo.slice",       "stablehlo.pad",
      "stablehlo.reverse", "stablehlo.concatenate", "penstock.stop_gradient"};
  const absl::string_view name = ir::OpName(node);
  if (name == "stablehlo.reduce") {
    return node.attributes.Get<int64_t>("kind") == static_cast<int64_t>(ir::ReduceKind::kSum);
  }
  // Its region's parameters are the node's inputs and results (its operands), then the cotangents.
  if (name == "penstock.custom_gradient") {
    const ir::Graph& backward = *node.regions[0];
    const std::vector<bool> needed =
        Ancestors(backward, Values(backward.results().begin(), backward.results().end()));
    const auto saved = backward.parameters().first(node.operands.size());
    return std::none_of(saved.begin(), saved.end(),
                        [&](const Value& value) { return needed[value.node_id()]; });
  }
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool IsFreed(const Segment& segment, int node) {
  return node < static_cast<int>(segment.freed.size()) && segment.freed[node];
}

class Differentiation {
 public:
  Differentiation(Trace& trace, const std::vector<std::shared_ptr<TensorImpl>>& targets,
                  bool retain, bool create_graph)
      : trace_(trace),
        open_(trace),
        targets_(targets),
        retain_(retain),
        create_graph_(create_graph) {}

  void Add(const std::shared_ptr<Segment>& segment, Value y, Value cotangent) {
    Seeds& seeds = seeds_[segment->serial];
    seeds.segment = segment;
    seeds.ys.push_back(y);
    seeds.cotangents.push_back(cotangent);
  }

  // From the open segment to the oldest.
  std::vector<LeafGradient> Run() {
    while (!seeds_.empty() && trace_.graph().status().ok()) {
      const auto last = std::prev(seeds_.end());
      const Seeds seeds = std::move(last->second);
      seeds_.erase(last);
      Visit(*seeds.segment, seeds.ys, seeds.cotangents);
    }
    for (auto& [tensor, gradient] : gradients_) {
      if (!tensor->leaf_requires_grad || tensor->hooks == nullptr) continue;
      if (trace_.graph().status().ok()) {
        gradient = CallHooks(*tensor->hooks, trace_, gradient, create_graph_);
      }
    }
    // All or none: what an error interrupts changes no leaf.
    if (!trace_.graph().status().ok()) return {};
    return std::move(gradients_);
  }

 private:
  struct Seeds {
    std::shared_ptr<Segment> segment;
    Values ys, cotangents;
  };
  // A value of a segment whose gradient is wanted, and where it goes: to the tensor, or else where
  // the identity's history is. A copy of that: hooks, which are called before the gradient is
  // delivered, may add identities to the segment.
  struct Destination {
    Value x;
    std::shared_ptr<TensorImpl> tensor;
    std::shared_ptr<Segment> origin = nullptr;
    Value origin_value = {};
    bool freed = false;
  };

  void Visit(Segment& segment, Values ys, const Values& cotangents) {
    const std::vector<bool> leads = Leads(segment);
    const std::vector<bool> on_way = Ancestors(segment.graph, ys, &leads);
    const std::vector<Destination> destinations = DestinationsIn(segment, on_way);
    const std::vector<Segment::Hooked> hooked = HookedIn(segment, on_way);
    if (!Free(segment, on_way, leads) || (destinations.empty() && hooked.empty())) return;
    Values xs;
    for (const Destination& destination : destinations) xs.push_back(destination.x);
    for (const Segment::Hooked& one : hooked) xs.push_back(one.value);
    if (segment.serial != trace_.segment()->serial) {
      // A gradient that is differentiated again leaves the graph by copies of the identities.
      const std::vector<bool> needed = Ancestors(segment.graph, ys);
      std::vector<Segment::Identity> identities;
      Values given, replacements;
      for (const Segment::Identity& identity : segment.identities) {
        if (!needed[identity.value.node_id()]) continue;
        const auto tensor = TensorOf(identity);
        if (!identity.freed || tensor == nullptr) {
          identities.push_back(identity);
          continue;
        }
        // The tensor itself, so that a gradient with respect to it can be differentiated again.
        given.push_back(identity.value);
        replacements.push_back(trace_.Differentiable(*tensor));
        if (!replacements.back().valid()) return;
      }
      const size_t count = xs.size();
      for (const Segment::Identity& identity : identities) xs.push_back(identity.value);
      if (!Recompute(segment, given, replacements, ys, xs)) return;
      for (size_t i = 0; i < identities.size(); ++i) {
        identities[i].value = xs[count + i];
        trace_.segment()->AddIdentity(std::move(identities[i]));
      }
      xs.resize(count);
    }
    const Values gradients = hooked.empty() ? trace_.segment()->Gradients(ys, xs, cotangents)
                                            : GradientsWithHooks(ys, xs, cotangents, hooked);
    if (!trace_.graph().status().ok()) return;
    for (size_t i = 0; i < destinations.size(); ++i) {
      if (gradients[i].valid()) Deliver(destinations[i], gradients[i]);
    }
  }

  static std::vector<Segment::Hooked> HookedIn(const Segment& segment,
                                               const std::vector<bool>& on_way) {
    std::vector<Segment::Hooked> found;
    for (const Segment::Hooked& one : segment.hooked) {
      if (on_way[one.value.node_id()]) found.push_back(one);
    }
    return found;
  }

  // The last xs are the values of `hooked`.
  Values GradientsWithHooks(const Values& ys, const Values& xs, const Values& cotangents,
                            const std::vector<Segment::Hooked>& hooked) {
    ir::Intercept intercept;
    intercept.values.assign(xs.end() - static_cast<int64_t>(hooked.size()), xs.end());
    intercept.replace = [&](size_t i, Value gradient) {
      return CallHooks(*hooked[i].hooks, trace_, gradient, create_graph_);
    };
    return ir::Gradients(ys, xs, cotangents, intercept);
  }

  std::vector<Destination> DestinationsIn(Segment& segment, const std::vector<bool>& on_way) {
    std::vector<Destination> all;
    for (const Segment::Identity& identity : segment.identities) {
      if (!on_way[identity.value.node_id()]) continue;
      if (!targets_.empty() && !LeadsOn(segment, identity)) continue;
      auto leaf = identity.is_leaf ? identity.tensor.lock() : nullptr;
      if (identity.is_leaf && (leaf == nullptr || !leaf->leaf_requires_grad)) continue;
      all.push_back({identity.value, std::move(leaf), identity.origin, identity.origin_value,
                     identity.freed});
    }
    for (const auto& target : targets_) {
      const Value x = ValueIn(segment, *target);
      if (x.valid() && x.node_id() < static_cast<int>(on_way.size()) && on_way[x.node_id()]) {
        all.push_back({x, target});
      }
    }
    return all;
  }

  // By node: whether gradients go on from it to a leaf, or to one of the targets if there are any:
  // as in PyTorch, nothing else is differentiated, and freed, then.
  const std::vector<bool>& Leads(Segment& segment) {
    if (targets_.empty()) return segment.Reached();
    // The segments to which gradients go from here may be a long chain: the oldest ones first.
    std::vector<Segment*> waiting{&segment};
    while (!waiting.empty()) {
      Segment& at = *waiting.back();
      const size_t count = waiting.size();
      for (const Segment::Identity& identity : at.identities) {
        if (identity.origin == nullptr || leads_.contains(identity.origin->serial)) continue;
        waiting.push_back(identity.origin.get());
      }
      if (waiting.size() > count) continue;
      waiting.pop_back();
      if (!leads_.contains(at.serial)) FindLeads(at);
    }
    return leads_.at(segment.serial);
  }

  // If the leads of the segments before it are known, without recursion.
  void FindLeads(Segment& segment) {
    Values ends;
    for (const auto& target : targets_) {
      if (const Value x = ValueIn(segment, *target); x.valid()) ends.push_back(x);
    }
    for (size_t i = 0; i < segment.identities.size(); ++i) {
      const Segment::Identity identity = segment.identities[i];
      if (LeadsOn(segment, identity)) ends.push_back(identity.value);
    }
    leads_[segment.serial] = ir::DependsOn(segment.graph, ends);
  }

  // Whether gradients that leave the graph by this identity go on to a target. Where what was freed
  // leads is not known any longer; but not to a target that depends on it, or is it itself, nor to
  // one of a later segment.
  bool LeadsOn(Segment& segment, const Segment::Identity& identity) {
    if (identity.is_leaf) {
      return std::find(targets_.begin(), targets_.end(), identity.tensor.lock()) != targets_.end();
    }
    // What all targets depend on here leads to none of them.
    if (std::all_of(targets_.begin(), targets_.end(), [&](const auto& target) {
          const Value x = ValueIn(segment, *target);
          return x.valid() && Ancestors(segment.graph, {x})[identity.value.node_id()];
        })) {
      return false;
    }
    if (identity.freed) {
      return std::none_of(targets_.begin(), targets_.end(), [&](const auto& target) {
        if (IsOfLaterSegment(*target, segment)) return true;
        const Value x = ValueIn(segment, *target);
        return x.valid() && Ancestors(segment.graph, {x})[identity.value.node_id()];
      });
    }
    return identity.origin != nullptr && Leads(*identity.origin)[identity.origin_value.node_id()];
  }

  bool IsOfLaterSegment(TensorImpl& target, const Segment& segment) const {
    const TensorImpl& root = target.root();
    const Segment* const made = root.segment != nullptr ? root.segment.get() : root.origin.get();
    return made != nullptr && made->serial > segment.serial;
  }

  // The value of a target that is no leaf in a segment; invalid if it has none.
  Value ValueIn(Segment& segment, TensorImpl& target) {
    if (target.leaf_requires_grad) return Value();
    if (segment.serial != trace_.segment()->serial) {
      if (target.origin.get() == &segment) return target.origin_value;
      const Value freed = FreedValueIn(segment, target);
      return freed.valid() ? freed : ViewValueIn(segment, target);
    }
    // A tensor of a closed segment gets its gradient there, that of the open one with it.
    if (target.segment != trace_.segment() && target.origin != nullptr) return Value();
    return trace_.Differentiable(target);
  }

  // The value by which a tensor of an earlier segment whose history was freed is used in a closed
  // segment: a gradient with respect to it ends there.
  static Value FreedValueIn(const Segment& segment, const TensorImpl& tensor) {
    for (const Segment::Identity& identity : segment.identities) {
      if (identity.freed && TensorOf(identity).get() == &tensor) return identity.value;
    }
    return Value();
  }

  // The tensor of an identity; null if it or its contents are gone.
  static std::shared_ptr<TensorImpl> TensorOf(const Segment::Identity& identity) {
    auto tensor = identity.tensor.lock();
    if (tensor != nullptr && tensor->root().version != identity.version) return nullptr;
    return tensor;
  }

  // The value that a view, whose contents have not been replaced since, had in a closed segment.
  static Value ViewValueIn(const Segment& segment, TensorImpl& view) {
    const auto found = segment.views.find(&view);
    if (found == segment.views.end() || found->second.version != view.root().version ||
        found->second.view.lock().get() != &view) {
      return Value();
    }
    return found->second.value;
  }

  // Checks and marks what is differentiated; false after an error.
  bool Free(Segment& segment, const std::vector<bool>& on_way, const std::vector<bool>& leads) {
    // A target, where the way ends, is not differentiated itself.
    const auto passed = [&](int id) {
      const auto& operands = segment.graph.node(id).operands;
      return on_way[id] && std::any_of(operands.begin(), operands.end(),
                                       [&](const Value& v) { return leads[v.node_id()]; });
    };
    segment.freed.resize(static_cast<size_t>(segment.graph.num_nodes()));
    for (int id = 0; id < segment.graph.num_nodes(); ++id) {
      if (!segment.freed[id] || !passed(id)) continue;
      FailSecondTime();
      return false;
    }
    if (retain_) return true;
    for (int id = 0; id < segment.graph.num_nodes(); ++id) {
      if (passed(id) && !SavesNothing(segment.graph.node(id))) segment.freed[id] = true;
    }
    return true;
  }

  void FailSecondTime() {
    trace_.graph().Fail(absl::FailedPreconditionError(
        "Trying to backward through the graph a second time; the first backward() frees it. Pass "
        "retain_graph = true to the first one"));
  }

  // Replaces values of a closed segment by copies in the open one; those in `given` are not copied,
  // but replaced by `replacements`.
  bool Recompute(const Segment& closed, Values given, Values replacements, Values& ys, Values& xs) {
    Values wanted = ys;
    wanted.insert(wanted.end(), xs.begin(), xs.end());
    const std::vector<bool> needed = Ancestors(closed.graph, wanted);
    const auto parameters = closed.graph.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!needed[parameters[i].node_id()]) continue;
      given.push_back(parameters[i]);
      replacements.push_back(trace_.segment()->Parameter(closed.parameters[i]));
    }
    const Values copies = trace_.graph().Inline(closed.graph, given, replacements, wanted);
    if (copies.empty()) return false;
    std::copy_n(copies.begin(), ys.size(), ys.begin());
    std::copy_n(copies.begin() + static_cast<int64_t>(ys.size()), xs.size(), xs.begin());
    return true;
  }

  void Deliver(const Destination& destination, Value gradient) {
    if (destination.tensor != nullptr) {
      for (auto& [tensor, sum] : gradients_) {
        if (tensor != destination.tensor) continue;
        sum = sum + gradient;
        return;
      }
      gradients_.push_back({destination.tensor, gradient});
      return;
    }
    if (destination.freed) return FailSecondTime();
    if (destination.origin != nullptr) {
      Add(destination.origin, destination.origin_value, gradient);
    }
  }

  Trace& trace_;
  const Trace::Differentiating open_;
  const std::vector<std::shared_ptr<TensorImpl>>& targets_;
  const bool retain_, create_graph_;
  std::map<uint64_t, Seeds> seeds_;  // by the segment's serial
  std::vector<LeafGradient> gradients_;
  std::map<uint64_t, std::vector<bool>> leads_;  // by the segment's serial
};

}  // namespace

std::vector<bool> Ancestors(const ir::Graph& graph, const Values& values,
                            const std::vector<bool>* only) {
  std::vector<bool> ancestors(static_cast<size_t>(graph.num_nodes()));
  for (const Value& value : values) ancestors[value.node_id()] = true;
  for (int id = graph.num_nodes(); id-- > 0;) {
    if (only != nullptr && !(*only)[id]) ancestors[id] = false;
    if (!ancestors[id]) continue;
    for (const Value& operand : graph.node(id).operands) ancestors[operand.node_id()] = true;
  }
  return ancestors;
}

Reach Reach::Of(Segment& segment) {
  Reach reach;
  reach.reached = segment.Reached();
  reach.broken.resize(reach.reached.size());
  for (int id = 0; id < segment.graph.num_nodes(); ++id) {
    if (!reach.reached[id]) continue;
    const auto& operands = segment.graph.node(id).operands;
    reach.broken[id] =
        IsFreed(segment, id) || std::any_of(operands.begin(), operands.end(), [&](const Value& v) {
          return reach.reached[v.node_id()] && reach.broken[v.node_id()];
        });
  }
  return reach;
}

namespace {

// The nodes of a partial history.
class PartialNodes {
 public:
  PartialNodes(const Segment& segment, const TensorImpl& root, const Reach& reach,
               const std::vector<std::shared_ptr<TensorImpl>>& living)
      : segment_(segment), reach_(reach) {
    for (const auto& other : living) {
      if (other.get() == &root || !other->history || other->data == nullptr ||
          !other->data->lost.ok()) {
        continue;
      }
      tensors_[{other->value.node_id(), other->value.result()}] = other;
    }
    found_ = !tensors_.empty() && Visit(root.value) && !ends.empty();
  }

  bool found() const { return found_; }
  bool has(int node) const { return visited_.contains(node); }

  std::vector<std::shared_ptr<TensorImpl>> ends;  // the tensors that it leads to
  Values parameters;

 private:
  static constexpr size_t kMaxNodes = 200;

  bool Visit(const Value& value) {
    const auto tensor = tensors_.find({value.node_id(), value.result()});
    if (tensor != tensors_.end()) {
      ends.push_back(tensor->second);
      tensors_.erase(tensor);
      visited_ends_.insert({value.node_id(), value.result()});
    }
    if (visited_ends_.contains({value.node_id(), value.result()})) return true;
    const int id = value.node_id();
    if (!visited_.insert(id).second) return true;
    if (visited_.size() > kMaxNodes || (reach_.reached[id] && IsFreed(segment_, id))) return false;
    const Node& node = segment_.graph.node(id);
    if (ir::OpName(node) == "parameter") {
      parameters.push_back(value);
      return true;
    }
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](const Value& operand) { return Visit(operand); });
  }

  const Segment& segment_;
  const Reach& reach_;
  absl::flat_hash_map<std::pair<int, int>, std::shared_ptr<TensorImpl>> tensors_;
  absl::flat_hash_set<std::pair<int, int>> visited_ends_;
  absl::flat_hash_set<int> visited_;
  bool found_ = false;
};

}  // namespace

History PartialHistory(Segment& segment, const TensorImpl& root, const Reach& reach,
                       const std::vector<std::shared_ptr<TensorImpl>>& living) {
  if (IsFreed(segment, root.value.node_id())) return {};
  const PartialNodes nodes(segment, root, reach, living);
  if (!nodes.found()) return {};
  const auto partial = std::make_shared<Segment>(segment.graph.num_replicas());
  Values given, replacements, wanted{root.value};
  const auto all = segment.graph.parameters();
  for (const Value& parameter : nodes.parameters) {
    const auto& data =
        segment.parameters[std::find(all.begin(), all.end(), parameter) - all.begin()];
    if (!data->lost.ok() || data->buffer.donated()) return {};
    given.push_back(parameter);
    replacements.push_back(partial->Parameter(data));
  }
  for (const auto& tensor : nodes.ends) {
    Segment::Identity end;
    end.value = ir::StopGradient(partial->Parameter(tensor->data));
    end.tensor = tensor;
    end.version = tensor->version;
    end.freed = true;
    given.push_back(tensor->value);
    replacements.push_back(end.value);
    partial->AddIdentity(std::move(end));
  }
  std::vector<Segment::Identity> identities;
  for (const Segment::Identity& identity : segment.identities) {
    if (!nodes.has(identity.value.node_id())) continue;
    identities.push_back(identity);
    wanted.push_back(identity.value);
  }
  std::vector<std::pair<const TensorImpl*, Segment::ViewValue>> views;
  for (const auto& view : segment.views) {
    if (!nodes.has(view.second.value.node_id())) continue;
    views.push_back(view);
    wanted.push_back(view.second.value);
  }
  const size_t first_hooked = wanted.size();
  for (const Segment::Hooked& one : segment.hooked) {
    if (!nodes.has(one.value.node_id())) continue;
    partial->hooked.push_back(one);
    wanted.push_back(one.value);
  }
  const Values copies = partial->graph.Inline(segment.graph, given, replacements, wanted);
  if (copies.empty()) return {};
  for (size_t i = 0; i < partial->hooked.size(); ++i) {
    partial->hooked[i].value = copies[first_hooked + i];
  }
  for (size_t i = 0; i < views.size(); ++i) {
    views[i].second.value = copies[i + 1 + identities.size()];
    partial->views.insert(views[i]);
  }
  for (size_t i = 0; i < identities.size(); ++i) {
    Segment::Identity& identity = identities[i];
    identity.value = copies[i + 1];
    if (!identity.is_leaf) identity.freed = true;  // not a chain of all steps before
    identity.origin = nullptr;
    partial->AddIdentity(std::move(identity));
  }
  return {partial, copies[0]};
}

std::vector<LeafGradient> Differentiate(Trace& trace, const std::vector<ir::Value>& ys,
                                        const std::vector<ir::Value>& cotangents,
                                        const std::vector<std::shared_ptr<TensorImpl>>& targets,
                                        bool retain, bool create_graph) {
  Differentiation differentiation(trace, targets, retain, create_graph);
  for (size_t i = 0; i < ys.size(); ++i) {
    differentiation.Add(trace.segment(), ys[i], cotangents[i]);
  }
  return differentiation.Run();
}

}  // namespace penstock::lazy
