#include "penstock/models/by_name.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/models/image_net_builder.h"
#include "penstock/models/mlp.h"
#include "penstock/models/resnet_cifar.h"
#include "penstock/models/vision_transformer.h"

namespace penstock::models {
namespace {

template <int kDepth>
nn::Network OfCifar(const ImageNetOptions& options) {
  return ResNetCifar({.depth = kDepth,
                      .input_shape = options.input_shape,
                      .input_dtype = options.input_dtype,
                      .classes = options.classes,
                      .input_layers = options.input_layers,
                      .rescale = options.rescale,
                      .height_shift = options.height_shift,
                      .width_shift = options.width_shift});
}

nn::Network OfMlp(const ImageNetOptions& options) {
  return Mlp({.input_shape = options.input_shape,
              .input_dtype = options.input_dtype,
              .classes = options.classes,
              .input_layers = options.input_layers,
              .rescale = options.rescale});
}

nn::Network OfVisionTransformer(const ImageNetOptions& options) {
  const bool large = !options.input_shape.empty() && options.input_shape[0] > 64;
  return VisionTransformer({.input_shape = options.input_shape,
                            .input_dtype = options.input_dtype,
                            .patch_size = large ? 16 : 4,
                            .include_top = options.include_top,
                            .classes = options.classes,
                            .input_layers = options.input_layers,
                            .rescale = options.rescale,
                            .offset = options.offset,
                            .height_shift = options.height_shift,
                            .width_shift = options.width_shift});
}

// Networks that are not in keras.applications. They check their input shapes themselves.
constexpr PreprocessMode kAsIs = PreprocessMode::kNone;
constexpr ModelInfo kOthers[] = {
    {"mlp", nullptr, OfMlp, 32, 1, kAsIs, 0},
    {"resnet8", nullptr, OfCifar<8>, 32, 1, kAsIs, kShift},
    {"resnet20", nullptr, OfCifar<20>, 32, 1, kAsIs, kShift},
    {"resnet32", nullptr, OfCifar<32>, 32, 1, kAsIs, kShift},
    {"resnet56", nullptr, OfCifar<56>, 32, 1, kAsIs, kShift},
    {"vision_transformer", nullptr, OfVisionTransformer, 32, 4, kAsIs,
     kIncludeTop | kOffset | kShift},
};

std::vector<ModelInfo> AllModels() {
  std::vector<ModelInfo> models(std::begin(kOthers), std::end(kOthers));
  for (const auto& family :
       {internal::ResNets, internal::Vggs, internal::DenseNets, internal::Xceptions,
        internal::Inceptions, internal::NasNets, internal::MobileNetV1s, internal::MobileNetV2s,
        internal::MobileNetV3s, internal::EfficientNets, internal::EfficientNetV2s,
        internal::ConvNeXts, internal::ViTs}) {
    const std::vector<ModelInfo> members = family();
    models.insert(models.end(), members.begin(), members.end());
  }
  return models;
}

absl::StatusOr<ModelInfo> InfoOf(absl::string_view name) {
  for (const ModelInfo& model : Models()) {
    if (name == model.name) return model;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown model '", name, "'; available: ", absl::StrJoin(Names(), ", ")));
}

}  // namespace

const std::vector<ModelInfo>& Models() {
  static const auto& models = *new std::vector<ModelInfo>(AllModels());
  return models;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const ModelInfo& model : Models()) names.push_back(model.name);
  return names;
}

absl::StatusOr<nn::Network> ByName(absl::string_view name, const ImageNetOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const ModelInfo model, InfoOf(name));
  PENSTOCK_RETURN_IF_ERROR(internal::CheckOptions(model, options));
  nn::Network network = model.make(internal::WithDefaultShape(model, options));
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

absl::StatusOr<ImagePreprocessing> Preprocessing(absl::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(const ModelInfo model, InfoOf(name));
  return PreprocessingOf(model.preprocess_mode);
}

}  // namespace penstock::models
