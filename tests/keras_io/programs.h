// Ten of keras.io's code examples, as a user of Penstock writes them: what each learns is made up
// and small, so that all of them run as a test. Each returns a number that shows that it learned.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/penstock.h"

namespace penstock::keras_io {

// keras.io/examples/vision/mnist_convnet: the accuracy on images that it has not seen.
absl::StatusOr<double> MnistConvnet();
// keras.io/examples/vision/image_classification_from_scratch: images in a folder with a subfolder
// for each class, made in `folder`; the validation accuracy.
absl::StatusOr<double> ImageClassificationFromScratch(const std::string& folder);
// keras.io/guides/transfer_learning: frozen features under a new head, then fine-tuning; the
// accuracy.
absl::StatusOr<double> TransferLearning();
// keras.io/examples/nlp/text_classification_from_scratch: the accuracy.
absl::StatusOr<double> TextClassification();
// keras.io/guides/functional_api: a model with three inputs and two outputs; the loss at the end
// divided by that at the beginning.
absl::StatusOr<double> FunctionalApi();
// keras.io/guides/custom_train_step_in_jax: the mean absolute error at the end divided by that at
// the beginning.
absl::StatusOr<double> CustomTrainStep();
// keras.io/examples/timeseries/timeseries_weather_forecasting: the loss at the end divided by that
// at the beginning.
absl::StatusOr<double> TimeseriesForecasting();
// keras.io/examples/vision/autoencoder: the same.
absl::StatusOr<double> Autoencoder();
// keras.io/examples/structured_data/structured_data_classification_from_scratch: a CSV file, made
// as `file`; the accuracy.
absl::StatusOr<double> StructuredData(const std::string& file);
// keras.io/examples/nlp/text_classification_with_transformer: the accuracy.
absl::StatusOr<double> TransformerClassification();

// ---- Made-up data ----

struct LabelledRows {
  Array x, y;
};
// `count` images [side, side, 1] of bytes: a bright square whose place says the class, and noise.
LabelledRows SquareImages(int64_t count, int64_t side, int64_t classes, uint64_t seed);
// `count` sequences of `steps` tokens from 2 up to `vocabulary`; class 1 has one of the tokens 5 to
// 9 somewhere, class 0 has none.
LabelledRows TokenSequences(int64_t count, int64_t steps, int64_t vocabulary, uint64_t seed);

}  // namespace penstock::keras_io
