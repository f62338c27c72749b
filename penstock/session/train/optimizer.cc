#include "penstock/session/train/optimizer.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/nn/optimizers/optimizer_body.h"
#include "penstock/session/body.h"
#include "penstock/session/gradients.h"
#include "penstock/session/lowering.h"
#include "penstock/session/variable_table.h"

namespace penstock::session::train {

// What copies of an optimizer share, in all graphs.
struct Optimizer::State {
  State(const ::penstock::nn::Optimizer& o, std::optional<LearningRate> r, absl::string_view n,
        Traits t)
      : optimizer(o), rate(std::move(r)), name(n), traits(std::move(t)) {}

  ::penstock::nn::Optimizer optimizer;
  std::optional<LearningRate> rate;  // nullopt: the optimizer's
  std::string name;
  Traits traits;
};

// The variables of an optimizer in one graph.
struct Optimizer::GraphVariables {
  absl::flat_hash_map<const VariableDef*, Variables> slots;  // in the order of Slots()
  Variables shared;
  Variable iteration, beta1_power, beta2_power;
  bool has_shared = false;
  Variables all;  // in creation order
};

// Those of all optimizers of a graph, which owns them: an optimizer may be used in several graphs
// and outlive them, as one that a program gives to an estimator does.
struct Optimizer::VariablesOfGraph {
  absl::flat_hash_map<std::shared_ptr<const State>, GraphVariables> by_optimizer;
};

namespace {

// What the update of ApplyGradients reads and assigns; copied into the operation.
struct Update {
  ::penstock::nn::Optimizer optimizer;
  std::vector<const VariableDef*> variables = {};
  std::vector<std::vector<const VariableDef*>> slots = {};
  std::vector<const VariableDef*> shared = {};
  const VariableDef* iteration = nullptr;
  const VariableDef* beta1_power = nullptr;
  const VariableDef* beta2_power = nullptr;
  double beta1 = 0, beta2 = 0;
  const VariableDef* global_step = nullptr;
  bool has_rate = false;            // the last input is the learning rate
  std::optional<double> rate = {};  // the learning rate as a number
};

// The number of finished updates t, given beta^(t + 1), as an i32 scalar. Where the power is too
// small to tell, a large number, at which all powers are 0 as well.
ir::Value UpdatesOfPower(ir::Value power, double beta) {
  constexpr double kMany = 1e9, kSmallest = 1e-30;
  const ir::Value p = ir::Convert(power, DType::kF32);
  const ir::Value many = ir::SplatLike(p, kMany);
  if (beta <= 0) return ir::Convert(many, DType::kI32);
  const ir::Value steps = ir::Round(ir::Log(p) / ir::Log(ir::SplatLike(p, beta))) - 1.0;
  const ir::Value known = ir::Greater(p, ir::SplatLike(p, kSmallest));
  const ir::Value clamped = ir::Clamp(ir::SplatLike(p, 0), steps, many);
  return ir::Convert(ir::Select(known, clamped, many), DType::kI32);
}

// beta^(updates + 2), the power after one more update.
ir::Value NextPower(double beta, ir::Value updates, DType dtype) {
  return ir::Convert(::penstock::nn::PowerOf(beta, ir::Convert(updates, DType::kF32) + 2.0), dtype);
}

ir::Value Iteration(Lowering& lowering, const Update& update) {
  if (update.iteration != nullptr) {
    return ir::Convert(lowering.Read(*update.iteration), DType::kI32);
  }
  if (update.beta1_power == nullptr) return ir::Splat(lowering.graph(), {DType::kI32, {}}, 0);
  // The power that decreases more slowly tells the number for longer.
  const bool second = update.beta2 >= update.beta1;
  return UpdatesOfPower(lowering.Read(second ? *update.beta2_power : *update.beta1_power),
                        second ? update.beta2 : update.beta1);
}

ir::Values ReadAll(Lowering& lowering, const std::vector<const VariableDef*>& variables) {
  ir::Values values;
  for (const VariableDef* variable : variables) values.push_back(lowering.Read(*variable));
  return values;
}

void CountUpdate(Lowering& lowering, const Update& update, const ir::Value& iteration) {
  for (const VariableDef* counter : {update.iteration, update.global_step}) {
    if (counter != nullptr) lowering.Assign(*counter, lowering.Read(*counter) + 1.0);
  }
  if (update.beta1_power == nullptr) return;
  lowering.Assign(*update.beta1_power,
                  NextPower(update.beta1, iteration, update.beta1_power->dtype));
  lowering.Assign(*update.beta2_power,
                  NextPower(update.beta2, iteration, update.beta2_power->dtype));
}

// `in`: the gradients, then the learning rate if it is a tensor.
ir::Values LowerUpdate(Lowering& lowering, const Update& update, const ir::Values& in) {
  ::penstock::nn::OptimizerStep step;
  for (size_t i = 0; i < update.variables.size(); ++i) {
    const VariableDef& variable = *update.variables[i];
    const ir::Value value = lowering.Read(variable);
    if (!value.valid() || !in[i].valid()) return {};
    if (!(value.shape() == in[i].shape())) {
      lowering.Fail(absl::InvalidArgumentError(
          absl::StrCat("the gradient of variable '", variable.name, "' is ",
                       in[i].type().ToString(), ", the variable is ", value.type().ToString())));
      return {};
    }
    step.variables.push_back({.name = variable.name,
                              .constraint = variable.constraint,
                              .value = value,
                              .gradient = in[i],
                              .slots = ReadAll(lowering, update.slots[i])});
  }
  step.shared = ReadAll(lowering, update.shared);
  step.iteration = Iteration(lowering, update);
  if (update.has_rate) step.learning_rate = ir::Convert(in.back(), DType::kF32);
  if (update.rate.has_value()) {
    step.learning_rate = ir::Splat(lowering.graph(), {DType::kF32, {}}, *update.rate);
  }
  const ::penstock::nn::OptimizerResult result = update.optimizer.Apply(step);
  if (result.variables.size() != update.variables.size()) return {};  // the graph has an error
  for (size_t i = 0; i < update.variables.size(); ++i) {
    lowering.Assign(*update.variables[i], result.variables[i].value);
    for (size_t s = 0; s < update.slots[i].size(); ++s) {
      lowering.Assign(*update.slots[i][s], result.variables[i].slots[s]);
    }
  }
  for (size_t s = 0; s < update.shared.size(); ++s) {
    lowering.Assign(*update.shared[s], result.shared[s]);
  }
  CountUpdate(lowering, update, step.iteration);
  return {};
}

// Creates a variable of an optimizer, outside of control dependencies, loops and branches.
Variable MakeState(absl::string_view name, const Shape& shape, DType dtype, double initial,
                   SourceLocation where) {
  Graph* const graph = Graph::Default();
  const ControlDependencies none(std::nullopt);
  const BodyScope top_level(graph, nullptr);
  const std::string scope =
      graph->name_scope().empty() ? "" : absl::StrCat(graph->name_scope(), "/");
  Tensor value;
  {
    const NameScope within(absl::StrCat(scope, name, "/Initializer/"));
    value = (initial == 0 ? ZerosInitializer() : ConstantInitializer(initial))(shape, dtype);
  }
  return Variable(value, name, {.trainable = false}, where);
}

std::string NamesOf(const GradientsAndVariables& pairs) {
  std::vector<std::string> names;
  for (const GradientAndVariable& pair : pairs) {
    constexpr size_t kMaxListed = 10;
    if (names.size() == kMaxListed) {
      names.push_back("...");
      break;
    }
    names.push_back(pair.variable.valid() ? pair.variable.def()->name : "<invalid>");
  }
  return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
}

// Checks the arguments of ApplyGradients.
absl::Status CheckPairs(const GradientsAndVariables& pairs, const Graph* graph) {
  if (pairs.empty()) return absl::InvalidArgumentError("no variables are given");
  absl::flat_hash_set<const VariableDef*> seen;
  bool any = false;
  for (const GradientAndVariable& pair : pairs) {
    if (!pair.variable.valid()) return absl::InvalidArgumentError("a variable is invalid");
    const VariableDef& variable = *pair.variable.def();
    if (!seen.insert(&variable).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name, "' is given twice; add its gradients up"));
    }
    if (variable.graph != graph || (pair.gradient.valid() && pair.gradient.graph() != graph)) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name, "' or its gradient is of another graph"));
    }
    if (pair.gradient.valid() &&
        !pair.gradient.shape().IsCompatibleWith(PartialShape(variable.shape))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the gradient of variable '", variable.name, "' has shape ",
          pair.gradient.shape().ToString(), ", the variable ", variable.shape.ToString()));
    }
    any = any || pair.gradient.valid();
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "No gradients provided for any variable: the loss does not depend on the variables ",
      NamesOf(pairs), ", or only through operations without a gradient"));
}

// The same, and those of the optimizer itself.
absl::Status CheckUpdate(const GradientsAndVariables& pairs, const Graph* graph,
                         const ::penstock::nn::Optimizer& optimizer,
                         const std::optional<LearningRate>& rate) {
  PENSTOCK_RETURN_IF_ERROR(CheckPairs(pairs, graph));
  PENSTOCK_RETURN_IF_ERROR(optimizer.Check());
  std::vector<std::string> names;
  for (const GradientAndVariable& pair : pairs) {
    if (pair.gradient.valid()) names.push_back(pair.variable.def()->name);
  }
  PENSTOCK_RETURN_IF_ERROR(optimizer.CheckPatterns(names));
  if (rate.has_value() && rate->is_tensor() && !rate->tensor().valid()) {
    return absl::InvalidArgumentError("the learning rate is an invalid tensor");
  }
  return absl::OkStatus();
}

}  // namespace

Optimizer::Optimizer(const ::penstock::nn::Optimizer& optimizer, absl::string_view name)
    : state_(std::make_shared<State>(optimizer, std::nullopt,
                                     name.empty() ? optimizer.class_name() : name, Traits())) {}

Optimizer::Optimizer(const ::penstock::nn::Optimizer& optimizer, const LearningRate& learning_rate,
                     absl::string_view name)
    : Optimizer(optimizer, learning_rate, name, Traits()) {}

Optimizer::Optimizer(const ::penstock::nn::Optimizer& optimizer, const LearningRate& learning_rate,
                     absl::string_view name, Traits traits)
    : state_(std::make_shared<State>(optimizer, learning_rate,
                                     name.empty() ? optimizer.class_name() : name,
                                     std::move(traits))) {}

Optimizer::GraphVariables& Optimizer::InGraph(Graph& graph) const {
  return graph.Extension<VariablesOfGraph>().by_optimizer[state_];
}

const Optimizer::GraphVariables* Optimizer::FindInGraph(const Graph* graph) const {
  const auto* all = graph == nullptr ? nullptr : graph->FindExtension<VariablesOfGraph>();
  if (all == nullptr) return nullptr;
  const auto found = all->by_optimizer.find(state_);
  return found == all->by_optimizer.end() ? nullptr : &found->second;
}

std::string Optimizer::name() const { return state_ == nullptr ? "" : state_->name; }

std::vector<std::string> Optimizer::GetSlotNames() const {
  if (state_ == nullptr) return {};
  if (!state_->traits.slot_names.empty()) return state_->traits.slot_names;
  std::vector<std::string> names;
  for (const ::penstock::nn::SlotSpec& slot : state_->optimizer.Slots("", {DType::kF32, {}})) {
    names.push_back(slot.name);
  }
  return names;
}

Variable Optimizer::GetSlot(const Variable& variable, absl::string_view name) const {
  if (state_ == nullptr || !variable.valid()) return Variable();
  const GraphVariables* const made = FindInGraph(variable.def()->graph);
  if (made == nullptr) return Variable();
  const auto slots = made->slots.find(variable.def());
  if (slots == made->slots.end()) return Variable();
  const std::vector<std::string>& given = state_->traits.slot_names;
  const std::vector<::penstock::nn::SlotSpec> specs =
      state_->optimizer.Slots(variable.def()->name, {variable.def()->dtype, variable.def()->shape});
  for (size_t i = 0; i < slots->second.size(); ++i) {
    if ((i < given.size() ? given[i] : specs[i].name) == name) return slots->second[i];
  }
  return Variable();
}

Variables Optimizer::variables() const {
  const GraphVariables* const made = FindInGraph(Graph::Default());
  return made == nullptr ? Variables() : made->all;
}

Operation Optimizer::Minimize(const Tensor& loss, const Variable& global_step,
                              const Variables& var_list, const MinimizeOptions& options,
                              SourceLocation where) {
  const GradientsAndVariables pairs = ComputeGradients(loss, var_list, options.grad_loss, where);
  return ApplyGradients(pairs, global_step, options.name, where);
}

GradientsAndVariables Optimizer::ComputeGradients(const Tensor& loss, const Variables& var_list,
                                                  const Tensor& grad_loss, SourceLocation where) {
  if (!loss.valid() || state_ == nullptr) {
    FailOp({}, name(), "the loss is an invalid tensor", where);
    return {};
  }
  const Graph::DefaultScope scope = loss.graph()->AsDefault();
  const Variables variables = var_list.empty() ? TrainableVariables() : var_list;
  if (variables.empty()) {
    FailOp({loss}, state_->name, "no variables to optimize: the graph has no trainable variable",
           where);
    return {};
  }
  MakeShared(where);
  Tensor scale = grad_loss;
  const bool scales = state_->optimizer.has_loss_scaling() ||
                      state_->optimizer.options().loss_scale_factor.has_value();
  if (scales) scale = ScaledGradient(loss, grad_loss, where);
  GradientsOptions options{.name = absl::StrCat(state_->name, "/gradients")};
  if (scale.valid()) options.grad_ys = {scale};
  const Tensors gradients =
      Gradients({loss}, Tensors(variables.begin(), variables.end()), options, where);
  GradientsAndVariables pairs;
  for (size_t i = 0; i < variables.size(); ++i) {
    pairs.push_back({i < gradients.size() ? gradients[i] : Tensor(), variables[i]});
  }
  return pairs;
}

// Gradient of the loss times the optimizer's loss scale.
Tensor Optimizer::ScaledGradient(const Tensor& loss, const Tensor& grad_loss,
                                 SourceLocation where) {
  Tensors inputs{loss};
  if (grad_loss.valid()) inputs.push_back(grad_loss);
  for (const Variable& variable : InGraph(*loss.graph()).shared) {
    inputs.push_back(variable.Value(where));
  }
  const bool given = grad_loss.valid();
  return AddOp("LossScale", inputs, "loss_scale", where,
               [optimizer = state_->optimizer, given](const ir::Values& in) {
                 const ir::Values shared(in.begin() + (given ? 2 : 1), in.end());
                 const ir::Value scale = optimizer.LossScale(*in[0].graph(), shared);
                 const ir::Value ones = given ? in[1] : ir::SplatLike(in[0], 1);
                 return ones * ir::Convert(scale, ones.dtype());
               });
}

// Creates the variables of the optimizer as a whole, in the default graph.
void Optimizer::MakeShared(SourceLocation where) {
  const State& s = *state_;
  GraphVariables& made = InGraph(*Graph::Default());
  if (std::exchange(made.has_shared, true)) return;
  const auto add = [&](Variable& at, absl::string_view name, DType dtype, double initial) {
    at = MakeState(name, {}, dtype, initial, where);
    made.all.push_back(at);
  };
  if (s.traits.has_beta_powers) {
    add(made.beta1_power, "beta1_power", DType::kF32, s.traits.beta1);
    add(made.beta2_power, "beta2_power", DType::kF32, s.traits.beta2);
  } else if (s.traits.counts_updates) {
    add(made.iteration, absl::StrCat(s.name, "/iteration"), DType::kI64, 0);
  }
  for (const ::penstock::nn::SlotSpec& slot : s.optimizer.SharedSlots()) {
    made.shared.emplace_back();
    add(made.shared.back(), absl::StrCat(s.name, "/", slot.name), slot.type.dtype,
        slot.initial_value);
  }
}

// The slots of a variable, which are created on the first call.
const Variables& Optimizer::SlotsOf(const VariableDef& variable, SourceLocation where) {
  const State& s = *state_;
  GraphVariables& made = InGraph(*variable.graph);
  const auto [slots, added] = made.slots.try_emplace(&variable);
  if (!added) return slots->second;
  // As in TensorFlow, a variable scope in which the optimizer is called is part of the name.
  const std::string within = Graph::Default()->Extension<VariableTable>().ScopePrefix();
  const NameScope top("");
  const std::vector<::penstock::nn::SlotSpec> specs =
      s.optimizer.Slots(variable.name, {variable.dtype, variable.shape});
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::string>& names = s.traits.slot_variables;
    const std::string& name = i < names.size() && !names[i].empty() ? names[i] : s.name;
    slots->second.push_back(MakeState(absl::StrCat(within, variable.name, "/", name),
                                      specs[i].type.shape, specs[i].type.dtype,
                                      specs[i].initial_value, where));
    made.all.push_back(slots->second.back());
  }
  return slots->second;
}

Operation Optimizer::ApplyGradients(const GradientsAndVariables& gradients_and_variables,
                                    const Variable& global_step, absl::string_view name,
                                    SourceLocation where) {
  Graph* graph = Graph::Default();
  for (const GradientAndVariable& pair : gradients_and_variables) {
    if (pair.variable.valid()) graph = pair.variable.def()->graph;
  }
  if (graph == nullptr || state_ == nullptr) return Operation();
  const Graph::DefaultScope scope = graph->AsDefault();
  const std::string op_name = name.empty() ? state_->name : std::string(name);
  if (!graph->status().ok()) return Operation();
  if (absl::Status status =
          CheckUpdate(gradients_and_variables, graph, state_->optimizer, state_->rate);
      !status.ok()) {
    graph->Fail(status, op_name, where);
    return Operation();
  }
  MakeShared(where);
  Update update{.optimizer = state_->optimizer};
  Tensors inputs;
  for (const GradientAndVariable& pair : gradients_and_variables) {
    if (!pair.gradient.valid()) continue;
    const VariableDef& variable = *pair.variable.def();
    inputs.push_back(pair.gradient);
    update.variables.push_back(&variable);
    update.slots.emplace_back();
    for (const Variable& slot : SlotsOf(variable, where)) {
      update.slots.back().push_back(slot.def());
    }
  }
  const GraphVariables& made = InGraph(*graph);
  for (const Variable& variable : made.shared) update.shared.push_back(variable.def());
  update.iteration = made.iteration.def();
  update.beta1_power = made.beta1_power.def();
  update.beta2_power = made.beta2_power.def();
  update.beta1 = state_->traits.beta1;
  update.beta2 = state_->traits.beta2;
  update.global_step = global_step.def();
  if (const std::optional<LearningRate>& rate = state_->rate; rate.has_value()) {
    update.has_rate = rate->is_tensor();
    if (rate->is_tensor()) inputs.push_back(rate->tensor());
    if (!rate->is_tensor()) update.rate = rate->number();
  }
  NodeOptions options{.type = absl::StrCat("Apply", state_->name),
                      .name = op_name,
                      .outputs = std::vector<Node::Output>(),
                      .stateful = true};
  return Operation(graph->AddNode(
      std::move(options), std::move(inputs),
      [update = std::move(update)](Lowering& lowering, const ir::Values& in) {
        return LowerUpdate(lowering, update, in);
      },
      where));
}

}  // namespace penstock::session::train
