// Conformance suite of runtime::Client. A client's test names a factory:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, ClientConformance, testing::Values(ClientFactory{"cpu", Open}),
//                            ClientFactoryName);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "penstock/runtime/client.h"
#include "penstock/runtime/testing/test_program.h"

namespace penstock::runtime {

struct ClientFactory {
  std::string name;
  // A new client with `devices` devices; called with 1, 2 and 8.
  std::function<absl::StatusOr<std::shared_ptr<Client>>(int devices)> open;
};

// Not inline: naming it makes the linker take the file with the tests out of the library.
std::string ClientFactoryName(const testing::TestParamInfo<ClientFactory>& info);

class ClientConformance : public testing::TestWithParam<ClientFactory> {
 protected:
  void SetUp() override;  // opens client_ with two devices

  std::shared_ptr<Client> Open(int devices);
  std::shared_ptr<Executable> Compile(const ir::Program& program);
  Buffer Put(const Array& array, int device = 0);

  std::shared_ptr<Client> client_;
};

}  // namespace penstock::runtime
