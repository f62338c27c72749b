#include "penstock/session/layers.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/nn/activations.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/names.h"
#include "penstock/nn/regularizers.h"
#include "penstock/session/infer.h"
#include "penstock/session/layer_node.h"
#include "penstock/session/variable_table.h"

namespace penstock::session::layers {
namespace {

using internal::AddLayerNode;
using internal::LayerNodeOptions;
using internal::VariableChoice;
using ::penstock::nn::Layer;
using ::penstock::nn::Network;
using ::penstock::nn::Symbol;

// What all functions of tf.layers do around their layer of room nn.
struct LayerCall {
  const char* default_name;  // "conv2d"
  std::string name;          // given by the program
  std::string type;          // of the operation
  std::string data_format = "channels_last";
  Training training = false;
  bool trainable = true;
  Reuse reuse = Reuse::kNone;
  std::optional<uint64_t> seed = {};
  Activation activation = {};
  std::string activity_regularizer = "";
  std::map<std::string, VariableChoice> variables = {};
  decltype(LayerNodeOptions::assigned) assigned = nullptr;
  // The layer with this name.
  std::function<Layer(const std::string& name)> make = nullptr;
};

// x with the axis of channels at the end instead of after the batch, or the reverse.
Tensor MoveChannels(const Tensor& x, bool to_last, SourceLocation where) {
  return AddOp("Transpose", {x}, "", where, [to_last](const ir::Values& in) {
    ir::Axes axes{0};
    const int rank = in[0].rank();
    if (!to_last) axes.push_back(rank - 1);
    for (int i = to_last ? 2 : 1; i < (to_last ? rank : rank - 1); ++i) axes.push_back(i);
    if (to_last) axes.push_back(1);
    return ir::Transpose(in[0], axes);
  });
}

Tensor RegularizeActivity(const Tensor& y, const std::string& regularizer, SourceLocation where) {
  const Tensor loss =
      AddOp("ActivityRegularizer", {y}, "", where, [regularizer](const ir::Values& in) {
        const auto examples = static_cast<double>(in[0].shape().dim(0));
        return ::penstock::nn::Regularize(regularizer, ir::Convert(in[0], DType::kF32)) / examples;
      });
  if (loss.valid()) loss.graph()->AddToCollection(graph_keys::kRegularizationLosses, loss);
  return loss;
}

// The network of one layer. Unknown extents of the inputs, besides the batch, must not matter for
// the variables: two guesses tell.
absl::StatusOr<Network> NetworkOf(const Layer& layer, const Tensors& inputs) {
  constexpr int64_t kGuesses[] = {960, 1152};
  std::optional<Network> first;
  for (const int64_t guess : kGuesses) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Symbol> symbols,
                              internal::InputSymbols(inputs, guess));
    Network network(symbols, layer.Outputs(symbols));
    PENSTOCK_RETURN_IF_ERROR(network.status());
    const DType dtype = inputs[0].dtype();
    if (dtype == DType::kBF16) network = network.WithPolicy("bfloat16");
    if (dtype == DType::kF16) network = network.WithPolicy("float16");
    PENSTOCK_RETURN_IF_ERROR(network.status());
    if (!first.has_value()) {
      first = network;
      continue;
    }
    for (size_t i = 0; i < network.variables().size(); ++i) {
      const ::penstock::nn::VariableSpec& variable = network.variables()[i];
      if (variable.type == first->variables()[i].type) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the shape of its variable '", variable.name,
                       "' depends on an unknown extent of the input ", TypeString(inputs[0]),
                       "; give the placeholder that extent (usually the last one)"));
    }
  }
  return *first;
}

Tensor CallOne(const LayerCall& call, Tensor inputs, SourceLocation where) {
  if (!inputs.valid()) return Tensor();
  Graph* const graph = inputs.graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const auto fail = [&](absl::string_view message) {
    return FailOp({inputs}, call.name.empty() ? call.default_name : call.name, message, where);
  };
  const std::string format = absl::AsciiStrToLower(call.data_format);
  if (format != "channels_last" && format != "channels_first") {
    return fail(absl::StrCat("data_format is \"channels_last\" or \"channels_first\", not \"",
                             call.data_format, "\""));
  }
  const VariableScope scope = call.name.empty() ? VariableScope(std::nullopt, call.default_name)
                                                : VariableScope(call.name, call.reuse);
  const bool first = format == "channels_first";
  if (first && inputs.shape().rank() < 3) return fail("channels_first needs 3 axes or more");
  if (first) inputs = MoveChannels(inputs, true, where);
  std::string path = graph->Extension<VariableTable>().ScopePrefix();
  const std::string layer_name = path.substr(0, path.size() - 1);
  const absl::StatusOr<Network> network = NetworkOf(call.make(layer_name), {inputs});
  if (!network.ok()) return fail(network.status().message());
  Tensor y = AddLayerNode(*network, {inputs},
                          {.type = call.type,
                           .name = call.type,
                           .training = call.training,
                           .trainable = call.trainable,
                           .seed = call.seed,
                           .variables = call.variables,
                           .path = path,
                           .assigned = call.assigned},
                          where)[0];
  if (first && y.shape().rank() > 2) y = MoveChannels(y, false, where);
  y = call.activation(y, where);
  if (!call.activity_regularizer.empty()) RegularizeActivity(y, call.activity_regularizer, where);
  return y;
}

VariableChoice Kernel(const Initializer& initializer, const Regularizer& regularizer,
                      const Constraint& constraint) {
  return {.initializer = initializer,
          .default_is_scopes = true,
          .regularizer = regularizer,
          .constraint = constraint};
}

// A variable whose default initializer is its own, not that of the scope.
VariableChoice Plain(const Initializer& initializer, const Regularizer& regularizer,
                     const Constraint& constraint) {
  return {.initializer = initializer, .regularizer = regularizer, .constraint = constraint};
}

// The arguments that most layers have.
template <typename Options>
LayerCall WithKernel(const char* default_name, const char* type, const Options& o) {
  LayerCall call{.default_name = default_name,
                 .name = o.name,
                 .type = o.use_bias ? "BiasAdd" : type,
                 .trainable = o.trainable,
                 .reuse = o.reuse,
                 .activation = o.activation,
                 .activity_regularizer = o.activity_regularizer};
  call.variables["bias"] = Plain(o.bias_initializer, o.bias_regularizer, o.bias_constraint);
  return call;
}

template <int N, typename Make>
Tensor Convolve(const char* default_name, const char* type, Make make, const Tensor& inputs,
                int64_t filters, const Size<N>& kernel_size, const ConvOptions<N>& o,
                SourceLocation where) {
  LayerCall call = WithKernel(default_name, type, o);
  call.data_format = o.data_format;
  call.variables["kernel"] =
      Kernel(o.kernel_initializer, o.kernel_regularizer, o.kernel_constraint);
  call.make = [=](const std::string& name) {
    return make({.filters = filters,
                 .kernel_size = kernel_size,
                 .strides = o.strides,
                 .padding = absl::AsciiStrToLower(o.padding),
                 .dilation_rate = o.dilation_rate,
                 .use_bias = o.use_bias,
                 .name = name},
                where);
  };
  return CallOne(call, inputs, where);
}

template <int N, typename Make>
Tensor Transposed(const char* default_name, const char* type, Make make, const Tensor& inputs,
                  int64_t filters, const Size<N>& kernel_size, const ConvTransposeOptions<N>& o,
                  SourceLocation where) {
  LayerCall call = WithKernel(default_name, type, o);
  call.data_format = o.data_format;
  call.variables["kernel"] =
      Kernel(o.kernel_initializer, o.kernel_regularizer, o.kernel_constraint);
  call.make = [=](const std::string& name) {
    return make({.filters = filters,
                 .kernel_size = kernel_size,
                 .strides = o.strides,
                 .padding = absl::AsciiStrToLower(o.padding),
                 .use_bias = o.use_bias,
                 .name = name},
                where);
  };
  return CallOne(call, inputs, where);
}

template <int N, typename Make>
Tensor Separable(const char* default_name, Make make, const Tensor& inputs, int64_t filters,
                 const Size<N>& kernel_size, const SeparableConvOptions<N>& o,
                 SourceLocation where) {
  LayerCall call = WithKernel(default_name, "separable_conv2d", o);
  call.data_format = o.data_format;
  call.variables["depthwise_kernel"] =
      Kernel(o.depthwise_initializer, o.depthwise_regularizer, o.depthwise_constraint);
  call.variables["pointwise_kernel"] =
      Kernel(o.pointwise_initializer, o.pointwise_regularizer, o.pointwise_constraint);
  call.make = [=](const std::string& name) {
    return make({.filters = filters,
                 .kernel_size = kernel_size,
                 .strides = o.strides,
                 .padding = absl::AsciiStrToLower(o.padding),
                 .dilation_rate = o.dilation_rate,
                 .depth_multiplier = o.depth_multiplier,
                 .use_bias = o.use_bias,
                 .name = name},
                where);
  };
  return CallOne(call, inputs, where);
}

template <int N, typename Make>
Tensor Pool(const char* default_name, const char* type, Make make, const Tensor& inputs,
            const Size<N>& pool_size, const Size<N>& strides, const PoolingOptions& o,
            SourceLocation where) {
  const LayerCall call{.default_name = default_name,
                       .name = o.name,
                       .type = type,
                       .data_format = o.data_format,
                       .make = [=](const std::string& name) {
                         return make({.pool_size = pool_size,
                                      .strides = strides,
                                      .padding = absl::AsciiStrToLower(o.padding),
                                      .name = name},
                                     where);
                       }};
  return CallOne(call, inputs, where);
}

// The moving variance of TensorFlow's fused kernel: of the sample, with the divisor N - 1.
ir::Value SampleVariance(const std::string& name, ir::Value before, ir::Value after,
                         const ir::Values& inputs, double momentum) {
  if (!absl::EndsWith(name, "/moving_variance")) return after;
  const double count = static_cast<double>(inputs[0].shape().num_elements()) /
                       static_cast<double>(std::max<int64_t>(after.shape().num_elements(), 1));
  const ir::Value kept = before * momentum;
  return kept + (after - kept) * (count / std::max(count - 1, 1.0));
}

// "leaky_relu(0.1)" -> "LeakyRelu".
std::string ActivationType(absl::string_view name) {
  std::string type;
  bool upper = true;
  for (const char c : name.substr(0, name.find('('))) {
    if (c == '_') {
      upper = true;
      continue;
    }
    type += upper ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c;
    upper = false;
  }
  return type;
}

}  // namespace

Tensor Activation::operator()(const Tensor& x, SourceLocation where) const {
  if (operation_ != nullptr) return operation_(x, "", where);
  if (function_ != nullptr) {
    const Tensor y = function_(x);
    if (y.valid()) return y;
    return FailOp({x}, "Activation", "its function returned an invalid tensor", where);
  }
  if (name_.empty() || name_ == "linear") return x;
  return AddOp(ActivationType(name_), {x}, "", where, [name = name_](const ir::Values& in) {
    return ::penstock::nn::Activate(name, in[0]);
  });
}

Tensor Dense(const Tensor& inputs, int64_t units, const DenseOptions& options,
             SourceLocation where) {
  LayerCall call = WithKernel("dense", "MatMul", options);
  call.variables["kernel"] =
      Kernel(options.kernel_initializer, options.kernel_regularizer, options.kernel_constraint);
  call.make = [units, use_bias = options.use_bias, where](const std::string& name) {
    return ::penstock::nn::Dense({.units = units, .use_bias = use_bias, .name = name}, where);
  };
  return CallOne(call, inputs, where);
}

Tensor Conv1D(const Tensor& inputs, int64_t filters, Size<1> kernel_size,
              const ConvOptions<1>& options, SourceLocation where) {
  return Convolve<1>("conv1d", "Conv1D", ::penstock::nn::Conv1D, inputs, filters, kernel_size,
                     options, where);
}
Tensor Conv2D(const Tensor& inputs, int64_t filters, Size<2> kernel_size,
              const ConvOptions<2>& options, SourceLocation where) {
  return Convolve<2>("conv2d", "Conv2D", ::penstock::nn::Conv2D, inputs, filters, kernel_size,
                     options, where);
}
Tensor Conv3D(const Tensor& inputs, int64_t filters, Size<3> kernel_size,
              const ConvOptions<3>& options, SourceLocation where) {
  return Convolve<3>("conv3d", "Conv3D", ::penstock::nn::Conv3D, inputs, filters, kernel_size,
                     options, where);
}

Tensor Conv2DTranspose(const Tensor& inputs, int64_t filters, Size<2> kernel_size,
                       const ConvTransposeOptions<2>& options, SourceLocation where) {
  return Transposed<2>("conv2d_transpose", "conv2d_transpose", ::penstock::nn::Conv2DTranspose,
                       inputs, filters, kernel_size, options, where);
}
Tensor Conv3DTranspose(const Tensor& inputs, int64_t filters, Size<3> kernel_size,
                       const ConvTransposeOptions<3>& options, SourceLocation where) {
  return Transposed<3>("conv3d_transpose", "conv3d_transpose", ::penstock::nn::Conv3DTranspose,
                       inputs, filters, kernel_size, options, where);
}

Tensor SeparableConv1D(const Tensor& inputs, int64_t filters, Size<1> kernel_size,
                       const SeparableConvOptions<1>& options, SourceLocation where) {
  return Separable<1>("separable_conv1d", ::penstock::nn::SeparableConv1D, inputs, filters,
                      kernel_size, options, where);
}
Tensor SeparableConv2D(const Tensor& inputs, int64_t filters, Size<2> kernel_size,
                       const SeparableConvOptions<2>& options, SourceLocation where) {
  return Separable<2>("separable_conv2d", ::penstock::nn::SeparableConv2D, inputs, filters,
                      kernel_size, options, where);
}

Tensor MaxPooling1D(const Tensor& inputs, Size<1> pool_size, Size<1> strides,
                    const PoolingOptions& options, SourceLocation where) {
  return Pool<1>("max_pooling1d", "MaxPool", ::penstock::nn::MaxPooling1D, inputs, pool_size,
                 strides, options, where);
}
Tensor MaxPooling2D(const Tensor& inputs, Size<2> pool_size, Size<2> strides,
                    const PoolingOptions& options, SourceLocation where) {
  return Pool<2>("max_pooling2d", "MaxPool", ::penstock::nn::MaxPooling2D, inputs, pool_size,
                 strides, options, where);
}
Tensor MaxPooling3D(const Tensor& inputs, Size<3> pool_size, Size<3> strides,
                    const PoolingOptions& options, SourceLocation where) {
  return Pool<3>("max_pooling3d", "MaxPool3D", ::penstock::nn::MaxPooling3D, inputs, pool_size,
                 strides, options, where);
}
Tensor AveragePooling1D(const Tensor& inputs, Size<1> pool_size, Size<1> strides,
                        const PoolingOptions& options, SourceLocation where) {
  return Pool<1>("average_pooling1d", "AvgPool", ::penstock::nn::AveragePooling1D, inputs,
                 pool_size, strides, options, where);
}
Tensor AveragePooling2D(const Tensor& inputs, Size<2> pool_size, Size<2> strides,
                        const PoolingOptions& options, SourceLocation where) {
  return Pool<2>("average_pooling2d", "AvgPool", ::penstock::nn::AveragePooling2D, inputs,
                 pool_size, strides, options, where);
}
Tensor AveragePooling3D(const Tensor& inputs, Size<3> pool_size, Size<3> strides,
                        const PoolingOptions& options, SourceLocation where) {
  return Pool<3>("average_pooling3d", "AvgPool3D", ::penstock::nn::AveragePooling3D, inputs,
                 pool_size, strides, options, where);
}

Tensor Flatten(const Tensor& inputs, absl::string_view name, absl::string_view data_format,
               SourceLocation where) {
  const LayerCall call{.default_name = "flatten",
                       .name = std::string(name),
                       .type = "Reshape",
                       .data_format = std::string(data_format),
                       .make = [where](const std::string& layer) {
                         return ::penstock::nn::Flatten({.name = layer}, where);
                       }};
  return CallOne(call, inputs, where);
}

Tensor Dropout(const Tensor& inputs, double rate, const DropoutOptions& options,
               SourceLocation where) {
  const LayerCall call{
      .default_name = "dropout",
      .name = options.name,
      .type = "Dropout",
      .training = options.training,
      .seed = options.seed,
      .make = [rate, noise_shape = options.noise_shape, where](const std::string& name) {
        return ::penstock::nn::Dropout({.rate = rate, .noise_shape = noise_shape, .name = name},
                                       where);
      }};
  return CallOne(call, inputs, where);
}

Tensor BatchNormalization(const Tensor& inputs, const BatchNormalizationOptions& options,
                          SourceLocation where) {
  LayerCall call{.default_name = "batch_normalization",
                 .name = options.name,
                 .type = "FusedBatchNorm",
                 .training = options.training,
                 .trainable = options.trainable,
                 .reuse = options.reuse};
  call.variables["gamma"] =
      Plain(options.gamma_initializer, options.gamma_regularizer, options.gamma_constraint);
  call.variables["beta"] =
      Plain(options.beta_initializer, options.beta_regularizer, options.beta_constraint);
  call.variables["moving_mean"] = Plain(options.moving_mean_initializer, "", "");
  call.variables["moving_variance"] = Plain(options.moving_variance_initializer, "", "");
  const bool fused = options.fused.value_or(inputs.valid() && inputs.shape().has_rank() &&
                                            inputs.shape().rank() == 4);
  if (fused) {
    call.assigned = [momentum = options.momentum](const std::string& name, ir::Value before,
                                                  ir::Value after, const ir::Values& in) {
      return SampleVariance(name, before, after, in, momentum);
    };
  }
  call.make = [options, where](const std::string& name) {
    return ::penstock::nn::BatchNormalization({.axis = options.axis,
                                               .momentum = options.momentum,
                                               .epsilon = options.epsilon,
                                               .center = options.center,
                                               .scale = options.scale,
                                               .name = name},
                                              where);
  };
  return CallOne(call, inputs, where);
}

Tensors Apply(const Network& network, const Tensors& inputs, const ApplyOptions& options,
              SourceLocation where) {
  if (inputs.empty() || !inputs[0].valid()) return Tensors(network.outputs().size());
  Graph* const graph = inputs[0].graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const auto fail = [&](absl::string_view message) {
    FailOp(inputs, options.name.empty() ? network.name() : options.name, message, where);
    return Tensors(network.outputs().size());
  };
  if (inputs.size() != network.inputs().size()) {
    return fail(absl::StrCat("network '", network.name(), "' has ", network.inputs().size(),
                             " inputs, got ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) return Tensors(network.outputs().size());
    if (inputs[i].shape().IsCompatibleWith(PartialShape(network.inputs()[i].type.shape))) continue;
    return fail(absl::StrCat(
        "the input '", network.inputs()[i].name, "' of network '", network.name(), "' is ",
        TypeString(network.inputs()[i].type.dtype, PartialShape(network.inputs()[i].type.shape)),
        "; got ", TypeString(inputs[i])));
  }
  std::optional<VariableScope> scope;
  std::optional<NameScope> names;
  if (!options.name.empty()) scope.emplace(options.name, options.reuse);
  if (options.name.empty()) names.emplace(network.name());
  return AddLayerNode(network, inputs,
                      {.type = "Network",
                       .name = "outputs",
                       .training = options.training,
                       .trainable = options.trainable,
                       .seed = options.seed,
                       .seed_scope = graph->Extension<VariableTable>().ScopePrefix()},
                      where);
}

Tensors Call(const Layer& layer, const Tensors& inputs, const ApplyOptions& options,
             SourceLocation where) {
  if (inputs.empty() || !inputs[0].valid()) return Tensors(1);
  Graph* const graph = inputs[0].graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const auto fail = [&](absl::string_view message) {
    FailOp(inputs, options.name.empty() ? "layer" : options.name, message, where);
    return Tensors(1);
  };
  if (!layer.valid()) return fail("the layer was never made: nn::Layer()");
  const std::string name = options.name.empty() ? layer.given_name() : options.name;
  const VariableScope scope =
      name.empty() ? VariableScope(std::nullopt, ::penstock::nn::SnakeCase(layer.class_name()))
                   : VariableScope(name, options.reuse);
  const absl::StatusOr<Network> network = NetworkOf(layer, inputs);
  if (!network.ok()) return fail(network.status().message());
  return AddLayerNode(*network, inputs,
                      {.type = std::string(layer.class_name()),
                       .name = std::string(layer.class_name()),
                       .training = options.training,
                       .trainable = options.trainable,
                       .seed = options.seed,
                       .path = absl::StrCat(network->uses().back().name, "/"),
                       .seed_scope = graph->Extension<VariableTable>().ScopePrefix()},
                      where);
}

}  // namespace penstock::session::layers
