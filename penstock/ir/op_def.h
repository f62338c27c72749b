// OpDef: definition of an operation. One entry, in the file of its family, next to the functions of
// ops.h that emit it.
//
//   const OpDef kTanh = {.name = "stablehlo.tanh",
//                        .infer = SameTypeFloat,
//                        .gradient = [](const GradientArgs& g) -> Values {
//                          return {g.cotangent() * (1.0 - Square(g.result()))};
//                        },
//                        .print = PrintElementwise};
//   Value Tanh(Value x) { return EmitOne(kTanh, {x}); }
//
// Internal to room ir.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {

class Printer;

// A node to differentiate, with its results and their cotangents (incoming gradients). There is one
// cotangent for each result; an invalid one means zero, and at least one is valid.
struct GradientArgs {
  const Node& node;
  Values results;
  Values cotangents;
  std::vector<bool> wanted = {};  // for each operand

  const Value& operand(int i) const { return node.operands[i]; }
  // Whether the cotangent of operand i is needed. For gradients that are cheaper without it.
  bool wants(int i) const { return wanted[i]; }
  // For operations with one result.
  const Value& result() const { return results[0]; }
  const Value& cotangent() const { return cotangents[0]; }
};

// Extents as a vector, as attributes and most functions expect them.
inline std::vector<int64_t> ListOf(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Definition of an operation: name, type inference, gradient, printing.
struct OpDef {
  const char* name;
  // Type inference: the types of the results, or an error that states the expected and the actual
  // types. Operands are valid.
  absl::StatusOr<std::vector<TensorType>> (*infer)(const Node& node);
  // Gradient (vector-Jacobian product): one cotangent for each operand, invalid for zero. Built
  // from functions of ops.h, so that it is differentiable itself. nullptr: see zero_gradient.
  Values (*gradient)(const GradientArgs& args) = nullptr;
  // For operations without a gradient function: true if the gradient is zero everywhere
  // (comparisons, rounding); false if the operation is not differentiable, which is an error when a
  // gradient needs it.
  bool zero_gradient = false;
  // Prints the operation as StableHLO; see printer.h.
  void (*print)(Printer& printer, const Node& node) = nullptr;
  // Whether `print` has a dynamic form (dynamic_forms.h) for attributes that are multiples of the
  // batch size (dynamic_batch.h). Operations without such attributes need none.
  bool has_dynamic_form = false;
  // Decomposition of a composite. A composite stands for several operations, so that a platform
  // with a kernel for all of them can still recognize it (rewrite.h). This function adds those
  // operations to `graph` and returns their results. Composites are decomposed before printing.
  Values (*decompose)(Graph& graph, const Node& node, const Values& operands) = nullptr;
  // Expensive operation: the gradients of loops, and of Rematerialize with save_products, save its
  // result as a residual instead of rematerializing it.
  bool expensive = false;
  // The result is operand 0 with other values added at some positions. If operand 0 is zeros and
  // the result would be added to another value, AddCotangent adds directly to that value instead.
  bool adds_to_operand = false;
};

using InferResult = absl::StatusOr<std::vector<TensorType>>;

// For composites: type inference and gradient of their decomposition.
InferResult InferByDecomposing(const Node& node);
Values GradientByDecomposing(const GradientArgs& args);

// Emits a node with one result. Returns an invalid value after an error or if an operand is
// invalid.
Value EmitOne(const OpDef& op, Values operands, Attributes attributes = {});

// The same with NumPy broadcasting of the operands.
Value EmitBroadcast(const OpDef& op, Values operands, Attributes attributes = {});

// An error with the operation's name (without the dialect: "add: ") in front of the message.
absl::Status OpError(const Node& node, absl::string_view message);
// Types of the operands: "f32[2,3] and f32[4]".
std::string TypesOf(const Node& node);

// The nodes of `graph` that must be computed to obtain `wanted` if `given` are known. `read`, if
// not null, receives which of `given` are used.
std::vector<bool> NeededNodes(const Graph& graph, absl::Span<const Value> given,
                              absl::Span<const Value> wanted, std::vector<bool>* read = nullptr);

// Results of expensive operations (products, convolutions) that the results of `body` depend on.
Values ExpensiveValues(const Graph& body);

// x with `update` added to the slice that begins at `begin` (clamped as in dynamic_slice).
Value AddToSlice(Value x, Value update, const Values& begin);

// Zeros of shape_of's shape with `values` added at `indices` (which are in range) along `axis`: the
// gradient of TakeAlongAxis.
Value PutAlongAxis(Value shape_of, Value indices, Value values, int64_t axis);

// sum + addend, of sum's type. Costs no more than the positions at which `addend` is not zero.
Value AddCotangent(Value sum, Value addend);
// Whether x is statically known to be all zeros.
bool IsZeros(Value x);

// Whether values of this type have gradients (floats).
bool IsDifferentiable(const TensorType& type);

// Converts an axis that counts from the end (negative) to one that counts from 0; an error of the
// graph if it is out of range.
bool NormalizeAxis(Value x, int64_t& axis, absl::string_view what);
bool NormalizeAxes(Value x, Axes& axes,
                   absl::string_view what);  // also rejects a repeated axis

// All operations. For tests that iterate over them.
std::vector<const OpDef*> AllOps();

using OpList = absl::Span<const OpDef* const>;
OpList ElementwiseOps();
OpList SpecialOps();
OpList ShapeOps();
OpList SplitOps();
OpList DotOps();
OpList LinalgOps();
OpList FftOps();
OpList ConvolutionOps();
OpList ReductionOps();
OpList WindowOps();
OpList NormalizationOps();
OpList IndexingOps();
OpList SortingOps();
OpList CumulativeOps();
OpList ScanOps();
OpList ControlFlowOps();
OpList CustomGradientOps();
OpList CollectiveOps();
OpList CustomCallOps();

}  // namespace penstock::ir
