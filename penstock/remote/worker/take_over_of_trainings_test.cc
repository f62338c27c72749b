// Take-overs of trainings that compile, with processes that are shells and sessions that the test opens for them.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/stream.h"
#include "penstock/remote/testing/fake_client.h"
#include "penstock/remote/testing/link_sessions.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/train/activity_host.h"

namespace penstock::remote {
namespace take_over_of_trainings_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Compiles until it is released.
class SlowCompiler : public FakeClient {
 public:
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      compiling_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return released_; });
    }
    return FakeClient::Compile(program, options);
  }
  absl::StatusOr<runtime::Buffer> Put(const base::Array& array,
                                      const runtime::Device& device) override {
    const absl::StatusOr<runtime::Buffer> buffer = FakeClient::Put(array, device);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (buffer.ok() && !first_.has_value()) first_ = buffer->impl();
    return buffer;
  }
  // Whether the buffer that was put first does not exist any more.
  bool HasFreedFirst() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return first_.has_value() && first_->expired();
  }
  void AwaitCompile() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return compiling_; });
  }
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool compiling_ = false, released_ = false;
  std::optional<std::weak_ptr<runtime::BufferImpl>> first_;
};

class TakeOverOfTrainingsTest : public testing::Test {
 protected:
  TakeOverOfTrainingsTest() {
    std::string pattern = testing::TempDir() + "take_over_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TakeOverOfTrainingsTest() override {
    compiler_->Release();
    if (compile_.valid()) compile_.wait();
    training_ = nullptr;
    worker_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  void Start(const TakeOverLimits& limits = {}) {
    WorkerOptions options{.listen = "127.0.0.1:0",
                          .client = compiler_,
                          .log_file = folder_ + "/log",
                          .log_to_stderr = false,
                          .take_over = limits,
                          .metadata_host = "off"};
    options.trainings.command = {"/bin/sh", "-c"};
    options.trainings.check = [](const std::vector<std::string>& arguments) {
      return std::pair<std::vector<std::string>, int>(arguments, 0);
    };
    auto worker = Worker::Start(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  RemoteOptions Options() const {
    return {.address = absl::StrCat("grpc://", worker_->address()), .note = notes_.function()};
  }

  // A training that saves and ends after SIGTERM once the test has made the file "save", and the session of its
  // process, which compiles. `step`: that it has trained; 0: none.
  void StartTraining(int64_t step) {
    TrainingRequest request;
    request.mutable_start()->add_arguments(absl::StrCat(
        "trap 'echo asked; asked=1' TERM; cd ", folder_,
        "; echo $PENSTOCK_DEVICE $PENSTOCK_REMOTE_TOKEN_FILE $", kTrainingVariable,
        " > part; mv part environment; while [ ! -e save ] || [ -z \"$asked\" ]; do sleep 0.05; "
        "done; exit 75"));
    const auto started = CallTraining(Options(), request);
    ASSERT_TRUE(started.ok()) << started.status();
    id_ = started->training().training();
    std::string address, token_file, training;
    while (!std::filesystem::exists(folder_ + "/environment")) std::this_thread::yield();
    std::ifstream(folder_ + "/environment") >> address >> token_file >> training;
    ::setenv(kTrainingVariable, training.c_str(), 1);
    const auto client = OpenRemoteClient({.address = address, .token_file = token_file});
    ::unsetenv(kTrainingVariable);
    ASSERT_TRUE(client.ok()) << client.status();
    training_ = *client;
    if (step > 0) {
      dynamic_cast<train::ActivityHost*>(training_.get())->SetTraining(step, 1, 1);
      training_->FreeMemory(training_->devices()[0]);  // a request goes with it
    }
    Compile();
  }
  void Compile() {
    compile_ = std::async(std::launch::async, [client = training_] {
      ir::Program program;
      program.name = "eval_step";
      program.text = "module {}";
      program.parameters = program.results = {{base::DType::kU8, {4}}};
      return client->Compile(program, {}).status();
    });
    compiler_->AwaitCompile();
  }
  std::future<absl::Status> TakeOver() {
    return std::async(std::launch::async, [this] {
      RemoteOptions options = Options();
      options.take_over = true;
      const auto client = OpenRemoteClient(options);
      if (!client.ok()) return client.status();
      return (*client)->Put(base::Array::Scalar(1.0f), (*client)->devices()[0]).status();
    });
  }
  TrainingInfo Info() const {
    TrainingRequest request;
    request.mutable_follow()->set_training(id_);
    const auto reply = CallTraining(Options(), request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->training() : TrainingInfo();
  }

  std::string folder_, id_;
  const std::shared_ptr<SlowCompiler> compiler_ = std::make_shared<SlowCompiler>();
  std::unique_ptr<Worker> worker_;
  std::shared_ptr<runtime::Client> training_;  // its process's
  std::future<absl::Status> compile_;
  mutable LogLines notes_;
};

TEST_F(TakeOverOfTrainingsTest, WaitsUntilTheCompileHasEndedAndTheTrainingHasSaved) {
  Start();
  StartTraining(/*step=*/1240);
  std::future<absl::Status> taken = TakeOver();
  EXPECT_THAT(notes_.WaitFor("gives up at "),
              AllOf(HasSubstr(absl::StrCat("training ", id_, " compiles eval_step")),
                    HasSubstr("saves a checkpoint and ends then")));
  EXPECT_EQ(Info().state(), TrainingInfo::STOPPING);
  compiler_->Release();
  notes_.WaitFor(absl::StrCat("training ", id_, " saves a checkpoint and ends; gives up at "));
  std::ofstream(folder_ + "/save") << "now";
  EXPECT_EQ(taken.get(), absl::OkStatus());
  EXPECT_EQ(Info().exit_code(), 75);
  EXPECT_THAT(Info().end(), HasSubstr("saved a checkpoint and stopped"));
  // Each was told once, however often the client has asked.
  EXPECT_EQ(notes_.lines().size(), 2u);
}

// The session of a client elsewhere, not of a training: what it compiles cannot be interrupted.
TEST_F(TakeOverOfTrainingsTest, SaysWhatASessionStillCompiles) {
  Start();
  training_ = *OpenRemoteClient(Options());
  Compile();
  std::future<absl::Status> taken = TakeOver();
  EXPECT_THAT(
      notes_.WaitFor("gives up at "),
      AllOf(HasSubstr("the devices are not free yet: session "),
            HasSubstr("still compiles eval_step, which cannot be interrupted, and ends then")));
  // The client that compiles knows at once.
  EXPECT_THAT(std::string(compile_.get().message()), HasSubstr("was taken over by"));
  compiler_->Release();
  EXPECT_EQ(taken.get(), absl::OkStatus());
  EXPECT_EQ(notes_.lines().size(), 1u);
}

TEST_F(TakeOverOfTrainingsTest, GivesUpASessionThatCompilesForTooLong) {
  Start({.compile_seconds = 0});
  training_ = *OpenRemoteClient(Options());
  Compile();
  EXPECT_THAT(std::string(TakeOver().get().message()),
              AllOf(HasSubstr("still compiles eval_step"), HasSubstr("start it again")));
  const absl::Status another = OpenRemoteClient(Options()).status();
  EXPECT_THAT(std::string(another.message()),
              AllOf(HasSubstr("are in use by session "), HasSubstr(" was taken over by ")));
}

// A process that ends without waiting for a compile has said in its log that it ends by request.
TEST_F(TakeOverOfTrainingsTest, LogsItsEndOnceWhileAClientCompiles) {
  Start();
  training_ = *OpenRemoteClient(Options());
  Compile();
  worker_->Stop("SIGTERM");
  worker_->LogEnd(", while a client's program was compiled");
  const auto log = [&] {
    std::ifstream file(folder_ + "/log");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const size_t end = log().find(" ended: SIGTERM, while a client's program was compiled\n");
  EXPECT_NE(end, std::string::npos);
  compiler_->Release();
  compile_.wait();
  training_ = nullptr;
  worker_->End();
  EXPECT_EQ(log().find(" ended: ", end + 1), std::string::npos);
}

TEST_F(TakeOverOfTrainingsTest, KillsTheFirstCompileAtOnce) {
  Start();
  StartTraining(/*step=*/0);
  auto held = training_->Put(base::Array::Scalar(1.0f), training_->devices()[0]);
  ASSERT_TRUE(held.ok() && held->Get().ok());
  EXPECT_EQ(TakeOver().get(), absl::OkStatus()) << "although it still compiles";
  EXPECT_THAT(notes_.lines(), IsEmpty());
  EXPECT_EQ(Info().exit_code(), 128 + SIGKILL);
  EXPECT_THAT(Info().end(), AllOf(HasSubstr("while it compiled eval_step"), HasSubstr("took over"),
                                  HasSubstr("nothing is lost")));
  // Its session ends with it, and not with the lease; what it holds is freed before the compile ends.
  while (!compiler_->HasFreedFirst()) std::this_thread::yield();
  compiler_->Release();
  EXPECT_THAT(std::string(compile_.get().message()),
              HasSubstr(absl::StrCat("training ", id_, " has ended")));
}

TEST_F(TakeOverOfTrainingsTest, KillsAfterTheLimitAndSaysWhatIsLost) {
  Start({.compile_seconds = 0});
  StartTraining(/*step=*/1240);
  EXPECT_EQ(TakeOver().get(), absl::OkStatus());
  EXPECT_THAT(Info().end(), AllOf(HasSubstr("while it compiled eval_step"), HasSubstr("step 1240"),
                                  HasSubstr("the steps after its last checkpoint are lost"),
                                  HasSubstr("resumes from that checkpoint")));
}

}  // namespace take_over_of_trainings_test
}  // namespace penstock::remote
