// Constants, shapes, indexing and rearranging: tf.* under TensorFlow's names in CamelCase.
//
//   tf::Tensor flat = tf::Reshape(images, {-1, 784});
//   tf::Tensor last = tf::GetItem(sequence, {tf::kEllipsis, -1, tf::Slicer()});
//   tf::Tensor both = tf::Concat({a, b}, /*axis=*/1);
//   tf::Tensor targets = tf::OneHot(labels, 10);
//
// Negative axes count from the end. Names that differ: tf.shape is ShapeOf, because Shape is a
// type; Python's x[1:, ..., -1] is GetItem.
//
// Programs are compiled for static shapes. Operations whose result's shape depends on values
// (BooleanMask, Unique, Where of one argument) are therefore errors that say what to do instead.
// Indices out of range, which are errors in TensorFlow on CPUs: Gather and GatherNd clamp them into
// range; ScatterNd and TensorScatter* drop the update; OneHot gives zeros.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/graph.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session {

// ---- Constants ----
// A tensor of this shape filled with a number of type `dtype`, or with a scalar.
Tensor Fill(const ShapeArgument& dims, double value, DType dtype = DType::kF32,
            absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensor Fill(const ShapeArgument& dims, const Tensor& value, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Zeros(const ShapeArgument& shape, DType dtype = DType::kF32, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Ones(const ShapeArgument& shape, DType dtype = DType::kF32, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// kInvalid: the type of x.
Tensor ZerosLike(const Tensor& x, DType dtype = DType::kInvalid, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor OnesLike(const Tensor& x, DType dtype = DType::kInvalid, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// start, start + delta, ... below limit (above, if delta is negative). TensorFlow takes the type
// from Python's numbers; here it is a parameter, and a number that it lacks is an error:
// Range(0, 1, 0.25, DType::kF32).
Tensor Range(double limit, DType dtype = DType::kI32, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor Range(double start, double limit, double delta = 1, DType dtype = DType::kI32,
             absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// 0, 1, ... limit - 1, for an integer scalar that is computed from constants and shapes.
Tensor Range(const Tensor& limit, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// `num` numbers from start to stop, both included.
Tensor Linspace(double start, double stop, int64_t num, DType dtype = DType::kF32,
                absl::string_view name = "", SourceLocation where = SourceLocation::Current());
struct EyeOptions {
  int64_t num_columns = -1;  // -1: num_rows
  Shape batch_shape = {};
  DType dtype = DType::kF32;
  std::string name = "";
};
// Identity matrix, for each element of batch_shape.
Tensor Eye(int64_t num_rows, const EyeOptions& options = {},
           SourceLocation where = SourceLocation::Current());
struct OneHotOptions {
  double on_value = 1, off_value = 0;
  int64_t axis = -1;  // the new axis in the result
  DType dtype = DType::kF32;
  std::string name = "";
};
Tensor OneHot(const Tensor& indices, int64_t depth, const OneHotOptions& options = {},
              SourceLocation where = SourceLocation::Current());
struct SequenceMaskOptions {
  DType dtype = DType::kBool;
  std::string name = "";
};
// [..., maxlen]: whether the position is less than the length. TensorFlow's maxlen of None depends
// on values: it is required here.
Tensor SequenceMask(const Tensor& lengths, int64_t maxlen, const SequenceMaskOptions& options = {},
                    SourceLocation where = SourceLocation::Current());

// ---- Shapes ----
// tf.shape: extents as an integer vector, known when the program is compiled; for arguments of type
// ShapeArgument: Reshape(x, Stack({GetItem(ShapeOf(x), {0}), Constant(-1)})).
Tensor ShapeOf(const Tensor& input, DType out_type = DType::kI32, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Tensors ShapeN(const Tensors& input, DType out_type = DType::kI32, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// Number of elements; number of axes.
Tensor Size(const Tensor& input, DType out_type = DType::kI32, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor Rank(const Tensor& input, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// One extent may be -1.
Tensor Reshape(const Tensor& tensor, const ShapeArgument& shape, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Tensor ExpandDims(const Tensor& input, int64_t axis, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// Removes axes of extent 1: all ({}), or these.
Tensor Squeeze(const Tensor& input, const Axes& axis = {}, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// Without `perm`: the axes in reverse order.
Tensor Transpose(const Tensor& a, const Axes& perm = {}, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor BroadcastTo(const Tensor& input, const ShapeArgument& shape, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
Tensor Tile(const Tensor& input, const std::vector<int64_t>& multiples, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
// Each element `repeats` times along an axis; without an axis, of the flattened input. A list has a
// number for each element.
Tensor Repeat(const Tensor& input, const Ints& repeats, std::optional<int64_t> axis = {},
              absl::string_view name = "", SourceLocation where = SourceLocation::Current());

// ---- Joining and splitting ----
Tensor Concat(const Tensors& values, int64_t axis, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
Tensor Stack(const Tensors& values, int64_t axis = 0, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor ParallelStack(const Tensors& values, absl::string_view name = "",
                     SourceLocation where = SourceLocation::Current());
// `num`: only checked; the extent of the axis must be known.
Tensors Unstack(const Tensor& value, std::optional<int64_t> num = {}, int64_t axis = 0,
                absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// Parts of equal size, or of these sizes (one of which may be -1).
Tensors Split(const Tensor& value, int64_t num_splits, int64_t axis = 0,
              absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensors Split(const Tensor& value, const std::vector<int64_t>& size_splits, int64_t axis = 0,
              absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// tf.meshgrid of vectors; `indexing` is "xy" or "ij".
Tensors Meshgrid(const Tensors& args, absl::string_view indexing = "xy",
                 absl::string_view name = "", SourceLocation where = SourceLocation::Current());

// ---- Slices ----
// A size of -1 means up to the end.
Tensor Slice(const Tensor& input, const std::vector<int64_t>& begin,
             const std::vector<int64_t>& size, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
struct StridedSliceOptions {
  std::vector<int64_t> strides = {};  // ones
  int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;
  std::string name = "";
};
Tensor StridedSlice(const Tensor& input, const std::vector<int64_t>& begin,
                    const std::vector<int64_t>& end, const StridedSliceOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
// One part of a subscript x[...]: 3 is an index, {1, 5} is 1:5, {1, {}} is 1:, {{}, {}, -1} is
// ::-1, Slicer() is ":".
class Slicer {
 public:
  Slicer() : Slicer(std::nullopt, std::nullopt) {}
  Slicer(int64_t index) : kind_(Kind::kIndex), begin_(index) {}  // NOLINT
  Slicer(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t stride = 1)
      : kind_(Kind::kRange), begin_(begin), end_(end), stride_(stride) {}
  enum class Kind { kIndex, kRange, kEllipsis, kNewAxis };
  explicit Slicer(Kind kind) : kind_(kind) {}

  Kind kind() const { return kind_; }
  const std::optional<int64_t>& begin() const { return begin_; }
  const std::optional<int64_t>& end() const { return end_; }
  int64_t stride() const { return stride_; }

 private:
  Kind kind_;
  std::optional<int64_t> begin_, end_;
  int64_t stride_ = 1;
};
inline const Slicer kEllipsis{Slicer::Kind::kEllipsis};  // ...
inline const Slicer kNewAxis{Slicer::Kind::kNewAxis};    // tf.newaxis
// Python's input[...]: GetItem(x, {0, {1, -1}, kEllipsis, kNewAxis}).
Tensor GetItem(const Tensor& input, std::initializer_list<Slicer> slices,
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// input[index], for an integer scalar that is computed; clamped into range.
Tensor GetItem(const Tensor& input, const Tensor& index, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());

// ---- Padding and rearranging ----
struct PadOptions {
  std::string mode = "CONSTANT";  // or REFLECT (without the edge), SYMMETRIC (with it)
  std::string name = "";
  double constant_values = 0;
};
// Adds elements before and after each axis.
Tensor Pad(const Tensor& tensor, const std::vector<std::pair<int64_t, int64_t>>& paddings,
           const PadOptions& options = {}, SourceLocation where = SourceLocation::Current());
Tensor Reverse(const Tensor& tensor, const Axes& axis, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
struct ReverseSequenceOptions {
  int64_t seq_axis = 1, batch_axis = 0;
  std::string name = "";
};
// Reverses the first seq_lengths[i] elements along seq_axis of element i of batch_axis.
Tensor ReverseSequence(const Tensor& input, const Tensor& seq_lengths,
                       const ReverseSequenceOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// Moves elements by `shift` positions along the axes; those at the end return at the beginning.
Tensor Roll(const Tensor& input, const Ints& shift, const Axes& axis, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor SpaceToDepth(const Tensor& input, int64_t block_size, absl::string_view name = "",
                    absl::string_view data_format = "NHWC",
                    SourceLocation where = SourceLocation::Current());
Tensor DepthToSpace(const Tensor& input, int64_t block_size, absl::string_view name = "",
                    absl::string_view data_format = "NHWC",
                    SourceLocation where = SourceLocation::Current());
Tensor SpaceToBatchND(const Tensor& input, const std::vector<int64_t>& block_shape,
                      const std::vector<std::pair<int64_t, int64_t>>& paddings,
                      absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
Tensor BatchToSpaceND(const Tensor& input, const std::vector<int64_t>& block_shape,
                      const std::vector<std::pair<int64_t, int64_t>>& crops,
                      absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());

// ---- Indexing by tensors ----
struct GatherOptions {
  int64_t axis = 0;  // of params
  int64_t batch_dims = 0;
  std::string name = "";
};
Tensor Gather(const Tensor& params, const Tensor& indices, const GatherOptions& options = {},
              SourceLocation where = SourceLocation::Current());
// The last axis of indices is an index into the first axes of params (after batch_dims).
struct GatherNdOptions {
  std::string name = "";
  int64_t batch_dims = 0;
};
Tensor GatherNd(const Tensor& params, const Tensor& indices, const GatherNdOptions& options = {},
                SourceLocation where = SourceLocation::Current());
Tensor BatchGather(const Tensor& params, const Tensor& indices, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
// Zeros of this shape with the updates added at the indices.
Tensor ScatterNd(const Tensor& indices, const Tensor& updates, const ShapeArgument& shape,
                 absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// `tensor` with the updates written at (added at, subtracted at) the indices
// (tf.tensor_scatter_nd_update and others).
Tensor TensorScatterUpdate(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                           absl::string_view name = "",
                           SourceLocation where = SourceLocation::Current());
Tensor TensorScatterAdd(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());
Tensor TensorScatterSub(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());
Tensor TensorScatterMax(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());
Tensor TensorScatterMin(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());
// condition ? x : y, elementwise; the operands broadcast (tf.where_v2). As tf.where of TensorFlow 1
// does, a vector beside an x and a y of one shape and a higher rank selects rows.
Tensor Where(const Tensor& condition, const Operand& x, const Operand& y,
             absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// The same without the selection of rows.
Tensor WhereV2(const Tensor& condition, const Operand& x, const Operand& y,
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// y, with y[x[i]] = i (x is a permutation of 0, 1, ...).
Tensor InvertPermutation(const Tensor& x, absl::string_view name = "",
                         SourceLocation where = SourceLocation::Current());
struct SearchSortedOptions {
  std::string side = "left";
  DType out_type = DType::kI32;
  std::string name = "";
};
// Positions at which `values` would be inserted into the sorted rows of sorted_sequence.
Tensor Searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                    const SearchSortedOptions& options = {},
                    SourceLocation where = SourceLocation::Current());

// ---- Sorting ----
struct SortOptions {
  std::string direction = "ASCENDING";  // or DESCENDING
  std::string name = "";
};
Tensor Sort(const Tensor& values, int64_t axis = -1, const SortOptions& options = {},
            SourceLocation where = SourceLocation::Current());
// Indices (int32) that sort the values; stable, which TensorFlow promises only for stable=True.
Tensor Argsort(const Tensor& values, int64_t axis = -1, const SortOptions& options = {},
               SourceLocation where = SourceLocation::Current());

// ---- Operations whose shape depends on values: errors ----
Tensor Where(const Tensor& condition, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Tensor BooleanMask(const Tensor& tensor, const Tensor& mask, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
Tensor Unique(const Tensor& x, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
