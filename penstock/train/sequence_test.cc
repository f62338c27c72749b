// Models of sequences learn what only memory can tell, with padding that masks keep out.
#include <cmath>

#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace {

using base::Array;
using base::DType;

constexpr int64_t kRows = 512, kSteps = 8, kTokens = 5;  // tokens are 1 to 4, 0 is padding

struct Sentences {
  Array ids = Array::Uninitialized(DType::kI32, {kRows, kSteps});
  Array first = Array::Uninitialized(DType::kI32, {kRows});            // token, of each sentence
  Array previous = Array::Uninitialized(DType::kI32, {kRows, kSteps});  // token, of each step
};
Sentences Make(uint32_t seed) {
  Sentences s;
  uint32_t state = seed;
  const auto draw = [&state](uint32_t n) {  // Numerical Recipes' generator
    state = state * 1664525u + 1013904223u;
    return static_cast<int32_t>((state >> 16) % n);
  };
  for (int64_t row = 0; row < kRows; ++row) {
    int32_t* ids = s.ids.mutable_data<int32_t>() + row * kSteps;
    int32_t* previous = s.previous.mutable_data<int32_t>() + row * kSteps;
    const int64_t length = 3 + draw(kSteps - 2);
    for (int64_t i = 0; i < kSteps; ++i) {
      ids[i] = i < length ? 1 + draw(kTokens - 1) : 0;
      previous[i] = i == 0 || i >= length ? 0 : ids[i - 1];
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

TEST(Sequences, AClassifierRemembersTheFirstTokenThroughThePadding) {
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

// Takes logits, labels: adds the crossentropy of the steps that the logits' mask leaves.
nn::Layer MaskedLoss() {
  return nn::Lambda([](nn::CallContext& ctx, const nn::Values& in) -> nn::Outputs {
    const ir::Value mask = ctx.input_mask(0);
    if (!mask.valid()) return ctx.Fail("there is no mask");
    const ir::Value real = ir::Convert(mask, DType::kF32);
    const ir::Value each = -ir::ReduceSum(
        ir::LogSoftmax(in[0]) * ir::OneHot(in[1], kTokens, DType::kF32), {-1});
    ctx.AddLoss(ir::ReduceSum(each * real) / ir::ReduceSum(real));
    // How many steps are right, of those that are real.
    const ir::Value right = ir::Convert(ir::Equal(ir::ArgMax(in[0], -1), in[1]), DType::kF32);
    return ir::ReduceSum(right * real, {1}, true) / ir::ReduceSum(real, {1}, true);
  });
}

TEST(Sequences, EveryStepNamesThePreviousTokenWithAMaskedLoss) {
  const nn::Symbol ids = nn::Input({.shape = {kSteps}, .dtype = DType::kI32, .name = "ids"});
  const nn::Symbol previous =
      nn::Input({.shape = {kSteps}, .dtype = DType::kI32, .name = "previous"});
  const nn::Symbol h = nn::GRU({.units = 16, .return_sequences = true})(Embedded(ids));
  const nn::Symbol logits = nn::TimeDistributed(nn::Dense({.units = kTokens}))(h);
  const nn::Symbol accuracy = MaskedLoss()({logits, previous});
  auto trainer = Create(nn::Network({ids, previous}, {accuracy}),
                        {.loss = nn::MeanSquaredError(), .weight = 0});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto data = [](uint32_t seed) {
    const Sentences s = Make(seed);
    const std::vector<float> zeros(kRows);
    return data::Dataset::FromArrays({{"ids", s.ids},
                                      {"previous", s.previous},
                                      {"y", Array::Of<float>({kRows, 1}, zeros)}})
        .Batch(32);
  };
  ASSERT_TRUE((*trainer)->Fit(data(1), {.epochs = 10}).ok());
  const auto predictions = (*trainer)->Predict(data(2));
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  double sum = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    sum += (*predictions)[0].data<float>()[i];
  }
  EXPECT_GT(sum / kRows, 0.99);
}

}  // namespace
}  // namespace penstock::train
