// Types of options that are given by name: initializers, activations, regularizers, constraints,
// paddings and the like. Each stores the name as text, which is what a saved model contains, and
// converts from a string literal as well as from a typed value, where a typo does not compile:
//
//   Dense({.units = 64, .activation = "relu", .kernel_initializer = "he_normal"});
//   Dense({.units = 64,
//          .activation = activations::Relu(),
//          .kernel_initializer = initializers::HeNormal(),
//          .kernel_regularizer = regularizers::L2(1e-4)});
//   Conv2D({.filters = 8, .kernel_size = 3, .padding = Padding::kSame});
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

#include "penstock/base/dtype.h"

namespace penstock::nn {

// Text of an option of one kind.
template <typename Kind>
class NamedOption : public std::string {
 public:
  NamedOption() = default;
  NamedOption(const char* text) : std::string(text) {}             // NOLINT: "he_normal"
  NamedOption(std::string text) : std::string(std::move(text)) {}  // NOLINT
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
  std::string mode = "fan_in";                    // fan_out, fan_avg
  std::string distribution = "truncated_normal";  // uniform, untruncated_normal
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
Regularizer OrthogonalRegularizer(double factor = 0.01, const std::string& mode = "rows");
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
