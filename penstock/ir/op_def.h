// What an operation is: one entry, in the file of its family, beside the functions of ops.h that
// make it.
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

// A node that is being differentiated. `cotangents` has one for each result, invalid where it is
// zero; at least one is valid.
struct GradientArgs {
  const Node& node;
  Values results;
  Values cotangents;
  std::vector<bool> wanted = {};  // for each operand

  const Value& operand(int i) const { return node.operands[i]; }
  // Whether anyone asks for this operand's cotangent: for gradients that cost more with it.
  bool wants(int i) const { return wanted[i]; }
  // Of operations with one result.
  const Value& result() const { return results[0]; }
  const Value& cotangent() const { return cotangents[0]; }
};

// Extents as attributes and most functions take them.
inline std::vector<int64_t> ListOf(const Shape& shape) { return {shape.begin(), shape.end()}; }

struct OpDef {
  const char* name;
  // The results' types, or what was wanted and what was met. Operands are valid.
  absl::StatusOr<std::vector<TensorType>> (*infer)(const Node& node);
  // One cotangent for each operand; an invalid one is zero. Made of ops.h's functions, so that it
  // can be differentiated in turn. nullptr: see zero_gradient.
  Values (*gradient)(const GradientArgs& args) = nullptr;
  // Without a gradient function: true where the gradient is zero everywhere (comparisons,
  // rounding), false where there is none, which is an error for whoever asks.
  bool zero_gradient = false;
  // Writes the operation, see printer.h.
  void (*print)(Printer& printer, const Node& node) = nullptr;
  // A composite: an operation that stands for several others, so that a platform which has a kernel
  // for the whole can still see it (rewrite.h). This adds those others to `graph` and gives their
  // results. Composites are never printed: they are taken apart before.
  Values (*decompose)(Graph& graph, const Node& node, const Values& operands) = nullptr;
  // Cheaper to keep than to compute again: what a loop's gradient keeps of each iteration.
  bool costly = false;
  // The result is operand 0 but for places where others are added to it. Where that operand is
  // zeros and the whole is to be added to something, it is better put there (AddCotangent).
  bool adds_to_first = false;
};

using InferResult = absl::StatusOr<std::vector<TensorType>>;

// For composites: the types of what they are made of, and the derivatives of that.
InferResult InferByDecomposing(const Node& node);
Values GradientByDecomposing(const GradientArgs& args);

// Emits a node with one result; an invalid value after an error or from invalid operands.
Value EmitOne(const OpDef& op, Values operands, Attributes attributes = {});

// The same for operands that broadcast as NumPy's do.
Value EmitBroadcast(const OpDef& op, Values operands, Attributes attributes = {});

// "stablehlo.add: " without the dialect, before a message.
absl::Status OpError(const Node& node, absl::string_view message);
// "f32[2,3] and f32[4]".
std::string TypesOf(const Node& node);

// The nodes of `graph` that must be computed to know `wanted`, where `given` are known; `read`
// tells which of those are.
std::vector<bool> NeededNodes(const Graph& graph, absl::Span<const Value> given,
                              absl::Span<const Value> wanted, std::vector<bool>* read = nullptr);

// x, with `update` added to the slice of it that begins at `begin` (clamped as dynamic_slice's).
Value AddToSlice(Value x, Value update, const Values& begin);

// Zeros of shape_of's shape, with `values` added at `indices` (inside) along an axis: what
// TakeAlongAxis's gradient is.
Value PutAlongAxis(Value shape_of, Value indices, Value values, int64_t axis);

// sum + addend, of sum's type. Costs no more than the places that the addend is about.
Value AddCotangent(Value sum, Value addend);
// Every element is 0, which anyone can see.
bool IsZeros(Value x);

// Whether a gradient flows through values of this type.
bool IsDifferentiable(const TensorType& type);

// An axis that may count from the end, as one that does not; an error of the graph when there is
// none.
bool NormalizeAxis(Value x, int64_t& axis, absl::string_view what);
bool NormalizeAxes(Value x, Axes& axes,
                   absl::string_view what);  // also refuses one that is named twice

// All operations, for tests that walk them.
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
