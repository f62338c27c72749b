// Numbers of a state_dict, and the states of several schedulers in one. Internal to optim/.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/lazy/optim/lr_scheduler.h"

namespace penstock::lazy::optim {

// A number of the state of `owner` ("GradScaler"), whose name begins the error if there is none.
absl::StatusOr<double> NumberIn(absl::string_view owner, const base::NamedArrays& state,
                                absl::string_view name);

using Schedulers = std::vector<std::shared_ptr<lr_scheduler::LRScheduler>>;
// Appends the states, under "schedulers/0/", "schedulers/1/", ...
void AppendStates(const Schedulers& schedulers, base::NamedArrays& state);
// Loads them in order, until the first error.
absl::Status LoadStates(const Schedulers& schedulers, const base::NamedArrays& state);

}  // namespace penstock::lazy::optim
