#include "penstock/remote/worker/xla_flags.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::remote {
namespace {

// Numbers, booleans and enumerations that change only the generated code.
constexpr absl::string_view kAcceptedFlags[] = {
    "xla_allow_excess_precision",
    "xla_backend_optimization_level",
    "xla_cpu_enable_concurrency_optimized_scheduler",
    "xla_cpu_enable_fast_math",
    "xla_cpu_enable_fast_min_max",
    "xla_cpu_fast_math_honor_division",
    "xla_cpu_fast_math_honor_functions",
    "xla_cpu_fast_math_honor_infs",
    "xla_cpu_fast_math_honor_nans",
    "xla_cpu_multi_thread_eigen",
    "xla_cpu_prefer_vector_width",
    "xla_cpu_use_thunk_runtime",
    "xla_gpu_all_reduce_combine_threshold_bytes",
    "xla_gpu_autotune_level",
    "xla_gpu_deterministic_ops",
    "xla_gpu_enable_command_buffer",
    "xla_gpu_enable_latency_hiding_scheduler",
    "xla_gpu_enable_triton_gemm",
    "xla_gpu_exclude_nondeterministic_ops",
    "xla_hlo_profile",
    "xla_latency_hiding_scheduler_rerun",
    "xla_llvm_disable_expensive_passes",
    "xla_tpu_enable_latency_hiding_scheduler",
};

}  // namespace

absl::Status CheckXlaFlag(absl::string_view name, absl::string_view value) {
  const bool accepted = std::find(std::begin(kAcceptedFlags), std::end(kAcceptedFlags), name) !=
                        std::end(kAcceptedFlags);
  const bool plain = value.size() <= 64 && std::all_of(value.begin(), value.end(), [](char c) {
                       return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                              c == '-' || c == '.' || c == ',';
                     });
  if (accepted && plain) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      accepted ? "the value of " : "", "the XLA flag '", name.substr(0, 100),
      "' is not one that a worker accepts from a client; it accepts numbers and names for ",
      absl::StrJoin(kAcceptedFlags, ", ")));
}

}  // namespace penstock::remote
