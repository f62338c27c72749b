// Pass over a dataset, for Adapt (of layers and of string lookups) and for counting classes.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"

namespace penstock::keras {

// Calls `visit` with `column` of every element, batched or not; "" is the only column. An infinite
// dataset is an error. `who` names the caller in errors.
absl::Status ForEachColumnValue(const data::Dataset& dataset, absl::string_view column,
                                absl::FunctionRef<absl::Status(const base::Array&)> visit,
                                absl::string_view who = "Adapt");

}  // namespace penstock::keras
