// Symbolic differentiation: tf.gradients.
//
//   tf::Tensors d = tf::Gradients({loss}, {w, b});
//   tf::Tensor penalty = tf::ReduceSum(tf::Square(tf::Gradients({loss}, {x})[0]));
//
// One operation for each call, which room ir differentiates when a Run needs it; its results can be
// differentiated again. A Run that needs it runs what the ys need, too; in TensorFlow only what the
// formulas of the gradients use.
#pragma once

#include <string>

#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session {

// The gradient with respect to an x on which no y depends.
enum class UnconnectedGradients {
  kNone,  // an invalid Tensor (TensorFlow's None)
  kZero
};

struct GradientsOptions {
  // Incoming gradients, one for each y; empty, or an invalid one: ones.
  Tensors grad_ys = {};
  std::string name = "gradients";
  // Tensors that count as constants: no gradient flows through them to what they depend on. As in
  // TensorFlow, all outputs of their operations do, and a variable stops nothing; a read that
  // ReadValue made stops what would flow through it to the variable. They are constants in the result
  // as well, so that its own gradients do not flow through them, either; in TensorFlow they do.
  Tensors stop_gradients = {};
  UnconnectedGradients unconnected = UnconnectedGradients::kNone;
};

// Gradients of the sum of all elements of all ys with respect to each x. An x may be any float
// tensor. A variable (or its Value()) means the variable: all its reads count, except those in
// stop_gradients. A read that ReadValue made means itself alone. No gradient flows through
// StopGradient, integers, or assignments; a WhileLoop needs maximum_iterations.
Tensors Gradients(const Tensors& ys, const Tensors& xs, const GradientsOptions& options = {},
                  SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
