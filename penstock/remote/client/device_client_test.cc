#include "penstock/remote/client/device_client.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <unistd.h>

#include "penstock/remote/client.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/client_conformance.h"

// One test requests more memory than exists; the plugin then gets nullptr and reports it.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
// Workers live to the end of the program, with a thread of theirs that has ended.
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1:report_thread_leaks=0";
}

namespace penstock::runtime {
namespace device_client_test {

std::shared_ptr<Client> Local(int devices) {
  auto client = OpenClient({.device = "cpu",
                            .cpu_devices = devices,
                            .log_path = testing::TempDir() + "/device_client_test.log"});
  PENSTOCK_CHECK_OK(client);
  return *client;
}

absl::StatusOr<std::shared_ptr<Client>> OpenOverPair(int devices) {
  return remote::OpenInProcess(Local(devices));
}

// Over gRPC, each client with a worker of its own. The workers live to the end of the program: what a client
// leaves may outlive it.
absl::StatusOr<std::shared_ptr<Client>> OpenOverGrpc(int devices) {
  static auto& workers = *new std::vector<std::unique_ptr<remote::Worker>>;
  remote::WorkerOptions options;
  options.listen = "127.0.0.1:0";
  options.client = Local(devices);
  options.log_file = absl::StrCat(testing::TempDir(), "/device_client_test_", getpid(), "_",
                                  workers.size(), ".log");
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<remote::Worker> worker, remote::Worker::Start(options));
  const std::string address = absl::StrCat("grpc://", worker->address());
  workers.push_back(std::move(worker));
  return remote::OpenRemoteClient({.address = address});
}

INSTANTIATE_TEST_SUITE_P(Remote, ClientConformance,
                         testing::Values(ClientFactory{"link_pair", OpenOverPair},
                                         ClientFactory{"grpc", OpenOverGrpc}),
                         ClientFactoryName);

// The suite above belongs to client_conformance.cc, so ctest runs it as an entry of its own
// (remote_conformance_test).
TEST(DeviceClient, ShowsTheDevicesOfTheWorkerAsTheyAreThere) {
  const std::shared_ptr<Client> local = Local(3);
  for (const auto& open : {OpenOverPair, OpenOverGrpc}) {
    const auto client = open(3);
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_EQ((*client)->platform(), local->platform());
    ASSERT_EQ((*client)->devices().size(), 3u);
    for (int i = 0; i < 3; ++i) {
      const Device& device = (*client)->devices()[i];
      EXPECT_EQ(device.index, i);
      EXPECT_EQ(device.id, local->devices()[i].id);
      EXPECT_EQ(device.kind, local->devices()[i].kind);
      EXPECT_EQ(device.memory_bytes, local->devices()[i].memory_bytes);
    }
  }
}

}  // namespace device_client_test
}  // namespace penstock::runtime
