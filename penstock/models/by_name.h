// Networks over images by name, for command lines.
//
//   absl::StatusOr<nn::Network> net = ByName("resnet50", {.include_top = false, .pooling = "avg"});
//   for (const std::string& name : Names()) std::puts(name.c_str());
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/models/image_net.h"

namespace penstock::models {

// The network of this name with these options; an option that it does not have is an error. The
// small networks that are not in keras.applications ("mlp", "resnet8", "resnet20", "resnet32",
// "resnet56", "vision_transformer": patches of 4x4, of 16x16 for images of more than 64 pixels in
// height) have classes, input_shape, input_dtype and rescale, and except "mlp" the shifts. The
// error for an unknown name lists the known ones.
absl::StatusOr<nn::Network> ByName(absl::string_view name, const ImageNetOptions& options = {});

// The preprocessing of images that weights from keras.applications require.
absl::StatusOr<ImagePreprocessing> Preprocessing(absl::string_view name);

// The networks that ByName knows, and their names.
const std::vector<ModelInfo>& Models();
std::vector<std::string> Names();

}  // namespace penstock::models
