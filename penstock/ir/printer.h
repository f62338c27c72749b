// Printer: writes operations as StableHLO text, one a line, and remembers what stands on each line.
// Internal to room ir.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::ir {

class Printer {
 public:
  Printer(bool locations, int num_replicas) : locations_(locations), num_replicas_(num_replicas) {}

  int num_replicas() const { return num_replicas_; }

  // "%12", or "%12#1" for a node of several results.
  std::string Name(const Value& value) const;
  // "%1, %2".
  std::string Names(absl::Span<const Value> values) const;

  // For an operation's print function. `text` is what stands after "%n = "; the location is added.
  void Line(const Node& node, const std::string& text);
  // The whole operation is `opening` (after "%n = "), then the regions, then `closing`.
  void OpenLine(const Node& node, const std::string& opening);
  // The same for an operation that prints `before` results in front of the node's own.
  void OpenLineAfter(const Node& node, int before, const std::string& opening);
  void CloseLine(const Node& node, const std::string& closing);
  void PlainLine(const std::string& text);  // with no operation of the graph on it
  void Indent(int by) { indent_ += by; }
  // A scalar constant on a line of its own; its name.
  std::string Scalar(DType dtype, double value, const Node& node);
  std::string FreshName();

  // The nodes of a graph that its results need, then `ending` ("return", "stablehlo.return") with
  // the results. Parameters go by `parameters`. `first_type` is the type of a value that `ending`
  // names already.
  void Body(const Graph& graph, absl::Span<const std::string> parameters, absl::string_view ending,
            absl::string_view first_type = "");

  std::string TakeText() { return std::move(text_); }
  std::vector<Origin> TakeOrigins() { return std::move(line_origins_); }

 private:
  struct Frame {  // a graph being printed
    const Graph* graph;
    absl::flat_hash_map<int, std::string> names = {};  // of nodes
    absl::flat_hash_map<int, int> before = {};         // results printed in front of a node's own
    int current = -1;                                  // the node whose print function runs
  };
  std::string Define(const Node& node, int before = 0);  // names the current node: "%3 = "
  const Frame& FrameOf(const Graph* graph) const;
  void Write(const std::string& text, const Origin& origin, bool with_location);

  const bool locations_;
  const int num_replicas_;
  std::vector<Frame> frames_;
  int next_name_ = 0;
  int indent_ = 0;
  std::string text_;
  std::vector<Origin> line_origins_;
};

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

// "stablehlo.add %1, %2 : tensor<f32>" and "stablehlo.convert %1 : (tensor<i32>) -> tensor<f32>".
void PrintElementwise(Printer& printer, const Node& node);
void PrintConverting(Printer& printer, const Node& node);

}  // namespace penstock::ir
