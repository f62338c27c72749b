#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/pack/shard_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto fs = io::MakeMemoryFileSystem();
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, io::JoinPath("memory://out", pack::kShardPlanFile), text));
  auto plan = pack::ReadShardPlan(*fs, "memory://out");
  if (plan.ok() && plan->has_value())
    PENSTOCK_CHECK_OK(pack::KeepIntactShards(*fs, "memory://out", **plan).status());
  return 0;
}
