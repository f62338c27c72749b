// Device that tests run on: the CPU, or the value of PENSTOCK_TEST_DEVICE (`./test` sets it on a
// machine with a GPU).
#pragma once

#include <memory>
#include <string>

#include "penstock/runtime/client.h"

namespace penstock::runtime {

// "cpu", "gpu", "tpu"
std::string TestDevice();

// A client with `devices` devices, opened once per process: of TestDevice if it has that many, else
// of the CPU. A plugin that cannot be opened ends the program.
std::shared_ptr<Client> TestClient(int devices);

}  // namespace penstock::runtime
