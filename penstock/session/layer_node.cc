#include "penstock/session/layer_node.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/lowering.h"
#include "penstock/session/run/host_input.h"
#include "penstock/session/variable_table.h"

namespace penstock::session::layers::internal {
namespace {

using ::penstock::nn::Network;
using ::penstock::nn::VariableSpec;

// Initial values of a network's variables: those that Network::Initialize computes, so that they
// are equal to Keras's for the graph's seed. Computed when the first one is needed.
class NetworkValues {
 public:
  explicit NetworkValues(Network network) : network_(std::move(network)) {}

  // `name` is going to be taken; values of other variables are not stored.
  void Want(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    wanted_.insert(name);
  }

  // `any`: a value of another seed, if not given away yet, will do. Without the graph's seed, each
  // variable comes with a seed of its own, and each would have the whole network computed.
  absl::StatusOr<Array> Take(const std::string& name, uint64_t seed, bool any) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if ((seed != seed_ && !any) || !values_.contains(name)) {
      PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays values, network_.Initialize(seed));
      seed_ = seed;
      values_.clear();
      for (const auto& [variable, value] : values) {
        if (wanted_.contains(variable)) values_[variable] = value;
      }
    }
    // Each value is given away, so that none occupies memory once all are initialized.
    const auto found = values_.find(name);
    if (found == values_.end()) return absl::InternalError(absl::StrCat("no variable ", name));
    Array value = std::move(found->second);
    values_.erase(found);
    return value;
  }

 private:
  const Network network_;
  std::mutex mutex_;  // protects what follows
  uint64_t seed_ = 0;
  std::set<std::string> wanted_;
  std::map<std::string, Array> values_;
};

class NetworkValueSource final : public HostInputSource {
 public:
  NetworkValueSource(std::shared_ptr<NetworkValues> values, std::string name,
                     std::optional<uint64_t> graph_seed)
      : values_(std::move(values)), name_(std::move(name)), graph_seed_(graph_seed) {}

  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t seed) override {
    return std::make_unique<Input>(values_, name_, graph_seed_.value_or(seed),
                                   /*any=*/!graph_seed_.has_value());
  }

 private:
  struct Input final : HostInput {
    Input(std::shared_ptr<NetworkValues> v, std::string n, uint64_t s, bool a)
        : values(std::move(v)), name(std::move(n)), seed(s), any(a) {}
    absl::StatusOr<std::vector<Array>> Next() override {
      // Another Run of the initializer draws other numbers.
      const uint64_t own = runs == 0 ? seed : base::MixSeeds(seed, runs);
      ++runs;
      PENSTOCK_ASSIGN_OR_RETURN(Array value, values->Take(name, own, any));
      return std::vector<Array>{std::move(value)};
    }
    const std::shared_ptr<NetworkValues> values;
    const std::string name;
    const uint64_t seed;
    const bool any;
    uint64_t runs = 0;
  };

  const std::shared_ptr<NetworkValues> values_;
  const std::string name_;
  const std::optional<uint64_t> graph_seed_;
};

// The initializer of a network's variable.
Initializer FromNetwork(std::shared_ptr<NetworkValues> values, const std::string& name,
                        std::optional<uint64_t> seed) {
  values->Want(name);
  return [values = std::move(values), name, seed](const Shape& shape, DType dtype) {
    Graph* const graph = Graph::Default();
    Node* const node =
        graph->AddNode({.type = "InitialValue",
                        .outputs = std::vector<Node::Output>{{dtype, PartialShape(shape)}},
                        .stateful = true,
                        .extra = std::make_shared<NetworkValueSource>(values, name, seed)},
                       {}, nullptr, {});
    return node == nullptr ? Tensor() : Tensor(node, 0);
  };
}

bool ScopeHasInitializer(Graph* graph) {
  const VariableTable& table = graph->Extension<VariableTable>();
  return !table.scopes.empty() && table.scopes.back().initializer != nullptr;
}

// The graph's variables of the network, in its order; empty after an error.
Variables MakeVariables(const Network& network, Graph* graph, const LayerNodeOptions& options,
                        SourceLocation where) {
  // Network::Initialize mixes the seed with the variables' names; a scope that these do not contain
  // is mixed here.
  std::optional<uint64_t> seed = graph->random_seed();
  for (const char c : options.seed_scope) {
    if (seed.has_value()) seed = base::MixSeeds(*seed, static_cast<uint8_t>(c));
  }
  const auto values = std::make_shared<NetworkValues>(network);
  Variables variables;
  for (const VariableSpec& spec : network.variables()) {
    absl::string_view name = spec.name;
    absl::ConsumePrefix(&name, options.path);
    const auto found = options.variables.find(std::string(name));
    const VariableChoice choice =
        found == options.variables.end() ? VariableChoice() : found->second;
    Initializer initializer = choice.initializer;
    const bool scopes = choice.default_is_scopes && ScopeHasInitializer(graph);
    if (initializer == nullptr && !scopes) initializer = FromNetwork(values, spec.name, seed);
    const Variable variable = GetVariable(
        name, spec.type.shape, spec.type.dtype, initializer,
        {.trainable = spec.trainable && options.trainable,
         .regularizer = choice.regularizer.empty() ? spec.regularizer : choice.regularizer,
         .constraint = choice.constraint.empty() ? spec.constraint : choice.constraint},
        where);
    if (!variable.valid()) return {};
    variables.push_back(variable);
  }
  return variables;
}

// What one call of the network gives, in the order of the operation's outputs: the network's
// outputs, the assigned values, the losses.
struct Parts {
  size_t outputs = 0;
  std::vector<int> assigned;  // indices of variables
  size_t losses = 0;
  bool draws = false;  // random numbers
};

// Number of regularizers of variables, which Network::Apply adds to its losses: GetVariable has
// added them.
size_t NumRegularized(const Network& network) {
  size_t count = 0;
  for (const VariableSpec& spec : network.variables()) {
    count += spec.trainable && !spec.regularizer.empty();
  }
  return count;
}

// A call of the network in a program.
struct Call {
  Network network;
  decltype(LayerNodeOptions::assigned) assigned;
  size_t num_variables = 0, num_inputs = 0;

  // `in`: the variables, the inputs, and more that is ignored.
  ir::Values Run(ir::Graph& graph, const ir::Values& in, bool training, const ir::Value& key,
                 Parts* parts) const {
    const auto begin = in.begin() + static_cast<std::ptrdiff_t>(num_variables);
    const ir::Values variables(in.begin(), begin);
    ir::Values inputs(begin, begin + static_cast<std::ptrdiff_t>(num_inputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) return {};
      inputs[i] = ir::Convert(inputs[i], network.inputs()[i].type.dtype);
    }
    const Network::Result result =
        network.Apply({.graph = &graph, .training = training, .key = key}, variables, inputs);
    if (!graph.status().ok()) return {};
    ir::Values out = result.outputs;
    std::vector<int> which;
    for (const auto& [index, value] : result.assigned) which.push_back(index);
    std::sort(which.begin(), which.end());
    for (const int index : which) {
      ir::Value after = result.assigned.at(index);
      if (assigned != nullptr) {
        after = assigned(network.variables()[index].name, variables[index], after, inputs);
      }
      out.push_back(after);
    }
    const size_t losses = result.losses.size() - NumRegularized(network);
    out.insert(out.end(), result.losses.begin(),
               result.losses.begin() + static_cast<std::ptrdiff_t>(losses));
    if (parts != nullptr) {
      *parts = {.outputs = result.outputs.size(), .assigned = which, .losses = losses};
    }
    return out;
  }

  // Both modes, selected by the last of `in`: a value that only training assigns stays as it is.
  ir::Values RunSelected(ir::Graph& graph, const ir::Values& in, const ir::Value& key,
                         Parts* parts) const {
    Parts trained, tested;
    ir::Values yes = Run(graph, in, true, key, &trained);
    const ir::Values no = Run(graph, in, false, key, &tested);
    if (yes.empty() || no.empty()) return {};
    if (in.back().rank() != 0 || in.back().dtype() != DType::kBool) {
      graph.Fail(absl::InvalidArgumentError(
          absl::StrCat("`training` is a bool scalar; got ", in.back().type().ToString())));
      return {};
    }
    for (size_t i = 0; i < yes.size(); ++i) {
      ir::Value other;
      if (i < trained.outputs) {
        other = no[i];
      } else if (i < trained.outputs + trained.assigned.size()) {
        other = in[static_cast<size_t>(trained.assigned[i - trained.outputs])];
      } else {
        other = ir::SplatLike(yes[i], 0);
      }
      // Losses of a call in inference mode that the other mode has, too.
      const size_t loss = i - trained.outputs - trained.assigned.size();
      if (i >= trained.outputs + trained.assigned.size() && loss < tested.losses) {
        other = no[tested.outputs + tested.assigned.size() + loss];
      }
      yes[i] = ir::Select(in.back(), yes[i], other);
    }
    if (parts != nullptr) *parts = trained;
    return yes;
  }

  ir::Values Run(ir::Graph& graph, const ir::Values& in, const Training& training,
                 const ir::Value& key, Parts* parts = nullptr) const {
    if (training.is_tensor()) return RunSelected(graph, in, key, parts);
    return Run(graph, in, training.value(), key, parts);
  }
};

bool IsUsed(const ir::Graph& graph, const ir::Value& value) {
  for (int id = 0; id < graph.num_nodes(); ++id) {
    for (const ir::Value& operand : graph.node(id).operands) {
      if (operand == value) return true;
    }
  }
  return false;
}

// The outputs' types and what they are.
absl::StatusOr<std::vector<Node::Output>> Infer(const Call& call, const Tensors& inputs,
                                                const LayerNodeOptions& options, Parts* parts) {
  Node node;
  node.name = options.name;
  node.type = options.type;
  node.inputs = inputs;
  const LowerFunction lower = [&](Lowering& lowering, const ir::Values& in) {
    ir::Graph& graph = lowering.graph();
    const ir::Value key = graph.Parameter({DType::kU32, {2}}, "key");
    Parts found;
    ir::Values out = call.Run(graph, in, options.training, key, &found);
    if (out.empty()) return out;  // a guess that does not fit
    found.draws = IsUsed(graph, key);
    *parts = found;
    return out;
  };
  return InferOutputs(lower, node);
}

Tensors Invalid(size_t count) { return Tensors(std::max<size_t>(count, 1)); }

}  // namespace

absl::StatusOr<std::vector<::penstock::nn::Symbol>> InputSymbols(const Tensors& inputs,
                                                                 int64_t guess) {
  std::vector<::penstock::nn::Symbol> symbols;
  for (const Tensor& input : inputs) {
    if (!input.shape().has_rank() || input.shape().rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the input '", input.name(), "' needs a known rank and a batch axis; it is ",
                       TypeString(input)));
    }
    std::vector<int64_t> row;
    for (int i = 1; i < input.shape().rank(); ++i) {
      row.push_back(input.shape().dim(i) < 0 ? guess : input.shape().dim(i));
    }
    symbols.push_back(::penstock::nn::Input({.shape = row, .dtype = input.dtype()}));
  }
  return symbols;
}

Tensors AddLayerNode(const Network& network, const Tensors& inputs, const LayerNodeOptions& options,
                     SourceLocation where) {
  const size_t count = network.outputs().size();
  Graph* const graph = inputs.empty() ? nullptr : inputs[0].graph();
  if (graph == nullptr || !graph->status().ok()) return Invalid(count);
  const auto fail = [&](const absl::Status& status) {
    graph->Fail(status, options.name, where);
    return Invalid(count);
  };
  if (!network.status().ok()) return fail(network.status());
  const Variables variables = MakeVariables(network, graph, options, where);
  if (variables.size() != network.variables().size()) return Invalid(count);
  Tensors all;
  for (const Variable& variable : variables) all.push_back(variable.Value(where));
  all.insert(all.end(), inputs.begin(), inputs.end());
  if (options.training.is_tensor()) all.push_back(options.training.tensor());
  const Call call{network, options.assigned, variables.size(), inputs.size()};
  Parts parts;
  auto outputs = Infer(call, all, options, &parts);
  if (!outputs.ok()) return fail(outputs.status());
  const bool draws = parts.draws;
  Node* const node = graph->AddNode(
      {.type = options.type,
       .name = options.name,
       .outputs = *std::move(outputs),
       .stateful = draws,
       .extra = draws ? std::make_shared<RandomSeed>(options.seed) : nullptr},
      all,
      [call, training = options.training, draws](Lowering& lowering, const ir::Values& in) {
        const ir::Value key = draws ? lowering.RandomKey(lowering.node()) : ir::Value();
        return call.Run(lowering.graph(), in, training, key);
      },
      where);
  if (node == nullptr) return Invalid(count);
  size_t next = parts.outputs;
  const bool updates = options.training.is_tensor() || options.training.value();
  for (const int index : parts.assigned) {
    const Variable& variable = variables[static_cast<size_t>(index)];
    const Tensor after(node, static_cast<int>(next++));
    const Tensor update = base::IsFloat(variable.dtype())
                              ? AssignMoved(variable, all[static_cast<size_t>(index)], after,
                                            "AssignMovingAvg", where)
                              : Assign(variable, after, "AssignMovingAvg", where);
    if (updates) graph->AddToCollection(graph_keys::kUpdateOps, Operation(update));
  }
  for (size_t i = 0; i < parts.losses; ++i) {
    graph->AddToCollection(graph_keys::kRegularizationLosses,
                           Tensor(node, static_cast<int>(next++)));
  }
  Tensors results;
  for (size_t i = 0; i < parts.outputs; ++i) results.emplace_back(node, static_cast<int>(i));
  return results;
}

}  // namespace penstock::session::layers::internal
