// Layers that stand at several places of a description: one layer in two networks, or within other
// layers and beside them. In JSON each place has the layer's whole description and, to tell them
// apart from layers that are merely alike, its number:
//
//   {"name": "dense", "class_name": "Dense", "config": {..}, "inputs": [0], "shared": 1}
//
// Layers at one place have no number. Internal to room nn.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

// Writes the numbers. A description is made twice: which layers are shared is known when it has
// been made once.
class SharedLayerWriter {
 public:
  // To be called for each place, in the order of the description, with what is written of it.
  void Write(const Layer& layer, nlohmann::ordered_json& row) {
    if (!counted_) {
      ++places_[layer.id()];
    } else if (places_[layer.id()] > 1) {
      const int next = static_cast<int>(numbers_.size()) + 1;
      row["shared"] = numbers_.try_emplace(layer.id(), next).first->second;
    }
  }
  // The first description is made; the second follows.
  void Counted() { counted_ = true; }

 private:
  bool counted_ = false;
  absl::flat_hash_map<const void*, int> places_, numbers_;
};

// Gives places of one number the same layer.
class SharedLayerReader {
 public:
  // The layer at the place `row`, {"class_name", "config", ..}: that of an earlier place of its
  // number, or what `make` gives. An error if the two places describe different layers.
  template <typename Make>
  absl::StatusOr<Layer> Read(const nlohmann::ordered_json& row, Make make) {
    const auto shared = row.find("shared");
    if (shared == row.end()) return make();
    if (!shared->is_number_integer()) {
      return absl::InvalidArgumentError("the number of a shared layer is a whole number");
    }
    const auto number = shared->get<int64_t>();
    nlohmann::ordered_json described = {row.at("class_name"), row.at("config")};
    // The name may be another one in each network.
    if (described[1].is_object()) described[1].erase("name");
    const auto found = layers_.find(number);
    if (found == layers_.end()) {
      absl::StatusOr<Layer> layer = make();
      if (layer.ok()) layers_.try_emplace(number, Known{*layer, std::move(described)});
      return layer;
    }
    if (found->second.described != described) {
      return absl::InvalidArgumentError(
          "two places that share one layer (\"shared\" is the same) describe different layers");
    }
    return found->second.layer;
  }

 private:
  struct Known {
    Layer layer;
    nlohmann::ordered_json described;
  };
  absl::flat_hash_map<int64_t, Known> layers_;
};

}  // namespace penstock::nn::internal
