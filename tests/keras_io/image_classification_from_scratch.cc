#include <iostream>

#include "absl/strings/str_cat.h"

#include "penstock/image/encode.h"
#include "penstock/io/file_system.h"

#include "programs.h"

namespace penstock::keras_io {
namespace {

absl::Status WriteImages(const std::string& folder) {
  const LabelledRows rows = SquareImages(120, 16, 2, 3);
  const char* const classes[] = {"Cat", "Dog"};
  for (int64_t i = 0; i < rows.x.dim(0); ++i) {
    const Array pixels = rows.x.Row(i);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string png, image::EncodePng(image::TightView(
                                                         pixels.data<uint8_t>(), {16, 16}, 1)));
    const std::string name =
        absl::StrCat(folder, "/", classes[rows.y.item<int64_t>({i})], "/", i, ".png");
    PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*io::FileSystem::Default(), name, png));
  }
  return absl::OkStatus();
}

// An entry block, residual blocks, and a classifier.
keras::Model MakeModel(const std::vector<int64_t>& input_shape) {
  const keras::Symbol inputs = keras::Input({.shape = input_shape, .dtype = DType::kU8});
  keras::Symbol x = keras::RandomFlip({.mode = keras::FlipMode::kVertical})(inputs);
  x = keras::RandomContrast({.factor = 0.1})(x);
  x = keras::Rescaling({.scale = 1 / 255.0})(x);
  x = keras::Conv2D({.filters = 8, .kernel_size = 3, .strides = 2, .padding = "same"})(x);
  x = keras::BatchNormalization({.momentum = 0.8})(x);
  x = keras::Activation({.activation = "relu"})(x);
  keras::Symbol previous = x;  // set aside the residual
  for (const int64_t size : {12, 16}) {
    x = keras::Activation({.activation = "relu"})(x);
    x = keras::SeparableConv2D({.filters = size, .kernel_size = 3, .padding = "same"})(x);
    x = keras::BatchNormalization({.momentum = 0.8})(x);
    x = keras::MaxPooling2D({.pool_size = 3, .strides = 2, .padding = "same"})(x);
    const keras::Symbol residual = keras::Conv2D(
        {.filters = size, .kernel_size = 1, .strides = 2, .padding = "same"})(previous);
    x = keras::Add()({x, residual});
    previous = x;
  }
  x = keras::Flatten()(x);
  x = keras::Dropout({.rate = 0.25})(x);
  return keras::Model(inputs, keras::Dense({.units = 1, .activation = "sigmoid"})(x));
}

}  // namespace

absl::StatusOr<double> ImageClassificationFromScratch(const std::string& folder) {
  PENSTOCK_RETURN_IF_ERROR(WriteImages(folder));
  const auto images = [&](data::ImageSubset subset) {
    return Dataset::FromImageFolder(folder,
                                    {.validation_split = 0.2, .subset = subset, .split_seed = 1337})
        .DecodeImage({.channels = 1, .height = 16, .width = 16})
        .Batch(16)
        .Prefetch();
  };
  const Dataset train = images(data::ImageSubset::kTraining);
  const Dataset validation = images(data::ImageSubset::kValidation);

  keras::Model model = MakeModel({16, 16, 1});
  PENSTOCK_RETURN_IF_ERROR(model.Compile({.optimizer = keras::Adam({.learning_rate = 3e-3}),
                                          .loss = "binary_crossentropy",
                                          .metrics = {keras::metrics::BinaryAccuracy()}}));
  model.SetClassNames(train.class_names());
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::History history,
      model.Fit(train, {.epochs = 12, .verbose = 0, .validation_data = validation}));

  PENSTOCK_ASSIGN_OR_RETURN(const Array scores, model.Predict(validation.Take(1)));
  const double score = scores.item<double>({0, 0});
  std::cout << "This image is " << 100 * (1 - score) << " % " << model.class_names()[0] << " and "
            << 100 * score << " % " << model.class_names()[1] << ".\n";
  return history["val_binary_accuracy"].back();
}

}  // namespace penstock::keras_io
