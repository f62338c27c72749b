// Pretrained layers: a network that a file holds, with its weights, as a layer of another network
// (TensorFlow Hub's KerasLayer).
//
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const Layer backbone,
//       FromFile("gs://bucket/resnet50.safetensors", {.trainable = false, .until = "avg_pool"}));
//   const Symbol image = Input({.shape = {224, 224, 3}});
//   Model model(image, Dense({.units = 5})(backbone(image)));
//
// The weights arrive with the layer: Compile initializes its variables by those of the file, and
// the others by their initializers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/nn/layer.h"

namespace penstock::keras {

struct FromFileOptions {
  // Whether training changes the layer (nn::Layer::SetTrainable, which can be called later, too).
  // Frozen and trainable layers of the file are not distinguished.
  bool trainable = false;
  // Name of the network's layer whose output is the output; downstream layers are left out, with
  // their weights. Empty: the whole network.
  std::string until = "";
  // Name of the layer; default: the network's. Its variables are "<name>/<layer>/...".
  std::string name = "";
  // Custom layer classes that the network contains, by class name.
  nn::CustomLayers custom_layers = {};
};

// A layer from a file that Model::Save has written, of any file system. Errors name the file: it
// has no network (only weights), it has no layer `until` (the error lists similar names), and those
// of Model::Load.
absl::StatusOr<nn::Layer> FromFile(absl::string_view uri, const FromFileOptions& options = {});

}  // namespace penstock::keras
