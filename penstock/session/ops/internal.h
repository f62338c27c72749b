// For the sources of ops/ only: what the functions that lower operations share.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"
#include "penstock/session/graph.h"
#include "penstock/session/lowering.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session::internal {

using In = const ir::Values&;

// Fails the graph of `at` with this message; an invalid value.
template <typename... Parts>
ir::Value Reject(const ir::Value& at, const Parts&... parts) {
  if (at.valid()) at.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(parts...)));
  return ir::Value();
}

// `axis` counted from the start, for a value of this rank; nullopt and an error of the graph if it
// is out of range.
std::optional<int64_t> AxisIn(const ir::Value& x, int64_t axis, int64_t rank);
inline std::optional<int64_t> AxisIn(const ir::Value& x, int64_t axis) {
  return AxisIn(x, axis, x.rank());
}
// Distinct axes, counted from the start; all if there are none. nullopt after an error.
std::optional<ir::Axes> AxesIn(const ir::Value& x, const Axes& axes);

// x broadcast to this shape, and both to their common shape.
ir::Value Stretch(ir::Value x, const Shape& shape);

// A scalar of the type of x: a number, or an operand's number, of which integers are exact.
ir::Value ScalarLike(const ir::Value& x, double number);
ir::Value NumberLike(const ir::Value& x, const Operand& number);
// Integers of fewer than 32 bits as int32: lengths, classes and counts are computed with numbers
// that the narrow types lack. Others as they are.
ir::Value Widened(const ir::Value& x);
// The value of an operand: the next input if it is a tensor, else a scalar of the type of `like`.
class OperandValues {
 public:
  explicit OperandValues(In in, size_t next = 0) : in_(in), next_(next) {}
  ir::Value Next(const Operand& operand, const ir::Value& like);

 private:
  In in_;
  size_t next_;
};
// Adds the operand to the inputs if it is a tensor. False if it is a number with a fraction, or
// beyond the range, and `dtype` is an integer type.
bool FitsType(const Operand& operand, DType dtype);

// AddOp with one input.
using UnaryFunction = ir::Value (*)(ir::Value x);
Tensor AddUnary(absl::string_view type, const Tensor& x, absl::string_view name,
                SourceLocation where, UnaryFunction lower);
// AddOp with two operands, at least one of which is a tensor.
using BinaryFunction = std::function<ir::Value(ir::Value x, ir::Value y)>;
Tensor AddBinary(absl::string_view type, const Operand& x, const Operand& y, absl::string_view name,
                 SourceLocation where, const BinaryFunction& lower);

// A node of one output whose lowering needs more than its inputs.
struct ShapedOp {
  absl::string_view type, name;
  SourceLocation where;
  Tensors inputs = {};
  ShapeArgument shape;
  DType dtype = DType::kInvalid;  // of the output
  // Whether `shape` is the output's; otherwise it is inferred from the inputs.
  bool has_shape = true;
  // The output's static shape for what is known of `shape`; null: that.
  std::function<PartialShape(const PartialShape& shape)> output_shape = nullptr;
  // For random operations.
  bool is_random = false;
  std::optional<uint64_t> seed = {};
};
// What `lower` of a ShapedOp gets.
struct ShapedIn {
  ir::Graph& graph;
  In in;
  const Shape& shape;
  ir::Value key = {};  // of random operations
};
Tensor AddShaped(const ShapedOp& op, std::function<ir::Value(const ShapedIn& in)> lower);

// Records that an input of the operation is an invalid tensor; an invalid tensor.
Tensor InvalidInput(absl::string_view type, SourceLocation where);

// A stateful operation of one output with the type and shape of `like`, or of `output`.
Tensor AddRandom(absl::string_view type, const Tensors& inputs, absl::string_view name,
                 SourceLocation where, std::optional<uint64_t> seed,
                 const std::vector<Node::Output>& outputs,
                 std::function<ir::Value(In in, ir::Value key)> lower);

// The range of a numeric type, as double; booleans are 0 and 1.
double LowestOf(DType dtype);
double HighestOf(DType dtype);
// The lowest or highest finite number of the type.
double FiniteLimit(DType dtype, bool lowest);

}  // namespace penstock::session::internal
