#include "penstock/cli/find_learning_rate.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/report/learning_rate_plot.h"
#include "penstock/io/file_system.h"
#include "penstock/io/write_check.h"
#include "penstock/keras/learning_rate_finder.h"

namespace penstock::cli {
namespace {

nlohmann::ordered_json CurveJson(const keras::LearningRateCurve& curve) {
  nlohmann::ordered_json json;
  json["proposed_learning_rate"] =
      curve.proposed.has_value() ? nlohmann::ordered_json(*curve.proposed) : nullptr;
  json["diverged"] = curve.diverged;
  json["curve"] = nlohmann::ordered_json::array();
  for (const keras::LearningRatePoint& point : curve.points) {
    json["curve"].push_back(
        {{"learning_rate", point.rate}, {"loss", point.loss}, {"smoothed_loss", point.smoothed}});
  }
  return json;
}

}  // namespace

void FindLearningRateFlags::Describe(Options& options) {
  options.AddFlag(
      "--find-learning-rate", find,
      "Do not train: raise the learning rate from 1e-7 to 10 over 100 batches, draw the "
      "loss over the rate, and propose a rate for --learning-rate. Saves no model and "
      "no checkpoint");
  options.Add("--learning-rate-curve", curve, "SVG file for the curve of --find-learning-rate")
      .Needs("--find-learning-rate");
}

absl::Status FindLearningRateFlags::CheckDestination() const {
  if (curve.empty()) return absl::OkStatus();
  return base::WithContext(io::CheckWritableText(*io::FileSystem::Default(), curve),
                           "--learning-rate-curve");
}

absl::Status FindLearningRateFlags::Run(const TrainingSetup& setup, uint64_t seed,
                                        bool json) const {
  PENSTOCK_ASSIGN_OR_RETURN(const keras::LearningRateCurve found,
                            keras::FindLearningRate(setup.model, setup.dataset, {.seed = seed}));
  if (!curve.empty()) {
    PENSTOCK_RETURN_IF_ERROR(
        io::WriteFile(*io::FileSystem::Default(), curve, LearningRateSvg(found)));
  }
  if (json) {
    PrintJson(CurveJson(found));
    return absl::OkStatus();
  }
  std::printf("%s", LearningRateText(found).c_str());
  if (found.proposed.has_value()) {
    std::printf("proposed: --learning-rate %.2g\n", *found.proposed);
  } else {
    std::printf("no rate is proposed: the loss falls at no rate; check labels and preprocessing\n");
  }
  return absl::OkStatus();
}

}  // namespace penstock::cli
