// From what was measured of a pipeline to the symptoms that are diagnosed.
#pragma once

#include <cstdint>

#include "penstock/cli/data_bench.h"
#include "penstock/cli/diagnosis.h"

namespace penstock::cli {

// `available_bytes`: of memory, before anything was measured. What the bench does not know (the
// target, the training, how the user names the data) stays empty.
Symptoms SymptomsOf(const DataBench& bench, int64_t available_bytes);

}  // namespace penstock::cli
