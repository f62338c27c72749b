#include "absl/strings/str_cat.h"

#include "penstock/models/models.h"
#include "penstock/models/preparation.h"

namespace penstock::models {
namespace {

// Configuration D of the paper's table 1: number of 3x3 convolutions, followed by halving height
// and width.
struct BlockRow {
  int64_t convolutions, filters;
};

constexpr BlockRow kBlocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};

}  // namespace

nn::Network VGG16(const VGG16Options& options) {
  if (absl::Status status = internal::CheckImageNetInput("VGG16", options.input_shape);
      !status.ok()) {
    return nn::Network(std::move(status));
  }
  const nn::Symbol input =
      nn::Input({.shape = options.input_shape, .dtype = options.input_dtype, .name = "image"});
  nn::Symbol x = internal::Prepared(input, options);
  int number = 0;
  for (const BlockRow& row : kBlocks) {
    const std::string block = absl::StrCat("block", ++number);
    for (int64_t i = 1; i <= row.convolutions; ++i) {
      x = nn::Conv2D({.filters = row.filters,
                      .kernel_size = 3,
                      .padding = "same",
                      .activation = "relu",
                      .name = absl::StrCat(block, "_conv", i)})(x);
    }
    x = nn::MaxPooling2D({.name = block + "_pool"})(x);
  }
  if (options.include_top) {
    x = nn::Flatten({.name = "flatten"})(x);
    for (const char* name : {"fc1", "fc2"}) {
      x = nn::Dense({.units = 4096, .activation = "relu", .name = name})(x);
    }
    x = nn::Dense({.units = options.classes, .name = "predictions"})(x);
  }
  return nn::Network({input}, {x}, "vgg16");
}

}  // namespace penstock::models
