#include "penstock/runtime/pjrt/pjrt_estimate.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/program_check.h"

namespace penstock::runtime {
namespace {

double NumberOf(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kFloat:
      return value.float_value;
    case PJRT_NamedValue_kInt64:
      return static_cast<double>(value.int64_value);
    default:
      return -1;
  }
}

}  // namespace

absl::StatusOr<MemoryStats> ReadMemory(const PJRT_Api* api, PJRT_Executable* executable) {
  PENSTOCK_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = executable;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_Executable_GetCompiledMemoryStats, args));
  return MemoryStats{.arguments = args.argument_size_in_bytes,
                     .outputs = args.output_size_in_bytes,
                     .aliased = args.alias_size_in_bytes,
                     .temporary = args.temp_size_in_bytes,
                     .code = args.generated_code_size_in_bytes};
}

absl::StatusOr<CostEstimate> ReadCost(const PJRT_Api* api, PJRT_Executable* executable) {
  PENSTOCK_PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, args);
  args.executable = executable;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_Executable_GetCostAnalysis, args));
  CostEstimate cost;
  for (size_t i = 0; i < args.num_properties; ++i) {  // they are the executable's
    const PJRT_NamedValue& property = args.properties[i];
    const absl::string_view name(property.name, property.name_size);
    if (name == "flops") cost.flops = NumberOf(property);
    if (name == "bytes accessed") cost.bytes_accessed = NumberOf(property);
    if (name == "optimal_seconds") cost.optimal_seconds = NumberOf(property);
  }
  return cost;
}

void DestroyExecutable(const PJRT_Api* api, PJRT_Executable* executable) {
  PENSTOCK_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
  args.executable = executable;
  PENSTOCK_PJRT_CALL(api, PJRT_Executable_Destroy, args).IgnoreError();
}

absl::Status CheckAliased(const ir::Program& program, const MemoryStats& memory) {
  int64_t asked = 0;
  for (size_t i = 0; i < program.alias.size(); ++i) {
    if (program.alias[i] < 0) continue;
    const TensorType& type = program.parameters[i];
    asked += type.shape.num_elements() * base::ByteWidth(type.dtype);
  }
  if (memory.aliased >= asked) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(ProgramName(program), ": ", asked,
                   " bytes of arguments are donated, but the compiler reuses only ", memory.aliased,
                   " and copies the rest; CompileOptions::allow_copied_donations accepts that"));
}

}  // namespace penstock::runtime
