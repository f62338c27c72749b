// Keras's descriptions of networks: config.json of a .keras file (Keras 3), model_config of an .h5
// file (Keras 2 and 3). Internal to room keras.
//
// This is a translation to and from the JSON of nn::Network, whose classes and options have Keras's
// names. It knows no layers: what differs in a class of Keras is part of the layer's class
// (nn::KerasForm). Translated are
//
//   the graph     calls of layers with their arguments, instead of lists of inputs
//   policies      one for each layer; here the network's, and those of layers that differ from it
//   `trainable`   of each layer and model; here the flags that differ from true
//   options       initializers and their like as objects; options that only Keras has
//   operations    `x + 1` is an operation Add in Keras, here a layer Add with a constant
//
// Ignored, because they have no effect here: seeds of layers, the argument `training` of a call
// (Fit and Predict override it, in Keras too), a batch size that is part of an input's shape.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/network.h"

namespace penstock::keras {

// The network of {"class_name": "Functional" or "Sequential", "config"}. INVALID_ARGUMENT: the JSON
// is malformed; classes that are neither built-in nor in `custom` (all of them are named); an
// option, an argument or a value that Penstock lacks (with layer, key and value).
absl::StatusOr<nn::Network> NetworkFromKeras(const nlohmann::ordered_json& model,
                                             const nn::CustomLayers& custom);

// The description with which keras.models.load_model opens a file, without compile_config.
// INVALID_ARGUMENT: Keras has no such layers (all of them are named), or no such options.
absl::StatusOr<nlohmann::ordered_json> NetworkToKeras(const nn::Network& network);

// {"module", "class_name", "config", "registered_name"}: Keras's form of an object.
nlohmann::ordered_json KerasObject(const char* module, const std::string& class_name,
                                   nlohmann::ordered_json config);

}  // namespace penstock::keras
