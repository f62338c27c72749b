// ResNet-20 in TensorFlow 1's layers, for a session and for an estimator's model_fn.
#pragma once

#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::idioms {

// Logits [batch, 10] of uint8 images, in training.
session::Tensor Tf1ResNet20(const session::Tensor& images);
// SGD with momentum, and the updates of moving averages.
session::Operation Tf1TrainOp(const session::Tensor& loss, const session::Variable& global_step);

}  // namespace penstock::idioms
