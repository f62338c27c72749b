// Neural network operations: tf.nn.* under TensorFlow's names in CamelCase, in namespace nn of this
// room (the room nn of layers is ::penstock::nn within namespace penstock::session).
//
//   tf::Tensor h = tf::nn::Relu(tf::nn::BiasAdd(tf::nn::Conv2D(x, w, {1, 2, 2, 1}, "SAME"), b));
//   tf::Tensor loss = tf::ReduceMean(
//       tf::nn::SparseSoftmaxCrossEntropyWithLogits(labels, logits));
//
// In TensorFlow labels and logits of the cross-entropy functions are keywords; here they are in the
// order of TensorFlow's signature: labels, logits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/graph.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session::nn {

// ---- Activations; formulas of ::penstock::nn (nn/activations.h) ----
Tensor Relu(const Tensor& features, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Relu6(const Tensor& features, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// concat([relu(x), relu(-x)], axis).
Tensor Crelu(const Tensor& features, absl::string_view name = "", int64_t axis = -1,
             SourceLocation where = SourceLocation::Current());
Tensor Elu(const Tensor& features, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Selu(const Tensor& features, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// alpha * features where they are not above 0. Integers give float32.
Tensor LeakyRelu(const Tensor& features, double alpha = 0.2, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor Softplus(const Tensor& features, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Softsign(const Tensor& features, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Swish(const Tensor& features, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Gelu(const Tensor& features, bool approximate = false, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Sigmoid(const Tensor& x, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Tensor Tanh(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// logits over `axis`.
Tensor Softmax(const Tensor& logits, int64_t axis = -1, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Tensor LogSoftmax(const Tensor& logits, int64_t axis = -1, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());

// ---- Losses: one value for each example ----
// labels: probabilities of the classes, on `axis`, of the type and rank of the logits; they may
// broadcast. No gradient reaches the labels; that of the _v2 function does. The gradient of the
// logits is the formula's; TensorFlow's takes the labels to add up to 1.
Tensor SoftmaxCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits, int64_t axis = -1,
                                     absl::string_view name = "",
                                     SourceLocation where = SourceLocation::Current());
Tensor SoftmaxCrossEntropyWithLogitsV2(const Tensor& labels, const Tensor& logits,
                                       int64_t axis = -1, absl::string_view name = "",
                                       SourceLocation where = SourceLocation::Current());
// labels: class numbers, int32 or int64, of the logits' shape without the last axis; a label out of
// range gives NaN.
Tensor SparseSoftmaxCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits,
                                           absl::string_view name = "",
                                           SourceLocation where = SourceLocation::Current());
// One value for each logit.
Tensor SigmoidCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits,
                                     absl::string_view name = "",
                                     SourceLocation where = SourceLocation::Current());
Tensor WeightedCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits,
                                      const Operand& pos_weight, absl::string_view name = "",
                                      SourceLocation where = SourceLocation::Current());
struct LogPoissonLossOptions {
  bool compute_full_loss = false;  // adds Stirling's approximation of log(z!)
  std::string name = "";
};
Tensor LogPoissonLoss(const Tensor& targets, const Tensor& log_input,
                      const LogPoissonLossOptions& options = {},
                      SourceLocation where = SourceLocation::Current());
// sum(t^2) / 2.
Tensor L2Loss(const Tensor& t, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());

// ---- Convolutions ----
// Of a channels-last input; data_format "NCHW" (NCW, NCDHW) for the other layout. Strides and
// dilations: one number, one for each spatial axis, or one for each axis of the input. A channel
// count of the input that is a multiple of the filter's makes a grouped convolution.
struct ConvOptions {
  std::string data_format = "";  // channels last
  Ints dilations = {};           // ones
  std::string name = "";
};
// input [batch, width, in], filters [width, in, out].
Tensor Conv1D(const Tensor& value, const Tensor& filters, int64_t stride, const Padding& padding,
              const ConvOptions& options = {}, SourceLocation where = SourceLocation::Current());
// input [batch, height, width, in], filter [height, width, in, out].
Tensor Conv2D(const Tensor& input, const Tensor& filter, const Ints& strides,
              const Padding& padding, const ConvOptions& options = {},
              SourceLocation where = SourceLocation::Current());
// input [batch, depth, height, width, in], filter [depth, height, width, in, out].
Tensor Conv3D(const Tensor& input, const Tensor& filter, const Ints& strides,
              const Padding& padding, const ConvOptions& options = {},
              SourceLocation where = SourceLocation::Current());
// filter [height, width, in, multiplier]: `multiplier` outputs for each channel, in that order.
Tensor DepthwiseConv2D(const Tensor& input, const Tensor& filter, const Ints& strides,
                       const Padding& padding, const ConvOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// DepthwiseConv2D, then a convolution with pointwise_filter [1, 1, in * multiplier, out].
Tensor SeparableConv2D(const Tensor& input, const Tensor& depthwise_filter,
                       const Tensor& pointwise_filter, const Ints& strides, const Padding& padding,
                       const ConvOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// Conv2D of stride 1 with holes (dilations) of this rate.
Tensor AtrousConv2D(const Tensor& value, const Tensor& filters, int64_t rate,
                    const Padding& padding, absl::string_view name = "",
                    SourceLocation where = SourceLocation::Current());
// Gradient of a convolution with respect to its input ("deconvolution"). filter [height, width,
// out, in]; output_shape is the shape of the result.
Tensor Conv1DTranspose(const Tensor& input, const Tensor& filters,
                       const ShapeArgument& output_shape, const Ints& strides,
                       const Padding& padding = "SAME", const ConvOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
Tensor Conv2DTranspose(const Tensor& value, const Tensor& filter, const ShapeArgument& output_shape,
                       const Ints& strides, const Padding& padding = "SAME",
                       const ConvOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
Tensor Conv3DTranspose(const Tensor& value, const Tensor& filter, const ShapeArgument& output_shape,
                       const Ints& strides, const Padding& padding = "SAME",
                       const ConvOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

// ---- Pooling; ksize and strides as strides of convolutions ----
struct PoolOptions {
  std::string data_format = "";  // channels last
  std::string name = "";
};
Tensor MaxPool(const Tensor& value, const Ints& ksize, const Ints& strides, const Padding& padding,
               const PoolOptions& options = {}, SourceLocation where = SourceLocation::Current());
// Padding does not count for the mean.
Tensor AvgPool(const Tensor& value, const Ints& ksize, const Ints& strides, const Padding& padding,
               const PoolOptions& options = {}, SourceLocation where = SourceLocation::Current());
Tensor MaxPool1D(const Tensor& input, const Ints& ksize, const Ints& strides,
                 const Padding& padding, const PoolOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
Tensor AvgPool1D(const Tensor& input, const Ints& ksize, const Ints& strides,
                 const Padding& padding, const PoolOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
Tensor MaxPool3D(const Tensor& input, const Ints& ksize, const Ints& strides,
                 const Padding& padding, const PoolOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
Tensor AvgPool3D(const Tensor& input, const Ints& ksize, const Ints& strides,
                 const Padding& padding, const PoolOptions& options = {},
                 SourceLocation where = SourceLocation::Current());

// ---- Normalization ----
// value + bias over the channels' axis: the last one, or with data_format "NCHW" axis 1.
Tensor BiasAdd(const Tensor& value, const Tensor& bias, absl::string_view data_format = "",
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// Mean and biased variance over these axes.
struct MomentsOptions {
  std::string name = "";
  bool keep_dims = false;
};
std::pair<Tensor, Tensor> Moments(const Tensor& x, const Axes& axes,
                                  const MomentsOptions& options = {},
                                  SourceLocation where = SourceLocation::Current());
// The same with weights that broadcast to x.
std::pair<Tensor, Tensor> WeightedMoments(const Tensor& x, const Axes& axes,
                                          const Tensor& frequency_weights,
                                          const MomentsOptions& options = {},
                                          SourceLocation where = SourceLocation::Current());
// (x - mean) / sqrt(variance + epsilon) * scale + offset; an invalid offset or scale is left out.
Tensor BatchNormalization(const Tensor& x, const Tensor& mean, const Tensor& variance,
                          const Tensor& offset, const Tensor& scale, double variance_epsilon,
                          absl::string_view name = "",
                          SourceLocation where = SourceLocation::Current());
// Batch normalization over all axes but the channels'. Training (the default): with the statistics
// of x, which are returned, the variance unbiased; with an exponential_avg_factor other than 1 they
// are averaged with `mean` and `variance`. Inference: with `mean` and `variance`.
struct FusedBatchNormOptions {
  Tensor mean = {}, variance = {};
  double epsilon = 0.001;
  std::string data_format = "NHWC";
  bool is_training = true;
  std::string name = "";
  double exponential_avg_factor = 1;
};
struct FusedBatchNormResult {
  Tensor y, batch_mean, batch_var;
};
FusedBatchNormResult FusedBatchNorm(const Tensor& x, const Tensor& scale, const Tensor& offset,
                                    const FusedBatchNormOptions& options = {},
                                    SourceLocation where = SourceLocation::Current());
// x / sqrt(max(sum(x^2), epsilon)) over these axes; also tf.math.l2_normalize.
Tensor L2Normalize(const Tensor& x, const Axes& axis = {}, double epsilon = 1e-12,
                   absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// input / (bias + alpha * sum of squares over 2 * depth_radius + 1 neighboring channels)^beta.
struct LocalResponseNormalizationOptions {
  int64_t depth_radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;
  std::string name = "";
};
Tensor LocalResponseNormalization(const Tensor& input,
                                  const LocalResponseNormalizationOptions& options = {},
                                  SourceLocation where = SourceLocation::Current());
// Fraction of zeros, float32.
Tensor ZeroFraction(const Tensor& value, absl::string_view name = "",
                    SourceLocation where = SourceLocation::Current());

// ---- Products ----
// matmul(x, weights) + biases.
Tensor XwPlusB(const Tensor& x, const Tensor& weights, const Tensor& biases,
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// relu of it.
Tensor ReluLayer(const Tensor& x, const Tensor& weights, const Tensor& biases,
                 absl::string_view name = "", SourceLocation where = SourceLocation::Current());

// ---- Look-ups and order ----
// Rows of params, or of several tensors among which the rows are distributed. partition_strategy
// "mod": row i is in params[i mod n]; "div": consecutive rows together. Rows of a norm above
// max_norm are scaled down to it.
struct EmbeddingLookupOptions {
  std::string partition_strategy = "mod";
  std::string name = "";
  std::optional<double> max_norm = {};
};
Tensor EmbeddingLookup(const Tensors& params, const Tensor& ids,
                       const EmbeddingLookupOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
Tensor EmbeddingLookup(const Tensor& params, const Tensor& ids,
                       const EmbeddingLookupOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// The k largest elements of the last axis in descending order and their indices (int32); of equal
// elements, the one of the lower index comes first.
struct TopKResult {
  Tensor values, indices;
};
TopKResult TopK(const Tensor& input, int64_t k = 1, bool sorted = true, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// Whether fewer than k predictions of the row [batch, classes] are larger than the target's; false
// if that one is not finite or the target is out of range.
Tensor InTopK(const Tensor& predictions, const Tensor& targets, int64_t k,
              absl::string_view name = "", SourceLocation where = SourceLocation::Current());

// ---- Dropout ----
// Keeps each element with probability keep_prob, divided by it, and zeroes the others; keep_prob
// may be a placeholder, to be fed 1 for evaluation. noise_shape: along axes of extent 1, elements
// are kept or dropped together. Either keep_prob or `rate` (1 - keep_prob); other elements in each
// Run, reproducible by the seed.
struct DropoutOptions {
  Shape noise_shape = {-1};  // {-1}: of x
  std::optional<uint64_t> seed = {};
  std::string name = "";
  std::optional<Operand> rate = {};
};
Tensor Dropout(const Tensor& x, const std::optional<Operand>& keep_prob = {},
               const DropoutOptions& options = {},
               SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::nn
