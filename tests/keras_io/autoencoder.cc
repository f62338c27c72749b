#include "penstock/base/random.h"

#include "programs.h"

namespace penstock::keras_io {

// Denoises images.
absl::StatusOr<double> Autoencoder() {
  const LabelledRows rows = SquareImages(96, 16, 8, 6);
  // keras.io: x.astype("float32") / 255, and the same images with noise.
  PENSTOCK_ASSIGN_OR_RETURN(Array clean, rows.x.Cast(DType::kF32));
  for (int64_t i = 0; i < clean.num_elements(); ++i) clean.mutable_data<float>()[i] /= 255;
  Array noisy = clean.Clone();
  base::Random random(7);
  for (int64_t i = 0; i < noisy.num_elements(); ++i) {
    noisy.mutable_data<float>()[i] += static_cast<float>(0.2 * random.Uniform());
  }

  const keras::Symbol input = keras::Input({.shape = {16, 16, 1}});
  keras::Symbol x = keras::Conv2D(
      {.filters = 8, .kernel_size = 3, .padding = "same", .activation = "relu"})(input);
  x = keras::MaxPooling2D({.pool_size = 2, .padding = "same"})(x);
  const keras::Symbol encoded = keras::Conv2D(
      {.filters = 4, .kernel_size = 3, .padding = "same", .activation = "relu", .name = "encoded"})(
      x);
  x = keras::Conv2DTranspose(
      {.filters = 8, .kernel_size = 3, .strides = 2, .padding = "same", .activation = "relu"})(
      encoded);
  x = keras::Conv2D({.filters = 1, .kernel_size = 3, .padding = "same", .activation = "sigmoid"})(
      x);
  keras::Model autoencoder(input, x);
  PENSTOCK_RETURN_IF_ERROR(autoencoder.Compile(
      {.optimizer = keras::Adam({.learning_rate = 0.01}), .loss = "binary_crossentropy"}));
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::History history,
      autoencoder.Fit(noisy, clean, {.batch_size = 32, .epochs = 12, .verbose = 0}));

  // The encoder alone is a part of the model.
  keras::Model encoder(autoencoder.inputs(), autoencoder.GetLayer("encoded").output());
  PENSTOCK_RETURN_IF_ERROR(encoder.Compile({.loss = "mse"}));
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, autoencoder.GetWeights());
  PENSTOCK_RETURN_IF_ERROR(encoder.SetWeights(weights, {.by_name = true}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const Array codes, encoder.Predict(noisy));
  if (codes.shape() != Shape({96, 8, 8, 4})) {
    return absl::InternalError("codes are " + codes.TypeString());
  }
  return history["loss"].back() / history["loss"].front();
}

}  // namespace penstock::keras_io
