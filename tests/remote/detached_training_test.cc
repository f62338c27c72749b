// `penstock train --detach`: a training that its worker runs goes on when its client, or the worker, is killed.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/remote/client.h"
#include "penstock/remote/describe.h"

#include "tests/remote/processes.h"

namespace penstock::tests {
namespace {

using cli::testing::CommandResult;
using cli::testing::Penstock;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Enough weights that an epoch takes tens of milliseconds, so that the first ones are seen before the last one ends.
const std::vector<std::string> kSlow = {"--image-size", "64", "64"};

class DetachedTrainingTest : public cli::testing::CommandFixture {
 protected:
  DetachedTrainingTest() {
    ::setenv("GCE_METADATA_HOST", "off", 1);
    MakeImages("images", 16);
    EXPECT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
    std::filesystem::create_directories(Path("out"));
  }
  void SetUp() override { StartWorker({}); }
  void TearDown() override { UseCredentials({}); }

  void StartWorker(const std::vector<std::string>& more, bool tls = false) {
    WorkerProcessOptions options{.folder = Path("."),
                                 .arguments = {"--read", Path("shards/"), "--write", Path("out/")},
                                 .tls = tls};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    worker_.reset();
    worker_.emplace(options);
  }

  // Variables of the environment that clients read their credentials from; others are removed.
  static void UseCredentials(const std::map<std::string, std::string>& variables) {
    for (const char* const name : {"CA", "CERTIFICATE", "KEY", "TOKEN_FILE"}) {
      ::unsetenv(absl::StrCat("PENSTOCK_REMOTE_", name).c_str());
    }
    for (const auto& [name, value] : variables) {
      ::setenv(absl::StrCat("PENSTOCK_REMOTE_", name).c_str(), value.c_str(), 1);
    }
  }

  // Starts a detached training, and returns its id.
  std::string StartDetached(const std::string& name, int epochs,
                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = Detached(name, epochs);
    line.insert(line.end(), more.begin(), more.end());
    const CommandResult started = Penstock(line);
    EXPECT_EQ(started.code, 0) << started.err;
    return IdIn(started.err);
  }

  std::string address() const { return worker_->address(); }

  // `penstock train` with files of these names.
  std::vector<std::string> Train(const std::string& name, int epochs,
                                 std::vector<std::string> more) const {
    std::vector<std::string> line = {"train",
                                     "--data",
                                     Path("shards/*.tfrec"),
                                     "--model",
                                     "mlp",
                                     "--epochs",
                                     absl::StrCat(epochs),
                                     "--batch-size",
                                     "8",
                                     "--save",
                                     Path(absl::StrCat("out/", name, ".safetensors")),
                                     "--checkpoints",
                                     Path(absl::StrCat("out/", name))};
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
  std::vector<std::string> Detached(const std::string& name, int epochs) const {
    return Train(name, epochs, {"--device", address(), "--detach"});
  }

  // The weights of an undisturbed training on this machine.
  std::string Undisturbed(int epochs, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--device", "cpu"});
    const CommandResult result = Penstock(Train("local", epochs, std::move(more)));
    EXPECT_EQ(result.code, 0) << result.err;
    return cli::testing::Bytes(Path("out/local.safetensors"));
  }

  // The id that the client prints: "training 4f3a91c2: `penstock attach ...".
  static std::string IdIn(const std::string& text) {
    const std::string before = "training ";
    const size_t at = text.find(before);
    return at == std::string::npos ? "" : text.substr(at + before.size(), 8);
  }

  std::optional<WorkerProcess> worker_;
};

TEST_F(DetachedTrainingTest, GoesOnWhenItsClientIsKilled) {
  std::vector<std::string> command = Detached("run", 3);
  command.insert(command.begin(), PENSTOCK_PROGRAM);
  Process client(command);
  const std::string id = IdIn(client.AwaitLine("follows it"));
  client.Kill();
  const CommandResult followed = Penstock({"attach", address(), id});
  EXPECT_EQ(followed.code, 0) << followed.err << followed.out;
  EXPECT_THAT(followed.out, HasSubstr("Epoch 3/3"));
  EXPECT_THAT(followed.err, HasSubstr("completed"));
  EXPECT_EQ(cli::testing::Bytes(Path("out/run.safetensors")), Undisturbed(3));
  // What it has printed stays.
  EXPECT_THAT(Penstock({"attach", address(), id}).out, HasSubstr("Epoch 3/3"));
  EXPECT_THAT(
      Penstock({"attach", address()}).out,
      AllOf(HasSubstr("training " + id), HasSubstr("exit code 0"), HasSubstr("no sessions")));
}

TEST_F(DetachedTrainingTest, ResumesWhenItsWorkerIsKilledAndStartedAgain) {
  constexpr int kEpochs = 60;
  const std::string id = StartDetached("run", kEpochs, kSlow);
  Process follower({PENSTOCK_PROGRAM, "attach", address(), id});
  follower.AwaitLine("Epoch ");
  worker_->KillAndStartAgain();
  EXPECT_EQ(follower.AwaitEnd(), 0) << follower.output();
  EXPECT_THAT(follower.output(), HasSubstr("resumes from its last checkpoint"));
  EXPECT_EQ(cli::testing::Bytes(Path("out/run.safetensors")), Undisturbed(kEpochs, kSlow));
}

// Not detached: the client trains, and the worker saves.
TEST_F(DetachedTrainingTest, ClientResumesFromCheckpointsThatTheWorkerWrites) {
  const std::vector<std::string> there = {"--device", address(), "--checkpoint-place", "worker"};
  const CommandResult first = Penstock(Train("run", 1, there));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_FALSE(std::filesystem::exists(Path("out/run/options.json")));
  const CommandResult second = Penstock(Train("run", 2, there));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("resuming from the checkpoint of step "));
  // The same on this machine: with more epochs, the learning rate has another schedule.
  Undisturbed(1);
  EXPECT_TRUE(cli::testing::Bytes(Path("out/run.safetensors")) == Undisturbed(2));
  std::vector<std::string> elsewhere = Train("run", 1, there);
  std::replace(elsewhere.begin(), elsewhere.end(), Path("out/run"), Path("elsewhere"));
  const CommandResult denied = Penstock(elsewhere);
  EXPECT_EQ(denied.code, 1);
  EXPECT_THAT(denied.err, AllOf(HasSubstr("--checkpoints"), HasSubstr("--write"),
                                HasSubstr("--checkpoint-place"), HasSubstr(Path("out"))));
  EXPECT_FALSE(std::filesystem::exists(Path("elsewhere")));
}

TEST_F(DetachedTrainingTest, OwnsTheDevicesUntilItIsStopped) {
  const CommandResult started = Penstock(Detached("run", 1000000));
  ASSERT_EQ(started.code, 0) << started.err;
  const std::string id = IdIn(started.err);
  const CommandResult second = Penstock(Detached("second", 1));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err,
              AllOf(HasSubstr("are in use by session " + id), HasSubstr("--take-over")));
  EXPECT_THAT(Penstock(Train("third", 1, {"--device", address()})).err,
              HasSubstr("are in use by session " + id));

  Process follower({PENSTOCK_PROGRAM, "attach", address(), id});
  follower.AwaitLine("Epoch ");
  auto worker = remote::DescribeSessions({.address = address()});
  const auto deadline = std::chrono::steady_clock::now() + kProcessLimit;
  while (worker.ok() && worker->sessions.size() == 1 &&
         !absl::StrContains(worker->sessions[0].activity, "training step ") &&
         std::chrono::steady_clock::now() < deadline) {  // it may compile
    worker = remote::DescribeSessions({.address = address()});
  }
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_EQ(worker->sessions.size(), 1u);
  EXPECT_EQ(worker->sessions[0].id, id);
  EXPECT_EQ(worker->sessions[0].training, id);
  EXPECT_THAT(worker->sessions[0].activity, HasSubstr("training step "));
  ASSERT_EQ(worker->trainings.size(), 1u);
  EXPECT_EQ(worker->trainings[0].state, remote::TrainingDescription::State::kRunning);

  const CommandResult stopped = Penstock({"attach", address(), id, "--stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("saved a checkpoint and stopped"));
  EXPECT_EQ(follower.AwaitEnd(), 75) << follower.output();
  EXPECT_FALSE(std::filesystem::is_empty(Path("out/run")));
  EXPECT_THAT(Penstock({"attach", address(), id, "--stop"}).err, HasSubstr("has ended"));
  EXPECT_EQ(Penstock(Detached("next", 1)).code, 0) << "the devices are free";
}

TEST_F(DetachedTrainingTest, RunsWithCertificatesAndTokensAndOnlyItsOwnerStopsIt) {
  const std::string keys = Path("keys");
  ASSERT_EQ(Penstock({"worker", "--new-certificates", keys, "--host", "127.0.0.1"}).code, 0);
  std::ofstream(Path("token")) << "secret";
  ::chmod(Path("token").c_str(), 0600);
  StartWorker({"--certificate", keys + "/server.pem", "--key", keys + "/server.key", "--client-ca",
               keys + "/ca.pem", "--token-file", Path("token")},
              /*tls=*/true);
  const std::map<std::string, std::string> certificate = {{"CA", keys + "/ca.pem"},
                                                          {"CERTIFICATE", keys + "/client.pem"},
                                                          {"KEY", keys + "/client.key"}},
                                           token = {{"CA", keys + "/ca.pem"},
                                                    {"TOKEN_FILE", Path("token")}},
                                           none = {{"CA", keys + "/ca.pem"}};
  UseCredentials(certificate);
  const std::string id = StartDetached("run", 1000000);

  UseCredentials(token);
  EXPECT_THAT(Penstock({"attach", address(), id, "--stop"}).err,
              AllOf(HasSubstr("belongs to certificate penstock client, not to token"),
                    HasSubstr("only its owner may stop it")));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--take-over"}, {"--take-over", "--detach"}}) {
    std::vector<std::string> line = Train("second", 1, {"--device", address()});
    line.insert(line.end(), more.begin(), more.end());
    EXPECT_THAT(Penstock(line).err, HasSubstr("only its owner may take over"));
  }
  UseCredentials(none);
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"attach", address(), id, "--stop"},
        {"attach", address(), id},
        Detached("second", 1)}) {
    EXPECT_THAT(Penstock(line).err, HasSubstr("this worker needs a"));
  }
  UseCredentials(certificate);
  const CommandResult stopped = Penstock({"attach", address(), id, "--stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped"));
  UseCredentials(token);
  const std::string second = StartDetached("second", 2);
  EXPECT_EQ(Penstock({"attach", address(), second}).code, 0);
  EXPECT_EQ(cli::testing::Bytes(Path("out/second.safetensors")), Undisturbed(2));
}

TEST_F(DetachedTrainingTest, ShareTheDevicesAndEndWhenTheirOwnerTakesOver) {
  StartWorker({"--share", "--cpu-devices", "2"});
  const std::string first = StartDetached("first", 1000000, {"--replicas", "1"});
  const std::string second = StartDetached("second", 1000000, {"--replicas", "1"});
  EXPECT_THAT(Penstock(Detached("third", 1)).err, HasSubstr("0 of 2 cpu devices"));
  EXPECT_THAT(Penstock({"attach", address()}).out,
              AllOf(HasSubstr("training " + first), HasSubstr("training " + second)));
  // A client that stays takes the devices of both.
  const CommandResult third =
      Penstock(Train("third", 2, {"--device", address(), "--take-over", "--replicas", "1"}));
  EXPECT_EQ(third.code, 0) << third.err;
  EXPECT_EQ(cli::testing::Bytes(Path("out/third.safetensors")), Undisturbed(2));
  for (const std::string& id : {first, second}) {
    const CommandResult ended = Penstock({"attach", address(), id});
    EXPECT_NE(ended.code, 0) << ended.out;
    EXPECT_THAT(ended.err, AnyOf(HasSubstr("stopped"), HasSubstr("took over")));
  }
}

TEST_F(DetachedTrainingTest, GoesOnAfterItsWorkerWasAskedToEnd) {
  constexpr int kEpochs = 60;
  const std::string id = StartDetached("run", kEpochs, kSlow);
  Process follower({PENSTOCK_PROGRAM, "attach", address(), id});
  follower.AwaitLine("Epoch ");
  ::kill(worker_->process().id(), SIGTERM);
  EXPECT_THAT(Penstock(Detached("second", 1)).err,
              AnyOf(HasSubstr("accepts no new trainings: it ends (SIGTERM)"),
                    HasSubstr("nobody listens there"), HasSubstr("in use")));
  EXPECT_EQ(worker_->process().AwaitEnd(), 0);
  follower.AwaitLine("; trying again for ");
  worker_->StartAgain();
  EXPECT_EQ(follower.AwaitEnd(), 0) << follower.output();
  EXPECT_THAT(follower.output(), HasSubstr("worker: has started again"));
  EXPECT_EQ(cli::testing::Bytes(Path("out/run.safetensors")), Undisturbed(kEpochs, kSlow));
}

// Not detached: a client whose worker is gone waits for it, but not when it is asked to end.
TEST_F(DetachedTrainingTest, ClientThatWaitsForItsWorkerEndsBySigterm) {
  std::vector<std::string> command = Train("run", 1000000, {"--device", address()});
  command.insert(command.begin(), PENSTOCK_PROGRAM);
  Process client(command);
  client.AwaitLine("Epoch ");
  worker_->Kill();
  client.AwaitLine("reconnecting");
  ::kill(client.id(), SIGTERM);
  EXPECT_EQ(client.AwaitEnd(), 75) << client.output();
  EXPECT_THAT(client.output(), AllOf(HasSubstr("SIGTERM was received while waiting for the worker"),
                                     HasSubstr("resumes from the checkpoint of step")));
}

TEST_F(DetachedTrainingTest, SaysBeforeItStartsWhatTheWorkerCannotUse) {
  const auto error = [&](std::vector<std::string> more) {
    std::vector<std::string> line = Detached("run", 1);
    line.insert(line.end(), more.begin(), more.end());
    const CommandResult result = Penstock(line);
    EXPECT_EQ(result.code, 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--csv-log", Path("elsewhere.csv")}),
              AllOf(HasSubstr("--csv-log"), HasSubstr("--write")));
  EXPECT_THAT(error({"--validation", "relative/*.tfrec"}),
              AllOf(HasSubstr("--validation"), HasSubstr("relative")));
  EXPECT_THAT(error({"--weights", "/etc/passwd"}), HasSubstr("--weights"));
  EXPECT_THAT(error({"--monitor", "127.0.0.1:0"}), HasSubstr("--monitor cannot be used"));
  EXPECT_THAT(
      Penstock({"train", "--data", Path("shards/*"), "--device", address(), "--detach"}).err,
      HasSubstr("--detach needs --checkpoints"));
  EXPECT_THAT(Penstock(Train("run", 1, {"--device", "cpu", "--detach"})).err,
              HasSubstr("--detach needs a worker"));
  EXPECT_THAT(Penstock({"attach", address()}).out, Not(HasSubstr("training "))) << "none was begun";
  // What only the start can find: the client waits for it.
  EXPECT_THAT(error({"--data", Path("shards/none-*.tfrec")}), HasSubstr("none-"));
  EXPECT_THAT(Penstock({"attach", address(), "00000000"}).err, HasSubstr("no training '00000000'"));
  for (const char* const id : {"00000000", "", "../..", "a very long id that is none at all"}) {
    const CommandResult result = Penstock({"attach", address(), id, "--stop"});
    EXPECT_NE(result.code, 0) << id;
    EXPECT_NE(result.err, "") << id;
  }
  // A session is no training.
  const auto client = remote::OpenRemoteClient({.address = address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto worker = remote::DescribeSessions({.address = address()});
  ASSERT_TRUE(worker.ok() && worker->sessions.size() == 1) << worker.status();
  EXPECT_THAT(Penstock({"attach", address(), worker->sessions[0].id, "--stop"}).err,
              HasSubstr("is a session of a client elsewhere, not a training"));
}

}  // namespace
}  // namespace penstock::tests
