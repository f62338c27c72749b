// Trainings on remote devices give the weights of local ones, bit for bit.
#include <gmock/gmock.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/nn/layers.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/trainer.h"

namespace penstock::remote {
namespace remote_training_test {

using base::Array;
using base::DType;
using testing::HasSubstr;

constexpr int64_t kImages = 64;

base::NamedArrays Images() {
  base::Random random(3);
  Array x = Array::Uninitialized(DType::kF32, {kImages, 6, 6, 2}),
        y = Array::Uninitialized(DType::kI64, {kImages});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(random.Uniform());
  }
  for (int64_t i = 0; i < kImages; ++i) y.mutable_data<int64_t>()[i] = i % 3;
  return {{"x", x}, {"y", y}};
}

data::Dataset Batches() { return data::Dataset::FromArrays(Images()).Shuffle(64).Batch(8); }

nn::Network ConvNet() {
  const nn::Symbol x = nn::Input({.shape = {6, 6, 2}, .name = "x"});
  nn::Symbol h = nn::Conv2D({.filters = 16, .kernel_size = 3, .padding = "same"})(x);
  h = nn::BatchNormalization({.momentum = 0.9})(h);
  h = nn::Activation({.activation = "relu"})(h);
  h = nn::Flatten()(h);
  return nn::Network({x}, {nn::Dense({.units = 3})(h)});
}

absl::StatusOr<std::unique_ptr<train::Trainer>> NewTrainer(std::shared_ptr<runtime::Client> client,
                                                           int replicas, int64_t steps) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Strategy strategy,
                            train::Strategy::Create(std::move(client), {.replicas = replicas}));
  return train::Trainer::Create(
      {.objective = {.network = ConvNet(),
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                  .metrics = {nn::Accuracy()}}},
                     .optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9})},
       .strategy = std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .steps_per_execution = steps,
       .seed = 7});
}

base::NamedArrays TrainedState(std::shared_ptr<runtime::Client> client, int replicas, int64_t steps,
                               const train::FitOptions& fit = {.epochs = 2}) {
  const auto trainer = NewTrainer(std::move(client), replicas, steps);
  PENSTOCK_CHECK_OK(trainer);
  const auto history = (*trainer)->Fit(Batches(), fit);
  PENSTOCK_CHECK_OK(history);
  return *(*trainer)->State();
}

void ExpectEqual(const base::NamedArrays& a, const base::NamedArrays& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, array] : a) {
    EXPECT_TRUE(base::BitwiseEqual(array, *b.Find(name))) << name;
  }
}

TEST(RemoteTraining, EqualsLocalTraining) {
  for (const int replicas : {1, 2}) {
    const auto local = runtime::TestClient(replicas);
    const auto remote = OpenInProcess(local);
    PENSTOCK_CHECK_OK(remote);
    for (const int64_t steps : {1, 8}) {
      SCOPED_TRACE(absl::StrCat(replicas, " replicas, ", steps, " steps per execution"));
      ExpectEqual(TrainedState(local, replicas, steps), TrainedState(*remote, replicas, steps));
    }
  }
}

TEST(RemoteTraining, UsesTheKernelsOfTheWorker) {
  const auto local = runtime::TestClient(1);
  const auto remote = OpenInProcess(local);
  PENSTOCK_CHECK_OK(remote);
  EXPECT_EQ(kernels::Lowering::For(**remote).uses_kernels(),
            kernels::Lowering::For(*local).uses_kernels());
}

// Closes the session's links before a step of the training, as if the worker had been killed.
class LoseWorkerAt : public train::Callback {
 public:
  LoseWorkerAt(SessionLinks** links, std::vector<int64_t> steps)
      : links_(links), steps_(std::move(steps)) {}
  absl::Status BatchBegin(train::TrainingContext&, const train::Position& position) override {
    if (steps_.empty() || position.total_steps < steps_.front()) return absl::OkStatus();
    steps_.erase(steps_.begin());
    (*links_)->control().Close(absl::DataLossError("the worker was killed"));
    (*links_)->bulk().Close(absl::DataLossError("the worker was killed"));
    return absl::OkStatus();
  }

 private:
  SessionLinks** const links_;
  std::vector<int64_t> steps_;
};

class LostWorker : public testing::Test {
 protected:
  // A client whose session's links are in links_.
  std::shared_ptr<runtime::Client> Open() {
    const auto client =
        DeviceClient::Open([this, connect = InProcessConnector(runtime::TestClient(1))](
                               const DeviceClient::Receivers& receivers)
                               -> absl::StatusOr<std::unique_ptr<SessionLinks>> {
          auto links = connect(receivers);
          if (links.ok()) links_ = links->get();
          return links;
        });
    PENSTOCK_CHECK_OK(client);
    return *client;
  }
  SessionLinks* links_ = nullptr;
};

TEST_F(LostWorker, TrainingGoesOnFromItsCheckpointWithEqualResult) {
  const auto undisturbed = TrainedState(runtime::TestClient(1), 1, 1, {.epochs = 3});
  for (const std::vector<int64_t>& steps :
       {std::vector<int64_t>{0}, {1, 2}, {5}, {7, 8, 9}, {8, 16}, {23}}) {
    SCOPED_TRACE(steps[0]);
    const std::string folder =
        absl::StrCat(testing::TempDir(), "/lost_worker_", getpid(), "_", base::EntropySeed());
    train::FitOptions fit{.epochs = 3};
    fit.callbacks = {std::make_shared<LoseWorkerAt>(&links_, steps),
                     train::Checkpoint({.folder = folder, .every_steps = 3})};
    ExpectEqual(undisturbed, TrainedState(Open(), 1, 1, fit));
  }
}

TEST_F(LostWorker, TrainingWithoutCheckpointBeginsAgain) {
  train::FitOptions fit{.epochs = 2};
  fit.callbacks = {std::make_shared<LoseWorkerAt>(&links_, std::vector<int64_t>{6})};
  ExpectEqual(TrainedState(runtime::TestClient(1), 1, 1), TrainedState(Open(), 1, 1, fit));
}

TEST_F(LostWorker, FitReturnsTheLossAfterTheLimit) {
  const auto trainer = NewTrainer(Open(), 1, 1);
  PENSTOCK_CHECK_OK(trainer);
  train::FitOptions fit{.epochs = 2, .max_device_losses = 1};
  fit.callbacks = {std::make_shared<LoseWorkerAt>(&links_, std::vector<int64_t>{2, 3})};
  const absl::Status status = (*trainer)->Fit(Batches(), fit).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("the worker was killed"), HasSubstr("max_device_losses")));
}

TEST_F(LostWorker, BuffersReturnTheReasonAndReopenedClientWorks) {
  const auto client = Open();
  EXPECT_TRUE(absl::IsAlreadyExists(client->Reopen()));
  const Array one = Array::Scalar(1.f);
  const auto lost = client->Put(one, client->devices()[0]);
  PENSTOCK_CHECK_OK(lost);
  links_->control().Close(absl::DataLossError("the worker was killed"));
  const absl::Status status = lost->Await();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the worker was killed"));
  EXPECT_FALSE(lost->Get().ok());
  EXPECT_FALSE(client->Put(one, client->devices()[0]).ok());
  PENSTOCK_CHECK_OK(client->Reopen());
  const auto again = client->Put(one, client->devices()[0]);
  PENSTOCK_CHECK_OK(again);
  EXPECT_EQ(again->Get()->item<float>(), 1.f);
  EXPECT_TRUE(absl::IsDataLoss(lost->Await()));
}

}  // namespace remote_training_test
}  // namespace penstock::remote
