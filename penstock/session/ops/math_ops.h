// Elementwise functions, reductions, contractions, cumulative and segment operations: tf.* and
// tf.math.* under TensorFlow's names in CamelCase.
//
//   tf::Tensor y = tf::MatMul(x, w) + b;
//   tf::Tensor loss = tf::ReduceMean(tf::Square(y - labels));
//   tf::Tensor correct = tf::Equal(tf::ArgMax(y, 1), classes);
//   tf::Tensor accuracy = tf::ReduceMean(tf::ToFloat(correct));
//
// Elementwise functions of two operands broadcast like NumPy and require equal types; an operand
// may be a number. Negative axes count from the end. Integer and boolean results have no gradient.
//
// Differences from TensorFlow 1.15: integer division by zero and Pow of integers with a negative
// exponent are errors there; here the result is unspecified. Gradients of ties: see Maximum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/graph.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session {

// ---- Elementwise, one operand ----
Tensor Abs(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Negative(const Tensor& x, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Sign(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Exp(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Expm1(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Log(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Log1p(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Sqrt(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Rsqrt(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Square(const Tensor& x, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
// 1 / x; integers: truncated.
Tensor Reciprocal(const Tensor& x, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
Tensor Sigmoid(const Tensor& x, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Tensor LogSigmoid(const Tensor& x, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
Tensor Sin(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Cos(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Tan(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Asin(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Acos(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Atan(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Sinh(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Cosh(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Tanh(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Asinh(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Acosh(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Atanh(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Erf(const Tensor& x, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Erfc(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// Inverse of erf (tf.math.erfinv).
Tensor Erfinv(const Tensor& x, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
// Inverse of the standard normal distribution function (tf.math.ndtri).
Tensor Ndtri(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Floor(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Ceil(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// Half to even; integers: unchanged.
Tensor Round(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Rint(const Tensor& x, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor IsFinite(const Tensor& x, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor IsInf(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor IsNan(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor LogicalNot(const Tensor& x, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// x converted (tf.cast): floats to integers toward zero, to bool: x != 0.
Tensor Cast(const Tensor& x, DType dtype, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// Cast, with values beyond the range of the type replaced by its limits.
Tensor SaturateCast(const Tensor& x, DType dtype, absl::string_view name = "",
                    SourceLocation where = SourceLocation::Current());
Tensor ToFloat(const Tensor& x, absl::string_view name = "ToFloat",
               SourceLocation where = SourceLocation::Current());
Tensor ToDouble(const Tensor& x, absl::string_view name = "ToDouble",
                SourceLocation where = SourceLocation::Current());
Tensor ToInt32(const Tensor& x, absl::string_view name = "ToInt32",
               SourceLocation where = SourceLocation::Current());
Tensor ToInt64(const Tensor& x, absl::string_view name = "ToInt64",
               SourceLocation where = SourceLocation::Current());
Tensor ToBfloat16(const Tensor& x, absl::string_view name = "ToBFloat16",
                  SourceLocation where = SourceLocation::Current());
// The same bits as another type of the same width.
Tensor Bitcast(const Tensor& x, DType type, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// min(max(x, low), high). The gradient goes to x within [low, high], limits included, and elsewhere
// to the limit.
Tensor ClipByValue(const Tensor& x, const Operand& clip_value_min, const Operand& clip_value_max,
                   absl::string_view name = "", SourceLocation where = SourceLocation::Current());

// ---- Elementwise, two operands ----
// Sum. Booleans are an error.
Tensor Add(const Operand& x, const Operand& y, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
Tensor Subtract(const Operand& x, const Operand& y, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Multiply(const Operand& x, const Operand& y, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// Python's /: the quotient; int8, int16, uint8 and uint16 are divided in float32, wider integers
// in float64, which is then the result's type, as of operator/.
Tensor Divide(const Operand& x, const Operand& y, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
Tensor Truediv(const Operand& x, const Operand& y, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// Python 2's /: the quotient of floats, Floordiv of integers.
Tensor Div(const Operand& x, const Operand& y, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
// The quotient of floats.
Tensor RealDiv(const Operand& x, const Operand& y, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// floor(x / y).
Tensor Floordiv(const Operand& x, const Operand& y, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// Remainder of the sign of y (Python's %): x - floor(x / y) * y.
Tensor FloorMod(const Operand& x, const Operand& y, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// FloorMod.
Tensor Mod(const Operand& x, const Operand& y, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
// Quotient of integers, rounded toward zero.
Tensor TruncateDiv(const Operand& x, const Operand& y, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
// Remainder of the sign of x (C's %).
Tensor TruncateMod(const Operand& x, const Operand& y, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
// x / y, and 0 where y is 0.
Tensor DivNoNan(const Operand& x, const Operand& y, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// x * y, and 0 where y is 0, even if x is infinite or NaN; such an x gives no gradient to y there.
Tensor MultiplyNoNan(const Operand& x, const Operand& y, absl::string_view name = "",
                     SourceLocation where = SourceLocation::Current());
Tensor Pow(const Operand& x, const Operand& y, absl::string_view name = "",
           SourceLocation where = SourceLocation::Current());
// At a tie half of the gradient goes to each; TensorFlow gives all to x.
Tensor Maximum(const Operand& x, const Operand& y, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// Ties as of Maximum.
Tensor Minimum(const Operand& x, const Operand& y, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// (x - y)^2.
Tensor SquaredDifference(const Operand& x, const Operand& y, absl::string_view name = "",
                         SourceLocation where = SourceLocation::Current());
Tensor Atan2(const Operand& x, const Operand& y, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// x log(y), and 0 where x is 0.
Tensor Xlogy(const Operand& x, const Operand& y, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// x log(1 + y), and 0 where x is 0.
Tensor Xlog1py(const Operand& x, const Operand& y, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// x / y, and 0 where x is 0.
Tensor Xdivy(const Operand& x, const Operand& y, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// Comparisons give booleans.
Tensor Equal(const Operand& x, const Operand& y, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor NotEqual(const Operand& x, const Operand& y, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Less(const Operand& x, const Operand& y, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor LessEqual(const Operand& x, const Operand& y, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor Greater(const Operand& x, const Operand& y, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Tensor GreaterEqual(const Operand& x, const Operand& y, absl::string_view name = "",
                    SourceLocation where = SourceLocation::Current());
Tensor LogicalAnd(const Operand& x, const Operand& y, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
Tensor LogicalOr(const Operand& x, const Operand& y, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor LogicalXor(const Operand& x, const Operand& y, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// Operators: as Add, Subtract, Multiply, Truediv and Negative.
Tensor operator+(const Operand& x, const Operand& y);
Tensor operator-(const Operand& x, const Operand& y);
Tensor operator*(const Operand& x, const Operand& y);
Tensor operator/(const Operand& x, const Operand& y);
Tensor operator-(const Operand& x);
// scalar * x.
Tensor ScalarMul(const Operand& scalar, const Tensor& x, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
// Sum of tensors of one shape; a list of one is that tensor.
Tensor AddN(const Tensors& inputs, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor AccumulateN(const Tensors& inputs, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
// coeffs[0] x^(n-1) + ... + coeffs[n-1], by Horner's rule (tf.math.polyval).
Tensor Polyval(const Tensors& coeffs, const Tensor& x, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());

// ---- Bitwise operations of integers (tf.bitwise) ----
namespace bitwise {
Tensor BitwiseAnd(const Operand& x, const Operand& y, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
Tensor BitwiseOr(const Operand& x, const Operand& y, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor BitwiseXor(const Operand& x, const Operand& y, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
Tensor Invert(const Tensor& x, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
Tensor LeftShift(const Operand& x, const Operand& y, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
// Signed integers keep their sign.
Tensor RightShift(const Operand& x, const Operand& y, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
}  // namespace bitwise

// ---- Reductions ----
struct ReduceOptions {
  bool keepdims = false;  // keeps the reduced axes with extent 1
  std::string name = "";
};
Tensor ReduceSum(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// Integers: the sum divided by the number of elements, truncated.
Tensor ReduceMean(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Tensor ReduceProd(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
// Ties share the gradient. Of no elements: the lowest number of the type (-inf of floats).
Tensor ReduceMax(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
Tensor ReduceMin(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// Booleans.
Tensor ReduceAll(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// Booleans.
Tensor ReduceAny(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// log(sum(exp(x))), without overflow.
Tensor ReduceLogsumexp(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// sqrt(sum(x^2)) (tf.math.reduce_euclidean_norm).
Tensor ReduceEuclideanNorm(const Tensor& x, const Axes& axis = {},
                           const ReduceOptions& options = {},
                           SourceLocation where = SourceLocation::Current());
// Biased variance (tf.math.reduce_variance).
Tensor ReduceVariance(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                      SourceLocation where = SourceLocation::Current());
// Its square root (tf.math.reduce_std).
Tensor ReduceStd(const Tensor& x, const Axes& axis = {}, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// Number of elements that are not zero.
struct CountNonzeroOptions {
  bool keepdims = false;
  DType dtype = DType::kI64;
  std::string name = "";
};
Tensor CountNonzero(const Tensor& x, const Axes& axis = {}, const CountNonzeroOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
// Index of the largest (smallest) element along an axis, the first of several.
struct ArgOptions {
  DType output_type = DType::kI64;
  std::string name = "";
};
Tensor ArgMax(const Tensor& input, int64_t axis = 0, const ArgOptions& options = {},
              SourceLocation where = SourceLocation::Current());
Tensor ArgMin(const Tensor& input, int64_t axis = 0, const ArgOptions& options = {},
              SourceLocation where = SourceLocation::Current());

// ---- Cumulative operations ----
struct CumulativeOptions {
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the end
  std::string name = "";
};
Tensor Cumsum(const Tensor& x, int64_t axis = 0, const CumulativeOptions& options = {},
              SourceLocation where = SourceLocation::Current());
Tensor Cumprod(const Tensor& x, int64_t axis = 0, const CumulativeOptions& options = {},
               SourceLocation where = SourceLocation::Current());
// log(cumsum(exp(x))), without overflow (tf.math.cumulative_logsumexp).
Tensor CumulativeLogsumexp(const Tensor& x, int64_t axis = 0, const CumulativeOptions& options = {},
                           SourceLocation where = SourceLocation::Current());

// ---- Contractions ----
// Matrix product on the last two axes; the leading axes broadcast.
struct MatMulOptions {
  bool transpose_a = false, transpose_b = false;
  std::string name = "";
};
Tensor MatMul(const Tensor& a, const Tensor& b, const MatMulOptions& options = {},
              SourceLocation where = SourceLocation::Current());
// Sum of products over the last `axes` axes of a and the first ones of b, or over the axes that the
// lists name.
Tensor Tensordot(const Tensor& a, const Tensor& b, int64_t axes, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor Tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& a_axes,
                 const std::vector<int64_t>& b_axes, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
// Einstein summation: Einsum("bij,bjk->bik", {a, b}), of any number of inputs. "..." means
// axes that broadcast; without "->" the result has the labels that occur once, in alphabetic order.
// A label may occur once in each input (no diagonals).
Tensor Einsum(absl::string_view equation, const Tensors& inputs, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());

// ---- Norms and clipping ----
// Norm over `axis` ({}: of all elements as one vector): "euclidean" of vectors or matrices, "1",
// "2", "inf" or another positive number of vectors, "fro", "1", "inf" of matrices (two axes). "2"
// of matrices, the largest singular value, is not implemented.
struct NormOptions {
  bool keepdims = false;
  std::string name = "";
};
Tensor Norm(const Tensor& tensor, absl::string_view ord = "euclidean", const Axes& axis = {},
            const NormOptions& options = {}, SourceLocation where = SourceLocation::Current());
// t, scaled down so that its norm (over `axes`) is at most clip_norm.
Tensor ClipByNorm(const Tensor& t, const Operand& clip_norm, const Axes& axes = {},
                  absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// t, scaled down so that its norm divided by the number of elements is at most clip_norm.
Tensor ClipByAverageNorm(const Tensor& t, const Operand& clip_norm, absl::string_view name = "",
                         SourceLocation where = SourceLocation::Current());
// sqrt of the sum of all squares. Invalid tensors of the list (gradients that do not exist) are
// left out.
Tensor GlobalNorm(const Tensors& t_list, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// All tensors, scaled by clip_norm / max(global_norm, clip_norm), and the global norm; a norm that
// is not finite makes them NaN. Invalid tensors stay invalid.
std::pair<Tensors, Tensor> ClipByGlobalNorm(const Tensors& t_list, const Operand& clip_norm,
                                            const Tensor& use_norm = {},
                                            absl::string_view name = "",
                                            SourceLocation where = SourceLocation::Current());

// ---- Segments ----
// Reduction of the rows of data that have equal segment_ids. The ids have the leading axes of the
// data; rows with a negative id are dropped. Empty segments are 0 (Sum, Mean), 1 (Prod), or the
// lowest (Max) or highest (Min) number of the type. Mean: of integers a float that holds them, as
// of Truediv. SqrtN: the sum divided by sqrt(count).
Tensor UnsortedSegmentSum(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                          absl::string_view name = "",
                          SourceLocation where = SourceLocation::Current());
Tensor UnsortedSegmentMean(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                           absl::string_view name = "",
                           SourceLocation where = SourceLocation::Current());
Tensor UnsortedSegmentProd(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                           absl::string_view name = "",
                           SourceLocation where = SourceLocation::Current());
Tensor UnsortedSegmentMax(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                          absl::string_view name = "",
                          SourceLocation where = SourceLocation::Current());
Tensor UnsortedSegmentMin(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                          absl::string_view name = "",
                          SourceLocation where = SourceLocation::Current());
Tensor UnsortedSegmentSqrtN(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                            absl::string_view name = "",
                            SourceLocation where = SourceLocation::Current());
// The same of sorted ids. In TensorFlow the number of rows is the last id + 1; programs for TPUs
// have static shapes, so it is a parameter here. Empty segments are 0 (Prod: 1). Mean: of the
// data's type, truncated for integers.
Tensor SegmentSum(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                  absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensor SegmentMean(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                   absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensor SegmentProd(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                   absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensor SegmentMax(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                  absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensor SegmentMin(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,
                  absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// Matrix of counts: rows are labels, columns predictions (tf.math.confusion_matrix). TensorFlow's
// num_classes of None depends on values: it is required here.
struct ConfusionMatrixOptions {
  DType dtype = DType::kI32;
  std::string name = "";
  Tensor weights = {};
};
Tensor ConfusionMatrix(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                       const ConfusionMatrixOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
