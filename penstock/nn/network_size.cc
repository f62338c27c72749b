#include "penstock/nn/network_size.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/flops.h"

namespace penstock::nn {
namespace {

// FLOPs of predicting one example.
absl::StatusOr<double> FlopsOfNetwork(const Network& network) {
  ir::Graph graph("predict");
  Values values, inputs;
  for (const VariableSpec& spec : network.variables()) {
    values.push_back(graph.Parameter(spec.type, spec.name));
  }
  for (const Network::Port& input : network.inputs()) {
    const auto dims = input.type.shape.dims();
    std::vector<int64_t> one(dims.begin(), dims.end());
    one[0] = 1;
    inputs.push_back(graph.Parameter({input.type.dtype, Shape(one)}, input.name));
  }
  const Network::Result result = network.Apply({.graph = &graph}, values, inputs);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  graph.SetResults(result.outputs);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  return ir::Flops(graph);
}

}  // namespace

absl::StatusOr<NetworkSize> SizeOf(const Network& network) {
  PENSTOCK_RETURN_IF_ERROR(network.status());
  NetworkSize size{.parameters = network.CountParameters()};
  for (const VariableSpec& spec : network.variables()) {
    size.bytes += spec.type.shape.num_elements() * base::ByteWidth(spec.type.dtype);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const double flops, FlopsOfNetwork(network));
  constexpr double kMax = 9e18;  // of int64_t
  if (flops / 2 > kMax) {
    return absl::OutOfRangeError(absl::StrCat("network '", network.name(), "' takes ", flops / 2,
                                              " multiply-adds for one example, which is too many "
                                              "to count"));
  }
  size.multiply_adds = static_cast<int64_t>(flops / 2);
  return size;
}

}  // namespace penstock::nn
