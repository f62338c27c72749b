#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/cli/shard_plan.h"
#include "penstock/io/memory_file_system.h"
#include "penstock/io/uri.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto fs = io::MakeMemoryFileSystem();
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, io::JoinPath("memory://out", cli::kShardPlanFile), text));
  auto plan = cli::ReadShardPlan(*fs, "memory://out");
  if (plan.ok() && plan->has_value())
    PENSTOCK_CHECK_OK(cli::KeepWholeShards(*fs, "memory://out", **plan).status());
  return 0;
}
