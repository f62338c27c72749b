#include "penstock/base/random.h"
#include "penstock/ir/ops.h"

#include "programs.h"

namespace penstock::keras_io {

// A training step with its own loss and an additional metric.
absl::StatusOr<double> CustomTrainStep() {
  base::Random random(1);
  Array x = Array::Zeros(DType::kF32, {256, 8}), y = Array::Zeros(DType::kF32, {256, 1});
  for (int64_t i = 0; i < 256; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < 8; ++k) {
      sum += x.mutable_data<float>()[i * 8 + k] = static_cast<float>(random.Uniform());
    }
    y.mutable_data<float>()[i] = sum;
  }
  keras::Model model =
      keras::Sequential({keras::Input({.shape = {8}}), keras::Dense({.units = 1})});
  const keras::CustomStep step{.function = [](const keras::StepContext& in) -> keras::StepResult {
                                 const ir::Value y_pred = in.apply(in.inputs)[0];
                                 const ir::Value error = y_pred - in.labels[0];
                                 return {.loss = ir::ReduceMean(ir::Square(error), {1}),
                                         .measured = {ir::ReduceMean(ir::Abs(error), {1})}};
                               },
                               .measures = {"mae"}};
  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = keras::Adam({.learning_rate = 0.02}), .loss = "mse", .train_step = step}));
  PENSTOCK_ASSIGN_OR_RETURN(const keras::History history,
                            model.Fit(x, y, {.epochs = 15, .verbose = 0}));
  return history["mae"].back() / history["mae"].front();
}

}  // namespace penstock::keras_io
