#include "programs.h"

namespace penstock::keras_io {
namespace {

// A classifier of eight classes, whose features are reused for another task.
absl::StatusOr<keras::Model> Pretrained() {
  const LabelledRows rows = SquareImages(160, 16, 8, 4);
  keras::Model model = keras::Sequential({
      keras::Input({.shape = {16, 16, 1}, .dtype = DType::kU8}),
      keras::Rescaling({.scale = 1 / 255.0}),
      keras::Conv2D({.filters = 8, .kernel_size = 3, .padding = "same", .activation = "relu"}),
      keras::MaxPooling2D({.pool_size = 4}),
      keras::Flatten(),
      keras::Dense({.units = 24, .activation = "relu", .name = "features"}),
      keras::Dense({.units = 8, .activation = "softmax"}),
  });
  PENSTOCK_RETURN_IF_ERROR(model.Compile({.optimizer = keras::Adam({.learning_rate = 0.01})}));
  PENSTOCK_RETURN_IF_ERROR(model.Fit(rows.x, rows.y, {.epochs = 8, .verbose = 0}).status());
  return model;
}

}  // namespace

absl::StatusOr<double> TransferLearning() {
  PENSTOCK_ASSIGN_OR_RETURN(keras::Model pretrained, Pretrained());
  const keras::Model base(pretrained.inputs(), pretrained.GetLayer("features").output(), "base");

  // The new task is the row of the square. The base is frozen, so it also runs in inference mode.
  LabelledRows rows = SquareImages(120, 16, 8, 5);
  for (int64_t i = 0; i < rows.y.dim(0); ++i) rows.y.mutable_data<int64_t>()[i] /= 4;
  const keras::Layer base_layer = base.AsLayer();
  base_layer.SetTrainable(false);
  const keras::Symbol inputs = keras::Input({.shape = {16, 16, 1}, .dtype = DType::kU8});
  keras::Symbol x = base_layer(inputs);
  x = keras::Dropout({.rate = 0.2})(x);
  keras::Model model(inputs, keras::Dense({.units = 1})(x));
  const keras::Loss loss = keras::BinaryCrossentropy({.from_logits = true});
  const keras::metrics::Metric accuracy =
      keras::metrics::BinaryAccuracy({.threshold = 0}).Named("accuracy");
  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = keras::Adam({.learning_rate = 0.02}), .loss = loss, .metrics = {accuracy}}));
  // The base keeps its trained weights: "dense/kernel" is "base/dense/kernel" here.
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays trained, pretrained.GetWeights());
  NamedArrays base_weights;
  for (const auto& [name, array] : trained) base_weights.Set("base/" + name, array);
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(base_weights, {.by_name = true}).status());
  PENSTOCK_RETURN_IF_ERROR(
      model.Fit(rows.x, rows.y, {.batch_size = 16, .epochs = 25, .verbose = 0}).status());

  // Fine-tunes all layers with a low learning rate.
  base_layer.SetTrainable(true);
  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = keras::Adam({.learning_rate = 1e-4}), .loss = loss, .metrics = {accuracy}}));
  PENSTOCK_RETURN_IF_ERROR(model.Fit(rows.x, rows.y, {.epochs = 2, .verbose = 0}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs score, model.Evaluate(rows.x, rows.y));
  return score.Get("accuracy");
}

}  // namespace penstock::keras_io
