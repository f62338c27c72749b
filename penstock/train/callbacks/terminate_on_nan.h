// The callback that stops a training whose numbers are no longer finite.
//
//   keras::TerminateOnNan();
#pragma once

#include <memory>

#include "penstock/train/callback.h"

namespace penstock::train {

// Stops the training at the first loss or gradient that is not finite, names the layer where it
// occurred, and leaves the weights as they were before that step.
std::shared_ptr<Callback> TerminateOnNan();

}  // namespace penstock::train
