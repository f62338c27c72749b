// Estimators whose model_dir is the worker's (RunConfig::checkpoint_place).
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/estimator.h"
#include "penstock/estimator/testing/small_model.h"
#include "penstock/estimator/train_and_evaluate.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/train/saver.h"

#include "tests/remote/processes.h"

namespace penstock::tests {
namespace {

using estimator::CheckpointPlace;
using estimator::Estimator;
using ::testing::AllOf;
using ::testing::HasSubstr;

estimator::RunConfig ConfigFor(const std::string& address, CheckpointPlace place) {
  estimator::RunConfig config = estimator::testing::QuietConfig();
  config.master = address;
  config.checkpoint_place = place;
  config.save_checkpoints_steps = 2;
  config.keep_checkpoint_max = 2;
  config.save_summary_steps = 2;
  return config;
}

estimator::EstimatorOptions OptionsFor(const std::string& folder,
                                       const estimator::RunConfig& config) {
  return {.model_fn = estimator::testing::SmallModelFn,
          .model_dir = folder,
          .config = config,
          .params = {{"units", 8}, {"dropout", 0.3}}};
}

class EstimatorCheckpointsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("GCE_METADATA_HOST", "off", 1); }

  // A worker in this process that writes below there().
  void Start(bool share = false, int devices = 1) {
    auto worker = remote::Worker::Start({.listen = "127.0.0.1:0",
                                         .client = runtime::TestClient(devices),
                                         .share = share,
                                         .readable = {there() + "/given/"},
                                         .writable = {there() + "/runs/"},
                                         .log_to_stderr = false,
                                         .metadata_host = "off"});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    address_ = absl::StrCat("grpc://", worker_->address());
  }
  const std::string& there() const { return folder_.path(); }
  std::string run() const { return there() + "/runs/a"; }

  std::unique_ptr<Estimator> Make(const std::string& folder, CheckpointPlace place) const {
    return std::make_unique<Estimator>(OptionsFor(folder, ConfigFor(address_, place)));
  }

  // The bytes of the files of checkpoints and positions, by name.
  static std::map<std::string, std::string> Checkpoints(const std::string& folder) {
    std::map<std::string, std::string> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (!absl::StartsWith(name, "model.ckpt")) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      files[name] = {(std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()};
    }
    return files;
  }
  static std::vector<std::string> EventFiles(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (absl::StrContains(entry.path().filename().string(), "tfevents")) {
        names.push_back(entry.path().string());
      }
    }
    return names;
  }
  // `more`: at most this number of files that only `b` has.
  static void ExpectSame(const std::map<std::string, std::string>& a,
                         const std::map<std::string, std::string>& b, size_t more = 0) {
    ASSERT_GE(a.size(), 6u);
    ASSERT_GE(b.size(), a.size());
    ASSERT_LE(b.size(), a.size() + more);
    for (const auto& [name, bytes] : a) {
      ASSERT_TRUE(b.count(name) > 0) << name;
      EXPECT_TRUE(b.at(name) == bytes) << name;
    }
  }

  estimator::testing::TemporaryFolder folder_;
  std::unique_ptr<remote::Worker> worker_;
  std::string address_;
};

TEST_F(EstimatorCheckpointsTest, FilesAreThoseOfTheClientAndEitherPlaceResumes) {
  Start();
  const estimator::testing::TemporaryFolder here;
  const auto train = [&](const std::string& folder, CheckpointPlace place, int64_t steps) {
    EXPECT_EQ(Make(folder, place)->Train(estimator::testing::TrainBatches(), {.max_steps = steps}),
              absl::OkStatus());
  };
  train(here.path(), CheckpointPlace::kClient, 9);
  train(run(), CheckpointPlace::kWorker, 4);
  train(run(), CheckpointPlace::kClient, 6);
  train(run(), CheckpointPlace::kWorker, 9);
  const auto files = Checkpoints(here.path());
  ExpectSame(files, Checkpoints(run()));
  // keep_checkpoint_max counts those of earlier processes.
  EXPECT_EQ(files.count("model.ckpt-8.index"), 1u);
  EXPECT_EQ(files.count("model.ckpt-9.index"), 1u);
  EXPECT_EQ(files.size(), 6u);
  EXPECT_FALSE(EventFiles(run()).empty());
}

TEST_F(EstimatorCheckpointsTest, ValuesDoNotTravel) {
  Start();
  std::vector<int64_t> sent, received;
  class Count : public estimator::SessionRunHook {
   public:
    Count(std::string address, std::vector<int64_t>& sent, std::vector<int64_t>& received)
        : address_(std::move(address)), sent_(sent), received_(received) {}
    absl::Status AfterRun(estimator::RunContext&, const estimator::RunValues&) override {
      const auto reply = remote::DescribeWorker({.address = address_});
      if (!reply.ok()) return reply.status();
      sent_.push_back(reply->sessions(0).bytes_sent());
      received_.push_back(reply->sessions(0).bytes_received());
      return absl::OkStatus();
    }

   private:
    const std::string address_;
    std::vector<int64_t>&sent_, &received_;
  };
  estimator::RunConfig config = ConfigFor(address_, CheckpointPlace::kWorker);
  config.save_checkpoints_steps = 1;
  estimator::EstimatorOptions options = OptionsFor(run(), config);
  options.params = {{"units", 50'000}};  // 1.6 MB, and as much twice for Adam
  Estimator trained(std::move(options));
  ASSERT_EQ(
      trained.Train(estimator::testing::TrainBatches(),
                    {.hooks = {std::make_shared<Count>(address_, sent, received)}, .max_steps = 4}),
      absl::OkStatus());
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_LT(sent.back() - sent.front(), 500'000);
  EXPECT_LT(received.back() - received.front(), 500'000);
  EXPECT_GT(std::filesystem::file_size(run() + "/model.ckpt-4.data-00000-of-00001"), 4'000'000u);
}

TEST_F(EstimatorCheckpointsTest, EvaluatesExportsWarmStartsAndPredictsThere) {
  Start();
  const auto trained = Make(run(), CheckpointPlace::kWorker);
  const auto serving = estimator::BuildRawServingInputReceiverFn(
      {{.name = "x", .dtype = base::DType::kF32, .shape = {-1, 4}}});
  const auto result = estimator::TrainAndEvaluate(
      *trained, {.input_fn = estimator::testing::TrainBatches(), .max_steps = 6},
      {.input_fn = estimator::testing::TestBatches(),
       .exporters = {estimator::LatestExporter("latest", serving, 1)},
       .throttle_secs = 0});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("global_step"), 6);
  EXPECT_FALSE(EventFiles(run() + "/eval").empty());
  int64_t exports = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run() + "/export/latest")) {
    exports += std::filesystem::exists(entry.path() / "saved_model.pb") ? 1 : 0;
  }
  EXPECT_EQ(exports, 1);
  const auto latest = trained->LatestCheckpoint();
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(*latest, run() + "/model.ckpt-6");
  EXPECT_EQ(trained->GetVariableValue("global_step")->item<int64_t>(), 6);
  auto stream = trained->Predict(estimator::testing::TestBatches());
  ASSERT_TRUE(stream.ok()) << stream.status();
  base::NamedArrays first;
  const auto more = (*stream)->Next(&first);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_TRUE(*more);

  estimator::EstimatorOptions options =
      OptionsFor(there() + "/runs/b", ConfigFor(address_, CheckpointPlace::kWorker));
  options.warm_start_from = estimator::WarmStartSettings(*latest, "hidden");
  // The stream has the devices.
  stream->reset();
  Estimator warm(std::move(options));
  ASSERT_EQ(warm.Train(estimator::testing::TrainBatches(), {.max_steps = 1}), absl::OkStatus());
  const auto saved = session::train::LoadCheckpoint(there() + "/runs/b/model.ckpt-0");
  const auto from = session::train::LoadCheckpoint(*latest);
  ASSERT_TRUE(saved.ok() && from.ok());
  EXPECT_TRUE(base::BitwiseEqual(*saved->Find("hidden/kernel"), *from->Find("hidden/kernel")));
  EXPECT_FALSE(base::BitwiseEqual(*saved->Find("logits/kernel"), *from->Find("logits/kernel")));
}

// The training and the evaluations between its checkpoints are one session of the worker, in either place.
TEST_F(EstimatorCheckpointsTest, EvaluationsUseTheDevicesOfTheTraining) {
  Start();
  const auto result = estimator::TrainAndEvaluate(
      *Make(there() + "/mine", CheckpointPlace::kClient),
      {.input_fn = estimator::testing::TrainBatches(), .max_steps = 2},
      {.input_fn = estimator::testing::TestBatches(), .throttle_secs = 0});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("global_step"), 2);
}

// On a worker that shares its devices, as a process beside the training does it.
TEST_F(EstimatorCheckpointsTest, AnotherClientEvaluatesEachNewCheckpoint) {
  Start(/*share=*/true, /*devices=*/2);
  class Evaluates : public estimator::CheckpointSaverListener {
   public:
    explicit Evaluates(Estimator& evaluator) : evaluator_(evaluator) {}
    absl::Status AfterSave(estimator::RunContext&, int64_t global_step) override {
      const auto result = evaluator_.Evaluate(estimator::testing::TestBatches());
      if (!result.ok()) return result.status();
      EXPECT_EQ(result->at("global_step"), static_cast<double>(global_step));
      ++evaluations;
      return absl::OkStatus();
    }
    int evaluations = 0;

   private:
    Estimator& evaluator_;
  };
  const auto make = [&] {
    estimator::RunConfig config = ConfigFor(address_, CheckpointPlace::kWorker);
    auto client = remote::OpenRemoteClient({.address = address_, .devices = 1});
    EXPECT_TRUE(client.ok()) << client.status();
    config.session_config.client = client.value_or(nullptr);
    return std::make_unique<Estimator>(OptionsFor(run(), config));
  };
  const auto trained = make(), evaluator = make();
  const auto listener = std::make_shared<Evaluates>(*evaluator);
  ASSERT_EQ(trained->Train(estimator::testing::TrainBatches(),
                           {.max_steps = 4, .saving_listeners = {listener}}),
            absl::OkStatus());
  EXPECT_EQ(listener->evaluations, 3);
}

TEST_F(EstimatorCheckpointsTest, MistakesAreErrorsBeforeTheFirstStep) {
  Start();
  const auto text = [&](const estimator::EstimatorOptions& options,
                        const estimator::TrainOptions& train = {.max_steps = 1}) {
    Estimator trained(options);
    return std::string(trained.Train(estimator::testing::TrainBatches(), train).message());
  };
  const estimator::RunConfig config = ConfigFor(address_, CheckpointPlace::kWorker);
  EXPECT_THAT(text(OptionsFor(there() + "/elsewhere", config)),
              AllOf(HasSubstr("the estimator's model_dir, which the worker writes"),
                    HasSubstr(there() + "/elsewhere"), HasSubstr("--write"), HasSubstr("kClient")));
  EXPECT_THAT(text(OptionsFor("relative", config)), HasSubstr("write it from the root"));
  EXPECT_THAT(text(OptionsFor("", config)), HasSubstr("the estimator has no model_dir; give a"));
  EXPECT_THAT(
      text(OptionsFor(run(), config),
           {.hooks = {estimator::CheckpointSaverHook({.checkpoint_dir = run(), .save_steps = 1})},
            .max_steps = 1}),
      AllOf(HasSubstr("CheckpointSaverHook"), HasSubstr("save_checkpoints_steps")));
  estimator::EstimatorOptions warm = OptionsFor(run(), config);
  warm.warm_start_from = estimator::WarmStartSettings(there() + "/mine/model.ckpt-1");
  EXPECT_THAT(text(warm), AllOf(HasSubstr("warm start"), HasSubstr("--read")));
  Estimator trained(OptionsFor(run(), config));
  EXPECT_THAT(std::string(trained
                              .Evaluate(estimator::testing::TestBatches(),
                                        {.checkpoint_path = "/mine/model.ckpt-1"})
                              .status()
                              .message()),
              HasSubstr("--read"));
  EXPECT_TRUE(Checkpoints(run()).empty());

  // Of this machine's devices the place makes no difference.
  address_ = "cpu";
  const auto here = Make(run(), CheckpointPlace::kWorker);
  EXPECT_EQ(here->Train(estimator::testing::TrainBatches(), {.max_steps = 1}), absl::OkStatus());
  EXPECT_FALSE(Checkpoints(run()).empty());
}

// The Saver of a session writes here, or by the worker.
TEST_F(EstimatorCheckpointsTest, SaversTakeTheFilesOfTheirSession) {
  namespace tf = session;
  Start();
  std::filesystem::create_directories(there() + "/runs");
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  const tf::Variable w = tf::GetVariable("w", {3, 2});
  tf::Session session(address_);
  ASSERT_EQ(session.Run(tf::GlobalVariablesInitializer()), absl::OkStatus());
  const auto files = session.WorkerFiles();
  ASSERT_TRUE(files.ok()) << files.status();
  const estimator::testing::TemporaryFolder here;
  tf::train::Saver client, worker({.file_system = *files});
  ASSERT_TRUE(client.Save(session, here.path() + "/model.ckpt", 1).ok());
  const auto saved = worker.Save(session, run() + "/model.ckpt", 1);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(Checkpoints(here.path()) == Checkpoints(run()));
  const base::Array value = session.Run(w).value();
  ASSERT_EQ(session.SetVariableValue("w", base::Array::Zeros(base::DType::kF32, {3, 2})),
            absl::OkStatus());
  ASSERT_EQ(worker.Restore(session, *saved), absl::OkStatus());
  EXPECT_TRUE(base::BitwiseEqual(session.Run(w).value(), value));
  EXPECT_EQ(tf::train::LatestCheckpoint(run(), "checkpoint", files->get()).value(), *saved);
  EXPECT_TRUE(
      absl::IsPermissionDenied(worker.Save(session, here.path() + "/model.ckpt", 2).status()));
  tf::Session local("cpu");
  EXPECT_THAT(std::string(local.WorkerFiles().status().message()),
              HasSubstr("leave SaverOptions::file_system unset"));
  // Variables of other devices are read and sent.
  ASSERT_EQ(local.SetVariableValue("w", value), absl::OkStatus());
  const auto sent = worker.Save(local, run() + "/local", 1);
  ASSERT_TRUE(sent.ok()) << sent.status();
}

constexpr int64_t kLongSteps = 60;

// What the client's process of the next test does.
TEST_F(EstimatorCheckpointsTest, DISABLED_Trains) {
  const char *const address = std::getenv(kWorkerVariable), *const run =
                                                                std::getenv(kFolderVariable);
  ASSERT_TRUE(address != nullptr && run != nullptr);
  estimator::RunConfig config = ConfigFor(address, CheckpointPlace::kWorker);
  config.save_checkpoints_steps = 1;
  Estimator trained(OptionsFor(run, config));
  ASSERT_EQ(trained.Train(estimator::testing::TrainBatches(), {.max_steps = kLongSteps}),
            absl::OkStatus());
}

// kill -9 of the client while the worker saves; the next client takes the devices over and resumes to the same files.
TEST_F(EstimatorCheckpointsTest, ResumesAfterItsClientWasKilled) {
  const estimator::testing::TemporaryFolder here;
  address_ = "cpu";
  estimator::RunConfig config = ConfigFor("cpu", CheckpointPlace::kClient);
  config.save_checkpoints_steps = 1;
  Estimator undisturbed(OptionsFor(here.path(), config));
  ASSERT_EQ(undisturbed.Train(estimator::testing::TrainBatches(), {.max_steps = kLongSteps}),
            absl::OkStatus());

  WorkerProcess worker({.folder = there(), .arguments = {"--write", there() + "/runs/"}});
  int killed = 0;
  const auto client = [&] {
    return std::make_unique<Process>(
        std::vector<std::string>{"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                 "--gtest_filter=EstimatorCheckpointsTest.DISABLED_Trains"},
        std::vector<std::string>{absl::StrCat(kWorkerVariable, "=", worker.address()),
                                 absl::StrCat(kFolderVariable, "=", run()),
                                 "PENSTOCK_REMOTE_TAKE_OVER=1"});
  };
  for (const int step : {3, 20}) {
    const auto process = client();
    const auto deadline = std::chrono::steady_clock::now() + kProcessLimit;
    const std::string index = absl::StrCat(run(), "/model.ckpt-", step, ".index");
    bool seen = false;
    // It may be removed as superfluous before this process looks: later ones count as well.
    while (!seen && process->running() && std::chrono::steady_clock::now() < deadline) {
      for (int later = step; later <= kLongSteps && !seen; ++later) {
        seen = std::filesystem::exists(absl::StrCat(run(), "/model.ckpt-", later, ".index"));
      }
    }
    EXPECT_TRUE(seen);
    killed += process->running() ? 1 : 0;
    process->Kill();
  }
  std::printf("killed %d times\n", killed);
  const auto last = client();
  ASSERT_EQ(last->AwaitEnd(), 0) << last->output();
  // Each kill may leave the three files of a checkpoint that was about to be removed.
  ExpectSame(Checkpoints(here.path()), Checkpoints(run()), /*more=*/6);
}

}  // namespace
}  // namespace penstock::tests
