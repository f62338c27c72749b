// An estimator of the small model, and the fixture of tests that use one in a folder.
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/estimator/estimator.h"
#include "penstock/estimator/testing/small_model.h"

namespace penstock::estimator::testing {

inline Estimator SmallEstimator(const std::string& model_dir, RunConfig config = QuietConfig(),
                                Params params = {}, ModelFn model_fn = SmallModelFn) {
  return Estimator({.model_fn = std::move(model_fn),
                    .model_dir = model_dir,
                    .config = std::move(config),
                    .params = std::move(params)});
}

class SmallEstimatorTest : public ::testing::Test {
 protected:
  // An estimator in dir().
  Estimator Make(ModelFn model_fn = SmallModelFn, RunConfig config = QuietConfig()) const {
    return SmallEstimator(dir(), std::move(config), {}, std::move(model_fn));
  }
  // The message of a training; empty: it succeeded.
  static std::string TrainError(Estimator& estimator, const TrainOptions& options = {.steps = 1},
                                const InputFn& input = TrainBatches()) {
    return std::string(estimator.Train(input, options).message());
  }

  const std::string& folder() const { return folder_.path(); }
  std::string dir() const { return folder_.path() + "/run"; }  // does not exist at first
  std::string File(absl::string_view name) const { return absl::StrCat(dir(), "/", name); }
  int64_t Step() const { return Make().GetVariableValue("global_step")->item<int64_t>(); }

 private:
  const TemporaryFolder folder_;
};

}  // namespace penstock::estimator::testing
