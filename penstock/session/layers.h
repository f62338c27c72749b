// Layers: tf.layers, with the names, defaults and order of arguments of TensorFlow 1.15.
//
//   tf::Tensor h = tf::layers::Conv2D(x, 32, 3, {.activation = "relu"});
//   h = tf::layers::MaxPooling2D(h, 2, 2);
//   h = tf::layers::Dense(tf::layers::Flatten(h), 64, {.activation = tf::nn::Relu, .name = "h1"});
//   h = tf::layers::Dropout(h, 0.4, {.training = is_training});
//   h = tf::layers::BatchNormalization(h, {.training = is_training});
//
// Variables are made by GetVariable: "conv2d/kernel", "h1/bias", "batch_normalization/moving_mean";
// names without a `name` are numbered as in TensorFlow, and `reuse` (or a scope with reuse) shares
// those of an earlier call. Without an initializer, values are those that keras::Model has for the
// same seed (Graph::SetRandomSeed) and the same names.
//
// A layer of room nn, or a whole network (penstock/models), is called in the same way:
//
//   const penstock::nn::Network network = models::ResNetCifar({.depth = 20, .classes = 10});
//   tf::Tensor logits = tf::layers::Apply(network, {images}, {.training = true})[0];
//
// Updates of moving averages are operations in the collection UPDATE_OPS, which a training step has
// to run: tf::ControlDependencies(graph.GetCollectionOperations(tf::graph_keys::kUpdateOps)).
// Penalties are tensors in REGULARIZATION_LOSSES, which losses::GetTotalLoss adds.
//
// Differences from TensorFlow 1.15: the formulas are room nn's, and compute in float32 (or the
// 16-bit type of the inputs), also for float64 inputs. A `training` tensor computes both modes and
// selects one. BatchNormalization has no renorm, virtual_batch_size and adjustment.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/network.h"
#include "penstock/nn/typed_options.h"
#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session::layers {

// Training or inference: a bool, or a bool scalar that decides in each Run.
class Training {
 public:
  Training(bool value) : value_(value) {}                                // NOLINT
  Training(const Tensor& tensor) : tensor_(tensor), is_tensor_(true) {}  // NOLINT

  bool is_tensor() const { return is_tensor_; }
  bool value() const { return value_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  bool value_ = false;
  Tensor tensor_;
  bool is_tensor_ = false;
};

// An activation: by Keras's name ("relu", "leaky_relu(0.1)"), a function of ops/nn_ops.h, or any
// function of a Tensor. Default: none.
class Activation {
 public:
  using Operation = Tensor (*)(const Tensor&, absl::string_view, SourceLocation);
  Activation() = default;
  Activation(const char* name) : name_(name) {}                                    // NOLINT
  Activation(std::string name) : name_(std::move(name)) {}                         // NOLINT
  Activation(::penstock::nn::ActivationFunction name) : name_(std::move(name)) {}  // NOLINT
  Activation(Operation operation) : operation_(operation) {}                       // NOLINT
  template <typename F>
  requires(std::is_invocable_r_v<Tensor, F, const Tensor&> &&
           !std::is_convertible_v<F, std::string> && !std::is_convertible_v<F, Operation>)
      Activation(F function)
      : function_(std::move(function)) {}  // NOLINT

  // The activation of x, in the current name scope.
  Tensor operator()(const Tensor& x, SourceLocation where) const;

 private:
  std::string name_;
  Operation operation_ = nullptr;
  std::function<Tensor(const Tensor&)> function_;
};

// An N-dimensional size, one number for all axes or one each.
template <int N>
using Size = ::penstock::nn::Size<N>;
using ::penstock::nn::Constraint;
using ::penstock::nn::Regularizer;

// activation(inputs * kernel + bias) along the last axis. kernel: [in, units].
struct DenseOptions {
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = nullptr;  // default: the variable scope's, else glorot_uniform
  Initializer bias_initializer = nullptr;    // default: zeros
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  bool trainable = true;
  std::string name = "";
  Reuse reuse = Reuse::kNone;
};
Tensor Dense(const Tensor& inputs, int64_t units, const DenseOptions& options = {},
             SourceLocation where = SourceLocation::Current());

// Convolution. kernel: [size..., in, filters]. `padding`: "valid" or "same"; `data_format`:
// "channels_last" or "channels_first".
template <int N>
struct ConvOptions {
  Size<N> strides = 1;
  std::string padding = "valid";
  std::string data_format = "channels_last";
  Size<N> dilation_rate = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = nullptr;
  Initializer bias_initializer = nullptr;
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  bool trainable = true;
  std::string name = "";
  Reuse reuse = Reuse::kNone;
};
Tensor Conv1D(const Tensor& inputs, int64_t filters, Size<1> kernel_size,
              const ConvOptions<1>& options = {}, SourceLocation where = SourceLocation::Current());
Tensor Conv2D(const Tensor& inputs, int64_t filters, Size<2> kernel_size,
              const ConvOptions<2>& options = {}, SourceLocation where = SourceLocation::Current());
Tensor Conv3D(const Tensor& inputs, int64_t filters, Size<3> kernel_size,
              const ConvOptions<3>& options = {}, SourceLocation where = SourceLocation::Current());

// Transposed convolution. kernel: [size..., filters, in].
template <int N>
struct ConvTransposeOptions {
  Size<N> strides = 1;
  std::string padding = "valid";
  std::string data_format = "channels_last";
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = nullptr;
  Initializer bias_initializer = nullptr;
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  bool trainable = true;
  std::string name = "";
  Reuse reuse = Reuse::kNone;
};
Tensor Conv2DTranspose(const Tensor& inputs, int64_t filters, Size<2> kernel_size,
                       const ConvTransposeOptions<2>& options = {},
                       SourceLocation where = SourceLocation::Current());
Tensor Conv3DTranspose(const Tensor& inputs, int64_t filters, Size<3> kernel_size,
                       const ConvTransposeOptions<3>& options = {},
                       SourceLocation where = SourceLocation::Current());

// A convolution of each channel, then one of size 1 over the channels. depthwise_kernel: [size...,
// in, depth_multiplier]; pointwise_kernel: [1..., in * depth_multiplier, filters].
template <int N>
struct SeparableConvOptions {
  Size<N> strides = 1;
  std::string padding = "valid";
  std::string data_format = "channels_last";
  Size<N> dilation_rate = 1;
  int64_t depth_multiplier = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer depthwise_initializer = nullptr;
  Initializer pointwise_initializer = nullptr;
  Initializer bias_initializer = nullptr;
  Regularizer depthwise_regularizer = "";
  Regularizer pointwise_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint depthwise_constraint = "";
  Constraint pointwise_constraint = "";
  Constraint bias_constraint = "";
  bool trainable = true;
  std::string name = "";
  Reuse reuse = Reuse::kNone;
};
Tensor SeparableConv1D(const Tensor& inputs, int64_t filters, Size<1> kernel_size,
                       const SeparableConvOptions<1>& options = {},
                       SourceLocation where = SourceLocation::Current());
Tensor SeparableConv2D(const Tensor& inputs, int64_t filters, Size<2> kernel_size,
                       const SeparableConvOptions<2>& options = {},
                       SourceLocation where = SourceLocation::Current());

// Pooling. Average pooling excludes padding from the mean.
struct PoolingOptions {
  std::string padding = "valid";
  std::string data_format = "channels_last";
  std::string name = "";
};
Tensor MaxPooling1D(const Tensor& inputs, Size<1> pool_size, Size<1> strides,
                    const PoolingOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
Tensor MaxPooling2D(const Tensor& inputs, Size<2> pool_size, Size<2> strides,
                    const PoolingOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
Tensor MaxPooling3D(const Tensor& inputs, Size<3> pool_size, Size<3> strides,
                    const PoolingOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
Tensor AveragePooling1D(const Tensor& inputs, Size<1> pool_size, Size<1> strides,
                        const PoolingOptions& options = {},
                        SourceLocation where = SourceLocation::Current());
Tensor AveragePooling2D(const Tensor& inputs, Size<2> pool_size, Size<2> strides,
                        const PoolingOptions& options = {},
                        SourceLocation where = SourceLocation::Current());
Tensor AveragePooling3D(const Tensor& inputs, Size<3> pool_size, Size<3> strides,
                        const PoolingOptions& options = {},
                        SourceLocation where = SourceLocation::Current());

// [batch, ...] -> [batch, product of the other extents].
Tensor Flatten(const Tensor& inputs, absl::string_view name = "",
               absl::string_view data_format = "channels_last",
               SourceLocation where = SourceLocation::Current());

// In training, each element is 0 with probability `rate`, and otherwise divided by 1 - rate.
struct DropoutOptions {
  std::vector<int64_t> noise_shape = {};  // extents of 1: dropped together; -1: the input's
  std::optional<uint64_t> seed = {};
  Training training = false;
  std::string name = "";
};
Tensor Dropout(const Tensor& inputs, double rate = 0.5, const DropoutOptions& options = {},
               SourceLocation where = SourceLocation::Current());

// Batch normalization: in training by the statistics of the batch, whose moving averages are
// updated by operations in UPDATE_OPS; in inference by the moving averages.
struct BatchNormalizationOptions {
  int64_t axis = -1;
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = nullptr;             // zeros
  Initializer gamma_initializer = nullptr;            // ones
  Initializer moving_mean_initializer = nullptr;      // zeros
  Initializer moving_variance_initializer = nullptr;  // ones
  Regularizer beta_regularizer = "";
  Regularizer gamma_regularizer = "";
  Constraint beta_constraint = "";
  Constraint gamma_constraint = "";
  Training training = false;
  bool trainable = true;
  std::string name = "";
  Reuse reuse = Reuse::kNone;
  // TensorFlow's fused kernel averages the variance with the divisor N - 1, the other one with N,
  // as Keras 3. Default: fused for inputs of 4 axes.
  std::optional<bool> fused = {};
};
Tensor BatchNormalization(const Tensor& inputs, const BatchNormalizationOptions& options = {},
                          SourceLocation where = SourceLocation::Current());

// ---- Room nn ----
struct ApplyOptions {
  Training training = false;
  // Scope of the variables and operations. Empty: the variables have the network's names in the
  // current variable scope ("dense/kernel"), as in keras::Model.
  std::string name = "";
  bool trainable = true;
  Reuse reuse = Reuse::kNone;
  std::optional<uint64_t> seed = {};  // of random numbers in training
};
// The outputs of a network. Initial values are Network::Initialize's: pretrained weights, or those
// of the initializers for the graph's seed.
Tensors Apply(const ::penstock::nn::Network& network, const Tensors& inputs,
              const ApplyOptions& options = {}, SourceLocation where = SourceLocation::Current());
// The outputs of one layer, whose variables are "<name>/kernel". Empty name: the layer's, or its
// class's ("dense", "dense_1").
Tensors Call(const ::penstock::nn::Layer& layer, const Tensors& inputs,
             const ApplyOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::layers
