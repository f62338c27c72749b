// Symptoms computed from the measurements of a pipeline.
#pragma once

#include <cstdint>

#include "penstock/diagnose/data_bench.h"
#include "penstock/diagnose/diagnosis.h"

namespace penstock::diagnose {

// Computes symptoms. `available_bytes` is the available memory before the measurements. Fields that
// the bench does not contain (the target, the training) are not set.
Symptoms SymptomsOf(const DataBench& bench, int64_t available_bytes);

}  // namespace penstock::diagnose
