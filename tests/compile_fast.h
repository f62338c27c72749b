#pragma once

namespace penstock::tests {

// Flags (XLA_FLAGS) with which XLA compiles programs for the CPU in a third of the time, and optimizes them less: for tests
// that run each of hundreds of programs a few times. Maxima propagate NaNs, as they do without these flags.
inline constexpr char kCompileFast[] =
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_enable_fast_min_max=false";

}  // namespace penstock::tests
