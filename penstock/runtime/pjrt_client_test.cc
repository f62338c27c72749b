#include "penstock/runtime/testing/client_conformance.h"

namespace penstock::runtime {
namespace {

absl::StatusOr<std::shared_ptr<Client>> OpenCpu(int devices) {
  return OpenClient({.device = "cpu",
                     .cpu_devices = devices,
                     .log_path = testing::TempDir() + "/pjrt_client_test.log"});
}

INSTANTIATE_TEST_SUITE_P(Pjrt, ClientConformance, testing::Values(ClientFactory{"cpu", OpenCpu}),
                         ClientFactoryName);

}  // namespace
}  // namespace penstock::runtime
