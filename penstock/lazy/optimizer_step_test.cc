// Training in spawn: gradients are averaged over replicas.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/lazy/data/parallel_loader.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/nn/containers.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/optim/optimizers.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xmp.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy {
namespace optimizer_step_test {
namespace {

namespace data = utils::data;

constexpr int64_t kExamples = 32, kFeatures = 3;

data::DatasetPtr Examples() {
  Array x = Array::Uninitialized(DType::kF32, {kExamples, kFeatures});
  Array y = Array::Uninitialized(DType::kF32, {kExamples, 1});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = std::sin(static_cast<float>(i));
  }
  for (int64_t i = 0; i < kExamples; ++i) {
    y.mutable_data<float>()[i] = std::cos(static_cast<float>(i) / 3);
  }
  return *data::TensorDataset({{"x", x}, {"y", y}});
}

nn::Sequential Net() {
  return nn::Sequential({nn::Linear(kFeatures, 4), nn::Tanh(), nn::Linear(4, 1)});
}

// Trains two epochs on this thread's device, batches of `batch` of this ordinal's examples; returns
// the weights.
absl::StatusOr<base::NamedArrays> Train(nn::Sequential model, int64_t batch, bool barrier) {
  PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
  optim::SGD optimizer(model->parameters(), {.lr = 0.3, .momentum = 0.9});
  const auto sampler = std::make_shared<data::DistributedSampler>(
      kExamples, data::DistributedSamplerOptions{.shuffle = false});
  data::DataLoader loader(Examples(), {.batch_size = batch, .sampler = sampler});
  pl::MpDeviceLoader batches(loader, device);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const pl::TensorBatch& each : batches) {
      optimizer.zero_grad();
      nn::functional::mse_loss(model(each["x"]), each["y"]).backward();
      PENSTOCK_RETURN_IF_ERROR(xm::optimizer_step(optimizer, barrier));
    }
    PENSTOCK_RETURN_IF_ERROR(batches.status());
  }
  return model->state_arrays();
}

class TrainingTest : public testing::Test {
 protected:
  // Of one thread with the whole batches.
  absl::StatusOr<base::NamedArrays> Alone() {
    base::NamedArrays weights;
    PENSTOCK_RETURN_IF_ERROR(xmp::spawn(
        [&](int) -> absl::Status {
          PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
          PENSTOCK_ASSIGN_OR_RETURN(nn::Sequential model, model_.to(device));
          PENSTOCK_ASSIGN_OR_RETURN(weights, Train(model, 16, false));
          return absl::OkStatus();
        },
        {.nprocs = 1, .client = runtime::TestClient(8)}));
    return weights;
  }
  xmp::MpModelWrapper<nn::Sequential (*)()> model_{Net};
};

TEST_F(TrainingTest, EightReplicasTrainLikeOneWithTheWholeBatch) {
  const auto alone = Alone();
  ASSERT_TRUE(alone.ok()) << alone.status();
  std::vector<base::NamedArrays> weights(8);
  for (const bool barrier : {false, true}) {
    const absl::Status status = xmp::spawn(
        [&](int index) -> absl::Status {
          PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
          PENSTOCK_ASSIGN_OR_RETURN(nn::Sequential model, model_.to(device));
          PENSTOCK_ASSIGN_OR_RETURN(weights[index], Train(model, 2, barrier));
          return absl::OkStatus();
        },
        {.nprocs = 8, .client = runtime::TestClient(8), .timeout_seconds = 3600});
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& [name, want] : *alone) {
      for (const base::NamedArrays& replica : weights) {
        const Array& got = *replica.Find(name);
        EXPECT_TRUE(base::BitwiseEqual(got, *weights[0].Find(name))) << name;
        for (int64_t i = 0; i < want.num_elements(); ++i) {
          EXPECT_NEAR(got.data<float>()[i], want.data<float>()[i], 2e-6) << name;
        }
      }
    }
  }
}

// A recorded step that was seen before costs no compile, on any ordinal.
TEST_F(TrainingTest, ProgramsAreCompiledOnceForAllReplicas) {
  met::clear_all();
  const absl::Status status = xmp::spawn(
      [&](int) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        PENSTOCK_ASSIGN_OR_RETURN(nn::Sequential model, model_.to(device));
        return Train(model, 1, false).status();
      },
      {.nprocs = 8, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  ASSERT_TRUE(status.ok()) << status;
  // The first step makes the momenta; the others are one program.
  EXPECT_LE(met::counter_value("UncachedCompile").value_or(0), 3) << met::metrics_report();
}

TEST_F(TrainingTest, AnOrdinalWithAnotherModelIsAnErrorThatShowsTheDifference) {
  const absl::Status status = xmp::spawn(
      [&](int index) -> absl::Status {
        nn::Sequential model = index == 1 ? nn::Sequential({nn::Linear(kFeatures, 1)}) : Net();
        return Train(model, 4, true).status();
      },
      {.nprocs = 2, .client = runtime::TestClient(8), .timeout_seconds = 3600});
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("ordinal 0 waits in mark_step"),
                             testing::HasSubstr("ordinal 1 waits in mark_step"),
                             testing::HasSubstr("first difference")));
}

}  // namespace
}  // namespace optimizer_step_test
}  // namespace penstock::lazy
