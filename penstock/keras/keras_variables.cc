#include "penstock/keras/keras_variables.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/json_depth.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;
using Entry = NamedArrays::Entry;

constexpr char kLayerNames[] = "layer_names";
constexpr char kLegacyOptimizer[] = "optimizer_weights/", kOptimizer[] = "optimizer/";

// "conv/kernel" -> "conv".
std::string OwnerOf(const std::string& name) { return name.substr(0, name.rfind('/')); }

// Whether an array is state beside the weights.
bool IsOtherState(absl::string_view name) {
  return absl::StartsWith(name, kOptimizer) || absl::StartsWith(name, kLegacyOptimizer) ||
         absl::StrContains(name, "seed_generator");
}

bool IsPath(absl::string_view name) {
  const size_t vars = name.rfind("/vars/");
  int64_t number;
  return vars != absl::string_view::npos && absl::SimpleAtoi(name.substr(vars + 6), &number);
}

// The layers of a legacy file that have arrays, in order.
struct LayerOfFile {
  std::string name;
  std::vector<const Entry*> arrays;
};

absl::StatusOr<std::vector<LayerOfFile>> LayersOfFile(const save::Weights& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const nlohmann::ordered_json names,
                            nn::ParseModelJson(file.metadata.at(kLayerNames)));
  std::set<std::string> known;
  for (const auto& name : names) {
    if (name.is_string()) known.insert(name.get<std::string>());
  }
  std::vector<LayerOfFile> layers;
  std::map<std::string, size_t> places;
  for (const Entry& entry : file.arrays) {
    if (IsOtherState(entry.first)) continue;
    std::string layer = entry.first.substr(0, entry.first.find('/'));
    for (size_t end = entry.first.rfind('/'); end != std::string::npos && end > 0;
         end = entry.first.rfind('/', end - 1)) {
      if (!known.contains(entry.first.substr(0, end))) continue;
      layer = entry.first.substr(0, end);
      break;
    }
    const auto [place, is_new] = places.emplace(layer, layers.size());
    if (is_new) layers.push_back({layer, {}});
    layers[place->second].arrays.push_back(&entry);
  }
  return layers;
}

// The variables of arrays, by index in variables().
using Matches = std::map<const Entry*, int>;

absl::StatusOr<Matches> MatchLegacy(const nn::Network& network, const save::Weights& file,
                                    KerasMatch match) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<LayerOfFile> theirs, LayersOfFile(file));
  std::vector<LegacyLayer> ours = LegacyLayers(network);
  std::erase_if(ours, [](const LegacyLayer& layer) { return layer.variables.empty(); });
  Matches matches;
  const auto add = [&](const LayerOfFile& their, const LegacyLayer& our) {
    for (size_t i = 0; i < our.variables.size(); ++i) matches[their.arrays[i]] = our.variables[i];
  };
  if (match == KerasMatch::kName) {
    std::map<std::string, const LegacyLayer*> by_name;
    for (const LegacyLayer& our : ours) by_name[our.name] = &our;
    for (const LayerOfFile& their : theirs) {
      const auto our = by_name.find(their.name);
      if (our == by_name.end() || our->second->variables.size() != their.arrays.size()) continue;
      add(their, *our->second);
    }
    return matches;
  }
  if (theirs.size() != ours.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the file has ", theirs.size(), " layers with weights, the model has ", ours.size(),
        ", and Keras matches them by their order; by_name loads layers of equal names"));
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i].arrays.size() != ours[i].variables.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", i + 1, " of those with weights is '", ours[i].name,
                       "' in the model, with ", ours[i].variables.size(), " variables, and '",
                       theirs[i].name, "' in the file, with ", theirs[i].arrays.size()));
    }
    add(theirs[i], ours[i]);
  }
  return matches;
}

Matches MatchPaths(const nn::Network& network, const save::Weights& file) {
  std::map<std::string, int> by_path;
  for (const std::string& path : KerasPaths(network)) {
    const int index = static_cast<int>(by_path.size());
    by_path.emplace(path, index);
  }
  Matches matches;
  for (const Entry& entry : file.arrays) {
    const auto found = by_path.find(entry.first);
    if (found != by_path.end()) matches[&entry] = found->second;
  }
  return matches;
}

// Matches "block1_conv1/0", the name of Keras's object and the number of its variable, where one
// layer of the network has that name.
Matches MatchObjects(const nn::Network& network, const save::Weights& file) {
  std::map<std::string, int> by_name, of_owner;
  std::map<std::string, std::string> owners;
  for (size_t i = 0; i < network.variables().size(); ++i) {
    const std::string owner = OwnerOf(network.variables()[i].name);
    const std::string object = owner.substr(owner.rfind('/') + 1);
    const std::string name = absl::StrCat(object, "/", of_owner[owner]++);
    const bool again = owners.emplace(object, owner).first->second != owner;
    by_name[name] = again ? -1 : static_cast<int>(i);
  }
  Matches matches;
  std::set<int> used;
  for (const Entry& entry : file.arrays) {
    const auto object = file.variables.find(entry.first);
    if (object == file.variables.end()) continue;
    const auto found = by_name.find(object->second);
    if (found == by_name.end() || found->second < 0) continue;
    if (used.insert(found->second).second) matches[&entry] = found->second;
  }
  return matches;
}

// The arrays of the optimizer in the order of its variables; empty: the file has none.
absl::StatusOr<std::vector<const Array*>> OptimizerArrays(const save::Weights& file) {
  std::map<int64_t, const Array*> by_number;
  std::vector<const Array*> arrays;
  for (const auto& [name, array] : file.arrays) {
    absl::string_view number = name;
    int64_t i;
    if (absl::ConsumePrefix(&number, "optimizer/vars/") && absl::SimpleAtoi(number, &i)) {
      by_number[i] = &array;
    } else if (absl::StartsWith(name, kOptimizer)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the state of the file's optimizer ('", name,
                       "') is of a kind that Penstock does not "
                       "read; LoadOptions.compile = false loads the model without it"));
    }
    if (absl::StartsWith(name, kLegacyOptimizer)) arrays.push_back(&array);
  }
  for (const auto& [i, array] : by_number) arrays.push_back(array);
  return arrays;
}

}  // namespace

std::vector<std::string> KerasPaths(const nn::Network& network) {
  std::vector<std::string> paths;
  std::map<std::string, std::string> objects;  // by the owner of variables
  std::map<std::string, int> numbers;
  for (const nn::VariableSpec& variable : network.variables()) {
    const std::string owner = OwnerOf(variable.name);
    const auto [object, is_new] = objects.emplace(owner, "");
    if (is_new) object->second = network.KerasPath(owner);
    paths.push_back(absl::StrCat(object->second, "/vars/", numbers[object->second]++));
  }
  return paths;
}

std::vector<LegacyLayer> LegacyLayers(const nn::Network& network) {
  std::vector<LegacyLayer> layers;
  std::map<std::string, size_t> places;
  for (const nn::Network::Use& use : network.uses()) {
    if (!use.layer.valid() && network.sequential()) continue;
    if (places.emplace(use.name, layers.size()).second) layers.push_back({use.name, {}});
  }
  const auto& variables = network.variables();
  for (const bool trainable : {true, false}) {
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].trainable != trainable) continue;
      std::string layer = OwnerOf(variables[i].name);
      while (!places.contains(layer) && absl::StrContains(layer, '/')) layer = OwnerOf(layer);
      if (const auto place = places.find(layer); place != places.end()) {
        layers[place->second].variables.push_back(static_cast<int>(i));
      }
    }
  }
  return layers;
}

std::vector<KerasOptimizerVariable> KerasOptimizerVariables(const train::Objective& objective) {
  const nn::Optimizer& optimizer = objective.optimizer;
  std::vector<KerasOptimizerVariable> variables = {
      {"optimizer/iteration", {base::DType::kI32, {}}}};
  if (optimizer.learning_rate().is_constant()) {
    variables.push_back({"optimizer/learning_rate", {base::DType::kF32, {}}});
  }
  std::map<int, std::vector<KerasOptimizerVariable>> groups;
  for (const nn::VariableSpec& v : objective.network.variables()) {
    if (!v.trainable) continue;
    for (const nn::SlotSpec& slot : optimizer.KerasSlots(v.name, v.type)) {
      groups[slot.keras_group].push_back(
          {slot.name.empty() ? "" : absl::StrCat("optimizer/", slot.name, "/", v.name), slot.type});
    }
  }
  for (auto& [number, group] : groups) {
    variables.insert(variables.end(), group.begin(), group.end());
  }
  for (const nn::SlotSpec& slot : optimizer.SharedSlots()) {
    variables.push_back({absl::StrCat("optimizer/", slot.name), slot.type});
  }
  return variables;
}

bool HasKerasLayout(const save::Weights& file) {
  for (const char* key : {kLayerNames, "config.json", "model_config"}) {
    if (file.metadata.contains(key)) return true;
  }
  return !file.arrays.empty() && std::all_of(file.arrays.begin(), file.arrays.end(),
                                             [](const Entry& e) { return IsPath(e.first); });
}

absl::StatusOr<NamedArrays> UseKerasNames(const nn::Network& network, const save::Weights& file,
                                          KerasMatch match) {
  Matches matches;
  if (file.metadata.contains(kLayerNames)) {
    PENSTOCK_ASSIGN_OR_RETURN(matches, MatchLegacy(network, file, match));
  } else {
    matches = match == KerasMatch::kName ? MatchObjects(network, file) : MatchPaths(network, file);
  }
  std::set<std::string> taken;
  NamedArrays arrays;
  for (const Entry& entry : file.arrays) {
    const auto found = matches.find(&entry);
    if (found == matches.end()) continue;
    const std::string& name = network.variables()[found->second].name;
    if (taken.insert(name).second) arrays.Append(name, entry.second);
  }
  for (const Entry& entry : file.arrays) {
    if (matches.contains(&entry) || IsOtherState(entry.first)) continue;
    if (taken.insert(entry.first).second) arrays.Append(entry.first, entry.second);
  }
  return arrays;
}

absl::StatusOr<NamedArrays> OptimizerStateOfKeras(const train::Objective& objective,
                                                  const save::Weights& file) {
  NamedArrays state;
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<const Array*> arrays, OptimizerArrays(file));
  const std::vector<KerasOptimizerVariable> variables = KerasOptimizerVariables(objective);
  const size_t before_slots = objective.optimizer.learning_rate().is_constant() ? 2 : 1;
  // Before its first step, Keras's optimizer has no slots.
  if (arrays.size() != variables.size() && arrays.size() != before_slots && !arrays.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state of the file's optimizer has ", arrays.size(), " arrays, ",
                     objective.optimizer.class_name(), " has ", variables.size(),
                     " for this model; LoadOptions.compile = false loads the model without it"));
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& [entry, type] = variables[i];
    if (arrays[i]->shape() != type.shape || !base::IsNumeric(arrays[i]->dtype())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "array ", i, " of the optimizer's state is ", arrays[i]->TypeString(),
          " in the file, but ", type.ToString(), " of ", entry.empty() ? "Keras" : entry,
          "; LoadOptions.compile = false loads the model without the state"));
    }
    if (entry.empty()) continue;
    PENSTOCK_ASSIGN_OR_RETURN(Array array, arrays[i]->Cast(type.dtype));
    state.Append(entry, std::move(array));
  }
  return state;
}

}  // namespace penstock::keras
