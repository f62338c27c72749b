// torch.nn.functional: names, order of arguments, defaults and formulas are PyTorch's. Arguments
// that calls name in PyTorch are fields of a trailing options struct:
//
//   namespace F = penstock::lazy::nn::functional;
//   x = F::relu(F::conv2d(x, weight, bias, {.stride = 2, .padding = 1}));
//   loss = F::cross_entropy(x, labels, {.label_smoothing = 0.1});
//
// Images are NCHW in PyTorch's shapes; the compiler chooses how they lie in memory. softmax,
// log_softmax, relu, sigmoid, tanh and one_hot are those of ops.h.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/lazy/ops.h"
#include "penstock/lazy/random.h"

namespace penstock::lazy::nn::functional {

using lazy::log_softmax;
using lazy::one_hot;
using lazy::relu;
using lazy::sigmoid;
using lazy::softmax;
using lazy::tanh;

// ---- Linear functions ----
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              SourceLocation where = SourceLocation::Current());
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {},
                SourceLocation where = SourceLocation::Current());

// Elements of padding at both ends of each axis, or "same" (stride 1 only) or "valid".
class Padding {
 public:
  template <std::integral T>
  Padding(T value) : sizes_(value) {}                 // NOLINT(google-explicit-constructor)
  Padding(Sizes sizes) : sizes_(std::move(sizes)) {}  // NOLINT(google-explicit-constructor)
  Padding(std::initializer_list<int64_t> sizes)       // NOLINT(google-explicit-constructor)
      : sizes_(sizes) {}
  Padding(const char* mode) : mode_(mode) {}  // NOLINT(google-explicit-constructor)
  const Sizes& sizes() const { return sizes_; }
  const std::string& mode() const { return mode_; }  // empty: sizes

 private:
  Sizes sizes_ = 0;
  std::string mode_;
};

struct ConvOptions {
  Sizes stride = 1;
  Padding padding = 0;
  Sizes dilation = 1;
  int64_t groups = 1;
};
// x [N, C, ...], weight [out, C / groups, ...], bias [out]; x may lack N.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {}, SourceLocation where = SourceLocation::Current());
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {}, SourceLocation where = SourceLocation::Current());
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {}, SourceLocation where = SourceLocation::Current());
struct ConvTransposeOptions {
  Sizes stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  Sizes dilation = 1;
};
// weight [C, out / groups, ...].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {},
                        SourceLocation where = SourceLocation::Current());
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions& options = {},
                        SourceLocation where = SourceLocation::Current());

// ---- Pooling ----
struct MaxPoolOptions {
  Sizes stride = {};  // empty: kernel_size
  Sizes padding = 0, dilation = 1;
  bool ceil_mode = false;
};
Tensor max_pool1d(const Tensor& x, const Sizes& kernel_size, const MaxPoolOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor max_pool2d(const Tensor& x, const Sizes& kernel_size, const MaxPoolOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
struct AvgPoolOptions {
  Sizes stride = {};  // empty: kernel_size
  Sizes padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<int64_t> divisor_override = {};
};
Tensor avg_pool1d(const Tensor& x, const Sizes& kernel_size, const AvgPoolOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor avg_pool2d(const Tensor& x, const Sizes& kernel_size, const AvgPoolOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor max_pool3d(const Tensor& x, const Sizes& kernel_size, const MaxPoolOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor avg_pool3d(const Tensor& x, const Sizes& kernel_size, const AvgPoolOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor adaptive_avg_pool3d(const Tensor& x, const Sizes& output_size,
                           SourceLocation where = SourceLocation::Current());
Tensor adaptive_avg_pool1d(const Tensor& x, const Sizes& output_size,
                           SourceLocation where = SourceLocation::Current());
Tensor adaptive_avg_pool2d(const Tensor& x, const Sizes& output_size,
                           SourceLocation where = SourceLocation::Current());
Tensor adaptive_max_pool1d(const Tensor& x, const Sizes& output_size,
                           SourceLocation where = SourceLocation::Current());
Tensor adaptive_max_pool2d(const Tensor& x, const Sizes& output_size,
                           SourceLocation where = SourceLocation::Current());

// ---- Normalization ----
// In training mode with running statistics, updates them in place:
// running = (1 - momentum) * running + momentum * batch, with the unbiased variance.
struct BatchNormOptions {
  Tensor weight = {}, bias = {};
  bool training = false;
  double momentum = 0.1, eps = 1e-5;
};
Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var,
                  const BatchNormOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor layer_norm(const Tensor& x, const Sizes& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5,
                  SourceLocation where = SourceLocation::Current());
// x / sqrt(mean(x^2) + eps) * weight over the last dims (Zhang and Sennrich: Root mean square layer
// normalization, 2019). `eps`: by default the type's machine epsilon.
Tensor rms_norm(const Tensor& x, const Sizes& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {}, SourceLocation where = SourceLocation::Current());
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5,
                  SourceLocation where = SourceLocation::Current());
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5, SourceLocation where = SourceLocation::Current());
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1, SourceLocation where = SourceLocation::Current());
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12,
                 SourceLocation where = SourceLocation::Current());

// ---- Activations ----
Tensor relu6(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01,
                  SourceLocation where = SourceLocation::Current());
Tensor prelu(
    const Tensor& x, const Tensor& weight,
    SourceLocation where = SourceLocation::Current());  // one weight, or one for each channel
Tensor elu(const Tensor& x, double alpha = 1, SourceLocation where = SourceLocation::Current());
Tensor selu(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor celu(const Tensor& x, double alpha = 1, SourceLocation where = SourceLocation::Current());
Tensor gelu(const Tensor& x, absl::string_view approximate = "none",
            SourceLocation where = SourceLocation::Current());  // or "tanh"
Tensor silu(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor mish(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor hardswish(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor hardsigmoid(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1,
                SourceLocation where = SourceLocation::Current());
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                SourceLocation where = SourceLocation::Current());
Tensor softsign(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor logsigmoid(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor tanhshrink(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor softshrink(const Tensor& x, double lambda = 0.5,
                  SourceLocation where = SourceLocation::Current());
Tensor hardshrink(const Tensor& x, double lambda = 0.5,
                  SourceLocation where = SourceLocation::Current());
Tensor threshold(const Tensor& x, double threshold, double value,
                 SourceLocation where = SourceLocation::Current());
Tensor glu(const Tensor& x, int64_t dim = -1, SourceLocation where = SourceLocation::Current());
Tensor softmin(const Tensor& x, int64_t dim, SourceLocation where = SourceLocation::Current());

// ---- Random ----
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               SourceLocation where = SourceLocation::Current());
// Whole channels: x is [N, C, ...]; as in PyTorch, dropout1d takes [C, L] and dropout3d [C, D, H, W]
// without a batch.
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                 SourceLocation where = SourceLocation::Current());
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 SourceLocation where = SourceLocation::Current());
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                     SourceLocation where = SourceLocation::Current());

Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                 SourceLocation where = SourceLocation::Current());
// Samples of the Gumbel-softmax distribution (Jang et al., 2016), a relaxed choice along `dim`;
// `hard`: one-hot, with the gradient of the relaxed one.
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int64_t dim = -1,
                      SourceLocation where = SourceLocation::Current());

// ---- Embedding, attention ----
// Rows of weight; indices out of range are clamped, because a compiled program cannot stop at one.
// The row padding_idx gets no gradient; a negative one counts from the end.
Tensor embedding(const Tensor& x, const Tensor& weight, std::optional<int64_t> padding_idx = {},
                 SourceLocation where = SourceLocation::Current());
struct EmbeddingBagOptions {
  std::string mode = "mean";                // or "sum", "max"
  Tensor per_sample_weights = {};           // of x's shape; mode sum only
  bool include_last_offset = false;         // the last offset is the end, not the begin of a bag
  std::optional<int64_t> padding_idx = {};  // not counted
};
// Rows of weight, reduced by bags: the rows of x [B, n], or the parts of a vector x that begin at
// each of `offsets` (int64 [B], the first 0). A bag without rows is zero.
Tensor embedding_bag(const Tensor& x, const Tensor& weight, const Tensor& offsets = {},
                     const EmbeddingBagOptions& options = {},
                     SourceLocation where = SourceLocation::Current());
struct AttentionOptions {
  Tensor attn_mask = {};  // bool: true takes part; float: added. Broadcasts to [..., L, S].
  double dropout_p = 0;
  bool is_causal = false;
};
// softmax(q k^T / sqrt(E)) v; q [..., L, E], k [..., S, E], v [..., S, Ev].
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {},
                                    SourceLocation where = SourceLocation::Current());

// ---- Losses. reduction: "mean", "sum" or "none" ----
struct CrossEntropyOptions {
  Tensor weight = {};  // of each class
  int64_t ignore_index = -100;
  std::string reduction = "mean";
  double label_smoothing = 0;
};
// x [N, C, ...] (or [C]); target: class indices [N, ...], or probabilities of x's shape and a float
// type. A class index outside [0, C) that is not ignore_index gives NaN.
Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options = {},
                     SourceLocation where = SourceLocation::Current());
struct NllLossOptions {
  Tensor weight = {};
  int64_t ignore_index = -100;
  std::string reduction = "mean";
};
Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossOptions& options = {},
                SourceLocation where = SourceLocation::Current());
Tensor mse_loss(const Tensor& x, const Tensor& target, absl::string_view reduction = "mean",
                SourceLocation where = SourceLocation::Current());
Tensor l1_loss(const Tensor& x, const Tensor& target, absl::string_view reduction = "mean",
               SourceLocation where = SourceLocation::Current());
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, absl::string_view reduction = "mean",
                      double beta = 1, SourceLocation where = SourceLocation::Current());
Tensor huber_loss(const Tensor& x, const Tensor& target, absl::string_view reduction = "mean",
                  double delta = 1, SourceLocation where = SourceLocation::Current());
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                            absl::string_view reduction = "mean",
                            SourceLocation where = SourceLocation::Current());
struct BceWithLogitsOptions {
  Tensor weight = {};
  std::string reduction = "mean";
  Tensor pos_weight = {};
};
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const BceWithLogitsOptions& options = {},
                                        SourceLocation where = SourceLocation::Current());
// reduction may also be "batchmean".
Tensor kl_div(const Tensor& x, const Tensor& target, absl::string_view reduction = "mean",
              bool log_target = false, SourceLocation where = SourceLocation::Current());
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8,
                         SourceLocation where = SourceLocation::Current());
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, absl::string_view reduction = "mean",
                        SourceLocation where = SourceLocation::Current());
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                           double margin = 0, absl::string_view reduction = "mean",
                           SourceLocation where = SourceLocation::Current());
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            absl::string_view reduction = "mean",
                            SourceLocation where = SourceLocation::Current());
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             double margin = 0, absl::string_view reduction = "mean",
                             SourceLocation where = SourceLocation::Current());
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6,
                           absl::string_view reduction = "mean",
                           SourceLocation where = SourceLocation::Current());

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keepdim = false, SourceLocation where = SourceLocation::Current());
struct MultiMarginOptions {
  double p = 1;  // or 2
  double margin = 1;
  Tensor weight = {};  // of each class
  std::string reduction = "mean";
};
// x [N, C] or [C], target: class indices.
Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                         const MultiMarginOptions& options = {},
                         SourceLocation where = SourceLocation::Current());
// x and target (0 or 1) [..., C]: binary cross entropy of logits, averaged over classes.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   absl::string_view reduction = "mean",
                                   SourceLocation where = SourceLocation::Current());
struct PoissonNllOptions {
  bool log_input = true;
  bool full = false;  // with Stirling's approximation of log(target!)
  double eps = 1e-8;
  std::string reduction = "mean";
};
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                        const PoissonNllOptions& options = {},
                        SourceLocation where = SourceLocation::Current());
struct GaussianNllOptions {
  bool full = false;
  double eps = 1e-6;  // the least variance
  std::string reduction = "mean";
};
// `variance` has x's shape, or 1 in the last dim, or lacks it.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options = {},
                         SourceLocation where = SourceLocation::Current());
struct CtcLossOptions {
  int64_t blank = 0;
  std::string reduction = "mean";  // of the losses divided by the targets' lengths
  bool zero_infinity = false;      // 0 for targets that do not fit into the input
};
// Connectionist temporal classification (Graves et al., 2006): log_probs [T, N, C] (log_softmax),
// targets [N, S], input_lengths and target_lengths [N] int64.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options = {},
                SourceLocation where = SourceLocation::Current());

// ---- Images ----
// `sizes`: low and high of the last dim, of the one before, ... mode: "constant", "reflect",
// "replicate", "circular".
Tensor pad(const Tensor& x, const Sizes& sizes, absl::string_view mode = "constant",
           double value = 0, SourceLocation where = SourceLocation::Current());
struct InterpolateOptions {
  Sizes size = {};                        // of the spatial dims
  std::vector<double> scale_factor = {};  // if there is no size
  // Or "nearest-exact", "area", "linear" ([N, C, L]), "bilinear", "bicubic" ([N, C, H, W]),
  // "trilinear" ([N, C, D, H, W]).
  std::string mode = "nearest";
  bool align_corners = false;
};
Tensor interpolate(const Tensor& x, const InterpolateOptions& options,
                   SourceLocation where = SourceLocation::Current());
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor,
                     SourceLocation where = SourceLocation::Current());
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor,
                       SourceLocation where = SourceLocation::Current());
Tensor channel_shuffle(const Tensor& x, int64_t groups,
                       SourceLocation where = SourceLocation::Current());
struct GridSampleOptions {
  std::string mode = "bilinear";       // or "nearest"
  std::string padding_mode = "zeros";  // or "border", "reflection"
  bool align_corners = false;
};
// x [N, C, H, W] at the points of grid [N, H', W', 2]: (column, row), from -1 to 1.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {},
                   SourceLocation where = SourceLocation::Current());
// The grid of affine maps theta [N, 2, 3] for images of `size` (N, C, H, W).
Tensor affine_grid(const Tensor& theta, const Sizes& size, bool align_corners = false,
                   SourceLocation where = SourceLocation::Current());
struct UnfoldOptions {
  Sizes dilation = 1, padding = 0, stride = 1;
};
// Patches [N, C * kernel elements, positions] of x [N, C, H, W].
Tensor unfold(const Tensor& x, const Sizes& kernel_size, const UnfoldOptions& options = {},
              SourceLocation where = SourceLocation::Current());

// The reverse: sums of patches [N, C * kernel elements, positions] in images of output_size.
Tensor fold(const Tensor& x, const Sizes& output_size, const Sizes& kernel_size,
            const UnfoldOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::nn::functional
