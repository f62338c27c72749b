// Size of a network in numbers: its variables, and the cost of its forward pass.
//
//   const Network net({x}, {y});
//   PENSTOCK_ASSIGN_OR_RETURN(const NetworkSize size, SizeOf(net));
//   std::printf("%.1f million multiply-adds\n", static_cast<double>(size.multiply_adds) / 1e6);
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "penstock/nn/network.h"

namespace penstock::nn {

struct NetworkSize {
  int64_t parameters = 0;  // elements of all variables: Network::CountParameters
  int64_t bytes = 0;       // of all variables, in the types in which they are stored
  // Multiplications of matrix products and convolutions, each with its addition, to predict one
  // example. Other operations (activations, normalization, pooling) are not counted, as usual in
  // papers; neither are loops without a trip count.
  int64_t multiply_adds = 0;
};

// An error for a network that could not be built.
absl::StatusOr<NetworkSize> SizeOf(const Network& network);

}  // namespace penstock::nn
