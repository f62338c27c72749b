#include "tests/remote/small_training.h"

#include <utility>

#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/nn/layers.h"

namespace penstock::tests {
namespace {

using base::Array;
using base::DType;

constexpr int64_t kRows = 64, kBatch = 8;

data::Dataset Batches() {
  base::Random random(3);
  Array x = Array::Uninitialized(DType::kF32, {kRows, 12}),
        y = Array::Uninitialized(DType::kI64, {kRows});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(random.Uniform());
  }
  for (int64_t i = 0; i < kRows; ++i) y.mutable_data<int64_t>()[i] = i % 3;
  return data::Dataset::FromArrays({{"x", x}, {"y", y}}).Shuffle(kRows).Batch(kBatch);
}

}  // namespace

base::NamedArrays TrainSmall(std::shared_ptr<runtime::Client> client,
                             const train::FitOptions& options) {
  if (client == nullptr) return {};
  const nn::Symbol x = nn::Input({.shape = {12}, .name = "x"});
  nn::Symbol h = nn::Dense({.units = 16, .activation = "relu"})(x);
  h = nn::Dropout({.rate = 0.3})(h);
  h = nn::BatchNormalization({.momentum = 0.9})(h);
  auto strategy = train::Strategy::Create(std::move(client), {.replicas = 1});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  if (!strategy.ok()) return {};
  auto trainer = train::Trainer::Create(
      {.objective = {.network = nn::Network({x}, {nn::Dense({.units = 3})(h)}),
                     .targets = {{.loss =
                                      nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                     .optimizer = nn::Adam({.learning_rate = 0.01})},
       .strategy = *std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .seed = 7});
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (!trainer.ok()) return {};
  const auto history = (*trainer)->Fit(Batches(), options);
  EXPECT_TRUE(history.ok()) << history.status();
  auto state = (*trainer)->State();
  EXPECT_TRUE(state.ok()) << state.status();
  return state.value_or(base::NamedArrays());
}

void ExpectSameState(const base::NamedArrays& expected, const base::NamedArrays& state) {
  ASSERT_GT(expected.size(), 0u);
  ASSERT_EQ(state.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_NE(state.Find(name), nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(value, *state.Find(name))) << name;
  }
}

}  // namespace penstock::tests
