// The catalogue: one function for each thing a program can say. Names are StableHLO's where it has
// one; the specification of each is https://openxla.org/stablehlo/spec under that name.
//
// Elementwise functions of two values broadcast as NumPy does (extents align from the right; 1
// stretches) and want one element type: nothing is converted silently. Axes count from the end when
// negative. Integer and boolean values have no gradient; asking for one gives an invalid Value,
// which means zero.
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
// Every element is `value`, or the nearest number that the type holds.
Value Splat(Graph& graph, const TensorType& type, double value);
Value SplatLike(Value like, double value);                       // of like's type
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
Value Erfc(Value x);    // 1 - erf(x), small results in full
Value ErfInv(Value x);  // on [-1, 1]
Value Floor(Value x);
Value Ceil(Value x);
Value Round(Value x);  // half to even
Value Square(Value x);
Value Not(Value x);       // bits; of bool: logical
Value IsFinite(Value x);  // bool
Value IsNan(Value x);     // bool
Value PopulationCount(Value x);
Value Convert(Value x, DType dtype);         // float to bool: not zero
Value BitcastConvert(Value x, DType dtype);  // same width only
// Rounded as a float of so many bits, of the same type; so is the gradient.
Value ReducePrecision(Value x, int exponent_bits, int mantissa_bits);
Value StopGradient(Value x);

// ---- Elementwise, two operands; NumPy broadcasting ----
Value Add(Value a, Value b);
Value Subtract(Value a, Value b);
Value Multiply(Value a, Value b);
Value Divide(Value a, Value b);  // integers: towards zero
Value Remainder(Value a, Value b);
Value Power(Value a, Value b);
Value Maximum(Value a, Value b);  // at a tie the gradient is halved, as in JAX
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

// pred ? on_true : on_false, elementwise; all three broadcast.
Value Select(Value pred, Value on_true, Value on_false);
Value Clamp(Value low, Value x, Value high);

// With a plain number: of the other operand's type.
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
// axes[i] is where x's dimension i goes in `shape` (stablehlo.broadcast_in_dim).
Value BroadcastInDim(Value x, const Shape& shape, const Axes& axes);
Value BroadcastTo(Value x, const Shape& shape);  // as NumPy
Value Reshape(Value x, const Shape& shape);      // one extent may be -1
Value Transpose(Value x, const Axes& permutation);
Value ExpandDims(Value x, int64_t axis);
Value Squeeze(Value x, const Axes& axes);
Value Reverse(Value x, const Axes& axes);
Value Concatenate(const Values& xs, int64_t axis);
Value Slice(Value x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
            const std::vector<int64_t>& strides = {});
Value SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end, int64_t stride = 1);
// Parts along an axis: of these sizes, which add up to its extent, or so many of the same size.
Values Split(Value x, const std::vector<int64_t>& sizes, int64_t axis);
Values Split(Value x, int parts, int64_t axis);
// Low and high may be negative (crop); `interior` elements go between neighbours.
struct PadAxis {
  int64_t low = 0, high = 0, interior = 0;
};
Value Pad(Value x, double value, const std::vector<PadAxis>& padding);
// `begin` is one integer scalar for each axis; clamped so that the slice lies inside.
Value DynamicSlice(Value x, const Values& begin, const std::vector<int64_t>& sizes);
Value DynamicUpdateSlice(Value x, Value update, const Values& begin);

// ---- Contractions ----
struct DotDimensions {
  Axes lhs_contracting = {}, rhs_contracting = {}, lhs_batch = {}, rhs_batch = {};
};
// Result: batch axes, then a's free axes, then b's.
Value DotGeneral(Value a, Value b, const DotDimensions& dimensions);
// [..., m, k] x [..., k, n]; leading axes are equal, or b has none.
Value MatMul(Value a, Value b);

// Matrices on the last two axes, f32 or f64.
// The lower triangular l with l l^T = (a + a^T) / 2; NaN where there is none.
Value Cholesky(Value a);
// x with op(a) x = b, or with x op(a) = b. Only one triangle of `a` is read.
struct TriangularSolveOptions {
  bool left_side = true;
  bool lower = true;
  bool transpose = false;      // op(a) is a^T
  bool unit_diagonal = false;  // ones are read on the diagonal
};
Value TriangularSolve(Value a, Value b, const TriangularSolveOptions& options = {});

// ---- Fourier transforms of the last `axes` axes, 1 to 3; f32, or f64 (not on TPUs) ----
// A complex number is a pair of real values of one type: the graph has no complex types, and
// nothing but these functions knows of them. Scaled as NumPy's and StableHLO's: a transform back
// divides by how many numbers it adds up, one forth does not.
struct Complex {
  Value real, imag;
};
Complex Fft(const Complex& x, int64_t axes = 1);
Complex Ifft(const Complex& x, int64_t axes = 1);
// Of real values. Their bins mirror each other, so of the last axis, n long, the first n / 2 + 1
// are given.
Complex Rfft(Value x, int64_t axes = 1);
// The `length` real values (along the last axis) that have these length / 2 + 1 bins. As in NumPy,
// what no real values have is left out: for one axis the imaginary part of the first bin and, where
// the length is even, of the last.
Value Irfft(const Complex& x, int64_t length, int64_t axes = 1);

struct ConvolutionOptions {
  // One entry for each spatial axis; empty means ones (strides, dilations) or zeros (padding).
  std::vector<int64_t> strides = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};  // low, high; may be negative
  std::vector<int64_t> lhs_dilation = {}, rhs_dilation = {};
  int64_t feature_group_count = 1;
  int64_t batch_group_count = 1;
  // Where each dimension stands; -1 in `batch` means the default: NHWC input, HWIO kernel, NHWC
  // output.
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
// The linear map that transposes Convolution with these options, from its output to its input,
// whose shape is `input`: its gradient by the input, a "deconvolution".
Value ConvolutionTranspose(Value output, Value kernel, const Shape& input,
                           const ConvolutionOptions& options = {});

// Padding that keeps ceil(size / stride) positions, as Keras "same": the odd one goes to the end.
std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t kernel, int64_t stride,
                                        int64_t dilation = 1);

// ---- Reductions; no axes means all. Sums of 16-bit floats are kept in 32 bits on the way ----
Value ReduceSum(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceMean(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceProduct(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceMax(Value x, const Axes& axes = {}, bool keep_dims = false);  // ties share the gradient
Value ReduceMin(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ReduceAnd(Value x, const Axes& axes = {}, bool keep_dims = false);  // bool
Value ReduceOr(Value x, const Axes& axes = {}, bool keep_dims = false);
Value ArgMax(Value x, int64_t axis, DType index_dtype = DType::kI32);  // the first of equals

enum class WindowReducer { kSum, kMax, kMin };
struct WindowOptions {
  // One entry for each axis of x, batch and features included.
  std::vector<int64_t> size = {}, strides = {}, dilation = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};
};
// kMax: the gradient goes to the first of equals in each window, as in TensorFlow and JAX.
Value ReduceWindow(Value x, WindowReducer reducer, const WindowOptions& options);

// ---- Normalisation ----
struct BatchNormOptions {
  int64_t axis = -1;  // the features
  double epsilon = 1e-3;
};
struct BatchNormResult {
  Value y;  // of x's type
  Value mean,
      variance;  // of each feature, in f32 (f64 where x is f64); the variance is the biased one
};
// y = (x - mean) / sqrt(variance + epsilon) * scale + offset, with the statistics of x over all
// axes but the features' (Ioffe and Szegedy: Batch normalization, 2015). `scale` and `offset` may
// be invalid: ones and zeros. `mask`, if valid, has one weight for each example (axis 0), 1 or 0:
// those of 0 keep out of the statistics. It has no gradient.
BatchNormResult BatchNormTraining(Value x, Value scale, Value offset, Value mask,
                                  const BatchNormOptions& options = {});

// ---- Composites with care for large and small numbers ----
Value Relu(Value x);
Value Softmax(Value x, int64_t axis = -1);
Value LogSoftmax(Value x, int64_t axis = -1);
Value LogSumExp(Value x, const Axes& axes, bool keep_dims = false);
Value Softplus(Value x);
Value LogSigmoid(Value x);
// x times the chance that a normal number is below x (Hendrycks and Gimpel: Gaussian error linear
// units, 2016); approximate: by their tanh.
Value Gelu(Value x, bool approximate = false);
// Whether no element of any of the xs (one at least) is NaN or infinite; a bool scalar.
Value AllFinite(const Values& xs);

// ---- Indexing ----
// Elements of x along `axis` at integer `indices` (any shape), clamped into range: x's axis is
// replaced by indices' axes.
Value Take(Value x, Value indices, int64_t axis);
// x's elements along `axis`, each place by its own index, clamped into range: indices has x's rank
// and, but for `axis`, its extents (or 1, on either side). NumPy's take_along_axis.
Value TakeAlongAxis(Value x, Value indices, int64_t axis);
// Windows of x, `slice_sizes` large, that begin at `indices`, clamped so that they lie inside; the
// dimensions are stablehlo.gather's.
struct GatherDimensions {
  Axes offset_dims = {};           // the result's axes that run within a window
  Axes collapsed_slice_dims = {};  // x's axes that are left out of it; their size is 1
  Axes start_index_map = {};       // x's axis of each component of an index
  int64_t index_vector_dim = 0;    // the indices' axis of components; their rank: a number each
};
Value Gather(Value x, Value indices, const GatherDimensions& dimensions,
             const std::vector<int64_t>& slice_sizes);
// x, with `updates` put at `indices`, or combined with what is there; an update that does not lie
// inside as a whole is dropped. Where two replace the same element, one of them wins, and has the
// gradient. Sums of 16-bit floats are kept in 32 bits. kProduct has a gradient only where
// indices are unique; equals share that of kMin and kMax.
enum class ScatterReducer { kReplace, kSum, kProduct, kMin, kMax };
struct ScatterDimensions {
  Axes update_window_dims = {};    // the updates' axes that run within a window
  Axes inserted_window_dims = {};  // x's axes that it lacks
  Axes scatter_dims_to_operand_dims = {};
  int64_t index_vector_dim = 0;
};
Value Scatter(Value x, Value indices, Value updates, ScatterReducer reducer,
              const ScatterDimensions& dimensions, bool unique_indices = false);
// indices' shape + [depth]; an index outside [0, depth) gives zeros.
Value OneHot(Value indices, int64_t depth, DType dtype);

// ---- Order; NaNs are larger than all, as in NumPy ----
// The first is sorted along `axis`, the others follow it; equals stay in their order.
Values Sort(const Values& xs, int64_t axis = -1, bool descending = false);
Value Sort(Value x, int64_t axis = -1, bool descending = false);
Value ArgSort(Value x, int64_t axis = -1, bool descending = false);  // i32
struct TopKResult {
  Value values, indices;  // indices: i32
};
// The k largest, the largest first; of equals the first first.
TopKResult TopK(Value x, int64_t k, int64_t axis = -1);

// ---- Running sums: element i is that of all up to i, or from i on where `reverse` ----
Value CumSum(Value x, int64_t axis, bool reverse = false);
Value CumProd(Value x, int64_t axis, bool reverse = false);
Value CumMax(Value x, int64_t axis, bool reverse = false);  // of equals, the first has the gradient
Value CumMin(Value x, int64_t axis, bool reverse = false);

// ---- Random numbers: Threefry-2x32 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3,
// 2011) ---- The same key gives the same numbers on every device. A key is ui32[2]; use each for
// one purpose, and get more with FoldIn or SplitKey. Formulas as in JAX with
// jax_threefry_partitionable, so results compare; normal numbers are drawn in f32 whatever the
// type.
Value RandomKey(Graph& graph, uint64_t seed);
// The block function itself: 64 bits for each pair of counters (ui32, of one shape).
std::pair<Value, Value> Threefry2x32(Value key, Value x0, Value x1);
Value FoldIn(Value key, Value data);  // data: an integer scalar
Value FoldIn(Value key, uint32_t data);
Values SplitKey(Value key, int count);
Value RandomBits(Value key, const TensorType& type);  // ui8, ui16, ui32 or ui64
Value RandomUniform(Value key, const TensorType& type, double low = 0,
                    double high = 1);  // [low, high)
Value RandomNormal(Value key, const TensorType& type, double mean = 0, double stddev = 1);
Value RandomTruncatedNormal(Value key, const TensorType& type, double mean = 0,
                            double stddev = 1);                                 // 2 sigma
Value RandomBernoulli(Value key, const Shape& shape, double probability);       // bool
Value RandomInt(Value key, const TensorType& type, int64_t low, int64_t high);  // [low, high)

// ---- Control flow ----
// The functions build closed bodies from the values they are given.
using Body = std::function<Values(Graph& graph, const Values& state)>;
Values While(const Values& init,
             const std::function<Value(Graph& graph, const Values& state)>& condition,
             const Body& body);
// body(index i32 scalar, state) for index in [0, count). Has a gradient, While has none. States
// that the body hands on as they are cost nothing in either.
Values For(int64_t count, const Values& init,
           const std::function<Values(Graph& graph, Value index, const Values& state)>& body);
// A loop over the rows (axis 0) of `xs`, all of one length, that gives a row of each y:
// jax.lax.scan.
//
//   // h[t] = tanh(x[t] + h[t-1] W); every h.
//   const ScanOut done = Scan({h0}, {x}, {w}, [](Graph&, const ScanIn& in) {
//     const Value h = Tanh(in.x[0] + MatMul(in.state[0], in.constants[0]));
//     return ScanOut{.state = {h}, .y = {h}};
//   });
//
// The gradient is such a loop from the other end; its time and memory grow with the length, not
// with its square. Of each iteration it keeps the states before it and the results of products and
// convolutions; what else it needs, it computes again. Gradients of 16-bit constants are summed in
// 32 bits.
struct ScanIn {
  Value index;  // i32 scalar: which row
  Values state, x, constants;
};
struct ScanOut {
  Values state, y;
};
struct ScanOptions {
  bool reverse = false;       // from the last row to the first; row i of y belongs to row i of x
  int64_t count = -1;         // wanted where there are no xs
  bool keep_products = true;  // false: the gradient keeps only states
};
ScanOut Scan(const Values& init, const Values& xs, const Values& constants,
             const std::function<ScanOut(Graph& graph, const ScanIn& in)>& body,
             const ScanOptions& options = {});
// pred: bool scalar. Only one branch runs.
Values Cond(Value pred, const Values& operands, const Body& then_body, const Body& else_body);

// ---- Gradients of another kind (StopGradient: above) ----
// What `forward` makes of the inputs, with the gradient that `backward` makes of the inputs, the
// results and the results' cotangents (invalid for integers): one for each input, or an invalid one
// for zero. Both see only what they are given.
struct BackwardIn {
  Values inputs, results, cotangents;
};
using BackwardBody = std::function<Values(Graph& graph, const BackwardIn& in)>;
Values CustomGradient(const Values& inputs, const Body& forward, const BackwardBody& backward);
// What `body` makes of the inputs. Nothing of what it computes on the way is kept for the gradient,
// which computes it again from the inputs (Chen et al.: Training deep nets with sublinear memory
// cost, 2016).
Values Rematerialize(const Values& inputs, const Body& body);
// The same values, through which compilers do not look.
Values OptimizationBarrier(const Values& xs);

// ---- Replicas ----
Value ReplicaId(Graph& graph);  // ui32 scalar
enum class Reducer { kSum, kMax, kMin };
// Over all replicas, elementwise; every replica gets the result. The gradient of kSum sums
// cotangents.
Value AllReduce(Value x, Reducer reducer = Reducer::kSum);
// Several values in one operation, so that small ones travel together.
Values AllReduce(const Values& xs, Reducer reducer = Reducer::kSum);
// Every replica's x, one after the other along `axis`.
Value AllGather(Value x, int64_t axis);
// The sum over replicas, of which replica i gets the i-th part along `axis`.
Value ReduceScatter(Value x, int64_t axis);
// x in parts along `split_axis`, part i to replica i; what comes in is put together along
// `concat_axis`, in the replicas' order.
Value AllToAll(Value x, int64_t split_axis, int64_t concat_axis);
// Each source's x to its target; a replica that is no target gets zeros.
Value CollectivePermute(Value x, const std::vector<std::pair<int64_t, int64_t>>& pairs);

// ---- Escape ----
// A call of a kernel registered under `target` (typed FFI, api_version 4). Has no gradient of its
// own. `in_place`: result 0 is put into the memory of operand 0, which has its type; where another
// operation still needs that operand, the compiler gives the call a copy.
Values CustomCall(Graph& graph, absl::string_view target, const Values& operands,
                  const std::vector<TensorType>& results, const Attributes& attributes = {},
                  bool in_place = false);

}  // namespace penstock::ir
