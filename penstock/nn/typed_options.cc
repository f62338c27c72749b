// Typed values, which are converted to the text that a program could have written itself
// (named_call.h).
#include "penstock/nn/typed_options.h"

#include <charconv>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::nn {
namespace {

// Shortest text that parses to the same number, in decimal notation if that is exact ("0.0001").
std::string Number(double value) {
  const std::string plain = absl::StrCat(value);
  double read;
  if (absl::SimpleAtod(plain, &read) && read == value) return plain;
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : plain;
}

std::string Call(const char* name, const std::vector<std::string>& arguments) {
  return absl::StrCat(name, "(", absl::StrJoin(arguments, ", "), ")");
}

std::string List(const std::vector<int64_t>& axes) {
  if (axes.size() == 1) return absl::StrCat(axes[0]);
  return absl::StrCat("[", absl::StrJoin(axes, ", "), "]");
}

}  // namespace

namespace initializers {
Initializer Zeros() { return "zeros"; }
Initializer Ones() { return "ones"; }
Initializer Constant(double value) { return Call("constant", {Number(value)}); }
Initializer RandomUniform(double minval, double maxval) {
  return Call("random_uniform", {Number(minval), Number(maxval)});
}
Initializer RandomNormal(double mean, double stddev) {
  return Call("random_normal", {Number(mean), Number(stddev)});
}
Initializer TruncatedNormal(double mean, double stddev) {
  return Call("truncated_normal", {Number(mean), Number(stddev)});
}
Initializer VarianceScaling(const VarianceScalingOptions& options) {
  return Call("variance_scaling", {Number(options.scale), options.mode, options.distribution});
}
Initializer GlorotUniform() { return "glorot_uniform"; }
Initializer GlorotNormal() { return "glorot_normal"; }
Initializer HeUniform() { return "he_uniform"; }
Initializer HeNormal() { return "he_normal"; }
Initializer LecunUniform() { return "lecun_uniform"; }
Initializer LecunNormal() { return "lecun_normal"; }
Initializer Orthogonal(double gain) { return Call("orthogonal", {Number(gain)}); }
Initializer Identity(double gain) { return Call("identity", {Number(gain)}); }
}  // namespace initializers

namespace regularizers {
Regularizer L1(double l1) { return Call("l1", {Number(l1)}); }
Regularizer L2(double l2) { return Call("l2", {Number(l2)}); }
Regularizer L1L2(double l1, double l2) { return Call("l1_l2", {Number(l1), Number(l2)}); }
Regularizer OrthogonalRegularizer(double factor, const OrthogonalMode& mode) {
  return Call("orthogonal_regularizer", {Number(factor), mode});
}
}  // namespace regularizers

namespace constraints {
Constraint MaxNorm(double max_value, const std::vector<int64_t>& axis) {
  return Call("max_norm", {Number(max_value), List(axis)});
}
Constraint NonNeg() { return "non_neg"; }
Constraint UnitNorm(const std::vector<int64_t>& axis) { return Call("unit_norm", {List(axis)}); }
Constraint MinMaxNorm(const MinMaxNormOptions& options) {
  return Call("min_max_norm", {Number(options.min_value), Number(options.max_value),
                               Number(options.rate), List(options.axis)});
}
}  // namespace constraints

namespace activations {
ActivationFunction Linear() { return "linear"; }
ActivationFunction Relu() { return "relu"; }
ActivationFunction Relu6() { return "relu6"; }
ActivationFunction LeakyRelu(double negative_slope) {
  return Call("leaky_relu", {Number(negative_slope)});
}
ActivationFunction Elu(double alpha) { return Call("elu", {Number(alpha)}); }
ActivationFunction Selu() { return "selu"; }
ActivationFunction Celu(double alpha) { return Call("celu", {Number(alpha)}); }
ActivationFunction Gelu(bool approximate) { return Call("gelu", {approximate ? "true" : "false"}); }
ActivationFunction Silu() { return "silu"; }
ActivationFunction Mish() { return "mish"; }
ActivationFunction Softplus() { return "softplus"; }
ActivationFunction Softsign() { return "softsign"; }
ActivationFunction Squareplus(double b) { return Call("squareplus", {Number(b)}); }
ActivationFunction SparsePlus() { return "sparse_plus"; }
ActivationFunction Sigmoid() { return "sigmoid"; }
ActivationFunction LogSigmoid() { return "log_sigmoid"; }
ActivationFunction HardSigmoid() { return "hard_sigmoid"; }
ActivationFunction HardSilu() { return "hard_silu"; }
ActivationFunction SparseSigmoid() { return "sparse_sigmoid"; }
ActivationFunction Tanh() { return "tanh"; }
ActivationFunction HardTanh() { return "hard_tanh"; }
ActivationFunction TanhShrink() { return "tanh_shrink"; }
ActivationFunction HardShrink(double threshold) { return Call("hard_shrink", {Number(threshold)}); }
ActivationFunction SoftShrink(double threshold) { return Call("soft_shrink", {Number(threshold)}); }
ActivationFunction Threshold(double threshold, double default_value) {
  return Call("threshold", {Number(threshold), Number(default_value)});
}
ActivationFunction Exponential() { return "exponential"; }
ActivationFunction Softmax(int64_t axis) { return Call("softmax", {absl::StrCat(axis)}); }
ActivationFunction LogSoftmax(int64_t axis) { return Call("log_softmax", {absl::StrCat(axis)}); }
ActivationFunction Sparsemax(int64_t axis) { return Call("sparsemax", {absl::StrCat(axis)}); }
ActivationFunction Glu(int64_t axis) { return Call("glu", {absl::StrCat(axis)}); }
}  // namespace activations

}  // namespace penstock::nn
