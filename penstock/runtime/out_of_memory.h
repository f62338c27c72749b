// Out-of-memory errors: finds programs that do not fit into a device's memory, before they run if
// possible, and explains the error so that it can be fixed.
//
//   PENSTOCK_RETURN_IF_ERROR(CheckMemory(*executable, client->FreeMemory(device), batch));
//
// The error:
//
//   program 'train_step' needs 372 GiB for temporaries and results, beside 1.2 MiB of
//   arguments; this machine has 20 GiB left
//   its largest values:
//     186 GiB  f32[50000,1000000], 2 of them, stablehlo.dot_general of layer "dense" (net.cc:12)
//     ...
//   by a linear estimate, a batch of 2600 fits (this one has 50000)
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

namespace penstock::runtime {

// Input of the estimate of the largest batch.
struct BatchMemory {
  int64_t examples = 0;  // examples of one execution, over all replicas; 0: no estimate
  // Memory of one replica that does not grow with the batch, such as gradients.
  int64_t fixed_bytes = 0;
};

// kResourceExhausted if an execution needs more memory than is free, besides its arguments, which
// are on the device already. OK if the free memory is unknown.
absl::Status CheckMemory(const Executable& executable, const FreeMemoryInfo& room,
                         const BatchMemory& batch = {});

// Appends the program's largest values to a plugin's kResourceExhausted error; returns any other
// status unchanged.
absl::Status ExplainOutOfMemory(const absl::Status& status, const ir::Program& program);

// Appends an estimate of the batch that fits, if the message says how much memory was needed and
// available ("Used 29.80G of 7.98G hbm", "(48.00G) exceeds available HBM (7.48G)").
// `batch.fixed_bytes` then includes everything that one replica has on its device.
absl::Status AdviseBatch(const absl::Status& status, const BatchMemory& batch);

}  // namespace penstock::runtime
