// Resolver: the device that a program should use, from what its user and its environment say.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const Resolved where, ResolveDevice("auto"));
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = where.device}));
//
// Environments announce their TPUs in different ways:
//   PENSTOCK_DEVICE         a device ("cpu", "gpu", "tpu") or a worker's address
//   COLAB_TPU_ADDR          "10.0.0.2:8470", the worker of a Colab runtime of the node type
//   TPU_NAME                "local", HOST:PORT, grpc://HOST:PORT, or the name of a Cloud TPU (rejected: the name
//                           is known only to the project's TPU API)
//   TPU_PROCESS_ADDRESSES   Kaggle and GKE: "local", or the hosts of a slice
//   TPU_WORKER_HOSTNAMES    TPU VMs, Kaggle and GKE: "localhost", or the hosts of a slice
// The first of them that is set decides.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/runtime/client.h"

namespace penstock::remote {

// The value of an environment variable; "" if it is not set.
using Environment = std::function<std::string(const char* name)>;

struct Resolved {
  std::string device;  // "cpu", "gpu", "tpu", or an address: "grpc://10.0.0.2:8470"
  std::string source;  // where that comes from: "COLAB_TPU_ADDR"; "the option", "the default"
};

// `requested`:
//   ""                   PENSTOCK_DEVICE, else "cpu"
//   "auto"               the environment, in the order above; without any: "cpu"
//   "local"              "tpu": the TPU of this machine
//   "cpu", "gpu", "tpu"  the device
//   HOST:PORT, ADDRESS   the address, with grpc:// if it has no scheme
// Environment variables have the same forms. INVALID_ARGUMENT: none of these, with the variable's name.
absl::StatusOr<Resolved> ResolveDevice(absl::string_view requested,
                                       const Environment& environment = {});

// Checks "HOST:PORT", "grpc://HOST:PORT" or "grpcs://HOST:PORT", with IPv6 addresses in brackets, and
// returns it with its scheme.
absl::StatusOr<std::string> ParseAddress(absl::string_view address);

// The system of an address, as tf.tpu.experimental.initialize_tpu_system: Initialize opens a session at
// the worker, or the devices of this machine, and fails if they cannot be used. The system is shut down
// when its last reference ends: the worker frees everything that the session has (there is no other
// state on a worker, so there is nothing more to initialize or to reset).
absl::StatusOr<std::shared_ptr<runtime::Client>> Initialize(absl::string_view requested = "auto");
// Gives up `client`. FAILED_PRECONDITION if others hold it still, which keeps the session open.
absl::Status Shutdown(std::shared_ptr<runtime::Client>& client);

}  // namespace penstock::remote
