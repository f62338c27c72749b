// Programs that are too large for a device: found out before they run where that is possible, and
// told so that one knows what to change.
//
//   PENSTOCK_RETURN_IF_ERROR(CheckMemory(*executable, client->FreeMemory(device), batch));
//
//   program 'train_step' needs 372 GiB for temporaries and results, beside 1.2 MiB of arguments;
//   this machine has 20 GiB left
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

// What an estimate of the largest batch needs to know.
struct BatchMemory {
  int64_t examples = 0;  // of one execution, over all replicas; 0: no estimate
  // Of what one replica needs, this much does not grow with the batch: gradients, say.
  int64_t fixed_bytes = 0;
};

// kResourceExhausted when an execution needs more than there is, the arguments being there already.
// A device that does not say what it has passes.
absl::Status CheckMemory(const Executable& executable, const MemoryRoom& room,
                         const BatchMemory& batch = {});

// kResourceExhausted of a plugin, with the program's largest values after its message; any other
// status as it is.
absl::Status ExplainOutOfMemory(const absl::Status& status, const ir::Program& program);

// The same with an estimate of the batch that fits, where the message says how much is needed of
// how much ("Used 29.80G of 7.98G hbm", "(48.00G) exceeds available HBM (7.48G)").
// `batch.fixed_bytes` then is of all that one replica has on its device.
absl::Status AdviseBatch(const absl::Status& status, const BatchMemory& batch);

}  // namespace penstock::runtime
