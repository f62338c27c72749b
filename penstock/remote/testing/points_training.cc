#include "penstock/remote/testing/points_training.h"

#include <utility>

#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::remote {

using base::DType;
using base::NamedArrays;
using data::Dataset;

void WritePoints(const std::string& uri, int64_t rows, bool corrupt) {
  const NamedArrays points = train::testing::Points(rows);
  auto writer = *record::TfRecordWriter::Create(*io::FileSystem::Default(), uri);
  for (int64_t i = 0; i < rows; ++i) {
    record::ExampleBuilder example;
    example.SetFloatList("x", {points.Find("x")->data<float>() + 4 * i, 4});
    example.SetInt64("y", points.Find("y")->data<int64_t>()[i]);
    ASSERT_TRUE(writer->Append(corrupt && i == 5 ? "no example" : example.Serialize()).ok());
  }
  const absl::Status closed = writer->Close();
  ASSERT_TRUE(closed.ok()) << closed;
}

Dataset ParsedPoints(const std::string& uri) {
  return Dataset::FromTfRecords({uri}).ParseExample(
      {.features = {{.name = "x", .dtype = DType::kF32, .shape = {4}},
                    {.name = "y", .dtype = DType::kI64}}});
}

Dataset PointsBatches(const std::string& uri) {
  return Dataset::FromTfRecords({uri})
      .Shuffle(16)
      .ParseExample({.features = {{.name = "x", .dtype = DType::kF32, .shape = {4}},
                                  {.name = "y", .dtype = DType::kI64}}})
      .Batch(8);
}

std::unique_ptr<train::Trainer> MakePointsTrainer(std::shared_ptr<runtime::Client> client,
                                                  const PointsTrainerOptions& options) {
  return *train::Trainer::Create(
      {.objective = {.network = train::testing::SmallNet(),
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                  .metrics = {nn::Accuracy()}}},
                     .optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9})},
       .strategy = *train::Strategy::Create(std::move(client), {.replicas = options.replicas}),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .steps_per_execution = options.steps_per_execution,
       .seed = 7});
}

absl::StatusOr<std::shared_ptr<runtime::Client>> SessionLoss::Open() {
  return DeviceClient::Open([this, connect = InProcessConnector(runtime::TestClient(1))](
                                const DeviceClient::Receivers& receivers)
                                -> absl::StatusOr<std::unique_ptr<SessionLinks>> {
    PENSTOCK_ASSIGN_OR_RETURN(auto opened, connect(receivers));
    links_ = opened.get();
    return opened;
  });
}

std::shared_ptr<train::Callback> SessionLoss::AfterStep(int64_t step) {
  return train::LambdaCallback(
      {.on_train_batch_end = [this, step](train::TrainingContext&, const train::Position& at,
                                          const train::Logs&) {
        if (at.total_steps >= step && !std::exchange(happened_, true)) {
          links_->control().Close(absl::DataLossError("the worker was killed"));
          links_->bulk().Close(absl::DataLossError("the worker was killed"));
        }
        return absl::OkStatus();
      }});
}

void ExpectSameWeights(train::Trainer& a, train::Trainer& b) {
  const NamedArrays want = *a.Weights(), got = *b.Weights();
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, array] : want) {
    ASSERT_NE(got.Find(name), nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(*got.Find(name), array)) << name;
  }
}

}  // namespace penstock::remote
