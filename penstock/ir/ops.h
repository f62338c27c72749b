// Catalog of operations: one function for each operation of a program. Names are StableHLO's
// where it has one; https://openxla.org/stablehlo/spec specifies the operation of that name.
//
// Elementwise functions of two values use NumPy broadcasting (extents are aligned from the right; 1
// is stretched) and require equal element types: there is no implicit conversion. Negative axes
// count from the end. Integer and boolean values have no gradient; asking for one gives an invalid
// Value, which means zero.
//
// Families that no room outside ir calls yet (Fft and its kin, Cholesky and TriangularSolve,
// AllGather, AllToAll, CollectivePermute, ...) are for custom layers; docs/design/ir.md shows an
// example of each.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "penstock/ir/graph.h"

namespace penstock::ir {

using Values = std::vector<Value>;
using Axes = std::vector<int64_t>;

// ---- Constants ----
Value Constant(Graph& graph, const Array& array);  // any numeric dtype
// A value with all elements equal to `value`, or to the nearest number that the type can represent.
Value Splat(Graph& graph, const TensorType& type, double value);
Value SplatLike(Value like, double value);                       // of the type of `like`
Value Iota(Graph& graph, const TensorType& type, int64_t axis);  // 0, 1, 2... along `axis`

// ---- Elementwise, one operand ----
Value Negate(Value x);
Value Abs(Value x);
Value Sign(Value x);
Value Exp(Value x);
Value Expm1(Value x);
Value Log(Value x);
Value Log1p(Value x);
Value Sqrt(Value x);
Value Cbrt(Value x);
Value Rsqrt(Value x);
Value Sigmoid(Value x);  // stablehlo.logistic
Value Sin(Value x);
Value Cos(Value x);
Value Tan(Value x);
Value Asin(Value x);
Value Acos(Value x);
Value Atan(Value x);
Value Sinh(Value x);
Value Cosh(Value x);
Value Tanh(Value x);
Value Asinh(Value x);
Value Acosh(Value x);
Value Atanh(Value x);
Value Erf(Value x);
Value Erfc(Value x);    // 1 - erf(x), accurate for small results
Value ErfInv(Value x);  // on [-1, 1]
Value Floor(Value x);
Value Ceil(Value x);
Value Round(Value x);  // half to even
Value Square(Value x);
Value Not(Value x);       // bitwise; logical for bool
Value IsFinite(Value x);  // bool
Value IsNan(Value x);     // bool
Value PopulationCount(Value x);
Value Convert(Value x, DType dtype);         // float to bool: x != 0
Value BitcastConvert(Value x, DType dtype);  // same width only
// x rounded to a float format with the given numbers of bits; the type stays the same. The gradient
// is rounded in the same way.
Value ReducePrecision(Value x, int exponent_bits, int mantissa_bits);
Value StopGradient(Value x);  // x; its gradient is zero

// ---- Elementwise, two operands; NumPy broadcasting ----
Value Add(Value a, Value b);
Value Subtract(Value a, Value b);
Value Multiply(Value a, Value b);
Value Divide(Value a, Value b);  // integers: truncated toward zero
Value Remainder(Value a, Value b);
Value Power(Value a, Value b);
Value Maximum(Value a, Value b);  // at a tie, half of the gradient to each, as in JAX
Value Minimum(Value a, Value b);
Value Atan2(Value a, Value b);
Value LogAddExp(Value a, Value b);  // log(exp(a) + exp(b))
Value And(Value a, Value b);
Value Or(Value a, Value b);
Value Xor(Value a, Value b);
Value ShiftLeft(Value a, Value b);
Value ShiftRightLogical(Value a, Value b);
Value ShiftRightArithmetic(Value a, Value b);

enum class Comparison { kEq, kNe, kLt, kLe, kGt, kGe };
Value Compare(Value a, Value b, Comparison comparison);  // bool
Value Equal(Value a, Value b);
Value Less(Value a, Value b);
Value LessEqual(Value a, Value b);
Value Greater(Value a, Value b);
Value GreaterEqual(Value a, Value b);

// pred ? on_true : on_false, elementwise; all three operands broadcast.
Value Select(Value pred, Value on_true, Value on_false);
Value Clamp(Value low, Value x, Value high);

// Operators. A plain number is converted to the type of the other operand.
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

// ---- Shape ----
// axes[i] is the axis of `shape` to which x's axis i is mapped (stablehlo.broadcast_in_dim).
Value BroadcastInDim(Value x, const Shape& shape, const Axes& axes);
Value BroadcastTo(Value x, const Shape& shape);  // numpy.broadcast_to
Value Reshape(Value x, const Shape& shape);      // one extent may be -1
Value Transpose(Value x, const Axes& permutation);
Value ExpandDims(Value x, int64_t axis);
Value Squeeze(Value x, const Axes& axes);
Value Reverse(Value x, const Axes& axes);
Value Concatenate(const Values& xs, int64_t axis);
Value Slice(Value x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
            const std::vector<int64_t>& strides = {});
Value SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end, int64_t stride = 1);
// Parts of x along `axis`: with the given sizes, which add up to its extent, or `parts` parts of
// equal size.
Values Split(Value x, const std::vector<int64_t>& sizes, int64_t axis);
Values Split(Value x, int parts, int64_t axis);
// Padding of one axis. Low and high may be negative (cropping); `interior` elements are inserted
// between neighbors.
struct PadAxis {
  int64_t low = 0, high = 0, interior = 0;
};
Value Pad(Value x, double value, const std::vector<PadAxis>& padding);
// Slice that starts at `begin`, one integer scalar for each axis, clamped so that the slice lies
// within x.
Value DynamicSlice(Value x, const Values& begin, const std::vector<int64_t>& sizes);
Value DynamicUpdateSlice(Value x, Value update, const Values& begin);

// ---- Contractions ----
struct DotDimensions {
  Axes lhs_contracting = {}, rhs_contracting = {}, lhs_batch = {}, rhs_batch = {};
};
// General contraction. Axes of the result: batch axes, then a's free axes, then b's.
Value DotGeneral(Value a, Value b, const DotDimensions& dimensions);
// Matrix product [..., m, k] x [..., k, n]; the leading axes are equal, or b has none.
Value MatMul(Value a, Value b);

// Linear algebra: matrices are on the last two axes, f32 or f64.
// Cholesky decomposition: the lower triangular l with l l^T = (a + a^T) / 2; NaN if the matrix is
// not positive definite.
Value Cholesky(Value a);
// Solution x of op(a) x = b, or of x op(a) = b, for a triangular `a`. Reads only one triangle of
// `a`.
struct TriangularSolveOptions {
  bool left_side = true;       // solve op(a) x = b; false: x op(a) = b
  bool lower = true;           // which triangle is read
  bool transpose = false;      // op(a) is a^T
  bool unit_diagonal = false;  // assumes ones on the diagonal
};
Value TriangularSolve(Value a, Value b, const TriangularSolveOptions& options = {});

// ---- Fast Fourier transforms (FFT) of the last `axes` axes, 1 to 3; f32, or f64 (not on TPUs)
// ----
// A complex number is a pair of real values of one type: the graph has no complex types, and only
// these functions use pairs. Scaling is that of NumPy and StableHLO: the inverse transform divides
// by the number of elements transformed, the forward transform does not.
struct Complex {
  Value real, imag;
};
Complex Fft(const Complex& x, int64_t axes = 1);
Complex Ifft(const Complex& x, int64_t axes = 1);
// Transform of real values. The spectrum is symmetric, so only the first n / 2 + 1 bins of the last
// axis (of length n) are returned.
Complex Rfft(Value x, int64_t axes = 1);
// Inverse of Rfft: `length` real values (along the last axis) from length / 2 + 1 bins. As in
// NumPy, components that are zero for real values are ignored: for one axis, the imaginary part of
// the first bin and, if the length is even, of the last one.
Value Irfft(const Complex& x, int64_t length, int64_t axes = 1);

// Convolution parameters, as in stablehlo.convolution.
struct ConvolutionOptions {
  // One entry for each spatial axis; empty means ones (strides, dilations) or zeros (padding).
  std::vector<int64_t> strides = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};  // low, high; may be negative
  std::vector<int64_t> lhs_dilation = {}, rhs_dilation = {};
  int64_t feature_group_count = 1;
  int64_t batch_group_count = 1;
  // Positions of the dimensions. -1 in `input_batch` selects the default: NHWC input, HWIO kernel,
  // NHWC output.
  struct Dimensions {
    int64_t input_batch = -1, input_feature = -1;
    Axes input_spatial = {};
    int64_t kernel_input_feature = -1, kernel_output_feature = -1;
    Axes kernel_spatial = {};
    int64_t output_batch = -1, output_feature = -1;
    Axes output_spatial = {};
  } dimensions = {};
};
Value Convolution(Value input, Value kernel, const ConvolutionOptions& options = {});
// The transpose (adjoint) of the linear map Convolution with these options: from its output to its
// input, whose shape is `input`. It is Convolution's gradient with respect to the input, and
// Conv2DTranspose's forward pass ("deconvolution").
Value ConvolutionTranspose(Value output, Value kernel, const Shape& input,
                           const ConvolutionOptions& options = {});

// "same" padding of Keras: the output has ceil(size / stride) positions; an odd padding element
// goes to the end.
std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t kernel, int64_t stride,
                                        int64_t dilation = 1);

// ---- Reductions; no axes means all. 16-bit floats are accumulated in float32 ----
Value ReduceSum(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceMean(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceProduct(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceMax(Value x, const Axes& axes = {},
                bool keep_dims = false);  // ties share the gradient equally
Value ReduceMin(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceAnd(Value x, const Axes& axes = {}, bool keep_dims = false);  // bool
Value ReduceOr(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ArgMax(Value x, int64_t axis, DType index_dtype = DType::kI32);  // ties: the first index

enum class WindowReducer { kSum, kMax, kMin };
struct WindowOptions {
  // One entry for each axis of x, including batch and features.
  std::vector<int64_t> size = {}, strides = {}, dilation = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};
};
// Reduction over sliding windows (pooling). kMax: the gradient goes to the first maximum of each
// window, as in TensorFlow and JAX.
Value ReduceWindow(Value x, WindowReducer reducer, const WindowOptions& options);

// ---- Normalization ----
struct BatchNormOptions {
  int64_t axis = -1;  // feature axis
  double epsilon = 1e-3;
};
struct BatchNormResult {
  Value y;  // same type as x
  // Statistics of each feature, in f32 (f64 if x is f64); the variance is the biased one.
  Value mean, variance;
};
// Batch normalization in training mode: y = (x - mean) / sqrt(variance + epsilon) * scale + offset,
// with the statistics of x over all axes but the feature axis (Ioffe and Szegedy: Batch
// normalization, 2015). An invalid `scale` means ones, an invalid `offset` zeros. `mask`, if valid,
// has a weight of 1 or 0 for each example (axis 0): examples of weight 0 are excluded from the
// statistics. The mask has no gradient.
BatchNormResult BatchNormTraining(Value x, Value scale, Value offset, Value mask,
                                  const BatchNormOptions& options = {});

// ---- Numerically stable composites ----
Value Relu(Value x);
Value Softmax(Value x, int64_t axis = -1);
Value LogSoftmax(Value x, int64_t axis = -1);
Value LogSumExp(Value x, const Axes& axes, bool keep_dims = false);
Value Softplus(Value x);
Value LogSigmoid(Value x);
// x times the standard normal distribution function at x (Hendrycks and Gimpel: Gaussian error
// linear units, 2016); `approximate` uses their tanh formula.
Value Gelu(Value x, bool approximate = false);
// Bool scalar: whether no element of any of the xs (at least one) is NaN or infinite.
Value AllFinite(const Values& xs);

// ---- Indexing ----
// Elements of x along `axis` at integer `indices` (any shape), which are clamped into range. In the
// result, the axes of `indices` replace `axis`. numpy.take with mode="clip".
Value Take(Value x, Value indices, int64_t axis);
// Elements of x along `axis`, each position with its own index, clamped into range. `indices` has
// x's rank and, except on `axis`, its extents (or 1, on either side). numpy.take_along_axis.
Value TakeAlongAxis(Value x, Value indices, int64_t axis);
// Windows of x of size `slice_sizes` that start at `indices`, clamped so that they lie within x;
// the dimension numbers are those of stablehlo.gather.
struct GatherDimensions {
  Axes offset_dims = {};           // axes of the result that index into a window
  Axes collapsed_slice_dims = {};  // axes of x dropped from windows; their size is 1
  Axes start_index_map = {};       // axis of x for each component of an index
  int64_t index_vector_dim = 0;    // axis of the components in indices; its rank: scalar indices
};
Value Gather(Value x, Value indices, const GatherDimensions& dimensions,
             const std::vector<int64_t>& slice_sizes);
// x with `updates` written at `indices`, or combined with the elements there. An update that does
// not lie entirely within x is dropped. If two updates replace the same element, one of them wins
// and gets the gradient. 16-bit floats are accumulated in float32. kProduct has a gradient only
// with unique indices; for kMin and kMax, ties share the gradient.
enum class ScatterReducer { kReplace, kSum, kProduct, kMin, kMax };
struct ScatterDimensions {
  Axes update_window_dims = {};    // axes of updates that index into a window
  Axes inserted_window_dims = {};  // axes of x that windows lack
  Axes scatter_dims_to_operand_dims = {};
  int64_t index_vector_dim = 0;
};
Value Scatter(Value x, Value indices, Value updates, ScatterReducer reducer,
              const ScatterDimensions& dimensions, bool unique_indices = false);
// One-hot encoding, of shape indices.shape + [depth]; an index outside [0, depth) gives zeros.
Value OneHot(Value indices, int64_t depth, DType dtype);

// ---- Sorting; NaNs are sorted last, as in NumPy ----
// Sorts the first value along `axis` and applies the same permutation to the others. Stable.
Values Sort(const Values& xs, int64_t axis = -1, bool descending = false);
Value Sort(Value x, int64_t axis = -1, bool descending = false);
Value ArgSort(Value x, int64_t axis = -1, bool descending = false);  // i32
struct TopKResult {
  Value values, indices;  // indices: i32
};
// The k largest elements in descending order; of equal elements, the one with the lower index comes
// first.
TopKResult TopK(Value x, int64_t k, int64_t axis = -1);

// ---- Cumulative operations over elements 0..i, or i..n-1 if `reverse` ----
Value CumSum(Value x, int64_t axis, bool reverse = false);
Value CumProd(Value x, int64_t axis, bool reverse = false);
Value CumMax(Value x, int64_t axis, bool reverse = false);  // ties: the gradient goes to the first
Value CumMin(Value x, int64_t axis, bool reverse = false);

// ---- Random numbers ----
// Threefry-2x32 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011). The same key
// gives the same numbers on every device. A key is ui32[2]; use each key once and derive others
// with FoldIn or SplitKey. The formulas are those of JAX with jax_threefry_partitionable, so
// results can be compared; normal numbers are drawn in f32 whatever the type.
Value RandomKey(Graph& graph, uint64_t seed);
// The block function: 64 bits for each pair of counters (ui32, of equal shapes).
std::pair<Value, Value> Threefry2x32(Value key, Value x0, Value x1);
Value FoldIn(Value key, Value data);  // data: an integer scalar
Value FoldIn(Value key, uint32_t data);
Values SplitKey(Value key, int count);
Value RandomBits(Value key, const TensorType& type);  // ui8, ui16, ui32 or ui64
Value RandomUniform(Value key, const TensorType& type, double low = 0,
                    double high = 1);  // [low, high)
Value RandomNormal(Value key, const TensorType& type, double mean = 0, double stddev = 1);
Value RandomTruncatedNormal(Value key, const TensorType& type, double mean = 0,
                            double stddev = 1);                                 // to 2 stddev
Value RandomBernoulli(Value key, const Shape& shape, double probability);       // bool
Value RandomInt(Value key, const TensorType& type, int64_t low, int64_t high);  // [low, high)

// ---- Control flow ----
// Builds a closed body: it refers only to the values that it is passed.
using Body = std::function<Values(Graph& graph, const Values& state)>;
Values While(const Values& init,
             const std::function<Value(Graph& graph, const Values& state)>& condition,
             const Body& body);
// Loop with a trip count: body(index i32 scalar, state) for index in [0, count). Differentiable;
// While is not. Loop-invariant states (returned unchanged by the body) cost nothing in the loop and
// in its gradient.
Values For(int64_t count, const Values& init,
           const std::function<Values(Graph& graph, Value index, const Values& state)>& body);
// Loop over the rows (axis 0) of `xs`, which have equal lengths; it stacks the rows of each y. As
// jax.lax.scan.
//
//   // h[t] = tanh(x[t] + h[t-1] W), for all t.
//   const ScanOut done = Scan({h0}, {x}, {w}, [](Graph&, const ScanIn& in) {
//     const Value h = Tanh(in.x[0] + MatMul(in.state[0], in.constants[0]));
//     return ScanOut{.state = {h}, .y = {h}};
//   });
//
// The gradient is a loop in the reverse direction; its time and memory are linear in the length.
// Residuals of each iteration are its input states and the results of products and convolutions;
// everything else is rematerialized. Gradients of 16-bit constants are accumulated in float32.
// 32 bits.
struct ScanIn {
  Value index;  // i32 scalar: index of the row
  Values state, x, constants;
};
struct ScanOut {
  Values state, y;
};
struct ScanOptions {
  bool reverse =
      false;           // from the last row to the first; row i of y still corresponds to row i of x
  int64_t count = -1;  // number of iterations; required without xs
  bool save_products = true;  // false: residuals are the states only
};
ScanOut Scan(const Values& init, const Values& xs, const Values& constants,
             const std::function<ScanOut(Graph& graph, const ScanIn& in)>& body,
             const ScanOptions& options = {});
// Conditional; pred is a bool scalar. Only one branch runs.
Values Cond(Value pred, const Values& operands, const Body& then_body, const Body& else_body);

// ---- Custom gradients (StopGradient: above) ----
// `forward` of the inputs, with a user-defined gradient: `backward` gets the inputs, the results
// and the cotangents of the results (invalid for integers) and returns one cotangent for each
// input, invalid for zero. Both functions refer only to the values that they are passed. As
// jax.custom_vjp and tf.custom_gradient.
struct BackwardIn {
  Values inputs, results, cotangents;
};
using BackwardBody = std::function<Values(Graph& graph, const BackwardIn& in)>;
Values CustomGradient(const Values& inputs, const Body& forward, const BackwardBody& backward);
// Rematerialization (remat, gradient checkpointing; jax.checkpoint): `body` of the inputs, without
// saving its intermediate values as residuals. The gradient recomputes them from the inputs (Chen
// et al.: Training deep nets with sublinear memory cost, 2016). With save_products, the results of
// products and convolutions are saved (jax.checkpoint_policies.dots_saveable), but not those within
// a loop.
struct RematerializeOptions {
  bool save_products = false;
};
Values Rematerialize(const Values& inputs, const Body& body,
                     const RematerializeOptions& options = {});
// The same values, behind a barrier that compilers do not optimize across.
Values OptimizationBarrier(const Values& xs);

// ---- Collectives: communication between replicas ----
Value ReplicaId(Graph& graph);  // ui32 scalar
enum class Reducer { kSum, kMax, kMin };
// Elementwise reduction over all replicas; every replica gets the result. The gradient of kSum is
// the sum of the cotangents.
Value AllReduce(Value x, Reducer reducer = Reducer::kSum);
// Reduces several values in one operation, so that small ones share one transfer.
Values AllReduce(const Values& xs, Reducer reducer = Reducer::kSum);
// The x of every replica, concatenated along `axis` in replica order.
Value AllGather(Value x, int64_t axis);
// Sum over replicas, of which replica i gets the i-th part along `axis`.
Value ReduceScatter(Value x, int64_t axis);
// Splits x along `split_axis`, sends part i to replica i, and concatenates the received parts along
// `concat_axis` in replica order.
Value AllToAll(Value x, int64_t split_axis, int64_t concat_axis);
// Sends x of each source to its target, as pairs (source, target); a replica that is not a target
// gets zeros.
Value CollectivePermute(Value x, const std::vector<std::pair<int64_t, int64_t>>& pairs);

// ---- Custom calls ----
// Custom call of a kernel registered under `target` (typed FFI, api_version 4). Not differentiable;
// see CustomGradient. `in_place`: result 0 reuses the buffer of operand 0 (input-output aliasing),
// which has the same type; if another operation still needs that operand, the compiler passes a
// copy.
Values CustomCall(Graph& graph, absl::string_view target, const Values& operands,
                  const std::vector<TensorType>& results, const Attributes& attributes = {},
                  bool in_place = false);

}  // namespace penstock::ir
