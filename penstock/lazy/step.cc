#include "penstock/lazy/step.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/ir/layout.h"
#include "penstock/ir/rewrite.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/xm_collectives.h"

namespace penstock::lazy {
namespace {

using ir::Node;
using ir::Value;

// The value that operations which only change the gradient pass through.
Value Contents(Value value) {
  while (true) {
    const Node& node = value.node();
    const absl::string_view name = ir::OpName(node);
    if (name == "penstock.stop_gradient") {
      value = node.operands[0];
    } else if (name == "penstock.custom_gradient") {  // its last operands are its results
      value = node.operands[node.operands.size() - node.results.size() + value.result()];
    } else {
      return value;
    }
  }
}

bool IsCollective(const Node& node) {
  static constexpr absl::string_view kNames[] = {
      "stablehlo.replica_id",     "stablehlo.all_reduce", "stablehlo.all_gather",
      "stablehlo.reduce_scatter", "stablehlo.all_to_all", "stablehlo.collective_permute"};
  const absl::string_view name = ir::OpName(node);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool HasCollectives(const ir::Graph& graph, const std::vector<bool>* needed) {
  if (graph.num_replicas() == 1) return false;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (needed != nullptr && !(*needed)[id]) continue;
    if (IsCollective(graph.node(id))) return true;
    for (const auto& region : graph.node(id).regions) {
      if (HasCollectives(*region, nullptr)) return true;
    }
  }
  return false;
}

// One execution under construction.
class Step {
 public:
  Step(Segment& segment, const Device& device) : segment_(segment), device_(device) {}

  // Groups the roots by their values; those that are parameters share their contents.
  void AddRoot(TensorImpl* root) {
    const Value value = Contents(root->value);
    if (ir::OpName(value.node()) == "parameter") {
      root->data = segment_.parameters[IndexOfParameter(value)];
      return;
    }
    const auto [at, added] =
        index_of_.try_emplace({value.node_id(), value.result()}, static_cast<int>(values_.size()));
    if (added) {
      values_.push_back(value);
      roots_.emplace_back();
    }
    roots_[at->second].push_back(root);
  }

  absl::Status Run(const std::vector<bool>* donatable) {
    if (values_.empty()) return absl::OkStatus();
    FindArguments();
    program_.num_replicas =
        HasCollectives(segment_.graph, &needed_) ? segment_.graph.num_replicas() : 1;
    if (donatable != nullptr) FindDonations(*donatable);
    absl::StatusOr<runtime::Buffers> results = Execute();
    if (!results.ok()) {
      return donatable != nullptr ? GiveUp(results.status()) : results.status();
    }
    for (size_t i = 0; i < roots_.size(); ++i) {
      const auto contents = std::make_shared<DeviceData>(DeviceData{(*results)[i], {}});
      for (TensorImpl* root : roots_[i]) root->data = contents;
    }
    return NoteDispatch(*results);
  }

 private:
  int IndexOfParameter(const Value& value) const {
    const auto all = segment_.graph.parameters();
    // Parameters are in the order of their nodes.
    const auto at = std::lower_bound(
        all.begin(), all.end(), value.node_id(),
        [](const Value& parameter, int node) { return parameter.node_id() < node; });
    return static_cast<int>(at - all.begin());
  }

  // The parameters that the values depend on.
  void FindArguments() {
    needed_.assign(static_cast<size_t>(segment_.graph.num_nodes()), false);
    for (const Value& value : values_) needed_[value.node_id()] = true;
    for (int id = segment_.graph.num_nodes(); id-- > 0;) {
      if (!needed_[id]) continue;
      for (const Value& operand : segment_.graph.node(id).operands) {
        needed_[operand.node_id()] = true;
      }
    }
    argument_of_.assign(segment_.parameters.size(), -1);
    const auto all = segment_.graph.parameters();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!needed_[all[i].node_id()]) continue;
      argument_of_[i] = static_cast<int>(arguments_.size());
      arguments_.push_back(segment_.parameters[i]->buffer);
      parameters_.push_back(all[i]);
    }
  }

  void FindDonations(const std::vector<bool>& donatable) {
    absl::flat_hash_set<int> donated;
    for (size_t i = 0; i < roots_.size(); ++i) {
      for (const TensorImpl* root : roots_[i]) {
        const auto& old = root->replaces;
        if (old == nullptr) continue;
        const auto at = segment_.parameter_of.find(old.get());
        if (at == segment_.parameter_of.end()) continue;
        const int parameter = IndexOfParameter(at->second), argument = argument_of_[parameter];
        const bool fits = argument >= 0 && old->buffer.type() == values_[i].type() &&
                          donated.insert(argument).second;
        if (!fits) continue;
        // Whether only this root and the segment refer to it.
        const bool free = donatable[parameter] && old.use_count() == 2;
        if (!free && program_.num_replicas == 1) {
          donated.erase(argument);
          continue;
        }
        // Replicas share a program, so what it donates must not depend on what one of them keeps: a
        // copy is donated instead.
        if (!free) copied_.push_back(argument);
        program_.donate.push_back({argument, static_cast<int>(i)});
        break;
      }
    }
  }

  absl::StatusOr<runtime::Buffers> Execute() {
    segment_.graph.SetResults(values_);
    PENSTOCK_RETURN_IF_ERROR(segment_.graph.TakeStatus());
    ir::Hasher hasher;
    const ir::Hash128 graph = segment_.Fingerprint();
    for (const uint64_t word : {graph.high, graph.low, uint64_t(program_.num_replicas)}) {
      hasher.Add(word);
    }
    for (const auto& [argument, result] : program_.donate) {
      hasher.Add(uint64_t(argument) << 32 | uint64_t(result));
    }
    program_.key = hasher.Finish();
    program_.graph = [this] { return Graph(); };
    Context& context = *device_.context();
    const met::TimeSample timed("ExecuteTime");
    return program_.num_replicas == 1 ? ExecuteAlone(context) : ExecuteTogether(context);
  }

  absl::StatusOr<runtime::Buffers> ExecuteAlone(Context& context) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto executable, context.Load(program_, {device_.index()}));
    PENSTOCK_ASSIGN_OR_RETURN(auto results, executable->Execute({arguments_}));
    return std::move(results[0]);
  }

  // With the other threads of xmp::spawn.
  absl::StatusOr<runtime::Buffers> ExecuteTogether(Context& context) {
    const ReplicaContext* const replica = CurrentReplica();
    if (replica == nullptr) {
      return absl::FailedPreconditionError(
          "the recorded step has collectives, but xmp::spawn has ended; call xm::mark_step in the "
          "function that it runs");
    }
    for (const int argument : copied_) {
      PENSTOCK_ASSIGN_OR_RETURN(const base::Array value, context.Get(arguments_[argument]));
      PENSTOCK_ASSIGN_OR_RETURN(arguments_[argument], context.Put(value, device_.index()));
    }
    std::vector<int> devices;
    for (int i = 0; i < program_.num_replicas; ++i) devices.push_back(i);
    const MeetingPoint point{.key = program_.key.ToString(),
                             .describe = [this] { return Description(); },
                             .parts = [this] { return Operations(); }};
    return replica->replicas->Execute(replica->ordinal, point, arguments_,
                                      [&] { return context.Load(program_, devices); });
  }

  // "all_reduce of f32[10] at train.cc:40", with the type of its first operand.
  std::string OperationText(const Node& node) const {
    const ir::Origin& origin = segment_.graph.origins()[node.origin];
    const SourceLocation line{origin.file.c_str(), origin.line};
    const ir::TensorType type = node.operands.empty() ? node.results[0] : node.operands[0].type();
    return absl::StrCat(absl::StripPrefix(ir::OpName(node), "stablehlo."), " of ", type.ToString(),
                        origin.file.empty() ? "" : " at ",
                        origin.file.empty() ? "" : xm::internal::LineOf(line));
  }

  // Attributes in which operations of equal types may differ: "value = 0.5".
  static std::string AttributesText(const Node& node) {
    std::string text;
    for (const auto& [name, attribute] : node.attributes) {
      const std::string value = std::visit(
          [](const auto& of) -> std::string {
            using T = std::decay_t<decltype(of)>;
            if constexpr (std::is_same_v<T, base::Array>) return of.ToString(4);
            if constexpr (std::is_same_v<T, std::vector<int64_t>>) return absl::StrJoin(of, ",");
            if constexpr (std::is_same_v<T, DType>) return std::string(base::DTypeName(of));
            if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
              return absl::StrCat(of);
            }
          },
          attribute);
      absl::StrAppend(&text, " ", name, " = ", value);
    }
    return text;
  }

  // Of a program with collectives, for errors of replicas that wait for each other.
  std::string Description() const {
    std::string first = "in a loop";
    for (int id = segment_.graph.num_nodes(); id-- > 0;) {
      const Node& node = segment_.graph.node(id);
      if (needed_[id] && IsCollective(node)) first = OperationText(node);
    }
    return absl::StrCat("mark_step with collectives (first: ", first, "; ", arguments_.size(),
                        " inputs, ", values_.size(), " results)");
  }
  std::vector<std::string> Operations() const {
    std::vector<std::string> texts;
    for (int id = 0; id < segment_.graph.num_nodes(); ++id) {
      const Node& node = segment_.graph.node(id);
      if (needed_[id]) texts.push_back(OperationText(node) + AttributesText(node));
    }
    return texts;
  }

  // What the values need, without operations that nothing needs.
  absl::StatusOr<std::unique_ptr<ir::Graph>> Graph() {
    auto graph = std::make_unique<ir::Graph>(segment_.graph.name(), program_.num_replicas);
    std::vector<Value> replacements;
    for (const Value& parameter : parameters_) {
      replacements.push_back(
          graph->Parameter(parameter.type(), absl::StrCat("input ", replacements.size())));
    }
    graph->SetResults(graph->Inline(segment_.graph, parameters_, replacements, values_));
    auto laid_out = ir::ChannelsLast(*graph);
    PENSTOCK_RETURN_IF_ERROR(laid_out->status());
    return laid_out;
  }

  absl::Status NoteDispatch(const runtime::Buffers& results) {
    runtime::Buffers donated;
    std::vector<bool> reused(results.size());
    for (const auto& [argument, result] : program_.donate) {
      donated.push_back(arguments_[argument]);
      reused[result] = true;
    }
    // A result that the next step is unlikely to donate, if there is one; of those the smallest.
    size_t smallest = 0;
    const auto cost = [&](size_t i) {
      return std::pair(bool(reused[i]), results[i].type().shape.num_elements());
    };
    for (size_t i = 1; i < results.size(); ++i) {
      if (cost(i) < cost(smallest)) smallest = i;
    }
    return device_.context()->Dispatched(device_.index(), results[smallest], std::move(donated));
  }

  // The contents that a root had before the step, or those of its predecessor; null if neither
  // still exist.
  static std::shared_ptr<DeviceData> ContentsBefore(const TensorImpl& root) {
    for (const auto* contents : {&root.replaces, &root.predecessor}) {
      const bool exist =
          *contents != nullptr && (*contents)->buffer.valid() && !(*contents)->buffer.donated();
      if (exist) return *contents;
    }
    return nullptr;
  }

  // After an error: contents that were not donated are what they were before the step. Returns the
  // error with the tensors that are lost.
  absl::Status GiveUp(const absl::Status& error) {
    std::vector<std::string> lost;
    for (const auto& group : roots_) {
      for (TensorImpl* root : group) {
        if (auto before = ContentsBefore(*root); before != nullptr) {
          root->data = std::move(before);
          continue;
        }
        lost.push_back(
            absl::StrCat(root->name, root->name.empty() ? "" : " ", root->type().ToString()));
        root->data = std::make_shared<DeviceData>();
        root->data->lost =
            absl::FailedPreconditionError(absl::StrCat("the value of ", lost.back(),
                                                       " was lost, because the step that computed "
                                                       "it failed: ",
                                                       error.message()));
      }
    }
    if (lost.empty()) return error;
    constexpr size_t kShown = 5;
    const size_t more = lost.size() - std::min(lost.size(), kShown);
    lost.resize(lost.size() - more);
    return absl::Status(error.code(),
                        absl::StrCat(error.message(), "; lost with it: ", absl::StrJoin(lost, ", "),
                                     more == 0 ? "" : absl::StrCat(" and ", more, " others")));
  }

  Segment& segment_;
  const Device& device_;
  std::vector<Value> values_;
  std::vector<std::vector<TensorImpl*>> roots_;  // by value
  absl::flat_hash_map<std::pair<int, int>, int> index_of_;
  std::vector<bool> needed_;       // by node
  std::vector<int> argument_of_;   // by parameter of the segment; -1: not needed
  std::vector<Value> parameters_;  // by argument
  runtime::Buffers arguments_;
  std::vector<int> copied_;  // arguments that are donated as copies
  StepProgram program_;
};

}  // namespace

absl::Status RunStep(Segment& segment, const Device& device, const std::vector<TensorImpl*>& roots,
                     const std::vector<bool>* donatable) {
  Step step(segment, device);
  for (TensorImpl* root : roots) step.AddRoot(root);
  return step.Run(donatable);
}

}  // namespace penstock::lazy
