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

template <int kDepth>
nn::Network OfImageNet(const ByNameOptions& options) {
  return ResNet({.depth = kDepth,
                 .input_shape = options.input_shape,
                 .input_dtype = options.input_dtype,
                 .classes = options.classes,
                 .rescale = options.rescale,
                 .height_shift = options.shift,
                 .width_shift = options.shift});
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
    {"resnet50", OfImageNet<50>},
    {"resnet101", OfImageNet<101>},
    {"resnet152", OfImageNet<152>},
    {"mobilenet_v2",
     [](const ByNameOptions& options) {
       return MobileNetV2({.input_shape = options.input_shape,
                           .input_dtype = options.input_dtype,
                           .classes = options.classes,
                           .rescale = options.rescale,
                           .height_shift = options.shift,
                           .width_shift = options.shift});
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
  return absl::NotFoundError(
      absl::StrCat("there is no model '", name, "'; there are ", absl::StrJoin(Names(), ", ")));
}

}  // namespace penstock::models
