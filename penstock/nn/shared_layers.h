// Shared layers in JSON: layers with several call sites in a description, in two networks, or both
// within other layers and beside them. Each call site has the layer's full description and, to
// distinguish one shared layer from several equal ones, its number:
//
//   {"name": "dense", "class_name": "Dense", "config": {..}, "inputs": [0], "shared": 1}
//
// Layers with one call site have no number. Internal to room nn.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

// Writes the numbers. A description is built in two passes, because the first one finds out which
// layers are shared.
class SharedLayerWriter {
 public:
  // Call this for each call site, in the order of the description, with its JSON.
  void Write(const Layer& layer, nlohmann::ordered_json& row) {
    if (!counted_) {
      ++places_[layer.id()];
    } else if (places_[layer.id()] > 1) {
      const int next = static_cast<int>(numbers_.size()) + 1;
      row["shared"] = numbers_.try_emplace(layer.id(), next).first->second;
    }
  }
  // Call this between the first and the second pass.
  void Counted() { counted_ = true; }

 private:
  bool counted_ = false;
  absl::flat_hash_map<const void*, int> places_, numbers_;
};

// Returns the same layer for call sites with the same number.
class SharedLayerReader {
 public:
  // The layer at the call site `row`, {"class_name", "config", ..}: the one of an earlier call site
  // with the same number, or the result of `make`. An error if the two describe different layers.
  template <typename Make>
  absl::StatusOr<Layer> Read(const nlohmann::ordered_json& row, Make make) {
    const auto shared = row.find("shared");
    if (shared == row.end()) return make();
    if (!shared->is_number_integer()) {
      return absl::InvalidArgumentError("the number of a shared layer must be an integer");
    }
    const auto number = shared->get<int64_t>();
    nlohmann::ordered_json described = {row.at("class_name"), row.at("config")};
    // The name may differ between networks.
    if (described[1].is_object()) described[1].erase("name");
    const auto found = layers_.find(number);
    if (found == layers_.end()) {
      absl::StatusOr<Layer> layer = make();
      if (layer.ok()) layers_.try_emplace(number, Known{*layer, std::move(described)});
      return layer;
    }
    if (found->second.described != described) {
      return absl::InvalidArgumentError(
          "two uses of one shared layer (\"shared\" is the same) describe different layers");
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
