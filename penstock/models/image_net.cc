#include "penstock/models/image_net.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/models/image_net_builder.h"
#include "penstock/nn/layers.h"

namespace penstock::models {

using nn::Symbol;

const char* ModeName(PreprocessMode mode) {
  constexpr const char* kNames[] = {"none", "inside", "caffe", "tf", "torch"};
  return kNames[static_cast<int>(mode)];
}

ImagePreprocessing PreprocessingOf(PreprocessMode mode) {
  ImagePreprocessing out{.mode = mode};
  const auto set = [&](int channel, double scale, double offset) {
    out.scale[channel] = scale;
    out.offset[channel] = offset;
  };
  switch (mode) {
    case PreprocessMode::kNone:
    case PreprocessMode::kInside:
      break;
    case PreprocessMode::kCaffe: {
      constexpr double kMean[] = {103.939, 116.779, 123.68};  // blue, green, red
      out.reverse_channels = true;
      for (int c = 0; c < 3; ++c) set(c, 1, -kMean[c]);
      break;
    }
    case PreprocessMode::kTf:
      for (int c = 0; c < 3; ++c) set(c, 1 / 127.5, -1);
      break;
    case PreprocessMode::kTorch: {
      constexpr double kMean[] = {0.485, 0.456, 0.406}, kDeviation[] = {0.229, 0.224, 0.225};
      for (int c = 0; c < 3; ++c) set(c, 1 / (255 * kDeviation[c]), -kMean[c] / kDeviation[c]);
      break;
    }
  }
  return out;
}

std::vector<nn::Layer> PreprocessingLayers(PreprocessMode mode) {
  if (mode == PreprocessMode::kNone || mode == PreprocessMode::kInside) return {};
  const ImagePreprocessing p = PreprocessingOf(mode);
  std::vector<nn::Layer> layers;
  if (p.reverse_channels) layers.push_back(nn::Flip({.name = "rgb_to_bgr"}));
  layers.push_back(nn::Rescaling({.scale = {p.scale[0], p.scale[1], p.scale[2]},
                                  .offset = {p.offset[0], p.offset[1], p.offset[2]},
                                  .name = "preprocessing"}));
  return layers;
}

namespace internal {
namespace {

absl::Status CheckImageShape(const ModelInfo& model, const std::vector<int64_t>& shape) {
  if (shape.size() == 3 && shape[0] >= model.min_image_size && shape[1] >= model.min_image_size &&
      shape[2] > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      model.name, " expects images [height, width, channels] of at least ", model.min_image_size,
      " pixels in height and width, got [", absl::StrJoin(shape, ", "), "]"));
}

}  // namespace

absl::Status CheckOptions(const ModelInfo& model, const ImageNetOptions& options) {
  const struct {
    bool given;
    ImageNetOption option;
    const char* name;
  } rows[] = {
      {!options.include_top, kIncludeTop, "include_top"},
      {!options.pooling.empty(), kPooling, "pooling"},
      {options.classifier_activation != "linear", kClassifierActivation, "classifier_activation"},
      {!options.name.empty(), kName, "name"},
      {options.offset != 0, kOffset, "offset"},
      {options.height_shift != 0 || options.width_shift != 0, kShift, "height_shift, width_shift"},
      {options.momentum.has_value(), kMomentum, "momentum"},
      {options.alpha.has_value(), kAlpha, "alpha"},
      {options.depth_multiplier.has_value(), kDepthMultiplier, "depth_multiplier"},
      {options.dropout.has_value(), kDropout, "dropout"},
      {options.minimalistic.has_value(), kMinimalistic, "minimalistic"},
      {options.include_preprocessing.has_value(), kIncludePreprocessing, "include_preprocessing"},
      {options.drop_connect.has_value(), kDropConnect, "drop_connect"},
      {options.imagenet_rescaling.has_value(), kImageNetRescaling, "imagenet_rescaling"},
  };
  for (const auto& row : rows) {
    if (row.given && (model.options & row.option) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the network ", model.name, " has no option ", row.name));
    }
  }
  if (options.classes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("classes must be above 0, got ", options.classes));
  }
  if (options.alpha.has_value() && !(*options.alpha > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("alpha multiplies the width and is above 0, got ", *options.alpha));
  }
  if (!options.pooling.empty() && options.pooling != "avg" && options.pooling != "max") {
    return absl::InvalidArgumentError(absl::StrCat("unknown pooling '", options.pooling,
                                                   "'; available: avg, max, and empty for none"));
  }
  return absl::OkStatus();
}

ImageNetOptions WithDefaultShape(const ModelInfo& model, ImageNetOptions options) {
  if (options.input_shape.empty()) options.input_shape = {model.image_size, model.image_size, 3};
  return options;
}

absl::StatusOr<ImageNetBuilder> ImageNetBuilder::Start(const ModelInfo& model,
                                                       const ImageNetOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(model, options));
  ImageNetBuilder builder(WithDefaultShape(model, options));
  PENSTOCK_RETURN_IF_ERROR(CheckImageShape(model, builder.options_.input_shape));
  builder.input_ = nn::Input({.shape = builder.options_.input_shape,
                              .dtype = builder.options_.input_dtype,
                              .name = "image"});
  builder.image_ = Prepared(builder.input_, builder.options_);
  return builder;
}

Symbol ImageNetBuilder::Pool(Symbol x, const PoolNames& names) const {
  if (options_.pooling == "avg") return nn::GlobalAveragePooling2D({.name = names.avg})(x);
  if (options_.pooling == "max") return nn::GlobalMaxPooling2D({.name = names.max})(x);
  return x;
}

Symbol ImageNetBuilder::Classify(Symbol x, const nn::Initializer& kernel_initializer) const {
  return nn::Dense({.units = options_.classes,
                    .activation = options_.classifier_activation,
                    .kernel_initializer = kernel_initializer,
                    .name = "predictions"})(x);
}

Symbol ImageNetBuilder::Top(Symbol x, const PoolNames& names) const {
  if (!options_.include_top) return Pool(x, names);
  return Classify(nn::GlobalAveragePooling2D({.name = names.top})(x));
}

nn::Network ImageNetBuilder::Finish(Symbol output, const std::string& default_name) const {
  return nn::Network({input_}, {output}, options_.name.empty() ? default_name : options_.name);
}

std::string AutoNames::operator()(const std::string& base) {
  const int64_t n = count_[base]++;
  return n == 0 ? base : absl::StrCat(base, "_", n);
}

nn::Ends<2> PadForStride2(const Symbol& x, int64_t kernel) {
  const auto& type = x.type();
  const auto odd = [&](int axis) { return type.ok() ? type->shape.dim(axis) % 2 : 0; };
  const int64_t half = kernel / 2;
  return {{half - 1 + odd(1), half}, {half - 1 + odd(2), half}};
}

int64_t Divisible(double channels, int64_t divisor) {
  const auto whole = static_cast<int64_t>(channels + static_cast<double>(divisor) / 2);
  const int64_t nearest = std::max(divisor, whole / divisor * divisor);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + divisor : nearest;
}

int64_t Channels(const Symbol& x) { return x.type().ok() ? x.type()->shape.dim(-1) : 1; }

}  // namespace internal
}  // namespace penstock::models
