// Compares the order of callback hooks with Keras.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/keras/keras.h"

#include "tests/python.h"

namespace penstock::tests::callbacks_test {
namespace {

using base::Array;
using base::DType;
using Hooks = std::vector<std::string>;

std::shared_ptr<keras::Callback> Recorder(Hooks& hooks) {
  const auto add = [&hooks](std::string name) {
    hooks.push_back(std::move(name));
    return absl::OkStatus();
  };
  using Training = train::TrainingContext;
  using Inference = train::InferenceContext;
  using train::Logs, train::Position;
  return keras::LambdaCallback(
      {.on_train_begin = [=](Training&) { return add("on_train_begin"); },
       .on_epoch_begin = [=](Training&, const Position&) { return add("on_epoch_begin"); },
       .on_train_batch_begin =
           [=](Training&, const Position& at) {
             return add(absl::StrCat("on_train_batch_begin ", at.step));
           },
       .on_train_batch_end =
           [=](Training&, const Position& at, const Logs&) {
             return add(absl::StrCat("on_train_batch_end ", at.step - 1));
           },
       .on_epoch_end = [=](Training&, const Position&, const Logs&) { return add("on_epoch_end"); },
       .on_train_end = [=](Training&) { return add("on_train_end"); },
       .on_test_begin = [=](Inference&) { return add("on_test_begin"); },
       .on_test_batch_begin =
           [=](Inference&, int64_t batch) {
             return add(absl::StrCat("on_test_batch_begin ", batch));
           },
       .on_test_batch_end =
           [=](Inference&, int64_t batch, const Logs&) {
             return add(absl::StrCat("on_test_batch_end ", batch));
           },
       .on_test_end = [=](Inference&, const Logs&) { return add("on_test_end"); },
       .on_predict_begin = [=](Inference&) { return add("on_predict_begin"); },
       .on_predict_batch_begin =
           [=](Inference&, int64_t batch) {
             return add(absl::StrCat("on_predict_batch_begin ", batch));
           },
       .on_predict_batch_end =
           [=](Inference&, int64_t batch, absl::Span<const Array>) {
             return add(absl::StrCat("on_predict_batch_end ", batch));
           },
       .on_predict_end = [=](Inference&) { return add("on_predict_end"); }});
}

Hooks Without(Hooks hooks, const std::string& part) {
  std::erase_if(hooks, [&](const std::string& hook) { return absl::StrContains(hook, part); });
  return hooks;
}

// A batch begins when it is dispatched, which may precede the end of an earlier one; in Keras,
// batches alternate. Otherwise the order is the same.
void ExpectKerasOrder(const Hooks& ours, const Hooks& theirs) {
  EXPECT_THAT(Without(ours, "_batch_begin"),
              ::testing::ElementsAreArray(Without(theirs, "_batch_begin")));
  EXPECT_THAT(Without(ours, "_batch_end"),
              ::testing::ElementsAreArray(Without(theirs, "_batch_end")));
}

TEST(Callbacks, AreCalledInTheOrderOfKeras) {
  const TemporaryFolder folder;
  const std::string path = folder / "hooks.json";
  const absl::Status recorded = RunPython("interop/keras_callbacks.py", {path});
  ASSERT_TRUE(recorded.ok()) << recorded;
  const nlohmann::json theirs = nlohmann::json::parse(std::ifstream(path));

  keras::Model model =
      keras::Sequential({keras::Input({.shape = {4}}), keras::Dense({.units = 3})});
  ASSERT_TRUE(model.Compile({.optimizer = "sgd", .loss = "mse"}).ok());
  const Array x = Array::Zeros(DType::kF32, {24, 4}), y = Array::Zeros(DType::kF32, {24, 3});
  Hooks fit, evaluate, predict;
  const auto history = model.Fit(x, y,
                                 {.batch_size = 8,
                                  .epochs = 2,
                                  .verbose = 0,
                                  .callbacks = {Recorder(fit)},
                                  .validation_data = {x.Slice(0, 16), y.Slice(0, 16)},
                                  .validation_batch_size = 8});
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_TRUE(model.Evaluate(x, y, {.batch_size = 8, .callbacks = {Recorder(evaluate)}}).ok());
  ASSERT_TRUE(model.Predict(x, {.batch_size = 8, .callbacks = {Recorder(predict)}}).ok());
  ExpectKerasOrder(fit, theirs["fit"]);
  ExpectKerasOrder(evaluate, theirs["evaluate"]);
  ExpectKerasOrder(predict, theirs["predict"]);
}

}  // namespace
}  // namespace penstock::tests::callbacks_test
