#include "penstock/ir/flops.h"

#include <algorithm>

#include "penstock/ir/op_def.h"
#include "penstock/ir/operations/scan.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

// For each position of the output and of the kernel, over all input channels. For a gradient,
// `kernel` is the operand or result in the kernel's role.
double ConvolutionFlops(const Node& node, const TensorType& output, const TensorType& kernel) {
  const Ints& axes = node.attributes.Get<Ints>("kernel");
  const int64_t filters = kernel.shape.dim(static_cast<int>(axes[1]));
  if (filters == 0) return 0;
  const int64_t elements_per_filter = kernel.shape.num_elements() / filters;
  return 2.0 * static_cast<double>(output.shape.num_elements()) *
         static_cast<double>(elements_per_filter);
}

double ProductFlops(const Node& node) {
  double flops = 2.0 * static_cast<double>(node.results[0].shape.num_elements());
  for (int64_t axis : node.attributes.Get<Ints>("lhs_contracting")) {
    flops *= static_cast<double>(node.operands[0].shape().dim(static_cast<int>(axis)));
  }
  return flops;
}

}  // namespace

double Flops(const Node& node) {
  const absl::string_view name = node.op->name;
  const auto operand = [&](int i) -> const TensorType& { return node.operands[i].type(); };
  if (name == "stablehlo.dot_general") return ProductFlops(node);
  if (name == "stablehlo.convolution") return ConvolutionFlops(node, node.results[0], operand(1));
  // FLOPs of the forward convolution, whose output has the shape of the cotangent.
  if (name == "penstock.convolution_input_gradient") {
    return ConvolutionFlops(node, operand(0), operand(1));
  }
  if (name == "penstock.convolution_kernel_gradient") {
    return ConvolutionFlops(node, operand(1), node.results[0]);
  }
  if (name == "penstock.scan") {
    return static_cast<double>(Loop::Of(node).count) * Flops(*node.regions[0]);
  }
  if (name == "stablehlo.if") return std::max(Flops(*node.regions[0]), Flops(*node.regions[1]));
  return 0;
}

double Flops(const Graph& graph) {
  const std::vector<bool> needed = NeededNodes(graph, {}, graph.results());
  double flops = 0;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (needed[id]) flops += Flops(graph.node(id));
  }
  return flops;
}

}  // namespace penstock::ir
