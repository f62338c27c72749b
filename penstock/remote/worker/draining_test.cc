// Trainings whose worker announces that it ends.
#include <cstdlib>
#include <filesystem>
#include <future>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/nn/layers.h"
#include "penstock/remote/client.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/trainer.h"

namespace penstock::remote {
namespace draining_test {
namespace {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kRows = 32, kBatch = 4;

data::Dataset Batches() {
  base::Random random(3);
  Array x = Array::Uninitialized(DType::kF32, {kRows, 6}),
        y = Array::Uninitialized(DType::kI64, {kRows});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(random.Uniform());
  }
  for (int64_t i = 0; i < kRows; ++i) y.mutable_data<int64_t>()[i] = i % 3;
  return data::Dataset::FromArrays({{"x", x}, {"y", y}}).Shuffle(kRows).Batch(kBatch);
}

std::unique_ptr<train::Trainer> NewTrainer(std::shared_ptr<runtime::Client> client) {
  auto strategy = train::Strategy::Create(std::move(client), {.replicas = 1});
  PENSTOCK_CHECK_OK(strategy);
  const nn::Symbol x = nn::Input({.shape = {6}, .name = "x"});
  auto trainer = train::Trainer::Create(
      {.objective = {.network = nn::Network({x}, {nn::Dense({.units = 3})(x)}),
                     .targets = {{.loss =
                                      nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                     .optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9})},
       .strategy = *std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .seed = 7});
  PENSTOCK_CHECK_OK(trainer);
  return *std::move(trainer);
}

base::NamedArrays Undisturbed() {
  const auto trainer = NewTrainer(runtime::TestClient(1));
  PENSTOCK_CHECK_OK(trainer->Fit(Batches(), {.epochs = 2}));
  return *trainer->State();
}

void ExpectEqual(const base::NamedArrays& a, const base::NamedArrays& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, array] : a) {
    EXPECT_TRUE(base::BitwiseEqual(array, *b.Find(name))) << name;
  }
}

class DrainingTest : public testing::Test {
 protected:
  DrainingTest() {
    std::string pattern = testing::TempDir() + "draining_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    Start("127.0.0.1:0");
    address_ = worker_->address();
    auto client = OpenRemoteClient({.address = absl::StrCat("grpc://", address_)});
    PENSTOCK_CHECK_OK(client);
    client_ = *client;
  }
  ~DrainingTest() override {
    client_ = nullptr;
    worker_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  void Start(const std::string& listen) {
    auto worker = Worker::Start({.listen = listen,
                                 .client = runtime::TestClient(1),
                                 .drain_seconds = 3000,
                                 .log_to_stderr = false,
                                 .metadata_host = "off"});
    PENSTOCK_CHECK_OK(worker);
    worker_ = *std::move(worker);
  }
  std::shared_ptr<train::Callback> Checkpoints(bool resume = true) const {
    return train::Checkpoint({.folder = folder_, .resume = resume});
  }

  std::string folder_, address_;
  std::unique_ptr<Worker> worker_;
  std::shared_ptr<runtime::Client> client_;
};

// Calls `drain` before a step, once, and goes on when the client has been told.
class DrainAt : public train::Callback {
 public:
  DrainAt(int64_t step, runtime::Client& client, std::function<void()> drain)
      : step_(step), client_(client), drain_(std::move(drain)) {}
  absl::Status BatchBegin(train::TrainingContext&, const train::Position& position) override {
    if (position.total_steps != step_ || drain_ == nullptr) return absl::OkStatus();
    std::exchange(drain_, nullptr)();
    // The answer comes after the notice.
    PENSTOCK_ASSIGN_OR_RETURN(const runtime::Buffer buffer,
                              client_.Put(Array::Scalar(1.f), client_.devices()[0]));
    PENSTOCK_RETURN_IF_ERROR(buffer.Get().status());
    EXPECT_EQ(client_.Draining(), "the worker ends in 3000 s (SIGTERM)");
    return absl::OkStatus();
  }
  void Note(absl::string_view text) override { absl::StrAppend(&notes_, text, "\n"); }
  bool ShowsNotes() const override { return true; }
  const std::string& notes() const { return notes_; }

 private:
  const int64_t step_;
  runtime::Client& client_;
  std::function<void()> drain_;
  std::string notes_;
};

// The second call of Fit must not give up the devices, and with them what the first has trained.
TEST_F(DrainingTest, KeepsTheStateWhenFitIsCalledAgain) {
  const auto trainer = NewTrainer(client_);
  ASSERT_TRUE(trainer->Fit(Batches(), {.epochs = 1}).ok());
  worker_->Drain("SIGTERM");
  ASSERT_TRUE(client_->Put(Array::Scalar(1.f), client_->devices()[0])->Get().ok());
  ASSERT_NE(client_->Draining(), std::nullopt);
  const auto history = trainer->Fit(Batches(), {.epochs = 2, .initial_epoch = 1});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_TRUE(history->interrupted);
  const auto state = trainer->State();
  EXPECT_TRUE(state.ok()) << state.status();
}

TEST_F(DrainingTest, InterruptsATrainingThatSavesNothing) {
  EXPECT_EQ(client_->Draining(), std::nullopt);
  const auto trainer = NewTrainer(client_);
  const auto history = trainer->Fit(
      Batches(),
      {.epochs = 2,
       .callbacks = {std::make_shared<DrainAt>(3, *client_, [&] { worker_->Drain("SIGTERM"); })}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_TRUE(history->interrupted);
  EXPECT_EQ(history->stop_reason, "the worker ends in 3000 s (SIGTERM)");
  EXPECT_EQ(trainer->State().status(), absl::OkStatus()) << "the weights can still be read";
}

TEST_F(DrainingTest, WithoutPreemptionsLeftATrainingSavesAndIsResumedByTheNextFit) {
  {
    const auto history = NewTrainer(client_)->Fit(
        Batches(),
        {.epochs = 2,
         .callbacks = {std::make_shared<DrainAt>(3, *client_, [&] { worker_->Drain("SIGTERM"); }),
                       Checkpoints()},
         .max_preemptions = 0});
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_TRUE(history->interrupted);
    EXPECT_THAT(history->stop_reason,
                AllOf(StartsWith("the worker ends in 3000 s (SIGTERM); the checkpoint of step "),
                      HasSubstr(folder_)));
  }
  const auto trainer = NewTrainer(runtime::TestClient(1));
  const auto history = trainer->Fit(Batches(), {.epochs = 2, .callbacks = {Checkpoints()}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_FALSE(history->interrupted);
  ExpectEqual(Undisturbed(), *trainer->State());
}

class DrainedTrainingTest : public DrainingTest, public testing::WithParamInterface<bool> {};
// `resume` false: no checkpoint of an earlier Fit is used; this one goes on from its own.
INSTANTIATE_TEST_SUITE_P(Resume, DrainedTrainingTest, testing::Bool());

TEST_P(DrainedTrainingTest, LetsTheWorkerEndWaitsForItAndGoesOn) {
  std::future<void> restarted;
  const auto drain = std::make_shared<DrainAt>(3, *client_, [&] {
    worker_->Drain("SIGTERM");
    restarted = std::async(std::launch::async, [&] {
      worker_->Wait();  // until the training has saved and given the devices up
      worker_ = nullptr;
      Start(address_);
    });
  });
  const auto trainer = NewTrainer(client_);
  const auto history =
      trainer->Fit(Batches(), {.epochs = 2, .callbacks = {drain, Checkpoints(GetParam())}});
  restarted.get();
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_FALSE(history->interrupted) << history->stop_reason;
  EXPECT_THAT(drain->notes(), AllOf(HasSubstr("the worker ends in 3000 s (SIGTERM)"),
                                    HasSubstr("are back"), HasSubstr("max_preemptions: 1")));
  EXPECT_EQ(client_->Draining(), std::nullopt);
  ExpectEqual(Undisturbed(), *trainer->State());
  // Those are now of an earlier Fit.
  EXPECT_EQ(trainer->Fit(Batches(), {.epochs = 3, .callbacks = {Checkpoints(GetParam())}}).ok(),
            GetParam());
}

}  // namespace
}  // namespace draining_test
}  // namespace penstock::remote
