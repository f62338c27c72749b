// Catalog of modules, under PyTorch's names, in PyTorch's order of arguments with its defaults;
// https://pytorch.org/docs (torch.nn) specifies the module of that name. Keyword arguments are
// fields of a trailing options struct:
//
//   nn::Conv2d(64, 128, 3, {.stride = 2, .padding = 1, .bias = false})
//
// module.h: the base class and how a program's own modules are written; containers.h: Sequential,
// ModuleList, ModuleDict; recurrent.h: RNN, LSTM, GRU; transformer.h: attention and transformers.
// Parameters and buffers have PyTorch's names, so state_dict fits its files.
#pragma once

#include <optional>
#include <string>

#include "penstock/lazy/functional.h"
#include "penstock/lazy/nn/containers.h"
#include "penstock/lazy/nn/module.h"

namespace penstock::lazy::nn {

// ---- Linear layers ----

struct LinearOptions {
  bool bias = true;
};
// weight [out, in], bias [out]; both uniform within +-1 / sqrt(in).
class LinearImpl : public Module {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, const LinearOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;
};
PENSTOCK_LAZY_MODULE(Linear,
                     (int64_t in_features, int64_t out_features, const LinearOptions& options = {}),
                     (in_features, out_features, options));

// x A y + b with weight A [out, in1, in2]; uniform within +-1 / sqrt(in1).
class BilinearImpl : public Module {
 public:
  BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features,
               const LinearOptions& options = {});
  Tensor forward(const Tensor& a, const Tensor& b,
                 SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;
};
PENSTOCK_LAZY_MODULE(Bilinear,
                     (int64_t in1_features, int64_t in2_features, int64_t out_features,
                      const LinearOptions& options = {}),
                     (in1_features, in2_features, out_features, options));

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};  // its row is zero and gets no gradient
};
// weight [num_embeddings, embedding_dim], standard normal.
class EmbeddingImpl : public Module {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim,
                const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight;

 private:
  std::optional<int64_t> padding_idx_;
};
PENSTOCK_LAZY_MODULE(Embedding,
                     (int64_t num_embeddings, int64_t embedding_dim,
                      const EmbeddingOptions& options = {}),
                     (num_embeddings, embedding_dim, options));

struct EmbeddingBagModuleOptions {
  std::string mode = "mean";  // or "sum", "max"
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx = {};
};
// functional::embedding_bag of a weight [num_embeddings, embedding_dim], standard normal.
class EmbeddingBagImpl : public Module {
 public:
  EmbeddingBagImpl(int64_t num_embeddings, int64_t embedding_dim,
                   const EmbeddingBagModuleOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current()) {
    return forward(x, Tensor(), Tensor(), where);
  }
  Tensor forward(const Tensor& x, const Tensor& offsets, const Tensor& per_sample_weights = {},
                 SourceLocation where = SourceLocation::Current());
  Tensor weight;

 private:
  const EmbeddingBagModuleOptions options_;
};
PENSTOCK_LAZY_MODULE(EmbeddingBag,
                     (int64_t num_embeddings, int64_t embedding_dim,
                      const EmbeddingBagModuleOptions& options = {}),
                     (num_embeddings, embedding_dim, options));

// ---- Convolutions: weight [out, in / groups, ...], initialized as Linear's ----

struct ConvModuleOptions {
  Sizes stride = 1;
  functional::Padding padding = 0;  // or "same", "valid"
  Sizes dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";  // or "reflect", "replicate", "circular"
};
class ConvImpl : public Module {
 public:
  ConvImpl(int64_t spatial, int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
           const ConvModuleOptions& options);
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;

 private:
  const int64_t spatial_;
  const ConvModuleOptions options_;
  std::vector<int64_t> kernel_;
};
using Conv1dImpl = ConvImpl;
using Conv2dImpl = ConvImpl;
using Conv3dImpl = ConvImpl;
PENSTOCK_LAZY_MODULE(Conv1d,
                     (int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
                      const ConvModuleOptions& options = {}),
                     (1, in_channels, out_channels, kernel_size, options));
PENSTOCK_LAZY_MODULE(Conv2d,
                     (int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
                      const ConvModuleOptions& options = {}),
                     (2, in_channels, out_channels, kernel_size, options));
PENSTOCK_LAZY_MODULE(Conv3d,
                     (int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
                      const ConvModuleOptions& options = {}),
                     (3, in_channels, out_channels, kernel_size, options));

struct ConvTransposeModuleOptions {
  Sizes stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Sizes dilation = 1;
};
class ConvTransposeImpl : public Module {
 public:
  ConvTransposeImpl(int64_t spatial, int64_t in_channels, int64_t out_channels,
                    const Sizes& kernel_size, const ConvTransposeModuleOptions& options);
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;

 private:
  const int64_t spatial_;
  const ConvTransposeModuleOptions options_;
};
using ConvTranspose1dImpl = ConvTransposeImpl;
using ConvTranspose2dImpl = ConvTransposeImpl;
PENSTOCK_LAZY_MODULE(ConvTranspose1d,
                     (int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
                      const ConvTransposeModuleOptions& options = {}),
                     (1, in_channels, out_channels, kernel_size, options));
PENSTOCK_LAZY_MODULE(ConvTranspose2d,
                     (int64_t in_channels, int64_t out_channels, const Sizes& kernel_size,
                      const ConvTransposeModuleOptions& options = {}),
                     (2, in_channels, out_channels, kernel_size, options));

// ---- Normalization ----

struct BatchNormModuleOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: cumulative average
  bool affine = true;
  bool track_running_stats = true;
};
// weight and bias (affine); running_mean, running_var and num_batches_tracked.
class BatchNormImpl : public Module {
 public:
  BatchNormImpl(const char* name, int64_t low_rank, int64_t high_rank, int64_t num_features,
                const BatchNormModuleOptions& options);
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  // Moves the running statistics toward a batch's mean and variance [num_features], by that share of the way.
  void MoveRunning(const Tensor& mean, const Tensor& variance, const Operand& share,
                   SourceLocation where);

  const BatchNormModuleOptions options_;

 private:
  void UpdateCumulative(const Tensor& x, SourceLocation where);

  const char* const name_;
  const int64_t low_rank_, high_rank_;
};
using BatchNorm1dImpl = BatchNormImpl;
using BatchNorm2dImpl = BatchNormImpl;
using BatchNorm3dImpl = BatchNormImpl;
PENSTOCK_LAZY_MODULE(BatchNorm1d,
                     (int64_t num_features, const BatchNormModuleOptions& options = {}),
                     ("BatchNorm1d", 2, 3, num_features, options));
PENSTOCK_LAZY_MODULE(BatchNorm2d,
                     (int64_t num_features, const BatchNormModuleOptions& options = {}),
                     ("BatchNorm2d", 4, 4, num_features, options));
PENSTOCK_LAZY_MODULE(BatchNorm3d,
                     (int64_t num_features, const BatchNormModuleOptions& options = {}),
                     ("BatchNorm3d", 5, 5, num_features, options));

// BatchNorm of 2 to 5 dims with the statistics of the batches of all replicas (xmp::spawn), which
// have equal sizes and must all call it. Members of a network are declared with it: there is no
// convert_sync_batchnorm.
class SyncBatchNormImpl : public BatchNormImpl {
 public:
  explicit SyncBatchNormImpl(int64_t num_features, const BatchNormModuleOptions& options = {})
      : BatchNormImpl("SyncBatchNorm", 2, 5, num_features, options) {}
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());

 private:
  void UpdateRunning(const Tensor& mean, const Tensor& variance, SourceLocation where);
};
PENSTOCK_LAZY_MODULE(SyncBatchNorm,
                     (int64_t num_features, const BatchNormModuleOptions& options = {}),
                     (num_features, options));

struct RMSNormOptions {
  std::optional<double> eps = {};  // by default the type's machine epsilon
  bool elementwise_affine = true;
};
class RMSNormImpl : public Module {
 public:
  explicit RMSNormImpl(const Sizes& normalized_shape, const RMSNormOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight;

 private:
  const Sizes shape_;
  const std::optional<double> eps_;
};
PENSTOCK_LAZY_MODULE(RMSNorm, (const Sizes& normalized_shape, const RMSNormOptions& options = {}),
                     (normalized_shape, options));

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
};
class LayerNormImpl : public Module {
 public:
  explicit LayerNormImpl(const Sizes& normalized_shape, const LayerNormOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;

 private:
  const Sizes shape_;
  const double eps_;
};
PENSTOCK_LAZY_MODULE(LayerNorm,
                     (const Sizes& normalized_shape, const LayerNormOptions& options = {}),
                     (normalized_shape, options));

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};
class GroupNormImpl : public Module {
 public:
  GroupNormImpl(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;

 private:
  const int64_t groups_;
  const double eps_;
};
PENSTOCK_LAZY_MODULE(GroupNorm,
                     (int64_t num_groups, int64_t num_channels,
                      const GroupNormOptions& options = {}),
                     (num_groups, num_channels, options));

// Without running statistics (PyTorch's default).
struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;
};
class InstanceNormImpl : public Module {
 public:
  // For [N, C, ...] and [C, ...] with this number of axes after C.
  InstanceNormImpl(int num_spatial, int64_t num_features, const InstanceNormOptions& options);
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight, bias;

 private:
  const int num_spatial_;
  const double eps_;
};
struct InstanceNorm1dImpl : public InstanceNormImpl {
  explicit InstanceNorm1dImpl(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNormImpl(1, num_features, options) {}
};
struct InstanceNorm2dImpl : public InstanceNormImpl {
  explicit InstanceNorm2dImpl(int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNormImpl(2, num_features, options) {}
};
PENSTOCK_LAZY_MODULE(InstanceNorm1d,
                     (int64_t num_features, const InstanceNormOptions& options = {}),
                     (num_features, options));
PENSTOCK_LAZY_MODULE(InstanceNorm2d,
                     (int64_t num_features, const InstanceNormOptions& options = {}),
                     (num_features, options));

struct PReLUOptions {
  double init = 0.25;
};
class PReLUImpl : public Module {
 public:
  explicit PReLUImpl(int64_t num_parameters = 1, const PReLUOptions& options = {});
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current());
  Tensor weight;
};
PENSTOCK_LAZY_MODULE(PReLU, (int64_t num_parameters = 1, const PReLUOptions& options = {}),
                     (num_parameters, options));

// ---- Modules without parameters: a function of functional.h with its arguments ----

class FunctionModule : public Module {
 public:
  using Function = std::function<Tensor(const Tensor& x, bool training, SourceLocation where)>;
  explicit FunctionModule(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current()) {
    return function_(x, is_training(), where);
  }

 private:
  const Function function_;
};
class FunctionHolder : public ModuleHolder<FunctionModule> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit FunctionHolder(FunctionModule::Function function);
};
#define PENSTOCK_LAZY_FUNCTION(Name, parameters) \
  class Name : public FunctionHolder {           \
   public:                                       \
    using FunctionHolder::FunctionHolder;        \
    explicit Name parameters;                    \
  }

PENSTOCK_LAZY_FUNCTION(Identity, ());
PENSTOCK_LAZY_FUNCTION(Flatten, (int64_t start_dim = 1, int64_t end_dim = -1));
PENSTOCK_LAZY_FUNCTION(Unflatten, (int64_t dim, const Sizes& sizes));

PENSTOCK_LAZY_FUNCTION(ReLU, ());
PENSTOCK_LAZY_FUNCTION(ReLU6, ());
PENSTOCK_LAZY_FUNCTION(LeakyReLU, (double negative_slope = 0.01));
PENSTOCK_LAZY_FUNCTION(ELU, (double alpha = 1));
PENSTOCK_LAZY_FUNCTION(SELU, ());
PENSTOCK_LAZY_FUNCTION(CELU, (double alpha = 1));
PENSTOCK_LAZY_FUNCTION(GELU, (const std::string& approximate = "none"));
PENSTOCK_LAZY_FUNCTION(SiLU, ());
PENSTOCK_LAZY_FUNCTION(Mish, ());
PENSTOCK_LAZY_FUNCTION(Hardswish, ());
PENSTOCK_LAZY_FUNCTION(Hardsigmoid, ());
PENSTOCK_LAZY_FUNCTION(Hardtanh, (double min_val = -1, double max_val = 1));
PENSTOCK_LAZY_FUNCTION(Softplus, (double beta = 1, double threshold = 20));
PENSTOCK_LAZY_FUNCTION(Softsign, ());
PENSTOCK_LAZY_FUNCTION(LogSigmoid, ());
PENSTOCK_LAZY_FUNCTION(Tanhshrink, ());
PENSTOCK_LAZY_FUNCTION(Softshrink, (double lambda = 0.5));
PENSTOCK_LAZY_FUNCTION(Hardshrink, (double lambda = 0.5));
PENSTOCK_LAZY_FUNCTION(Threshold, (double threshold, double value));
PENSTOCK_LAZY_FUNCTION(Sigmoid, ());
PENSTOCK_LAZY_FUNCTION(Tanh, ());
PENSTOCK_LAZY_FUNCTION(GLU, (int64_t dim = -1));
PENSTOCK_LAZY_FUNCTION(Softmax, (int64_t dim));
PENSTOCK_LAZY_FUNCTION(LogSoftmax, (int64_t dim));
PENSTOCK_LAZY_FUNCTION(Softmin, (int64_t dim));

PENSTOCK_LAZY_FUNCTION(MaxPool1d,
                       (const Sizes& kernel_size, const functional::MaxPoolOptions& options = {}));
PENSTOCK_LAZY_FUNCTION(MaxPool2d,
                       (const Sizes& kernel_size, const functional::MaxPoolOptions& options = {}));
PENSTOCK_LAZY_FUNCTION(AvgPool1d,
                       (const Sizes& kernel_size, const functional::AvgPoolOptions& options = {}));
PENSTOCK_LAZY_FUNCTION(AvgPool2d,
                       (const Sizes& kernel_size, const functional::AvgPoolOptions& options = {}));
PENSTOCK_LAZY_FUNCTION(MaxPool3d,
                       (const Sizes& kernel_size, const functional::MaxPoolOptions& options = {}));
PENSTOCK_LAZY_FUNCTION(AvgPool3d,
                       (const Sizes& kernel_size, const functional::AvgPoolOptions& options = {}));
PENSTOCK_LAZY_FUNCTION(AdaptiveAvgPool3d, (const Sizes& output_size));
PENSTOCK_LAZY_FUNCTION(AdaptiveAvgPool1d, (const Sizes& output_size));
PENSTOCK_LAZY_FUNCTION(AdaptiveAvgPool2d, (const Sizes& output_size));
PENSTOCK_LAZY_FUNCTION(AdaptiveMaxPool1d, (const Sizes& output_size));
PENSTOCK_LAZY_FUNCTION(AdaptiveMaxPool2d, (const Sizes& output_size));

PENSTOCK_LAZY_FUNCTION(LocalResponseNorm,
                       (int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1));
PENSTOCK_LAZY_FUNCTION(Dropout, (double p = 0.5));
PENSTOCK_LAZY_FUNCTION(Dropout1d, (double p = 0.5));
PENSTOCK_LAZY_FUNCTION(Dropout2d, (double p = 0.5));
PENSTOCK_LAZY_FUNCTION(Dropout3d, (double p = 0.5));
PENSTOCK_LAZY_FUNCTION(AlphaDropout, (double p = 0.5));

PENSTOCK_LAZY_FUNCTION(ZeroPad2d, (const Sizes& padding));  // one number, or left right top bottom
PENSTOCK_LAZY_FUNCTION(ConstantPad2d, (const Sizes& padding, double value));
PENSTOCK_LAZY_FUNCTION(ReflectionPad2d, (const Sizes& padding));
PENSTOCK_LAZY_FUNCTION(ReplicationPad2d, (const Sizes& padding));
PENSTOCK_LAZY_FUNCTION(ConstantPad1d, (const Sizes& padding, double value));  // or left right
PENSTOCK_LAZY_FUNCTION(ReflectionPad1d, (const Sizes& padding));
PENSTOCK_LAZY_FUNCTION(ChannelShuffle, (int64_t groups));
PENSTOCK_LAZY_FUNCTION(PixelShuffle, (int64_t upscale_factor));
PENSTOCK_LAZY_FUNCTION(PixelUnshuffle, (int64_t downscale_factor));
PENSTOCK_LAZY_FUNCTION(Upsample, (const functional::InterpolateOptions& options));
PENSTOCK_LAZY_FUNCTION(Unfold,
                       (const Sizes& kernel_size, const functional::UnfoldOptions& options = {}));

PENSTOCK_LAZY_FUNCTION(Fold, (const Sizes& output_size, const Sizes& kernel_size,
                              const functional::UnfoldOptions& options = {}));

// ---- Losses: criterion(input, target) ----

class LossModule : public Module {
 public:
  using Function =
      std::function<Tensor(const Tensor& x, const Tensor& target, SourceLocation where)>;
  explicit LossModule(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x, const Tensor& target,
                 SourceLocation where = SourceLocation::Current()) {
    return function_(x, target, where);
  }

 private:
  const Function function_;
};
class LossHolder : public ModuleHolder<LossModule> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit LossHolder(LossModule::Function function);
  Tensor operator()(const Tensor& x, const Tensor& target,
                    SourceLocation where = SourceLocation::Current()) const;
};
#define PENSTOCK_LAZY_LOSS(Name, parameters) \
  class Name : public LossHolder {           \
   public:                                   \
    using LossHolder::LossHolder;            \
    explicit Name parameters;                \
  }

PENSTOCK_LAZY_LOSS(CrossEntropyLoss, (const functional::CrossEntropyOptions& options = {}));
PENSTOCK_LAZY_LOSS(NLLLoss, (const functional::NllLossOptions& options = {}));
PENSTOCK_LAZY_LOSS(MSELoss, (const std::string& reduction = "mean"));
PENSTOCK_LAZY_LOSS(L1Loss, (const std::string& reduction = "mean"));
PENSTOCK_LAZY_LOSS(SmoothL1Loss, (const std::string& reduction = "mean", double beta = 1));
PENSTOCK_LAZY_LOSS(HuberLoss, (const std::string& reduction = "mean", double delta = 1));
PENSTOCK_LAZY_LOSS(BCELoss, (const Tensor& weight = {}, const std::string& reduction = "mean"));
PENSTOCK_LAZY_LOSS(BCEWithLogitsLoss, (const functional::BceWithLogitsOptions& options = {}));
PENSTOCK_LAZY_LOSS(KLDivLoss, (const std::string& reduction = "mean", bool log_target = false));
PENSTOCK_LAZY_LOSS(SoftMarginLoss, (const std::string& reduction = "mean"));
PENSTOCK_LAZY_LOSS(HingeEmbeddingLoss, (double margin = 1, const std::string& reduction = "mean"));
PENSTOCK_LAZY_LOSS(CosineSimilarity, (int64_t dim = 1, double eps = 1e-8));
PENSTOCK_LAZY_LOSS(PairwiseDistance, (double p = 2, double eps = 1e-6, bool keepdim = false));
PENSTOCK_LAZY_LOSS(MultiMarginLoss, (const functional::MultiMarginOptions& options = {}));
PENSTOCK_LAZY_LOSS(MultiLabelSoftMarginLoss,
                   (const Tensor& weight = {}, const std::string& reduction = "mean"));
PENSTOCK_LAZY_LOSS(PoissonNLLLoss, (const functional::PoissonNllOptions& options = {}));

// ---- Losses of three tensors ----

class TripleLossModule : public Module {
 public:
  using Function = std::function<Tensor(const Tensor& a, const Tensor& b, const Tensor& c,
                                        SourceLocation where)>;
  explicit TripleLossModule(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c,
                 SourceLocation where = SourceLocation::Current()) {
    return function_(a, b, c, where);
  }

 private:
  const Function function_;
};
class TripleLossHolder : public ModuleHolder<TripleLossModule> {
 public:
  using ModuleHolder::ModuleHolder;
  explicit TripleLossHolder(TripleLossModule::Function function);
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c,
                    SourceLocation where = SourceLocation::Current()) const;
};
#define PENSTOCK_LAZY_TRIPLE_LOSS(Name, parameters) \
  class Name : public TripleLossHolder {            \
   public:                                          \
    using TripleLossHolder::TripleLossHolder;       \
    explicit Name parameters;                       \
  }

// criterion(x1, x2, y), y 1 or -1.
PENSTOCK_LAZY_TRIPLE_LOSS(MarginRankingLoss,
                          (double margin = 0, const std::string& reduction = "mean"));
PENSTOCK_LAZY_TRIPLE_LOSS(CosineEmbeddingLoss,
                          (double margin = 0, const std::string& reduction = "mean"));
// criterion(anchor, positive, negative).
PENSTOCK_LAZY_TRIPLE_LOSS(TripletMarginLoss, (double margin = 1, double p = 2, double eps = 1e-6,
                                              const std::string& reduction = "mean"));
// criterion(input, target, variance).
PENSTOCK_LAZY_TRIPLE_LOSS(GaussianNLLLoss, (const functional::GaussianNllOptions& options = {}));

// criterion(log_probs, targets, input_lengths, target_lengths): functional::ctc_loss.
class CTCLossImpl : public Module {
 public:
  explicit CTCLossImpl(const functional::CtcLossOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths, SourceLocation where = SourceLocation::Current()) {
    return functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options_, where);
  }

 private:
  const functional::CtcLossOptions options_;
};
PENSTOCK_LAZY_MODULE(CTCLoss, (const functional::CtcLossOptions& options = {}), (options));

}  // namespace penstock::lazy::nn
