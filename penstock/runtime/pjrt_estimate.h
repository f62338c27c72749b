// What a compiler says of a program that it compiled.
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

// kFailedPrecondition when results take over less memory than the program donates.
absl::Status CheckAliased(const ir::Program& program, const MemoryStats& memory);

}  // namespace penstock::runtime
