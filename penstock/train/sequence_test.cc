// Sequence models learn tasks that require memory, with padding excluded by masks.
#include <algorithm>

#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace sequence_test {

using base::Array;
using base::DType;

constexpr int64_t kRows = 512, kSteps = 8, kTokens = 5;  // tokens are 1 to 4; 0 is padding

struct Sentences {
  Array ids = Array::Uninitialized(DType::kI32, {kRows, kSteps});
  Array first = Array::Uninitialized(DType::kI32, {kRows});             // token of each sentence
  Array previous = Array::Uninitialized(DType::kI32, {kRows, kSteps});  // token before each step
};
Sentences Make(uint32_t seed) {
  Sentences s;
  uint32_t state = seed;
  const auto draw = [&state](uint32_t n) {  // Numerical Recipes' linear congruential generator
    state = state * 1664525u + 1013904223u;
    return static_cast<int32_t>((state >> 16) % n);
  };
  for (int64_t row = 0; row < kRows; ++row) {
    int32_t* ids = s.ids.mutable_data<int32_t>() + row * kSteps;
    int32_t* previous = s.previous.mutable_data<int32_t>() + row * kSteps;
    const int64_t length = 3 + draw(kSteps - 2);
    for (int64_t i = 0; i < kSteps; ++i) {
      ids[i] = i < length ? 1 + draw(kTokens - 1) : 0;
      previous[i] = i >= length ? draw(kTokens) : i == 0 ? 0 : ids[i - 1];
    }
    s.first.mutable_data<int32_t>()[row] = ids[0];
  }
  return s;
}

absl::StatusOr<std::unique_ptr<Trainer>> Create(nn::Network network, Target target) {
  PENSTOCK_ASSIGN_OR_RETURN(auto strategy, Strategy::Create(runtime::TestClient(1), {}));
  return Trainer::Create({.objective = {.network = std::move(network),
                                        .targets = {std::move(target)},
                                        .optimizer = nn::Adam({.learning_rate = 0.02})},
                          .strategy = strategy,
                          .seed = 3});
}

nn::Symbol Embedded(const nn::Symbol& ids) {
  return nn::Embedding({.input_dim = kTokens, .output_dim = 8, .mask_zero = true})(ids);
}

TEST(Sequences, ClassifierLearnsFirstTokenDespitePadding) {
  const nn::Symbol ids = nn::Input({.shape = {kSteps}, .dtype = DType::kI32, .name = "ids"});
  const nn::Symbol y = nn::Dense({.units = kTokens})(nn::LSTM({.units = 16})(Embedded(ids)));
  auto trainer = Create(nn::Network({ids}, {y}),
                        {.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                         .metrics = {nn::Accuracy()}});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto data = [](uint32_t seed) {
    const Sentences s = Make(seed);
    return data::Dataset::FromArrays({{"ids", s.ids}, {"y", s.first}}).Batch(32);
  };
  ASSERT_TRUE((*trainer)->Fit(data(1), {.epochs = 12}).ok());
  const auto logs = (*trainer)->Evaluate(data(2));
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_GT(*logs->Get("accuracy"), 0.99);
}

// The labels of padding are deliberately wrong: the loss is small only if it ignores them.
TEST(Sequences, EveryStepLearnsPreviousTokenWithMaskedLoss) {
  const nn::Symbol ids = nn::Input({.shape = {kSteps}, .dtype = DType::kI32, .name = "ids"});
  const nn::Symbol h = nn::GRU({.units = 16, .return_sequences = true})(Embedded(ids));
  auto trainer = Create(nn::Network({ids}, {nn::Dense({.units = kTokens})(h)}),
                        {.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Sentences test = Make(2);
  const auto data = [](const Sentences& s) {
    return data::Dataset::FromArrays({{"ids", s.ids}, {"y", s.previous}}).Batch(32);
  };
  ASSERT_TRUE((*trainer)->Fit(data(Make(1)), {.epochs = 12}).ok());
  const auto logs = (*trainer)->Evaluate(data(test));
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_LT(*logs->Get("loss"), 0.1);
  const auto logits = (*trainer)->Predict(data(test));
  ASSERT_TRUE(logits.ok()) << logits.status();
  int64_t right = 0, real = 0;
  for (int64_t i = 0; i < kRows * kSteps; ++i) {
    if (test.ids.data<int32_t>()[i] == 0) continue;
    const float* scores = (*logits)[0].data<float>() + i * kTokens;
    ++real;
    right +=
        std::max_element(scores, scores + kTokens) - scores == test.previous.data<int32_t>()[i];
  }
  EXPECT_GT(static_cast<double>(right), 0.99 * static_cast<double>(real));
}

}  // namespace sequence_test
}  // namespace penstock::train
