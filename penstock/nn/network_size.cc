#include "penstock/nn/network_size.h"

#include <memory>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/flops.h"
#include "penstock/nn/inference_graph.h"

namespace penstock::nn {
namespace {

// FLOPs of predicting one example.
absl::StatusOr<double> FlopsOfNetwork(const Network& network) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Graph> graph, InferenceGraph(network, 1));
  return ir::Flops(*graph);
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
