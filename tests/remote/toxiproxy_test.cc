// Trainings, and the suite of runtime::Client, at a worker behind toxiproxy (tools/toxiproxy builds it).
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include <arpa/inet.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/http/http_client.h"
#include "penstock/remote/client.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/client_conformance.h"
#include "penstock/runtime/testing/test_device.h"

#include "tests/remote/processes.h"
#include "tests/remote/small_training.h"

namespace penstock::tests {
namespace {

using nlohmann::json;

int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  PENSTOCK_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  PENSTOCK_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

// The process, started by the first use; it ends with this one.
class Toxiproxy {
 public:
  static Toxiproxy& Get() {
    static auto& proxy = *new Toxiproxy;
    return proxy;
  }

  // A proxy of its own with these toxics: their type, attributes, stream ("upstream": to the worker) and toxicity (of
  // the connections, the part that has it). Returns its address.
  absl::StatusOr<std::string> Open(const std::string& upstream, const std::vector<json>& toxics) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    const std::string name = absl::StrCat("proxy", next_++);
    PENSTOCK_ASSIGN_OR_RETURN(const json proxy, Post("/proxies", {{"name", name},
                                                                  {"listen", "127.0.0.1:0"},
                                                                  {"upstream", upstream},
                                                                  {"enabled", true}}));
    int number = 0;
    for (json toxic : toxics) {
      toxic["name"] = absl::StrCat("toxic", number++);
      PENSTOCK_RETURN_IF_ERROR(Post(absl::StrCat("/proxies/", name, "/toxics"), toxic).status());
    }
    return absl::StrCat("grpc://", proxy.at("listen").get<std::string>());
  }

 private:
  Toxiproxy() : status_(Start()) {}

  // Another process may take the port meanwhile; then it exits, and another port is tried.
  absl::Status Start() {
    const std::string program = PENSTOCK_TOXIPROXY;
    if (::access(program.c_str(), X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("this test needs the program ", program,
                                              ", which is missing. Run: tools/toxiproxy"));
    }
    for (int attempt = 0; attempt < 5; ++attempt) {
      port_ = FreePort();
      process_ = std::make_unique<Process>(std::vector<std::string>{
          program, "-host", "127.0.0.1", "-port", absl::StrCat(port_), "-seed", "1"});
      process_->DropOutput();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (process_->running() && std::chrono::steady_clock::now() < deadline) {
        if (http_.Fetch({.url = Url("/version")}).status == 200) return absl::OkStatus();
      }
    }
    return absl::UnavailableError(absl::StrCat(program, " was started and did not answer"));
  }

  std::string Url(const std::string& path) const {
    return absl::StrCat("http://127.0.0.1:", port_, path);
  }

  absl::StatusOr<json> Post(const std::string& path, const json& body) {
    const io::HttpResponse response = http_.Fetch({.url = Url(path), .post = body.dump()});
    if (response.status != 200 && response.status != 201) {
      return absl::InternalError(absl::StrCat("toxiproxy answers ", response.status, " to ", path,
                                              ": ", response.body, response.error));
    }
    return json::parse(response.body);
  }

  io::HttpClient http_;
  std::unique_ptr<Process> process_;
  int port_ = 0, next_ = 0;
  absl::Status status_;
};

json Toxic(const std::string& type, const std::string& stream, const json& attributes,
           double toxicity = 1) {
  return {{"type", type}, {"stream", stream}, {"attributes", attributes}, {"toxicity", toxicity}};
}

// Both directions.
std::vector<json> Both(const std::string& type, const json& attributes, double toxicity = 1) {
  return {Toxic(type, "upstream", attributes, toxicity),
          Toxic(type, "downstream", attributes, toxicity)};
}

std::map<std::string, std::vector<json>> Lines() {
  std::map<std::string, std::vector<json>> lines;
  lines["latency"] = Both("latency", {{"latency", 5}, {"jitter", 4}});
  lines["slow"] = Both("bandwidth", {{"rate", 100}});  // kB/s
  lines["sliced"] =
      Both("slicer", {{"average_size", 40}, {"size_variation", 30}, {"delay", 20}});  // bytes, us
  // Some of the connections deliver nothing, and end by FIN or RST after 100 ms, or never.
  lines["reset"] = {Toxic("reset_peer", "downstream", {{"timeout", 100}}, 0.4)};
  lines["timeout"] = {Toxic("timeout", "upstream", {{"timeout", 100}}, 0.5)};
  lines["silent"] = {Toxic("timeout", "downstream", {{"timeout", 0}}, 0.3)};
  lines["slow_close"] = Both("slow_close", {{"delay", 100}});
  // Every connection ends after a number of bytes. Each message must fit, since one is sent again from its begin.
  for (const int bytes : {20011, 40009}) {
    lines[absl::StrCat("limit_down_", bytes)] = {
        Toxic("limit_data", "downstream", {{"bytes", bytes}})};
  }
  return lines;
}

std::unique_ptr<remote::Worker> NewWorker(std::shared_ptr<runtime::Client> client) {
  auto worker = remote::Worker::Start({.listen = "127.0.0.1:0",
                                       .client = std::move(client),
                                       .log_to_stderr = false,
                                       .metadata_host = "off"});
  PENSTOCK_CHECK_OK(worker);
  return *std::move(worker);
}

absl::StatusOr<std::shared_ptr<runtime::Client>> OpenThrough(const remote::Worker& worker,
                                                             const std::vector<json>& toxics,
                                                             double reconnect_seconds = 0) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string address,
                            Toxiproxy::Get().Open(worker.address(), toxics));
  return remote::OpenRemoteClient({.address = address,
                                   .connect_seconds = 60,
                                   .reconnect_seconds = reconnect_seconds,
                                   .keepalive_seconds = 1,
                                   .note = [](absl::string_view) {}});
}

TEST(Toxiproxy, TrainingsHaveTheWeightsOfAnUndisturbedOne) {
  const train::FitOptions fit{.epochs = 3, .verbose = 0};
  const base::NamedArrays undisturbed = TrainSmall(runtime::TestClient(1), fit);
  for (const auto& [name, toxics] : Lines()) {
    SCOPED_TRACE(name);
    const auto begin = std::chrono::steady_clock::now();
    const auto worker = NewWorker(runtime::TestClient(1));
    auto client = OpenThrough(*worker, toxics);
    ASSERT_TRUE(client.ok()) << client.status();
    ExpectSameState(undisturbed, TrainSmall(*std::move(client), fit));
    std::printf("%s: %.2f s\n", name.c_str(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
  }
}

// The client does not try for ever.
TEST(Toxiproxy, LineThatEndsBeforeAMessageHasArrivedIsAnError) {
  const auto worker = NewWorker(runtime::TestClient(1));
  auto client = OpenThrough(*worker, {Toxic("limit_data", "downstream", {{"bytes", 5000}})},
                            /*reconnect_seconds=*/0.5);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto buffer =
      (*client)->Put(base::Array::Zeros(base::DType::kF32, {5000}), (*client)->devices()[0]);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const absl::Status status = buffer->Get().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "before the next message had arrived")) << status;
}

// Each client of the suite has a worker and a line of its own. The workers live to the end of the program: what a
// client leaves may outlive it.
absl::StatusOr<std::shared_ptr<runtime::Client>> OpenOnABadLine(int devices) {
  static auto& workers = *new std::vector<std::unique_ptr<remote::Worker>>;
  workers.push_back(NewWorker(runtime::TestClient(devices)));
  std::vector<json> toxics =
      Both("slicer", {{"average_size", 2000}, {"size_variation", 1500}, {"delay", 5}});
  toxics.push_back(Toxic("reset_peer", "downstream", {{"timeout", 20}}, 0.3));
  return OpenThrough(*workers.back(), toxics);
}

}  // namespace
}  // namespace penstock::tests

namespace penstock::runtime {
INSTANTIATE_TEST_SUITE_P(Toxiproxy, ClientConformance,
                         testing::Values(ClientFactory{"bad_line", tests::OpenOnABadLine}),
                         ClientFactoryName);
}  // namespace penstock::runtime
