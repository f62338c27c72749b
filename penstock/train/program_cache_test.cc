#include "penstock/train/program_cache.h"

#include "gtest/gtest.h"

#include "penstock/nn/optimizers.h"
#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/device_model.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace program_cache_test {

class Programs : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model =
        DeviceModel::Create({.objective = {.network = testing::SmallNet(),
                                           .targets = {{.loss = nn::SparseCategoricalCrossentropy(
                                                            {.from_logits = true})}},
                                           .optimizer = nn::SGD({.learning_rate = 0.1})},
                             .strategy = *Strategy::Create(client_, {})});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    compiled_before_ = client_->compiles();
  }

  static std::shared_ptr<const BatchTypes> Types(int64_t rows) {
    return std::make_shared<BatchTypes>(
        BatchTypes{.inputs = {{DType::kF32, {rows, 4}}}, .labels = {{DType::kI64, {rows}}}});
  }

  const std::shared_ptr<runtime::CountingClient> client_ =
      std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  std::unique_ptr<DeviceModel> model_;
  // Strategy compiles small programs itself.
  int Compiled() const { return client_->compiles() - compiled_before_; }

  const CallbackList none_{{}};
  int compiled_before_ = 0;
};

TEST_F(Programs, AreBoundUntilTheTypesChangeAndCompiledOnce) {
  BoundProgram step(model_->programs(), ProgramKind::kTrain);
  const auto eight = Types(8), four = Types(4);
  EXPECT_FALSE(step.IsBoundTo(eight));
  ASSERT_EQ(step.Bind(eight, {none_}), absl::OkStatus());
  EXPECT_TRUE(step.IsBoundTo(eight));
  EXPECT_FALSE(step.IsBoundTo(four));
  const runtime::Executable* const program = &step.executable();
  ASSERT_EQ(step.Bind(four, {none_}), absl::OkStatus());
  EXPECT_NE(&step.executable(), program);
  EXPECT_FALSE(step.IsBoundTo(eight));
  // Equal types from another feed use the same program.
  ASSERT_EQ(step.Bind(Types(8), {none_}), absl::OkStatus());
  EXPECT_EQ(&step.executable(), program);
  EXPECT_EQ(Compiled(), 2);
}

TEST_F(Programs, KeepTheirBindingAfterAnError) {
  BoundProgram step(model_->programs(), ProgramKind::kTrain);
  const auto good = Types(8);
  ASSERT_EQ(step.Bind(good, {none_}), absl::OkStatus());
  const auto bad = std::make_shared<BatchTypes>(
      BatchTypes{.inputs = {{DType::kF32, {8, 5}}}, .labels = {{DType::kI64, {8}}}});
  EXPECT_FALSE(step.Bind(bad, {none_}).ok());
  EXPECT_TRUE(step.IsBoundTo(good));
  EXPECT_FALSE(step.IsBoundTo(bad));
}

// Variables, their iteration, and metrics are donated; the learning rate, the RNG key, and "halted"
// are loop-invariant.
TEST_F(Programs, UpdateOnlyStateThatStepChanges) {
  BoundProgram step(model_->programs(), ProgramKind::kTrain);
  ASSERT_EQ(step.Bind(Types(8), {none_}), absl::OkStatus());
  const StateLayout& layout = model_->layout();
  std::vector<bool> updated(layout.size());
  for (const auto& [entry, result] : step.updates()) updated.at(entry) = true;
  for (int i = 0; i < layout.size(); ++i) {
    const bool invariant = i == layout.learning_rate || i == layout.key || i == layout.halted;
    EXPECT_EQ(updated[i], !invariant) << layout.entries[i].name;
  }
}

// A training looks up a program once per feed and compiles one program for all epochs.
TEST(TrainingLoop, CompilesOneProgramForAllEpochs) {
  const auto client = std::make_shared<runtime::CountingClient>(runtime::TestClient(1));
  auto trainer =
      Trainer::Create({.objective = {.network = testing::SmallNet(),
                                     .targets = {{.loss = nn::SparseCategoricalCrossentropy(
                                                      {.from_logits = true})}},
                                     .optimizer = nn::SGD({.learning_rate = 0.1})},
                       .strategy = *Strategy::Create(client, {})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const int before = client->compiles();
  const data::Dataset data = data::Dataset::FromArrays(testing::Points(20)).Batch(8);
  ASSERT_TRUE((*trainer)->Fit(data, {.epochs = 3}).ok());
  ASSERT_TRUE((*trainer)->Fit(data, {.epochs = 2}).ok());
  EXPECT_EQ(client->compiles() - before, 1);
}

}  // namespace program_cache_test
}  // namespace penstock::train
