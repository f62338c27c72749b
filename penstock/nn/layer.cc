#include "penstock/nn/layer.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/checked_size.h"
#include "penstock/nn/config.h"
#include "penstock/nn/names.h"
#include "penstock/nn/network.h"
#include "penstock/nn/regularizers.h"

namespace penstock::nn {

Value CallContext::Variable(absl::string_view name, const Shape& shape,
                            absl::string_view initializer, VariableOptions options) {
  const Value value =
      variables_.Get(graph(), {.name = absl::StrCat(site_.layer_name, "/", name),
                               .type = {options.dtype.value_or(site_.policy.variable), shape},
                               .initializer = std::string(initializer),
                               .trainable = options.trainable && site_.trainable,
                               .regularizer = std::move(options.regularizer),
                               .constraint = std::move(options.constraint),
                               .aggregation = options.aggregation});
  const bool cast = options.autocast && value.valid() && base::IsFloat(value.dtype());
  return cast ? ir::Convert(value, compute_dtype()) : value;
}

void CallContext::Assign(absl::string_view name, Value value) {
  if (!value.valid()) {
    if (graph().status().ok()) Fail(absl::StrCat("assigns no value to its variable ", name));
    return;
  }
  if (value.graph() != &graph()) {
    Fail(absl::StrCat("assigns a value of another graph to its variable ", name));
    return;
  }
  variables_.Set(graph(), absl::StrCat(site_.layer_name, "/", name), value);
}

// Layers are distinguished by their index in the network, calls within a layer by their order.
Value CallContext::OwnKey() {
  if (!site_.key.valid()) return Value();
  return ir::FoldIn(ir::FoldIn(site_.key, site_.index), static_cast<uint32_t>(keys_++));
}

Value CallContext::NextKey() {
  const Value key = OwnKey();
  return key.valid() ? key : Fail("needs random numbers, but the network is applied without a key");
}

void CallContext::SetOutputMask(Value mask, size_t i) {
  if (output_masks_.size() <= i) output_masks_.resize(i + 1);
  output_masks_[i] = std::move(mask);
}

void CallContext::AddLoss(Value loss) {
  if (!loss.valid()) return;
  if (loss.graph() != &graph() || loss.rank() != 0) {
    Fail(absl::StrCat("adds a loss that is not a scalar of the graph that it is called in, but ",
                      loss.type().ToString()));
    return;
  }
  losses_.push_back(ir::Convert(loss, DType::kF32));
}

void CallContext::RegularizeActivity(absl::string_view regularizer, Value y) {
  if (regularizer.empty() || !y.valid()) return;
  // A sum of squares easily exceeds the range of float16.
  if (base::IsFloat(y.dtype()) && base::BitWidth(y.dtype()) < 32) y = ir::Convert(y, DType::kF32);
  Value examples = ir::Splat(graph(), {DType::kF32, {}}, static_cast<double>(y.shape().dim(0)));
  if (const Value& mask = sample_mask(); mask.valid()) {
    examples = ir::Maximum(ir::ReduceSum(mask), ir::SplatLike(examples, 1));
    Shape each(std::vector<int64_t>(y.rank(), 1));
    each.set_dim(0, y.shape().dim(0));
    y = y * ir::Convert(ir::Reshape(mask, each), y.dtype());
  }
  const Value penalty = Regularize(regularizer, y);
  if (penalty.valid()) AddLoss(ir::Convert(penalty, DType::kF32) / examples);
}

Outputs CallContext::Call(const Layer& layer, absl::string_view name, const Values& inputs,
                          const Values& masks, Values* output_masks) {
  if (!layer.valid()) return Fail(absl::StrCat("calls a layer '", name, "' that was never made"));
  internal::CallResult result =
      internal::CallLayer(layer, options_, variables_,
                          {.layer_name = absl::StrCat(site_.layer_name, "/", name),
                           .key = OwnKey(),
                           .policy = site_.policy,
                           .trainable = site_.trainable,
                           .input_masks = masks},
                          inputs);
  losses_.insert(losses_.end(), result.losses.begin(), result.losses.end());
  if (output_masks != nullptr) *output_masks = std::move(result.masks);
  return std::move(result.outputs);
}

Outputs CallContext::CallParts(const Layer& layer, absl::string_view name, const Values& inputs,
                               int64_t parts, const Values& masks) {
  ApplyOptions options = options_;
  if (const Value& mask = options_.sample_mask; mask.valid()) {
    const int64_t batch = mask.shape().dim(0);
    options.sample_mask =
        ir::Reshape(ir::BroadcastTo(ir::ExpandDims(mask, 1), {batch, parts}), {batch * parts});
  }
  CallContext inner(options, variables_, site_);
  inner.site_.key = OwnKey();
  Outputs outputs = inner.Call(layer, name, inputs, masks);
  losses_.insert(losses_.end(), inner.losses_.begin(), inner.losses_.end());
  return outputs;
}

Outputs CallContext::Call(const Network& network, const Values& inputs, Values* output_masks) {
  Network::Result result = network.Run(options_, variables_,
                                       {.layer_name = site_.layer_name,
                                        .key = OwnKey(),
                                        .policy = site_.policy,
                                        .trainable = site_.trainable,
                                        .input_masks = site_.input_masks},
                                       inputs);
  losses_.insert(losses_.end(), result.losses.begin(), result.losses.end());
  if (output_masks != nullptr) *output_masks = std::move(result.output_masks);
  return std::move(result.outputs);
}

Value CallContext::Fail(absl::string_view message) {
  graph().Fail(absl::InvalidArgumentError(message));
  return Value();
}

namespace {

// The layer's own policy, or that of the enclosing layer or network. An unknown name is an error of
// the graph.
Policy PolicyOf(const Layer& layer, const Policy& outer, ir::Graph& graph) {
  if (layer.given_dtype().empty()) return outer;
  absl::StatusOr<Policy> policy = Policy::FromName(layer.given_dtype());
  if (policy.ok()) return *std::move(policy);
  graph.Fail(policy.status());
  return outer;
}

// Masks of the outputs: those set by the call; otherwise, if the layer supports masking, that of
// the first input that has one.
Values OutputMasks(const LayerBody& body, const CallContext& ctx, const Values& input_masks,
                   size_t count) {
  Values masks(count);
  if (body.supports_masking()) {
    for (const Value& mask : input_masks) {
      if (!mask.valid()) continue;
      masks.assign(count, mask);
      break;
    }
  }
  for (size_t i = 0; i < std::min(count, ctx.output_masks().size()); ++i) {
    if (ctx.output_masks()[i].has_value()) masks[i] = *ctx.output_masks()[i];
  }
  return masks;
}

}  // namespace

namespace {

// Calls the layer's own code, which may be user-defined. Its mistakes become errors of the graph.
Outputs CallBody(const LayerBody& body, CallContext& ctx, const Values& inputs) {
  const auto wrong = [&](absl::string_view what) {
    // An earlier error is the cause.
    if (ctx.graph().status().ok()) ctx.Fail(absl::StrCat(body.class_name(), " ", what));
    return Outputs();
  };
  const auto threw = [&](absl::string_view what) {
    if (ctx.graph().status().ok()) {
      ctx.graph().Fail(
          absl::InternalError(absl::StrCat(body.class_name(), " threw an exception: ", what)));
    }
    return Outputs();
  };
  Outputs outputs;
  try {
    outputs = body.Call(ctx, inputs);
  } catch (const std::exception& e) {
    return threw(e.what());
  } catch (...) {
    return threw("not a std::exception");
  }
  if (!ctx.graph().status().ok()) return outputs;
  if (outputs.empty()) return wrong("returned no output");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) {
      return wrong(absl::StrCat("returned an invalid value, ir::Value(), as output ", i,
                                "; every output is the result of an operation or an input"));
    }
    if (outputs[i].graph() != &ctx.graph()) {
      return wrong(absl::StrCat("returned a value of another graph as output ", i,
                                "; a value is valid only in the call that made it"));
    }
  }
  for (const auto& mask : ctx.output_masks()) {
    if (mask.has_value() && mask->valid() && mask->graph() != &ctx.graph()) {
      return wrong("set an output mask that is a value of another graph");
    }
  }
  return outputs;
}

}  // namespace

internal::CallResult internal::CallLayer(const Layer& layer, const ApplyOptions& options,
                                         VariableScope& variables, CallContext::CallSite site,
                                         Values inputs) {
  site.policy = PolicyOf(layer, site.policy, *options.graph);
  VariableScope::LayerPath resolved = variables.Resolve(
      layer, std::move(site.layer_name), layer.given_trainable().value_or(site.trainable));
  site.layer_name = std::move(resolved.path);
  site.trainable = resolved.trainable;
  for (Value& input : inputs) {
    if (input.valid() && base::IsFloat(input.dtype())) {
      input = ir::Convert(input, site.policy.compute);
    }
  }
  const Remat remat = layer.remat() ? layer.remat() : site.remat;
  site.remat = Remat::kNone;
  if (options.training && remat) {
    return CallRematerialized(layer, options, variables, site, inputs, remat);
  }
  return CallOnce(layer, options, variables, std::move(site), inputs);
}

internal::CallResult internal::CallOnce(const Layer& layer, const ApplyOptions& options,
                                        VariableScope& variables, CallContext::CallSite site,
                                        const Values& inputs) {
  const Values input_masks = site.input_masks;
  CallContext ctx(options, variables, std::move(site));
  CallResult result{.outputs = CallBody(layer.body(), ctx, inputs), .losses = ctx.losses()};
  // After an error, callers of the layer get one output, which is invalid.
  if (result.outputs.empty()) result.outputs = Outputs(Value());
  result.masks = OutputMasks(layer.body(), ctx, input_masks, result.outputs.size());
  return result;
}

struct Layer::State {
  std::shared_ptr<LayerBody> body;
  std::string name, dtype;
  base::SourceLocation location;
  std::optional<bool> trainable = std::nullopt;
  Remat remat = Remat::kNone;
  std::shared_ptr<const base::NamedArrays> initial_weights = nullptr;
};

Layer::Layer(std::shared_ptr<LayerBody> body, std::string name, std::string dtype,
             base::SourceLocation location)
    : state_(std::make_shared<State>(
          State{std::move(body), std::move(name), std::move(dtype), location})) {}

namespace {

struct MissingBody : LayerBody {
  absl::string_view class_name() const override { return "CustomLayer"; }
  Outputs Call(CallContext& ctx, const Values&) const override {
    return ctx.Fail("was made from a null pointer instead of a layer body");
  }
  void Fields(Config&) override {}
};

}  // namespace

Layer CustomLayer(std::shared_ptr<LayerBody> body, const CustomLayerOptions& options,
                  base::SourceLocation location) {
  if (body == nullptr) body = std::make_shared<MissingBody>();
  return Layer(std::move(body), options.name, options.dtype, location);
}

LayerBody& Layer::body() const { return *state_->body; }
const std::string& Layer::given_name() const { return state_->name; }
const std::string& Layer::given_dtype() const { return state_->dtype; }
const base::SourceLocation& Layer::location() const { return state_->location; }

Symbol Layer::operator()(const Symbol& input) const { return (*this)(std::vector<Symbol>{input}); }

Symbol Layer::operator()(const std::vector<Symbol>& inputs) const {
  const std::vector<Symbol> outputs = Outputs(inputs);
  if (outputs.size() == 1) return outputs[0];
  Symbol::Node node = *outputs[0].node();
  node.types = {absl::InvalidArgumentError(
      absl::StrCat(given_name().empty() ? SnakeCase(class_name()) : given_name(), " gives ",
                   outputs.size(), " outputs: call Outputs() on it, which returns them all"))};
  return Symbol(std::make_shared<Symbol::Node>(std::move(node)));
}

std::vector<Symbol> Layer::Outputs(const std::vector<Symbol>& inputs) const {
  if (!valid()) {
    Symbol::Node failed;
    failed.types = {absl::InvalidArgumentError("calls a layer that was never made: nn::Layer()")};
    return {Symbol(std::make_shared<Symbol::Node>(std::move(failed)))};
  }
  const auto node =
      std::make_shared<Symbol::Node>(Symbol::Node{.layer = *this,
                                                  .inputs = inputs,
                                                  .input_name = "",
                                                  .types = internal::InferTypes(*this, inputs)});
  std::vector<Symbol> outputs;
  for (size_t i = 0; i < node->types.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

std::vector<Layer> Layer::WithInnerLayers() const {
  std::vector<Layer> found = {*this};
  absl::flat_hash_set<const void*> seen = {id()};
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<Layer> inside;
    Config config = Config::Lister(inside);
    found[i].body().Fields(config);
    for (Layer& inner : inside) {
      if (inner.valid() && seen.insert(inner.id()).second) found.push_back(std::move(inner));
    }
  }
  return found;
}

const Layer& Layer::SetTrainable(bool trainable) const {
  PENSTOCK_CHECK(valid());
  for (const Layer& layer : WithInnerLayers()) layer.state_->trainable = trainable;
  return *this;
}
const std::optional<bool>& Layer::given_trainable() const { return state_->trainable; }

const Layer& Layer::SetInitialWeights(base::NamedArrays weights) const {
  PENSTOCK_CHECK(valid());
  state_->initial_weights = std::make_shared<const base::NamedArrays>(std::move(weights));
  return *this;
}
const base::NamedArrays* Layer::initial_weights() const { return state_->initial_weights.get(); }

const Layer& Layer::SetRemat(Remat remat) const {
  PENSTOCK_CHECK(valid());
  state_->remat = remat;
  return *this;
}
Remat Layer::remat() const { return state_->remat; }

const absl::StatusOr<TensorType>& Symbol::type() const {
  if (!valid()) {
    static const auto* const kNone =
        new absl::StatusOr<TensorType>(absl::InvalidArgumentError("an empty tensor: nn::Symbol()"));
    return *kNone;
  }
  return node_->types[output_];
}

Symbol Input(const InputOptions& options) {
  auto type = [&]() -> absl::StatusOr<TensorType> {
    if (options.shape.size() + 1 > base::kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("an input may have up to ", base::kMaxRank - 1,
                                                     " axes besides the batch; got ",
                                                     options.shape.size()));
    }
    if (!base::IsNumeric(options.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an input must be numeric; no device computes with ", base::DTypeName(options.dtype)));
    }
    for (int64_t extent : options.shape) {
      if (extent <= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the shape of an input is the shape of one example, without the "
                         "batch axis, and fully known: got [",
                         absl::StrJoin(options.shape, ","), "]"));
      }
    }
    constexpr int64_t kSomeBatch = 2;
    const Shape row(options.shape);
    if (!base::CheckedBytes(options.dtype, row.Prepend(kSomeBatch)).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("an input of shape ", row.ToString(), " exceeds any memory"));
    }
    return TensorType{options.dtype, row.Prepend(-1)};
  }();
  return Symbol(std::make_shared<Symbol::Node>(Symbol::Node{
      .layer = Layer(), .inputs = {}, .input_name = options.name, .types = {std::move(type)}}));
}

}  // namespace penstock::nn
