// Conversion of networks to and from JSON.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/json_depth.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/names.h"
#include "penstock/nn/network.h"
#include "penstock/nn/shared_layers.h"

namespace penstock::nn {
namespace {

// A layer's index, or [index, output] for outputs after the first.
nlohmann::ordered_json FromsToJson(const std::vector<Network::Use::From>& froms) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Network::Use::From& from : froms) {
    if (from.output == 0) {
      json.push_back(from.use);
    } else {
      json.push_back({from.use, from.output});
    }
  }
  return json;
}

// The symbols that `json` (written by FromsToJson) refers to, among the outputs of earlier layers.
absl::StatusOr<std::vector<Symbol>> SymbolsFromJson(const nlohmann::ordered_json& json,
                                                    const std::vector<std::vector<Symbol>>& made,
                                                    absl::string_view who) {
  std::vector<Symbol> symbols;
  // nlohmann's own conversions turn 0.5 and 2^32 into 0.
  const auto number = [](const nlohmann::ordered_json& n) {
    return n.is_number_integer() ? n.get<int64_t>() : int64_t{-1};
  };
  for (const auto& from : json) {
    const int64_t use = number(from.is_array() ? from.at(0) : from);
    const int64_t output = from.is_array() ? number(from.at(1)) : 0;
    if (use < 0 || use >= static_cast<int64_t>(made.size()) || output < 0 ||
        output >= static_cast<int64_t>(made[use].size())) {
      return absl::InvalidArgumentError(absl::StrCat(who, " take output ", output, " of layer ",
                                                     use, ", which does not come before it"));
    }
    symbols.push_back(made[use][output]);
  }
  return symbols;
}

}  // namespace

void Network::NumberForKeras() {
  auto paths = std::make_shared<std::map<std::string, KerasLayer>>();
  absl::flat_hash_map<std::string, int> of_class;
  for (const Use& use : uses_) {
    if (!use.layer.valid() || paths->contains(use.name)) continue;
    const std::string class_name = SnakeCase(use.layer.class_name());
    const int number = of_class[class_name]++;
    (*paths)[use.name] = {use.layer, absl::StrCat("layers/", class_name,
                                                  number == 0 ? "" : absl::StrCat("_", number))};
  }
  keras_layers_ = std::move(paths);
}

std::string Network::KerasPath(absl::string_view path) const {
  if (keras_layers_ == nullptr) return "";
  // The layer has the longest name that the path begins with.
  for (size_t end = path.size(); end != absl::string_view::npos && end > 0;
       end = path.rfind('/', end - 1)) {
    const auto layer = keras_layers_->find(std::string(path.substr(0, end)));
    if (layer == keras_layers_->end()) continue;
    const absl::string_view part = path.substr(std::min(path.size(), end + 1));
    const std::string inside = layer->second.layer.body().KerasPath(part);
    return inside.empty() ? layer->second.path : absl::StrCat(layer->second.path, "/", inside);
  }
  return "";
}

nlohmann::ordered_json Network::ToJson() const {
  // Not readable by FromJson.
  if (!status_.ok()) return {{"error", std::string(status_.message())}};
  internal::SharedLayerWriter shared;
  ToJson(&shared);
  shared.Counted();
  return ToJson(&shared);
}

nlohmann::ordered_json Network::ToJson(internal::SharedLayerWriter* shared) const {
  PENSTOCK_CHECK(status_.ok());
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  absl::flat_hash_set<const void*> written;
  for (const Use& use : uses_) {
    nlohmann::ordered_json row;
    row["name"] = use.name;
    if (!use.layer.valid()) {
      row["class_name"] = "InputLayer";
      row["config"] = {
          {"shape", std::vector<int64_t>(use.type().shape.begin() + 1, use.type().shape.end())},
          {"dtype", std::string(base::DTypeName(use.type().dtype))}};
    } else {
      row["class_name"] = std::string(use.layer.class_name());
      // A second use in this network has the name of the first use, by which it is recognized.
      const bool first = written.insert(use.layer.id()).second;
      row["config"] = internal::LayerConfig(use.layer, first ? shared : nullptr);
      row["inputs"] = FromsToJson(use.inputs);
      if (first && shared != nullptr) shared->Write(use.layer, row);
    }
    layers.push_back(std::move(row));
  }
  nlohmann::ordered_json json{{"name", name_},
                              {"layers", std::move(layers)},
                              {"inputs", input_uses_},
                              {"outputs", FromsToJson(output_uses_)}};
  if (sequential_) json["sequential"] = true;
  if (policy_.name != Policy().name) json["dtype"] = policy_.ToJson();
  return json;
}

absl::StatusOr<Network> Network::Parse(const nlohmann::ordered_json& json,
                                       const CustomLayers* custom,
                                       internal::SharedLayerReader& shared) {
  std::vector<std::vector<Symbol>> made;
  absl::flat_hash_map<std::string, Layer> by_name;
  LayerNames names;
  for (const auto& row : json.at("layers")) {
    const std::string name = row.at("name"), class_name = row.at("class_name");
    if (class_name == "InputLayer") {
      const std::string dtype_name = row.at("config").at("dtype");
      PENSTOCK_ASSIGN_OR_RETURN(const DType dtype, base::DTypeFromName(dtype_name));
      made.push_back({Input({.shape = row.at("config").at("shape").get<std::vector<int64_t>>(),
                             .dtype = dtype,
                             .name = name})});
      continue;
    }
    Layer& layer = by_name[name];
    if (!layer.valid()) {
      PENSTOCK_ASSIGN_OR_RETURN(layer, shared.Read(row, [&] {
        return internal::LayerFromConfig(class_name, name, row.at("config"), custom, &shared);
      }));
      names[layer.id()] = name;
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::vector<Symbol> from,
        SymbolsFromJson(row.at("inputs"), made, absl::StrCat("the inputs of layer '", name, "'")));
    made.push_back(layer.Outputs(from));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto inputs,
                            SymbolsFromJson(json.at("inputs"), made, "the network's inputs"));
  PENSTOCK_ASSIGN_OR_RETURN(const auto outputs,
                            SymbolsFromJson(json.at("outputs"), made, "the network's outputs"));
  Network network(inputs, outputs, json.at("name").get<std::string>(), names);
  if (json.value("sequential", false)) network = network.AsSequential();
  if (const auto dtype = json.find("dtype"); dtype != json.end()) {
    PENSTOCK_ASSIGN_OR_RETURN(const Policy policy, Policy::FromJson(*dtype));
    network = network.WithPolicy(policy.name);
  }
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

absl::StatusOr<Network> Network::FromJson(const nlohmann::ordered_json& json,
                                          const CustomLayers* custom) {
  PENSTOCK_RETURN_IF_ERROR(CheckJsonDepth(json));
  internal::SharedLayerReader shared;
  return FromJson(json, custom, &shared);
}

absl::StatusOr<Network> Network::FromJson(const nlohmann::ordered_json& json,
                                          const CustomLayers* custom,
                                          internal::SharedLayerReader* shared) {
  if (shared == nullptr) return FromJson(json, custom);
  // nlohmann::json throws if a key is missing or a type is wrong.
  try {
    return Parse(json, custom, *shared);
  } catch (const nlohmann::json::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("not a description of a network: ", e.what()));
  }
}

}  // namespace penstock::nn
