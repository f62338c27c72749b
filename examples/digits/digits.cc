// Trains a small ResNet on shards of handwritten digits, saves the model, loads it again and
// evaluates it on held-out digits. ./quickstart or `penstock pack` writes the shards.
//
//   build/release/bin/digits 'build/quickstart/train/*.tfrec' 'build/quickstart/test/*.tfrec'
//       digits.safetensors
#include <cstdio>

#include "penstock/keras/keras.h"
#include "penstock/models/models.h"

using namespace penstock;

data::Dataset Digits(const char* shards, bool training) {
  data::Dataset records = data::Dataset::FromTfRecords({shards});
  if (training) records = records.Shuffle(2000);
  return records
      .ParseExample({.features = {{.name = "image", .dtype = base::DType::kString},
                                  {.name = "class", .dtype = base::DType::kI64}}})
      .DecodeImage({.channels = 1, .height = 8, .width = 8})
      .Batch(64)
      .Prefetch(2);
}

absl::Status Run(const char* train_shards, const char* test_shards, const char* file) {
  const data::Dataset train = Digits(train_shards, true), test = Digits(test_shards, false);
  keras::Model model(models::ResNetCifar({.depth = 8,
                                          .input_shape = {8, 8, 1},
                                          .input_dtype = base::DType::kU8,
                                          .rescale = 1 / 255.0,
                                          .height_shift = 0.12,
                                          .width_shift = 0.12}));
  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = keras::SGD(
           {.learning_rate = keras::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 460}),
            .momentum = 0.9}),
       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
       .metrics = {"accuracy"}}));
  PENSTOCK_RETURN_IF_ERROR(model.Fit(train, {.epochs = 20}).status());
  PENSTOCK_RETURN_IF_ERROR(model.Save(file));

  PENSTOCK_ASSIGN_OR_RETURN(keras::Model loaded, keras::Model::Load(file));
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs logs, loaded.Evaluate(test));
  std::printf("held-out accuracy: %.1f %%\n", 100 * *logs.Find("accuracy"));
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: digits TRAIN-SHARDS TEST-SHARDS MODEL.safetensors\n");
    return 2;
  }
  const absl::Status status = Run(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
