#include "penstock/cli/training/moving_averages.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace penstock::cli {
namespace {

constexpr double kMostInitial = 0.1;

// The greatest momentum of batch normalization in the description of a network and of those within
// it; 0: it has none.
double GreatestMomentum(const nlohmann::ordered_json& json) {
  double greatest = 0;
  if (json.is_object() &&
      json.value("class_name", nlohmann::ordered_json()) == "BatchNormalization") {
    greatest = json.at("config").value("momentum", 0.0);
  }
  for (const auto& part : json) {
    if (part.is_structured()) greatest = std::max(greatest, GreatestMomentum(part));
  }
  return greatest;
}

}  // namespace

std::string MovingAveragesNote(const nn::Network& network, int64_t steps) {
  const double momentum = GreatestMomentum(network.ToJson());
  if (!(momentum > 0 && momentum < 1)) return "";
  const double initial = std::pow(momentum, static_cast<double>(steps));
  if (initial <= kMostInitial) return "";
  return absl::StrFormat(
      "note: after %d steps, the moving averages of batch normalization (momentum %g) still "
      "consist of their initial values by %.0f %%, so evaluation and prediction will be worse than "
      "the training's numbers; train for at least %d steps: more --epochs, or a smaller "
      "--batch-size",
      steps, momentum, 100 * initial,
      static_cast<int64_t>(std::ceil(std::log(kMostInitial) / std::log(momentum))));
}

}  // namespace penstock::cli
