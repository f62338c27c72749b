// The device that tests run on: the CPU, or what PENSTOCK_TEST_DEVICE names (`./test` sets it where
// there is a GPU).
#pragma once

#include <memory>
#include <string>

#include "penstock/runtime/client.h"

namespace penstock::runtime {

// "cpu", "gpu", "tpu"
std::string TestDevice();

// A client with `devices` devices, opened once in a process: of TestDevice where it has so many, of
// the CPU where not. A plugin that cannot be opened ends the program.
std::shared_ptr<Client> TestClient(int devices);

}  // namespace penstock::runtime
