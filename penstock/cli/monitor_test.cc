// Tests of `penstock monitor` and of `penstock train --monitor`.

#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/monitor/profiler_service.h"
#include "penstock/monitor/registry.h"
#include "penstock/monitor/server.h"

namespace penstock::cli {
namespace monitor_test {

using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::Penstock;

class MonitorTest : public testing::CommandFixture {
 protected:
  std::string Serve(const std::string& token = "") {
    server_ = *monitor::Server::Start(registry_, {.address = "127.0.0.1:0", .token = token});
    return absl::StrCat("127.0.0.1:", server_->port());
  }

  monitor::Registry registry_;
  std::unique_ptr<monitor::Server> server_;
};

TEST_F(MonitorTest, PrintsABlockALineOrJson) {
  registry_.SetState("training");
  registry_.Get("penstock_epoch").Set(2);
  const std::string address = Serve();
  const CommandResult block = Penstock({"monitor", address, "--count", "1"});
  EXPECT_EQ(block.code, 0) << block.err;
  EXPECT_EQ(block.out, "state     training\nposition  epoch 2\n");
  const CommandResult lines = Penstock(
      {"monitor", absl::StrCat("http://", address, "/"), "--count", "2", "--interval", "0.1"});
  EXPECT_THAT(lines.out, MatchesRegex("..:..:..  epoch 2\n..:..:..  epoch 2\n"));
  const CommandResult json = Penstock({"monitor", address, "--count", "1", "--json"});
  const auto snapshot = monitor::Snapshot::FromJson(json.out);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->state, "training");
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 1);
}

TEST_F(MonitorTest, SendsTheToken) {
  const std::string address = Serve("secret");
  const CommandResult denied = Penstock({"monitor", address, "--count", "1"});
  EXPECT_EQ(denied.code, 1);
  EXPECT_THAT(denied.err, HasSubstr("answered 401: this monitor needs its token"));
  setenv("PENSTOCK_MONITOR_TOKEN", "secret", 1);
  const CommandResult allowed = Penstock({"monitor", address, "--count", "1"});
  unsetenv("PENSTOCK_MONITOR_TOKEN");
  EXPECT_EQ(allowed.code, 0) << allowed.err;
}

TEST_F(MonitorTest, SaysThatNothingAnswers) {
  const std::string address = Serve();
  server_.reset();
  const CommandResult result = Penstock({"monitor", address, "--count", "1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("no monitor answers at ", address)));
}

TEST_F(MonitorTest, ATrainingServesItsMonitor) {
  MakeImages("images", 20);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const std::vector<std::string> train = {"train",   "--data",       Path("shards/*.tfrec"),
                                          "--model", "mlp",          "--epochs",
                                          "1",       "--batch-size", "16"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), train.begin(), train.end());
    return Penstock(more);
  };
  const CommandResult trained =
      with({"--monitor", "127.0.0.1:0", "--monitor-profiler", "127.0.0.1:0"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("monitor: http://127.0.0.1:"));
  EXPECT_THAT(trained.err, HasSubstr("profiler service: port "));

  // A port in use is an error before the training.
  const std::string used = Serve();
  for (const char* option : {"--monitor", "--monitor-profiler"}) {
    const CommandResult failed = with({option, used});
    EXPECT_EQ(failed.code, 1);
    EXPECT_THAT(failed.err, HasSubstr(absl::StrCat(option, ": cannot listen on ", used)));
    EXPECT_EQ(failed.err.find("Epoch"), std::string::npos);
  }
  EXPECT_THAT(with({"--monitor", "0.0.0.0:0"}).err, HasSubstr("needs a token"));
}

TEST(MonitorCommandTest, SaysWhatIsNoAddress) {
  for (const char* address : {"127.0.0.1:99999", ":", "localhost", "[::1"}) {
    const CommandResult result = Penstock({"monitor", address, "--count", "1"});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("is no address")) << result.err;
  }
}

}  // namespace monitor_test
}  // namespace penstock::cli
