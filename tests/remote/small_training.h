// A training of a second, whose result shows every message that was lost, doubled or changed.
#pragma once

#include <memory>

#include "penstock/base/array.h"
#include "penstock/runtime/client.h"
#include "penstock/train/trainer.h"

namespace penstock::tests {

// Weights and state of the optimizer after `options.epochs` epochs of eight steps; empty, and a failure of the test,
// after an error.
base::NamedArrays TrainSmall(std::shared_ptr<runtime::Client> client,
                             const train::FitOptions& options);
// Bit for bit, and not empty.
void ExpectSameState(const base::NamedArrays& expected, const base::NamedArrays& state);

}  // namespace penstock::tests
