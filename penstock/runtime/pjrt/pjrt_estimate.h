// A compiler's estimates of a program: memory and cost; aliasing check.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"

struct PJRT_Api;
struct PJRT_Executable;

namespace penstock::runtime {

absl::StatusOr<MemoryStats> ReadMemory(const PJRT_Api* api, PJRT_Executable* executable);
absl::StatusOr<CostEstimate> ReadCost(const PJRT_Api* api, PJRT_Executable* executable);
void DestroyExecutable(const PJRT_Api* api, PJRT_Executable* executable);

// kFailedPrecondition if results alias less memory than the program donates.
absl::Status CheckAliased(const ir::Program& program, const MemoryStats& memory);

}  // namespace penstock::runtime
