// From what was measured of a pipeline to the symptoms that are diagnosed.
#pragma once

#include <cstdint>

#include "penstock/diagnose/data_bench.h"
#include "penstock/diagnose/diagnosis.h"

namespace penstock::diagnose {

// `available_bytes`: of memory, before anything was measured. What the bench does not know (the
// target, the training, how the user names the data) stays empty.
Symptoms SymptomsOf(const DataBench& bench, int64_t available_bytes);

}  // namespace penstock::diagnose
