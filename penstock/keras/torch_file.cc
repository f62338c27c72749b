#include "penstock/keras/torch_file.h"

#include "penstock/base/status.h"
#include "penstock/models/torch_weights.h"

namespace penstock::keras {

absl::Status UseTorchNames(const nn::Network& network, bool partial, save::Weights& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const models::MatchedWeights matched,
                            models::MatchWeights(network, file.arrays));
  if (!matched.is_torch()) return absl::OkStatus();
  if (!partial && !matched.complete()) return absl::InvalidArgumentError(matched.ToString());
  file.arrays = matched.arrays;
  for (const auto& [name, array] : matched.others) file.arrays.Append(name, array);
  return absl::OkStatus();
}

}  // namespace penstock::keras
