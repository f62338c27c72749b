// Printer: writes operations as StableHLO text, one a line, and remembers what stands on each line.
// Internal to room ir.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/large_values.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::ir {

class Printer {
 public:
  Printer(const PrintOptions& options, int num_replicas)
      : locations_(options.locations),
        precision_(options.matmul_precision),
        num_replicas_(num_replicas) {}

  int num_replicas() const { return num_replicas_; }
  // "HIGH" or "HIGHEST", for products and convolutions; empty when nothing need be said.
  absl::string_view precision() const;

  // "%12", or "%12#1" for a node of several results.
  std::string Name(const Value& value) const;
  // "%1, %2".
  std::string Names(absl::Span<const Value> values) const;
  std::string FreshName();

  // For an operation's print function, which describes the node that is being printed. The whole
  // operation on one line: `text` is what stands after "%n = "; the location is added.
  void Line(const Node& node, const std::string& text);
  // An operation with regions: `opening` (after "%n = "), lines of the regions, `closing`.
  void OpenLine(const Node& node, const std::string& opening);
  void CloseLine(const std::string& closing);
  void PlainLine(const std::string& text);
  void Indent(int by) { indent_ += by; }
  // A constant on a line of its own, all of its elements `value`, or the nearest number that the
  // type holds; its name.
  std::string Splat(const TensorType& type, double value);
  // The region of an operation that combines two elements: "stablehlo.add".
  void ReducerRegion(absl::string_view operation, DType dtype);

  // For an operation whose printed results are not the node's: whether anything that is printed
  // uses the node's result, and what it is called (empty for one that nothing uses).
  bool IsUsed(int result) const;
  void NameResults(std::vector<std::string> names);

  // Prints the nodes that the graph's results need and gives the results' names. The graph's
  // parameters are called `parameters`.
  std::vector<std::string> Nodes(const Graph& graph, absl::Span<const std::string> parameters);
  // Nodes(), then "`ending` %1, %2 : types".
  void Body(const Graph& graph, absl::Span<const std::string> parameters, absl::string_view ending);

  std::string TakeText() { return std::move(text_); }
  const LargeValues& large_values() const { return large_values_; }
  std::vector<Origin> TakeOrigins() { return std::move(line_origins_); }

 private:
  struct Frame {  // a graph being printed
    const Graph* graph;
    // What the results of a node are called, by the node's number.
    absl::flat_hash_map<int, std::vector<std::string>> names = {};
    std::vector<std::vector<bool>> used = {};  // by node and result
    int current = -1;                          // the node whose print function runs
  };
  const Frame& FrameOf(const Graph* graph) const;
  const Origin& CurrentOrigin() const;
  std::string Define(const Node& node);  // names the current node: "%3 = "
  void Write(const std::string& text, bool with_location);

  const bool locations_;
  const MatmulPrecision precision_;
  const int num_replicas_;
  std::vector<Frame> frames_;
  int next_name_ = 0;
  int indent_ = 0;
  std::string text_;
  std::vector<Origin> line_origins_;
  LargeValues large_values_;
};

// The number of a numeric type that is nearest to `value`: an integer type's smallest and largest
// stand for all beyond them; NaN becomes 0 there.
Array NearestScalar(DType dtype, double value);

// "tensor<2x3xf32>".
std::string MlirType(const TensorType& type);
// "(tensor<f32>, tensor<i32>) -> tensor<f32>".
std::string FunctionType(const Node& node);
// "[1, 2, 3]".
std::string MlirList(absl::Span<const int64_t> numbers);
// "array<i64: 1, 2>".
std::string MlirArray(absl::Span<const int64_t> numbers);
// "dense<...>" of the elements, without a type. Not for bool arrays of several different elements.
std::string MlirDense(const Array& array);
// A string literal, quoted.
std::string MlirString(absl::string_view text);
// "3 : i64", "\"text\"", "array<i64: 1, 2>": a node's attribute as an operation's.
std::string MlirAttribute(const Attribute& attribute);

// "stablehlo.reverse %1, dims = [0] : (tensor<2xf32>) -> tensor<2xf32>", where `parameters` is what
// stands between the operands and the types.
void PrintWith(Printer& printer, const Node& node, absl::string_view parameters);
// "stablehlo.add %1, %2 : tensor<f32>" and "stablehlo.convert %1 : (tensor<i32>) -> tensor<f32>".
void PrintElementwise(Printer& printer, const Node& node);
void PrintConverting(Printer& printer, const Node& node);

}  // namespace penstock::ir
