// Topology: ahead-of-time (AOT) compilation for devices that are not attached, such as a TPU slice:
// estimates time and memory of a step before the slice is rented.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto slice, Topology::Open({.device = "tpu", .name = "v2:2x2x1"}));
//   PENSTOCK_ASSIGN_OR_RETURN(ProgramEstimate step, slice->Compile(program));   // 8 replicas
//   std::cout << step.cost.optimal_seconds << " s, " << step.memory.temporary << " bytes\n";
//
// libtpu supports this without a TPU, and does not claim an attached one; a process that opens a
// topology should not train on a TPU as well. The CPU plugin of the wheel does not support it: an
// error of Open.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

struct PJRT_Api;
struct PJRT_TopologyDescription;

namespace penstock::runtime {

struct TopologyOptions {
  std::string device = "tpu";
  // The plugin's name of the topology. libtpu's are "v2:2x2x1" and "v3:2x2x1" (4 chips of 2 cores),
  // "v4:2x2x1", "v5e:2x4" and others. An empty name, of which libtpu would make a v2, is an error.
  std::string name = {};
  std::string plugin_path = {};  // as in ClientOptions
  std::string log_path = {};
};

// The compiler's estimates of a program.
struct ProgramEstimate {
  MemoryStats memory;
  CostEstimate cost;
};

// A set of devices, described by a plugin.
class Topology {
 public:
  static absl::StatusOr<std::unique_ptr<Topology>> Open(const TopologyOptions& options);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const std::string& platform() const { return platform_; }  // "tpu"
  const std::string& version() const { return version_; }
  absl::Span<const Device> devices() const { return devices_; }

  // Compiles for as many of the devices as the program has replicas. Errors are those of
  // Client::Compile: a program that does not fit into a device's memory is kResourceExhausted with
  // its largest values, donated memory that would be copied is kFailedPrecondition unless allowed.
  // CompileOptions::devices must be empty: the plugin chooses. Thread-safe.
  absl::StatusOr<ProgramEstimate> Compile(const ir::Program& program,
                                          const CompileOptions& options = {}) const;

 private:
  Topology(std::string name, const PJRT_Api* api, PJRT_TopologyDescription* handle)
      : name_(std::move(name)), api_(api), handle_(handle) {}
  absl::Status ReadFacts();

  const std::string name_;
  const PJRT_Api* const api_;
  PJRT_TopologyDescription* const handle_;
  std::string platform_, version_;
  std::vector<Device> devices_;
};

}  // namespace penstock::runtime
