// Learning rate schedules by step: tf.train.exponential_decay and others, as tensors computed from
// a step. Names, order of arguments and formulas are those of TensorFlow 1.15; room nn computes
// them.
//
//   tf::Variable step = tf::GetOrCreateGlobalStep();
//   tf::Tensor rate = tf::train::ExponentialDecay(0.1, step, 10000, 0.96, /*staircase=*/true);
//   tf::Operation train = tf::train::GradientDescentOptimizer(rate).Minimize(loss, step);
//
// `global_step` is an integer or float scalar, of which the value before the update counts: 0 in
// the first step. The result is an f32 scalar.
//
// Differences from TensorFlow 1.15: the initial rate is a number, and numbers of steps are
// integers. NaturalExpDecay is its formula at every rate; TensorFlow takes powers of
// exp(-decay_rate), which is 0 in float32 from a rate of 104 on.
#pragma once

#include <vector>

#include "penstock/nn/schedules.h"
#include "penstock/session/graph.h"

namespace penstock::session::train {

// learning_rate * decay_rate^(step / decay_steps); `staircase` rounds the exponent down.
Tensor ExponentialDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                        double decay_rate, bool staircase = false, absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());

// values[i] while step <= boundaries[i], the last value afterwards.
Tensor PiecewiseConstant(const Tensor& x, const std::vector<double>& boundaries,
                         const std::vector<double>& values, absl::string_view name = "",
                         SourceLocation where = SourceLocation::Current());

// From learning_rate to end_learning_rate within decay_steps as (1 - step / decay_steps)^power,
// then constant. With `cycle`, decay_steps is extended to the next multiple each time it is
// reached.
Tensor PolynomialDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                       double end_learning_rate = 0.0001, double power = 1, bool cycle = false,
                       absl::string_view name = "",
                       SourceLocation where = SourceLocation::Current());

// learning_rate * exp(-decay_rate * step / decay_steps); `staircase` rounds the fraction down.
Tensor NaturalExpDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                       double decay_rate, bool staircase = false, absl::string_view name = "",
                       SourceLocation where = SourceLocation::Current());

// learning_rate / (1 + decay_rate * step / decay_steps); `staircase` rounds the fraction down.
Tensor InverseTimeDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                        double decay_rate, bool staircase = false, absl::string_view name = "",
                        SourceLocation where = SourceLocation::Current());

// From learning_rate to alpha times it within decay_steps, along half a cosine (Loshchilov and
// Hutter 2016).
Tensor CosineDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                   double alpha = 0, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());

// The same with warm restarts: each period is t_mul times as long as the previous one, and starts
// at m_mul times its rate.
Tensor CosineDecayRestarts(double learning_rate, const Tensor& global_step,
                           int64_t first_decay_steps, double t_mul = 2, double m_mul = 1,
                           double alpha = 0, absl::string_view name = "",
                           SourceLocation where = SourceLocation::Current());

// learning_rate * ((alpha + linear) * cosine + beta), with linear = 1 - step / decay_steps and
// cosine = (1 + cos(2 pi num_periods step / decay_steps)) / 2 (Bello et al. 2017).
Tensor LinearCosineDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                         double num_periods = 0.5, double alpha = 0, double beta = 0.001,
                         absl::string_view name = "",
                         SourceLocation where = SourceLocation::Current());

// Any schedule of room nn: OneCycle, WarmUp before another one.
Tensor FromSchedule(const ::penstock::nn::Schedule& schedule, const Tensor& global_step,
                    absl::string_view name = "", SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::train
