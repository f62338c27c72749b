// Types of options that are given by name: initializers, activations, regularizers, constraints,
// paddings, reductions and the like. Each stores the name as text, which is what a saved model
// contains, and converts from a string as well as from a typed value, where a typo does not
// compile:
//
//   Dense({.units = 64, .activation = "relu", .kernel_initializer = "he_normal"});
//   Dense({.units = 64,
//          .activation = activations::Relu(),
//          .kernel_initializer = initializers::HeNormal(),
//          .kernel_regularizer = regularizers::L2(1e-4)});
//   Conv2D({.filters = 8, .kernel_size = 3, .padding = Padding::kSame});
//   MeanSquaredError({.reduction = Reduction::kSum});
//   AUC({.curve = AucCurve::kPR});
//
// A typed value of another kind (a regularizer as an initializer) does not compile either. Invalid
// numbers (VarianceScaling({.scale = 0})) are errors of building the network, as they are for
// strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/dtype.h"

namespace penstock::nn {

// Text of an option of one kind.
template <typename Kind>
class NamedOption : public std::string {
 public:
  NamedOption() = default;
  NamedOption(const char* text) : std::string(text) {}             // NOLINT: "he_normal"
  NamedOption(std::string text) : std::string(std::move(text)) {}  // NOLINT
  NamedOption(absl::string_view text) : std::string(text.data(), text.size()) {}  // NOLINT
  NamedOption(std::nullptr_t) = delete;
  // Rejects a value of another kind of option.
  template <typename Other>
  NamedOption(const NamedOption<Other>&) = delete;
};

// Kinds of initializers.h, activations.h, regularizers.h, constraints.h; functions below create
// their values.
struct Initializer : NamedOption<Initializer> {
  using NamedOption::NamedOption;
};
struct ActivationFunction : NamedOption<ActivationFunction> {
  using NamedOption::NamedOption;
};
// Empty: none.
struct Regularizer : NamedOption<Regularizer> {
  using NamedOption::NamedOption;
};
struct Constraint : NamedOption<Constraint> {
  using NamedOption::NamedOption;
};

// Padding of convolution and pooling windows; kCausal is for Conv1D only.
struct Padding : NamedOption<Padding> {
  enum Value { kValid, kSame, kCausal };
  static constexpr const char* kNames[] = {"valid", "same", "causal"};
  using NamedOption::NamedOption;
  Padding(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Interpolation between pixels.
struct Interpolation : NamedOption<Interpolation> {
  enum Value { kBilinear, kNearest, kBicubic, kLanczos3, kLanczos5 };
  static constexpr const char* kNames[] = {"bilinear", "nearest", "bicubic", "lanczos3",
                                           "lanczos5"};
  using NamedOption::NamedOption;
  Interpolation(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Values beyond the edges of an image.
struct FillMode : NamedOption<FillMode> {
  enum Value { kReflect, kWrap, kNearest, kConstant };
  static constexpr const char* kNames[] = {"reflect", "wrap", "nearest", "constant"};
  using NamedOption::NamedOption;
  FillMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Directions of RandomFlip.
struct FlipMode : NamedOption<FlipMode> {
  enum Value { kHorizontal, kVertical, kHorizontalAndVertical };
  static constexpr const char* kNames[] = {"horizontal", "vertical", "horizontal_and_vertical"};
  using NamedOption::NamedOption;
  FlipMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Encodings of CategoryEncoding and Discretization.
struct OutputMode : NamedOption<OutputMode> {
  enum Value { kInt, kOneHot, kMultiHot, kCount };
  static constexpr const char* kNames[] = {"int", "one_hot", "multi_hot", "count"};
  using NamedOption::NamedOption;
  OutputMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Scores of Attention.
struct ScoreMode : NamedOption<ScoreMode> {
  enum Value { kDot, kConcat };
  static constexpr const char* kNames[] = {"dot", "concat"};
  using NamedOption::NamedOption;
  ScoreMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Merging of Bidirectional's outputs; kNone: two outputs.
struct MergeMode : NamedOption<MergeMode> {
  enum Value { kConcat, kSum, kMul, kAve, kNone };
  static constexpr const char* kNames[] = {"concat", "sum", "mul", "ave", "none"};
  using NamedOption::NamedOption;
  MergeMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Mixed precision policy of a layer (policy.h). Empty: the network's.
struct DTypePolicy : NamedOption<DTypePolicy> {
  enum Value { kFloat32, kMixedBfloat16, kBfloat16, kMixedFloat16, kFloat16 };
  static constexpr const char* kNames[] = {"float32", "mixed_bfloat16", "bfloat16", "mixed_float16",
                                           "float16"};
  using NamedOption::NamedOption;
  DTypePolicy(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};

// An element type by name.
struct ElementType : NamedOption<ElementType> {
  using NamedOption::NamedOption;
  ElementType(base::DType type) : NamedOption(std::string(base::DTypeName(type))) {}  // NOLINT
};

// Reduction of a loss to one number (losses.h): the mean over the batch (kSumOverBatchSize and
// kMean are the same), the sum, the mean weighted by sample weights; kNone keeps all values, so it
// cannot be compiled.
struct Reduction : NamedOption<Reduction> {
  enum Value { kSumOverBatchSize, kMean, kSum, kMeanWithSampleWeight, kNone };
  static constexpr const char* kNames[] = {"sum_over_batch_size", "mean", "sum",
                                           "mean_with_sample_weight", "none"};
  using NamedOption::NamedOption;
  Reduction(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Curve of the metric AUC: receiver operating characteristic, precision-recall,
// precision-recall-gain.
struct AucCurve : NamedOption<AucCurve> {
  enum Value { kROC, kPR, kPRGain };
  static constexpr const char* kNames[] = {"ROC", "PR", "PRGAIN"};
  using NamedOption::NamedOption;
  AucCurve(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Summation method of the metric AUC: the mean, the minimum or the maximum of two neighboring
// points of the curve (for kPR, kInterpolation interpolates true and false positives).
struct AucSummationMethod : NamedOption<AucSummationMethod> {
  enum Value { kInterpolation, kMinoring, kMajoring };
  static constexpr const char* kNames[] = {"interpolation", "minoring", "majoring"};
  using NamedOption::NamedOption;
  AucSummationMethod(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Average of F1Score and FBetaScore over the classes: the mean of the classes' scores (kMacro), the
// same weighted by each class's number of labels (kWeighted), or one score of all decisions
// (kMicro).
struct ClassAverage : NamedOption<ClassAverage> {
  enum Value { kMacro, kMicro, kWeighted };
  static constexpr const char* kNames[] = {"macro", "micro", "weighted"};
  using NamedOption::NamedOption;
  ClassAverage(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Average of R2Score over the outputs.
struct ClassAggregation : NamedOption<ClassAggregation> {
  enum Value { kUniformAverage, kVarianceWeightedAverage };
  static constexpr const char* kNames[] = {"uniform_average", "variance_weighted_average"};
  using NamedOption::NamedOption;
  ClassAggregation(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Course of the learning rate within a phase of OneCycle.
struct AnnealStrategy : NamedOption<AnnealStrategy> {
  enum Value { kCos, kLinear };
  static constexpr const char* kNames[] = {"cos", "linear"};
  using NamedOption::NamedOption;
  AnnealStrategy(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Direction of a plot (plot.h): top to bottom, left to right, bottom to top, right to left.
struct RankDir : NamedOption<RankDir> {
  enum Value { kTB, kLR, kBT, kRL };
  static constexpr const char* kNames[] = {"TB", "LR", "BT", "RL"};
  using NamedOption::NamedOption;
  RankDir(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Divisor of VarianceScaling's variance: number of inputs, number of outputs, or their mean.
struct ScalingMode : NamedOption<ScalingMode> {
  enum Value { kFanIn, kFanOut, kFanAvg };
  static constexpr const char* kNames[] = {"fan_in", "fan_out", "fan_avg"};
  using NamedOption::NamedOption;
  ScalingMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Distribution of VarianceScaling.
struct ScalingDistribution : NamedOption<ScalingDistribution> {
  enum Value { kTruncatedNormal, kUntruncatedNormal, kUniform };
  static constexpr const char* kNames[] = {"truncated_normal", "untruncated_normal", "uniform"};
  using NamedOption::NamedOption;
  ScalingDistribution(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// Vectors that OrthogonalRegularizer makes orthogonal.
struct OrthogonalMode : NamedOption<OrthogonalMode> {
  enum Value { kRows, kColumns };
  static constexpr const char* kNames[] = {"rows", "columns"};
  using NamedOption::NamedOption;
  OrthogonalMode(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};

// Keras's initializers (formulas and defaults: initializers.h).
namespace initializers {
Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);
Initializer RandomUniform(double minval = -0.05, double maxval = 0.05);
Initializer RandomNormal(double mean = 0, double stddev = 0.05);
Initializer TruncatedNormal(double mean = 0, double stddev = 0.05);
struct VarianceScalingOptions {
  double scale = 1;
  ScalingMode mode = "fan_in";                            // fan_out, fan_avg
  ScalingDistribution distribution = "truncated_normal";  // uniform, untruncated_normal
};
Initializer VarianceScaling(const VarianceScalingOptions& options = {});
Initializer GlorotUniform();
Initializer GlorotNormal();
Initializer HeUniform();
Initializer HeNormal();
Initializer LecunUniform();
Initializer LecunNormal();
Initializer Orthogonal(double gain = 1);
Initializer Identity(double gain = 1);
}  // namespace initializers

// Keras's regularizers (formulas: regularizers.h).
namespace regularizers {
Regularizer L1(double l1 = 0.01);
Regularizer L2(double l2 = 0.01);
Regularizer L1L2(double l1 = 0, double l2 = 0);
Regularizer OrthogonalRegularizer(double factor = 0.01, const OrthogonalMode& mode = "rows");
}  // namespace regularizers

// Keras's constraints (formulas: constraints.h). `axis`: axes of the norm.
namespace constraints {
Constraint MaxNorm(double max_value = 2, const std::vector<int64_t>& axis = {0});
Constraint NonNeg();
Constraint UnitNorm(const std::vector<int64_t>& axis = {0});
struct MinMaxNormOptions {
  double min_value = 0;
  double max_value = 1;
  double rate = 1;
  std::vector<int64_t> axis = {0};
};
Constraint MinMaxNorm(const MinMaxNormOptions& options = {});
}  // namespace constraints

// Keras's activations (activations.h).
namespace activations {
ActivationFunction Linear();
ActivationFunction Relu();
ActivationFunction Relu6();
ActivationFunction LeakyRelu(double negative_slope = 0.2);
ActivationFunction Elu(double alpha = 1);
ActivationFunction Selu();
ActivationFunction Celu(double alpha = 1);
ActivationFunction Gelu(bool approximate = false);
ActivationFunction Silu();
ActivationFunction Mish();
ActivationFunction Softplus();
ActivationFunction Softsign();
ActivationFunction Squareplus(double b = 4);
ActivationFunction SparsePlus();
ActivationFunction Sigmoid();
ActivationFunction LogSigmoid();
ActivationFunction HardSigmoid();
ActivationFunction HardSilu();
ActivationFunction SparseSigmoid();
ActivationFunction Tanh();
ActivationFunction HardTanh();
ActivationFunction TanhShrink();
ActivationFunction HardShrink(double threshold = 0.5);
ActivationFunction SoftShrink(double threshold = 0.5);
ActivationFunction Threshold(double threshold, double default_value);
ActivationFunction Exponential();
ActivationFunction Softmax(int64_t axis = -1);
ActivationFunction LogSoftmax(int64_t axis = -1);
ActivationFunction Sparsemax(int64_t axis = -1);
ActivationFunction Glu(int64_t axis = -1);
}  // namespace activations

}  // namespace penstock::nn
