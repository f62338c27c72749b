// Options that the networks for ImageNet share, and what is known about each of them. The functions
// that build the networks are declared in a header for each family (vgg.h, resnet.h, ...), and have
// the names of keras.applications:
//
//   nn::Network backbone = VGG19({.include_top = false, .pooling = "avg"});
//   nn::Network narrow = MobileNetV2({.classes = 5, .alpha = 0.5});
//
// The layers, their names, order, weights and defaults are those of keras.applications, with one
// exception: the networks return logits (Keras: classifier_activation=None), so losses need
// from_logits; `classifier_activation = "softmax"` is Keras's default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "penstock/base/dtype.h"
#include "penstock/models/torch_layout.h"
#include "penstock/nn/network.h"
#include "penstock/nn/typed_options.h"

namespace penstock::models {

// Global pooling at the end of a network without its top; kNone returns the feature maps.
struct TopPooling : nn::NamedOption<TopPooling> {
  enum Value { kNone, kAvg, kMax };
  static constexpr const char* kNames[] = {"", "avg", "max"};
  using NamedOption::NamedOption;
  TopPooling(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};

struct ImageNetOptions {
  // [height, width, channels]; empty: the network's default size with 3 channels.
  std::vector<int64_t> input_shape = {};
  bool include_top = true;  // with the layers that classify
  TopPooling pooling = "";  // used without the top only
  int64_t classes = 1000;
  nn::ActivationFunction classifier_activation = "linear";
  std::string name = "";  // of the network; empty: Keras's

  base::DType input_dtype = base::DType::kF32;
  // Layers applied to the image first, in this order: augmentation, then PreprocessingLayers.
  std::vector<nn::Layer> input_layers = {};
  // Rescaling of the input by a preceding layer, which is omitted if it would change nothing.
  // Keras's weights require the preprocessing of models::Preprocessing.
  double rescale = 1;
  double offset = 0;  // added after rescale
  // Augmentation in training: maximum translation as a fraction of the height and width, as
  // RandomTranslation.
  double height_shift = 0, width_shift = 0;

  // Options that only some networks have; another network reports them as an error. nullopt is the
  // network's default.
  //
  // Momentum of the moving averages of batch normalization; choose a smaller one than the default
  // for a training of less than a few hundred steps.
  std::optional<double> momentum = std::nullopt;
  std::optional<double> alpha = std::nullopt;                // width multiplier: MobileNet, V2, V3
  std::optional<int64_t> depth_multiplier = std::nullopt;    // MobileNet
  std::optional<double> dropout = std::nullopt;              // rate before the classifier
  std::optional<double> drop_connect = std::nullopt;         // EfficientNet, ConvNeXt
  std::optional<bool> minimalistic = std::nullopt;           // MobileNetV3
  std::optional<bool> include_preprocessing = std::nullopt;  // within the network
  std::optional<bool> imagenet_rescaling = std::nullopt;     // EfficientNetB0 to B7
};

// Keras's preprocess_input, for images with values from 0 to 255:
//   kNone   the network takes them as they are
//   kInside the network preprocesses them itself, unless include_preprocessing is false
//   kCaffe  channels blue, green, red; minus the mean of ImageNet
//   kTf     from -1 to 1
//   kTorch  from 0 to 1, then minus the mean, divided by the standard deviation of ImageNet
enum class PreprocessMode { kNone, kInside, kCaffe, kTf, kTorch };
const char* ModeName(PreprocessMode mode);  // "none", "inside", "caffe", "tf", "torch"

// The same as numbers: channel c of the network's input is `x[c] * scale[c] + offset[c]`, where x
// is the RGB image, or the BGR image if `reverse_channels`.
struct ImagePreprocessing {
  PreprocessMode mode = PreprocessMode::kNone;
  bool reverse_channels = false;
  double scale[3] = {1, 1, 1};
  double offset[3] = {0, 0, 0};
};
ImagePreprocessing PreprocessingOf(PreprocessMode mode);

// The same as layers, for ImageNetOptions::input_layers; none for kNone and kInside.
std::vector<nn::Layer> PreprocessingLayers(PreprocessMode mode);

// Options of ImageNetOptions that a network may lack, as bits of ModelInfo::options.
enum ImageNetOption : unsigned {
  kIncludeTop = 1 << 0,
  kPooling = 1 << 1,
  kClassifierActivation = 1 << 2,
  kName = 1 << 3,
  kOffset = 1 << 4,
  kShift = 1 << 5,
  kMomentum = 1 << 6,
  kAlpha = 1 << 7,
  kDepthMultiplier = 1 << 8,
  kDropout = 1 << 9,
  kMinimalistic = 1 << 10,
  kIncludePreprocessing = 1 << 11,
  kDropConnect = 1 << 12,
  kImageNetRescaling = 1 << 13,
  // Those that every network of keras.applications has.
  kImageNet = kIncludeTop | kPooling | kClassifierActivation | kName | kOffset | kShift,
};

// A network that is known by name: a row of its family's table.
using ModelFunction = nn::Network (*)(const ImageNetOptions& options);
struct ModelInfo {
  const char* name;        // of models::ByName: "vgg19"
  const char* keras_name;  // of the function, here and in keras.applications; nullptr: only here
  ModelFunction make;
  int64_t image_size;      // default height and width
  int64_t min_image_size;  // smaller images are an error of the network
  PreprocessMode preprocess_mode = PreprocessMode::kNone;
  unsigned options = kImageNet;  // bits of ImageNetOption
  // Names of the layers in PyTorch; its weights fit (torch_weights.h).
  absl::Span<const TorchLayout> torch = {};
};

}  // namespace penstock::models
