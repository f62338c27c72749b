// Exponential moving averages of variables: tf.train.ExponentialMovingAverage.
//
//   tf::train::ExponentialMovingAverage ema(0.999, step);
//   tf::Operation train;
//   {
//     const tf::ControlDependencies after({optimizer.Minimize(loss, step)});
//     train = ema.Apply(tf::TrainableVariables());
//   }
//   tf::train::Saver restore(ema.VariablesToRestore());      // evaluates with the averages
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session::train {

// shadow -= (1 - decay) * (shadow - variable). With num_updates, a scalar, the decay is
// min(decay, (1 + num_updates) / (10 + num_updates)), so that averages move faster at first. Copies
// share the averages.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(double decay,
                                    absl::string_view name = "ExponentialMovingAverage");
  ExponentialMovingAverage(double decay, const Tensor& num_updates,
                           absl::string_view name = "ExponentialMovingAverage");
  // The variable is read where Apply is called, as in TensorFlow.
  ExponentialMovingAverage(double decay, const Variable& num_updates,
                           absl::string_view name = "ExponentialMovingAverage");

  // The operation that updates the averages of the variables (empty: all trainable ones), in the
  // order in which control dependencies put it. The first call for a variable makes its average, a
  // non-trainable variable "<variable>/<name>", within the variable scope in which Apply is called,
  // that begins with the variable's initial value. That is the variable's value if both are initialized in one Run (GlobalVariablesInitializer).
  //
  // Difference from TensorFlow 1.15: there an average that is initialized in a later Run, after the
  // variable was restored or trained, begins with the variable's value of that moment; here a
  // random initial value is drawn again. For that value: session.Run(Assign(ema.Average(w), w)) in
  // place of the average's initializer.
  Operation Apply(const Variables& variables = {},
                  SourceLocation where = SourceLocation::Current());
  // The average of a variable; invalid if there is none.
  Variable Average(const Variable& variable) const;
  // The name of the average, without ":0", whether it exists or not.
  std::string AverageName(const Variable& variable) const;
  // Variables by the names in a checkpoint from which they are restored, for Saver: those that have
  // (or would have) an average by the average's name, the others by their own. Empty
  // `moving_average_variables`: all trainable ones.
  std::map<std::string, Variable> VariablesToRestore(
      const Variables& moving_average_variables = {}) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace penstock::session::train
