// The commands worker and attach, and --device with an address.
#include "penstock/remote/worker/worker.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/command.h"
#include "penstock/cli/testing/command_fixture.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/monitor/registry.h"
#include "penstock/monitor/server.h"
#include "penstock/monitor/snapshot.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/certificates.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::cli {
namespace worker_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;

class WorkerCommandTest : public testing::CommandFixture {
 protected:
  // Starts a worker of two CPU devices; returns its address.
  std::string Start() {
    auto worker = remote::Worker::Start({.listen = "127.0.0.1:0",
                                         .client = runtime::TestClient(2),
                                         .log_file = Path("log"),
                                         .log_to_stderr = false,
                                         .metadata_host = "off"});
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    return absl::StrCat("grpc://", worker_->address());
  }

  std::unique_ptr<remote::Worker> worker_;
};

TEST_F(WorkerCommandTest, SaysInOneSentenceWhatIsWrong) {
  std::ofstream(Path("token")) << "secret\n";
  for (const auto& [arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--listen", "0.0.0.0:0"}, "0.0.0.0"},
           {{"--listen", "host.invalid:0"}, "host.invalid"},
           {{"--listen", "127.0.0.1"}, "127.0.0.1"},
           {{"--device", "grpc://tpu1:8470"}, "devices of its own machine"},
           {{"--certificate", "/missing.pem", "--key", "/missing.key"}, "/missing"},
           {{"--token-file", "/missing"}, "/missing"},
           {{"--log", "/proc/log"}, "/proc/log"},
           {{"--read", "gs://bucket"}, "gs://bucket/"},
           {{"--write", "gs://bucket"}, "gs://bucket/"}}) {
    std::vector<std::string> line = {"worker", "--listen", "127.0.0.1:0"};
    if (arguments[0] == "--listen") line.resize(1);
    line.insert(line.end(), arguments.begin(), arguments.end());
    const CommandResult result = Penstock(line);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("penstock worker: "), HasSubstr(message)));
  }
  EXPECT_EQ(Penstock({"worker", "--client-ca", "ca.pem"}).code, 2) << "without --certificate";
}

TEST_F(WorkerCommandTest, AcceptsItsOptions) {
  EXPECT_EQ(CheckArguments({"worker",
                            "--listen",
                            "127.0.0.1:0",
                            "--device",
                            "cpu",
                            "--cpu-devices",
                            "8",
                            "--share",
                            "--lease",
                            "60",
                            "--read",
                            "gs://a/",
                            "gs://b/",
                            "--write",
                            "gs://c/",
                            "--max-sessions",
                            "4",
                            "--max-connections",
                            "8",
                            "--max-session-bytes",
                            "4GiB",
                            "--log",
                            "log",
                            "--restart",
                            "--drain",
                            "10",
                            "--monitor",
                            "127.0.0.1:6007",
                            "--certificate",
                            "c",
                            "--key",
                            "k",
                            "--client-ca",
                            "a",
                            "--token-file",
                            "t"}),
            absl::OkStatus());
}

TEST_F(WorkerCommandTest, MakesCertificates) {
  const CommandResult made = Penstock(
      {"worker", "--new-certificates", Path("keys"), "--host", "localhost", "--host", "127.0.0.1"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("for: localhost, 127.0.0.1"), HasSubstr("server.pem")));
  EXPECT_THAT(Bytes(Path("keys/ca.pem")), HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_EQ(Penstock({"worker", "--new-certificates", Path("keys")}).code, 1)
      << "nothing is overwritten";
}

TEST_F(WorkerCommandTest, AttachAndDevicesShowAWorker) {
  const std::string address = Start();
  const CommandResult idle = Penstock({"attach", worker_->address()});
  EXPECT_EQ(idle.code, 0) << idle.err;
  EXPECT_THAT(idle.out, AllOf(HasSubstr("cpu, 2 devices"), HasSubstr("no sessions"),
                              HasSubstr("the end of its log:"), HasSubstr("listening on")));
  auto client = remote::OpenRemoteClient({.address = address});
  ASSERT_TRUE(client.ok()) << client.status();
  const CommandResult devices = Penstock({"devices", "--device", address});
  EXPECT_EQ(devices.code, 0) << devices.err;
  EXPECT_THAT(devices.out, AllOf(HasSubstr("  1  "), HasSubstr("in use by session ")));
  EXPECT_EQ(Json::parse(Penstock({"devices", "--device", address, "--json"}).out).size(), 2u);
  for (const std::vector<std::string>& option :
       std::vector<std::vector<std::string>>{{"--take-over"}, {"--cpu-devices", "2"}}) {
    std::vector<std::string> line = {"devices", "--device", address};
    line.insert(line.end(), option.begin(), option.end());
    const CommandResult ignored = Penstock(line);
    EXPECT_EQ(ignored.code, 1) << option[0];
    EXPECT_THAT(ignored.err, HasSubstr("without a session"));
  }
  const Json json = Json::parse(Penstock({"attach", address, "--json"}).out);
  EXPECT_EQ(json["sessions"].size(), 1u);
  EXPECT_EQ(json["sessions"][0]["devices"], Json({0, 1}));
  EXPECT_EQ(json["sessions"][0]["activity"], "opened");
  EXPECT_EQ(json["trainings"], Json::array());
  EXPECT_THAT(Penstock({"attach", "nowhere"}).err, HasSubstr("no port"));
  EXPECT_THAT(Penstock({"attach", address, "--stop"}).err, HasSubstr("--stop needs the training"));
  EXPECT_THAT(Penstock({"attach", address, "4f3a91c2"}).err, HasSubstr("runs no trainings"));
}

TEST_F(WorkerCommandTest, IsWatchedFromOutside) {
  const std::string address = Start();
  const CommandResult alone = Penstock({"monitor", address, "--count", "1"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("state     serving 0 sessions, 2 x "));
  auto client = remote::OpenRemoteClient({.address = address});
  ASSERT_TRUE(client.ok()) << client.status();
  // y = x + x, twice.
  ir::Graph graph("double");
  const ir::Value x = graph.Parameter({base::DType::kF32, {256}}, "x");
  graph.SetResults({x + x});
  const auto program = (*client)->Compile(*ir::PrintStableHlo(graph));
  ASSERT_TRUE(program.ok()) << program.status();
  const auto buffer =
      (*client)->Put(base::Array::Zeros(base::DType::kF32, {256}), (*client)->devices()[0]);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  for (int i = 0; i < 2; ++i) {
    const auto results = (*program)->Execute({{*buffer}});
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_TRUE((*results)[0][0].Get().ok());
  }
  const CommandResult block = Penstock({"monitor", address, "--count", "1"});
  EXPECT_THAT(block.out, AllOf(HasSubstr("state     serving 1 session, 2 x "),
                               HasSubstr("session   "), HasSubstr("2 executions")));
  const CommandResult json =
      Penstock({"monitor", address, "--count", "2", "--interval", "0.1", "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  const std::string last = json.out.substr(json.out.find('\n') + 1);
  const auto snapshot = monitor::Snapshot::FromJson(last);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(*snapshot->Find("penstock_worker_idle_ratio"), 1) << "between the two updates";
  std::string label;
  for (const monitor::MetricValue& metric : snapshot->metrics) {
    if (metric.name == "penstock_session_executions_total") label = metric.label;
  }
  EXPECT_EQ(*snapshot->Find("penstock_session_executions_total", label), 2);
  EXPECT_GT(*snapshot->Find("penstock_session_memory_bytes", label), 0);
  EXPECT_GT(*snapshot->Find("penstock_session_bytes_received_total", label), 1024);
  worker_.reset();
  const CommandResult gone = Penstock({"monitor", address, "--count", "1"});
  EXPECT_EQ(gone.code, 1);
  EXPECT_THAT(gone.err, HasSubstr(address.substr(7)));
}

// Each ends at once, and says which of them it is and what to do.
TEST_F(WorkerCommandTest, SaysWhatIsWrongWithAnAddress) {
  monitor::Registry page;
  const auto http = monitor::Server::Start(page, {.address = "127.0.0.1:0"});
  ASSERT_TRUE(http.ok()) << http.status();
  ASSERT_TRUE(remote::MakeCertificates(Path("keys"), {"127.0.0.1"}).ok());
  const auto tls = remote::Worker::Start({.listen = "127.0.0.1:0",
                                          .client = runtime::TestClient(1),
                                          .certificate = Path("keys/server.pem"),
                                          .key = Path("keys/server.key"),
                                          .log_to_stderr = false,
                                          .metadata_host = "off"});
  ASSERT_TRUE(tls.ok()) << tls.status();
  const std::string plain = Start();
  const std::string secure = absl::StrCat("grpcs://", plain.substr(7));
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"grpc://127.0.0.1:1", "nobody listens there"},
      {absl::StrCat("grpc://127.0.0.1:", (*http)->port()), "is no Penstock worker"},
      {absl::StrCat("grpc://", (*tls)->address()), "write grpcs://"},
      {secure, "write grpc://"},
      {absl::StrCat("grpcs://", (*tls)->address()), "PENSTOCK_REMOTE_CA"},
      {"grpc://127.0.0.1", "127.0.0.1"},
      {"grpc://127.0.0.1:x", "127.0.0.1:x"},
      {"grpc://a b:1", "a b"}};
  for (const auto& [address, message] : wrong) {
    SCOPED_TRACE(address);
    for (const std::vector<std::string>& line :
         {std::vector<std::string>{"monitor", address, "--count", "1"},
          {"devices", "--device", address},
          {"attach", address},
          {"attach", address, "4f3a91c2", "--stop"},
          {"train", "--data", "/in/*", "--checkpoints", "/out/a", "--device", address,
           "--detach"}}) {
      const CommandResult result = Penstock(line);
      EXPECT_EQ(result.code, 1) << line[0];
      EXPECT_THAT(result.err, HasSubstr(message)) << line[0];
    }
  }
}

TEST_F(WorkerCommandTest, SaysWhyItsMonitorOrItsCertificatesCannotBe) {
  std::ofstream(Path("file")) << "a";
  std::filesystem::create_directory(Path("folder"));
  std::ofstream(Path("folder/server.key")) << "mine";
  for (const auto& [option, value, message] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--monitor", "127.0.0.1", "127.0.0.1"},
           {"--monitor", "0.0.0.0:0", "needs a token"},
           {"--monitor", "host.invalid:6006", "host.invalid"},
           {"--new-certificates", Path("folder"), "server.key"},
           {"--new-certificates", Path("file"), Path("file")},
           {"--new-certificates", Path("file/keys"), Path("file")},
           {"--new-certificates", "/proc/keys", "/proc/keys"}}) {
    const CommandResult result =
        Penstock({"worker", "--listen", "127.0.0.1:0", "--log", Path("log"), option, value});
    EXPECT_EQ(result.code, 1) << option << " " << value;
    EXPECT_THAT(result.err, AllOf(HasSubstr(option), HasSubstr(message))) << value;
  }
  EXPECT_EQ(Bytes(Path("folder/server.key")), "mine");
  EXPECT_EQ(Penstock({"worker", "--new-certificates", Path("keys"), "--host", "a,b"}).code, 1);
}

TEST_F(WorkerCommandTest, SaysThatThePortOfItsMonitorIsInUse) {
  monitor::Registry registry;
  const auto other = monitor::Server::Start(registry, {.address = "127.0.0.1:0"});
  ASSERT_TRUE(other.ok()) << other.status();
  const CommandResult result =
      Penstock({"worker", "--listen", "127.0.0.1:0", "--log", Path("log"), "--monitor",
                absl::StrCat("127.0.0.1:", (*other)->port())});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("--monitor"));
}

TEST_F(WorkerCommandTest, TrainsOnAWorkerAsHere) {
  MakeImages("images", 20);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const auto train = [&](const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> line = {"train",   "--data",       Path("shards/*.tfrec"),
                                     "--model", "mlp",          "--epochs",
                                     "2",       "--batch-size", "8",
                                     "--save",  Path(model)};
    line.insert(line.end(), more.begin(), more.end());
    return Penstock(line);
  };
  const std::string address = Start();
  const CommandResult local = train("local.safetensors", {"--device", "cpu"});
  const CommandResult remote = train("remote.safetensors", {"--device", address});
  ASSERT_EQ(local.code, 0) << local.err;
  ASSERT_EQ(remote.code, 0) << remote.err;
  EXPECT_EQ(Bytes(Path("remote.safetensors")), Bytes(Path("local.safetensors")));

  auto other = remote::OpenRemoteClient({.address = address});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(train("x.safetensors", {"--device", address}).err,
              HasSubstr("are in use by session"));
  EXPECT_EQ(train("x.safetensors", {"--device", address, "--take-over"}).code, 0);
  EXPECT_THAT(train("x.safetensors", {"--device", "cpu", "--take-over"}).err,
              HasSubstr("--take-over is for workers"));
  EXPECT_THAT(train("x.safetensors", {"--device", address, "--cpu-devices", "2"}).err,
              HasSubstr("--cpu-devices is an option of the worker"));
  EXPECT_THAT(train("x.safetensors", {"--device", address, "--dump-hlo", Path("hlo")}).err,
              HasSubstr("--dump-hlo: programs are compiled by the worker"));
}

}  // namespace
}  // namespace worker_test
}  // namespace penstock::cli
