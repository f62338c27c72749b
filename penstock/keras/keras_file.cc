#include "penstock/keras/keras_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/keras/keras_compile.h"
#include "penstock/keras/keras_config.h"
#include "penstock/keras/keras_variables.h"
#include "penstock/nn/json_depth.h"
#include "penstock/nn/names.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;
using Json = nlohmann::ordered_json;

constexpr char kConfig[] = "config.json", kMetadata[] = "metadata.json";
constexpr char kModelConfig[] = "model_config", kTrainingConfig[] = "training_config";
constexpr char kClassNames[] = "class_names";
// The version whose layout is written.
constexpr char kKerasVersion[] = "3.15.1";

absl::StatusOr<Json> Parse(const save::Weights& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return Json();
  absl::StatusOr<Json> json = nn::ParseModelJson(found->second);
  if (!json.ok()) return base::WithContext(json.status(), key);
  return json;
}

absl::StatusOr<Json> ConfigOf(const save::Weights& file) {
  return Parse(file, file.metadata.contains(kConfig) ? kConfig : kModelConfig);
}

// The arguments of compile; null: the model was not compiled.
absl::StatusOr<Json> CompileConfigOf(const save::Weights& file) {
  if (!file.metadata.contains(kConfig)) return Parse(file, kTrainingConfig);
  PENSTOCK_ASSIGN_OR_RETURN(const Json config, Parse(file, kConfig));
  const auto compile = config.find("compile_config");
  return compile == config.end() || !compile->is_object() || compile->empty() ? Json() : *compile;
}

// At most this many lines in an error.
constexpr size_t kShown = 20;

// Checks that the arrays are those of the network's variables.
absl::Status CheckArrays(const nn::Network& network, const NamedArrays& arrays) {
  std::map<std::string, const Array*> by_name;
  for (const auto& [name, array] : arrays) by_name[name] = &array;
  std::vector<std::string> wrong;
  const std::vector<std::string> paths = KerasPaths(network);
  for (size_t i = 0; i < paths.size(); ++i) {
    const nn::VariableSpec& variable = network.variables()[i];
    const auto found = by_name.find(variable.name);
    if (found == by_name.end()) {
      wrong.push_back(absl::StrCat("missing: ", variable.name, " (", paths[i], "), ",
                                   variable.type.ToString()));
      continue;
    }
    if (found->second->shape() != variable.type.shape) {
      wrong.push_back(absl::StrCat("other shape: ", variable.name, " is ", variable.type.ToString(),
                                   ", in the file ", found->second->TypeString()));
    }
    by_name.erase(found);
  }
  for (const auto& [name, array] : by_name) {
    wrong.push_back(absl::StrCat("unknown: ", name, ", ", array->TypeString()));
  }
  if (wrong.empty()) return absl::OkStatus();
  const size_t shown = std::min(wrong.size(), kShown);
  return absl::InvalidArgumentError(absl::StrCat(
      "the file's arrays are not those of its model:\n",
      absl::StrJoin(wrong.begin(), wrong.begin() + static_cast<int64_t>(shown), "\n"),
      wrong.size() > shown ? absl::StrCat("\nand ", wrong.size() - shown, " more") : ""));
}

// The class names that Penstock adds where Keras does not look: in metadata.json, in model_config.
absl::StatusOr<std::vector<std::string>> ClassNamesOf(const save::Weights& file) {
  std::vector<std::string> names;
  PENSTOCK_ASSIGN_OR_RETURN(
      const Json metadata, Parse(file, file.metadata.contains(kConfig) ? kMetadata : kModelConfig));
  const auto found = metadata.find(kClassNames);
  if (found == metadata.end() || !found->is_array()) return names;
  for (const Json& name : *found) {
    if (!name.is_string()) return absl::InvalidArgumentError("a class name is not a string");
    names.push_back(name);
  }
  return names;
}

// Whether the model is described with arguments of compile: not with a step of the program.
bool IsDescribedCompiled(const train::Objective& objective) {
  return !objective.custom.has_value();
}

absl::StatusOr<Json> Describe(const train::Objective& objective) {
  PENSTOCK_ASSIGN_OR_RETURN(Json config, NetworkToKeras(objective.network));
  config["compile_config"] = nullptr;
  if (IsDescribedCompiled(objective)) {
    PENSTOCK_ASSIGN_OR_RETURN(config["compile_config"], CompileToKeras(objective));
  }
  return config;
}

// Adds the weights by their paths (Keras 3), or in legacy order.
absl::Status AddWeights(const nn::Network& network, const NamedArrays& weights, KerasLayout layout,
                        save::Weights& file) {
  const std::vector<std::string> paths = KerasPaths(network);
  if (layout != KerasLayout::kLegacy) {
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::string& name = network.variables()[i].name;
      PENSTOCK_ASSIGN_OR_RETURN(Array array, weights.Get(name));
      file.arrays.Append(paths[i], std::move(array));
      // Keras's name of the object, which it does not need.
      const std::string owner = name.substr(0, name.rfind('/'));
      file.variables[paths[i]] =
          absl::StrCat(owner.substr(owner.rfind('/') + 1), paths[i].substr(paths[i].rfind('/')));
    }
    return absl::OkStatus();
  }
  Json names = Json::array();
  for (const LegacyLayer& layer : LegacyLayers(network)) {
    names.push_back(layer.name);
    for (int i : layer.variables) {
      const std::string& name = network.variables()[i].name;
      PENSTOCK_ASSIGN_OR_RETURN(Array array, weights.Get(name));
      file.arrays.Append(name, std::move(array));
    }
  }
  file.metadata["layer_names"] = names.dump();
  file.metadata["keras_version"] = kKerasVersion;
  file.metadata["backend"] = "tensorflow";
  return absl::OkStatus();
}

absl::Status AddOptimizer(const train::Trainer& trainer, KerasLayout layout, save::Weights& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays state, trainer.State());
  std::map<std::string, const Array*> by_name;
  for (const auto& [name, array] : state) by_name[name] = &array;
  const std::string optimizer = nn::SnakeCase(trainer.objective().optimizer.class_name());
  int number = 0;
  for (const auto& [entry, type] : KerasOptimizerVariables(trainer.objective())) {
    const auto found = by_name.find(entry);
    if (found == by_name.end() && !entry.empty()) {
      return absl::InternalError(absl::StrCat("the training has no state '", entry, "'"));
    }
    const Array array = entry.empty() ? Array::Zeros(type.dtype, type.shape) : *found->second;
    if (layout != KerasLayout::kLegacy) {
      const std::string path = absl::StrCat("optimizer/vars/", number);
      file.arrays.Append(path, array);
      file.variables[path] = absl::StrCat(optimizer, "/", number);
    } else {
      std::string name =
          entry.empty() ? absl::StrCat("unused_", number) : entry.substr(entry.find('/') + 1);
      std::replace(name.begin(), name.end(), '/', '_');
      file.arrays.Append(absl::StrCat("optimizer_weights/", optimizer, "/", name), array);
    }
    ++number;
  }
  return absl::OkStatus();
}

}  // namespace

bool IsKerasModel(const save::Weights& file) {
  return file.metadata.contains(kConfig) || file.metadata.contains(kModelConfig);
}

bool IsCompiled(const save::Weights& file) {
  const absl::StatusOr<Json> compile = CompileConfigOf(file);
  return compile.ok() && compile->is_object();
}

absl::StatusOr<SavedNetwork> ReadKerasNetwork(const save::Weights& file,
                                              const nn::CustomLayers& custom_layers) {
  PENSTOCK_ASSIGN_OR_RETURN(const Json config, ConfigOf(file));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, NetworkFromKeras(config, custom_layers));
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays weights, UseKerasNames(network, file, KerasMatch::kPlace));
  PENSTOCK_RETURN_IF_ERROR(CheckArrays(network, weights));
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> class_names, ClassNamesOf(file));
  return SavedNetwork{std::move(network), std::move(weights), std::move(class_names)};
}

absl::StatusOr<SavedNetwork> ReadNetwork(const save::Weights& file,
                                         const nn::CustomLayers& custom_layers) {
  return IsKerasModel(file) ? ReadKerasNetwork(file, custom_layers)
                            : ReadSavedNetwork(file, custom_layers);
}

absl::StatusOr<SavedModel> ReadKerasModel(const save::Weights& file,
                                          const Model::LoadOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(SavedNetwork saved, ReadKerasNetwork(file, options.custom_layers));
  CompileOptions compile = PredictionOnly(saved.network, options);
  PENSTOCK_ASSIGN_OR_RETURN(const Json config, CompileConfigOf(file));
  if (options.compile && config.is_object()) {
    compile = {.columns = options.columns, .client = options.client, .replicas = options.replicas};
    PENSTOCK_RETURN_IF_ERROR(CompileFromKeras(config, saved.network, options, compile));
  }
  return SavedModel{.network = std::move(saved.network),
                    .compile = std::move(compile),
                    .class_names = std::move(saved.class_names),
                    .weights = std::move(saved.weights)};
}

KerasLayout KerasLayoutOf(absl::string_view uri) {
  if (absl::EndsWith(uri, ".keras")) return KerasLayout::kArchive;
  if (absl::EndsWith(uri, ".weights.h5")) return KerasLayout::kWeights;
  if (absl::EndsWith(uri, ".h5") || absl::EndsWith(uri, ".hdf5")) return KerasLayout::kLegacy;
  return KerasLayout::kNone;
}

absl::StatusOr<save::Weights> KerasModelFile(const train::Trainer& trainer,
                                             const std::vector<std::string>& class_names,
                                             KerasLayout layout) {
  const train::Objective& objective = trainer.objective();
  PENSTOCK_ASSIGN_OR_RETURN(Json config, Describe(objective));
  Json metadata = {{"keras_version", kKerasVersion}};
  for (const std::string& name : class_names) {
    PENSTOCK_RETURN_IF_ERROR(nn::CheckName("class", name));
    metadata[kClassNames].push_back(name);
  }
  save::Weights file;
  if (layout == KerasLayout::kLegacy) {
    Json compile = std::move(config["compile_config"]);
    config.erase("compile_config");
    if (!class_names.empty()) config[kClassNames] = class_names;
    file.metadata = {{kModelConfig, base::DumpJson(config)}};
    if (compile.is_object()) {
      compile["optimizer_config"] = std::move(compile["optimizer"]);
      compile.erase("optimizer");
      file.metadata[kTrainingConfig] = base::DumpJson(compile);
    }
  } else {
    file.metadata = {{kConfig, base::DumpJson(config)}, {kMetadata, base::DumpJson(metadata)}};
  }
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, trainer.Weights());
  PENSTOCK_RETURN_IF_ERROR(AddWeights(objective.network, weights, layout, file));
  if (IsDescribedCompiled(objective)) {
    PENSTOCK_RETURN_IF_ERROR(AddOptimizer(trainer, layout, file));
  }
  return file;
}

absl::StatusOr<save::Weights> KerasWeightsFile(const train::Trainer& trainer, KerasLayout layout) {
  save::Weights file;
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, trainer.Weights());
  PENSTOCK_RETURN_IF_ERROR(AddWeights(trainer.objective().network, weights, layout, file));
  return file;
}

absl::Status CheckKerasModel(const train::Objective& objective) {
  return Describe(objective).status();
}

}  // namespace penstock::keras
