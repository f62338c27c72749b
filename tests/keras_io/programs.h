// Ten code examples from keras.io as users of Penstock would write them. Their data is synthetic
// and small, so that all run as one test. Each returns a number that shows whether it learned.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/penstock.h"

namespace penstock::keras_io {

// keras.io/examples/vision/mnist_convnet: accuracy on held-out images.
absl::StatusOr<double> MnistConvnet();
// keras.io/examples/vision/image_classification_from_scratch: images in one subfolder of `folder`
// per class; validation accuracy.
absl::StatusOr<double> ImageClassificationFromScratch(const std::string& folder);
// keras.io/guides/transfer_learning: frozen features with a new head, then fine-tuning; accuracy.
absl::StatusOr<double> TransferLearning();
// keras.io/examples/nlp/text_classification_from_scratch: accuracy.
absl::StatusOr<double> TextClassification();
// keras.io/guides/functional_api: a model with three inputs and two outputs; ratio of the final
// loss to the initial one.
absl::StatusOr<double> FunctionalApi();
// keras.io/guides/custom_train_step_in_jax: ratio of the final mean absolute error to the initial
// one.
absl::StatusOr<double> CustomTrainStep();
// keras.io/examples/timeseries/timeseries_weather_forecasting: ratio of the final loss to the
// initial one.
absl::StatusOr<double> TimeseriesForecasting();
// keras.io/examples/vision/autoencoder: ratio of the final loss to the initial one.
absl::StatusOr<double> Autoencoder();
// keras.io/examples/structured_data/structured_data_classification_from_scratch: writes and reads
// the CSV file `file`; accuracy.
absl::StatusOr<double> StructuredData(const std::string& file);
// keras.io/examples/nlp/text_classification_with_transformer: accuracy.
absl::StatusOr<double> TransformerClassification();

// ---- Synthetic data ----

struct LabelledRows {
  Array x, y;
};
// `count` byte images [side, side, 1] with noise: the position of a bright square determines the
// class.
LabelledRows SquareImages(int64_t count, int64_t side, int64_t classes, uint64_t seed);
// `count` sequences of `steps` tokens from 2 to `vocabulary`; class 1 contains one of the tokens 5
// to 9, and class 0 contains none.
LabelledRows TokenSequences(int64_t count, int64_t steps, int64_t vocabulary, uint64_t seed);

}  // namespace penstock::keras_io
