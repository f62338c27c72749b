#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/models/models.h"

namespace penstock::models {
namespace {

template <int kDepth>
nn::Network OfCifar(const ByNameOptions& options) {
  return ResNetCifar({.depth = kDepth,
                      .input_shape = options.input_shape,
                      .input_dtype = options.input_dtype,
                      .classes = options.classes,
                      .rescale = options.rescale,
                      .height_shift = options.shift,
                      .width_shift = options.shift});
}

// Options that most image networks share.
template <typename Options>
Options WithImageOptions(const ByNameOptions& options) {
  Options of;
  of.input_shape = options.input_shape;
  of.input_dtype = options.input_dtype;
  of.classes = options.classes;
  of.rescale = options.rescale;
  of.height_shift = of.width_shift = options.shift;
  return of;
}

template <int kDepth, nn::Network (*kMake)(const ResNetOptions&)>
nn::Network OfDepth(const ByNameOptions& options) {
  auto of = WithImageOptions<ResNetOptions>(options);
  of.depth = kDepth;
  return kMake(of);
}

template <typename Options, nn::Network (*kMake)(const Options&)>
nn::Network Of(const ByNameOptions& options) {
  return kMake(WithImageOptions<Options>(options));
}

struct Row {
  const char* name;
  nn::Network (*make)(const ByNameOptions& options);
};

constexpr Row kTable[] = {
    {"mlp",
     [](const ByNameOptions& options) {
       return Mlp({.input_shape = options.input_shape,
                   .input_dtype = options.input_dtype,
                   .classes = options.classes,
                   .rescale = options.rescale});
     }},
    {"resnet8", OfCifar<8>},
    {"resnet20", OfCifar<20>},
    {"resnet32", OfCifar<32>},
    {"resnet56", OfCifar<56>},
    {"resnet50", OfDepth<50, ResNet>},
    {"resnet101", OfDepth<101, ResNet>},
    {"resnet152", OfDepth<152, ResNet>},
    {"resnet50_v2", OfDepth<50, ResNetV2>},
    {"resnet101_v2", OfDepth<101, ResNetV2>},
    {"resnet152_v2", OfDepth<152, ResNetV2>},
    {"vgg16", Of<VGG16Options, VGG16>},
    {"mobilenet_v2", Of<MobileNetV2Options, MobileNetV2>},
    {"vision_transformer",
     [](const ByNameOptions& options) {
       auto of = WithImageOptions<VisionTransformerOptions>(options);
       if (!of.input_shape.empty() && of.input_shape[0] > 64) of.patch_size = 16;
       return VisionTransformer(of);
     }},
};

}  // namespace

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Row& row : kTable) names.push_back(row.name);
  return names;
}

absl::StatusOr<nn::Network> ByName(absl::string_view name, const ByNameOptions& options) {
  for (const Row& row : kTable) {
    if (name != row.name) continue;
    nn::Network network = row.make(options);
    PENSTOCK_RETURN_IF_ERROR(network.status());
    return network;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown model '", name, "'; available: ", absl::StrJoin(Names(), ", ")));
}

}  // namespace penstock::models
