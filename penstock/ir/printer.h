// Printer: writes operations as StableHLO text, one per line, and records the origin of each line.
// Internal to room ir.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/large_values.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::ir {

class Printer {
 public:
  // `dynamic`: the graph has a symbolic batch size (dynamic_batch.h).
  Printer(const PrintOptions& options, int num_replicas, bool dynamic)
      : dynamic_(dynamic),
        locations_(options.locations),
        precision_(options.matmul_precision),
        num_replicas_(num_replicas) {}

  int num_replicas() const { return num_replicas_; }
  // precision_config of products and convolutions: "HIGH" or "HIGHEST", empty for the default.
  absl::string_view precision() const;

  // SSA name: "%12", or "%12#1" for a node with several results.
  std::string Name(const Value& value) const;
  // SSA names, comma-separated: "%1, %2".
  std::string Names(absl::Span<const Value> values) const;
  std::string FreshName();

  // Writes an operation on one line. Called by the operation's print function for the node being
  // printed. `text` follows "%n = "; the location is appended.
  void Line(const Node& node, const std::string& text);
  // Writes an operation with regions: `opening` (after "%n = "), the lines of the regions,
  // `closing`.
  void OpenLine(const Node& node, const std::string& opening);
  void CloseLine(const std::string& closing);
  void PlainLine(const std::string& text);
  void Indent(int by) { indent_ += by; }
  // Writes a constant on a line of its own, with all elements equal to `value` or to the nearest
  // number that the type can represent. Returns its name.
  std::string Splat(const TensorType& type, double value);
  // Writes the region of an operation that combines two elements; `operation` is, for example,
  // "stablehlo.add".
  void ReducerRegion(absl::string_view operation, DType dtype);

  // For programs with a symbolic batch size. DefineBatch, once in the main function: the batch size
  // is the outermost extent of `value`. Extents: prints a tensor i32[extents.size()] of numbers, in
  // which -k stands for k times the batch size, and returns its name.
  void DefineBatch(const std::string& value, const TensorType& type);
  std::string Extents(absl::Span<const int64_t> extents);
  // Records that an operation cannot be printed, unless there is an error already.
  void Fail(const Node& node, absl::string_view message);
  const absl::Status& status() const { return status_; }

  // For an operation whose printed results differ from the node's. IsUsed: whether a printed
  // operation uses the result. NameResults: the names of the results (empty for an unused one).
  bool IsUsed(int result) const;
  void NameResults(std::vector<std::string> names);

  // Prints the nodes that the graph's results depend on and returns the names of the results.
  // `parameters` are the names of the graph's parameters.
  std::vector<std::string> Nodes(const Graph& graph, absl::Span<const std::string> parameters);
  // Prints Nodes(), then "`ending` %1, %2 : types".
  void Body(const Graph& graph, absl::Span<const std::string> parameters, absl::string_view ending);

  std::string TakeText() { return std::move(text_); }
  const LargeValues& large_values() const { return large_values_; }
  std::vector<Origin> TakeOrigins() { return std::move(line_origins_); }

 private:
  struct Frame {  // a graph being printed
    const Graph* graph;
    // Names of a node's results, by the node's id.
    absl::flat_hash_map<int, std::vector<std::string>> names = {};
    std::vector<std::vector<bool>> used = {};  // by node and result
    int current = -1;                          // the node whose print function runs
  };
  const Frame& FrameOf(const Graph* graph) const;
  const Origin& CurrentOrigin() const;
  std::string Define(const Node& node);  // names the current node: "%3 = "
  void Write(const std::string& given, bool with_location);

  const bool dynamic_, locations_;
  const MatmulPrecision precision_;
  const int num_replicas_;
  std::vector<Frame> frames_;
  int next_name_ = 0;
  int indent_ = 0;
  std::string text_;
  std::vector<Origin> line_origins_;
  LargeValues large_values_;
  std::string batch_;  // i32[1], the batch size
  // Names of Extents in the main function, by their text; regions may use them.
  absl::flat_hash_map<std::string, std::string> extents_;
  absl::Status status_;
};

// The number of a numeric type nearest to `value`. Integer types saturate at their minimum and
// maximum; NaN becomes 0.
Array NearestScalar(DType dtype, double value);

// Begin of a line's comment in programs with a symbolic batch size: "// ?: 1 4" lists the multiples
// of the batch size that the line's unknown extents are, if one is another than 1.
inline constexpr absl::string_view kMultiplesComment = " // ?:";

// MLIR type: "tensor<2x3xf32>". If an extent is k times the batch size, "tensor<?x3xf32>" for k = 1
// and "tensor<?*4x3xf32>" for k = 4, which Printer turns into a comment of the line. `element`: a
// type of the elements that base::DType lacks.
std::string MlirType(const TensorType& type, absl::string_view element = "");
// MLIR function type of a node: "(tensor<f32>, tensor<i32>) -> tensor<f32>".
std::string FunctionType(const Node& node);
// "[1, 2, 3]".
std::string MlirList(absl::Span<const int64_t> numbers);
// "array<i64: 1, 2>".
std::string MlirArray(absl::Span<const int64_t> numbers);
// "dense<...>" with the elements, without the type. Not for bool arrays whose elements differ.
std::string MlirDense(const Array& array);
// A quoted string literal.
std::string MlirString(absl::string_view text);
// A node's attribute in MLIR syntax: "3 : i64", "\"text\"", "array<i64: 1, 2>".
std::string MlirAttribute(const Attribute& attribute);

// Prints an operation with `parameters` between the operands and the types: "stablehlo.reverse %1,
// dims = [0] : (tensor<2xf32>) -> tensor<2xf32>".
void PrintWith(Printer& printer, const Node& node, absl::string_view parameters);
// Print "stablehlo.add %1, %2 : tensor<f32>" and "stablehlo.convert %1 : (tensor<i32>) ->
// tensor<f32>".
void PrintElementwise(Printer& printer, const Node& node);
void PrintConverting(Printer& printer, const Node& node);

}  // namespace penstock::ir
