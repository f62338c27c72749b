#include <iostream>

#include "programs.h"

namespace penstock::keras_io {

absl::StatusOr<double> MnistConvnet() {
  constexpr int64_t kClasses = 10;
  const LabelledRows train = SquareImages(300, 28, kClasses, 1);
  const LabelledRows test = SquareImages(100, 28, kClasses, 2);
  PENSTOCK_ASSIGN_OR_RETURN(const Array y_train, keras::ToCategorical(train.y, kClasses));
  PENSTOCK_ASSIGN_OR_RETURN(const Array y_test, keras::ToCategorical(test.y, kClasses));

  keras::Model model = keras::Sequential({
      keras::Input({.shape = {28, 28, 1}, .dtype = DType::kU8}),
      keras::Rescaling({.scale = 1 / 255.0}),
      keras::Conv2D({.filters = 8, .kernel_size = {3, 3}, .activation = "relu"}),
      keras::MaxPooling2D({.pool_size = {2, 2}}),
      keras::Conv2D({.filters = 16, .kernel_size = {3, 3}, .activation = "relu"}),
      keras::MaxPooling2D({.pool_size = {2, 2}}),
      keras::Flatten(),
      keras::Dropout({.rate = 0.5}),
      keras::Dense({.units = kClasses, .activation = "softmax"}),
  });
  std::cout << model.Summary();

  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = "adam", .loss = "categorical_crossentropy", .metrics = {"accuracy"}}));
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::History history,
      model.Fit(train.x, y_train,
                {.batch_size = 32, .epochs = 8, .verbose = 0, .validation_split = 0.1}));
  std::cout << history.ToText({.names = {"accuracy"}});

  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs score, model.Evaluate(test.x, y_test));
  return score.Get("accuracy");
}

}  // namespace penstock::keras_io
