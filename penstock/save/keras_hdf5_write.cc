#include "penstock/save/keras_hdf5_write.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/formats/zip.h"
#include "penstock/io/uri.h"
#include "penstock/save/format.h"
#include "penstock/save/hdf5/hdf5_writer.h"
#include "penstock/save/quoted.h"

namespace penstock::save {
namespace keras_hdf5_write {
namespace {

using base::Array;

// Written if the weights have none: Keras treats a file without a version as one of Keras 1, whose
// kernels it transposes, and one without a backend for one of its own.
constexpr char kVersion[] = "2.15.0", kBackend[] = "tensorflow";

std::string TensorContext(absl::string_view name) { return absl::StrCat("tensor ", Quoted(name)); }

// "layers/dense/vars" of "layers/dense/vars/0"; empty if the name is not a path of Keras 3.
absl::string_view VarsGroup(absl::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == absl::string_view::npos) return {};
  const absl::string_view group = name.substr(0, slash);
  return group == "vars" || absl::EndsWith(group, "/vars") ? group : absl::string_view();
}

// A legacy file's layers and their weights.
struct Layer {
  std::string name;
  std::vector<const base::NamedArrays::Entry*> weights = {};
};

absl::StatusOr<std::vector<std::string>> LayerNames(const Weights& weights) {
  const auto found = weights.metadata.find("layer_names");
  if (found == weights.metadata.end()) return std::vector<std::string>();
  const auto json = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  const absl::Status wrong =
      absl::InvalidArgumentError("metadata 'layer_names': is not a JSON list of different names");
  if (!json.is_array()) return wrong;
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> seen = {std::string(kKerasTopLevelWeights),
                                           std::string(kKerasOptimizerWeights)};
  for (const auto& name : json) {
    if (!name.is_string()) return wrong;
    names.push_back(name.get<std::string>());
    if (names.back().empty() || !seen.insert(names.back()).second) return wrong;
  }
  return names;
}

// The layer of an array: the longest of the listed ones, or else the first part of the name. Empty:
// none.
absl::string_view LayerOf(absl::string_view name, const absl::flat_hash_set<std::string>& listed) {
  const size_t first = name.find('/');
  if (first == absl::string_view::npos) return {};
  const absl::string_view top = name.substr(0, first);
  if (top == kKerasOptimizerWeights || top == kKerasTopLevelWeights) return top;
  for (size_t slash = name.rfind('/'); slash != first; slash = name.rfind('/', slash - 1)) {
    if (listed.contains(name.substr(0, slash))) return name.substr(0, slash);
  }
  return top;
}

absl::StatusOr<std::vector<Layer>> LayersOf(const Weights& weights) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names, LayerNames(weights));
  const absl::flat_hash_set<std::string> listed(names.begin(), names.end());
  std::vector<Layer> layers;
  absl::flat_hash_map<std::string, size_t> places;
  const auto place_of = [&](absl::string_view name) {
    const auto [found, is_new] = places.emplace(name, layers.size());
    if (is_new) layers.push_back({.name = std::string(name)});
    return found->second;
  };
  for (const std::string& name : names) place_of(name);
  for (const auto& entry : weights.arrays) {
    const std::string& name = entry.first;
    if (!VarsGroup(name).empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          TensorContext(name), ": is a path of Keras 3, which finds it in .weights.h5 and .keras; ",
          "a legacy file has LAYER/WEIGHT"));
    }
    const absl::string_view layer = LayerOf(name, listed);
    if (layer.empty() || layer.size() + 1 >= name.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          TensorContext(name), ": names in Keras's legacy files have the form LAYER/WEIGHT"));
    }
    layers[place_of(layer)].weights.push_back(&entry);
  }
  return layers;
}

// Adds the arrays of a layer, whose names in the file are those after `skip` bytes.
absl::Status AddWeights(Hdf5Writer& writer, const std::string& group, const Layer& layer,
                        size_t skip) {
  std::vector<std::string> names;
  PENSTOCK_RETURN_IF_ERROR(writer.AddGroup(group));
  for (const base::NamedArrays::Entry* entry : layer.weights) {
    // Readers take the number of an output from the end of a name, so a name that has one gets
    // another.
    const std::string name = absl::StrCat(absl::string_view(entry->first).substr(skip),
                                          HasOutputNumber(entry->first) ? ":0" : "");
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(writer.AddArray(absl::StrCat(group, "/", name), entry->second),
                          TensorContext(entry->first)));
    names.push_back(name);
  }
  return base::WithContext(writer.AddTexts(group, "weight_names", names),
                           absl::StrCat("layer ", Quoted(layer.name)));
}

absl::StatusOr<Hdf5Image> LegacyImage(const Weights& weights) {
  PENSTOCK_RETURN_IF_ERROR(CheckNames(weights.arrays));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Layer> layers, LayersOf(weights));
  const auto text = [&](const char* key, const char* otherwise) {
    const auto found = weights.metadata.find(key);
    return found == weights.metadata.end() ? std::string(otherwise) : found->second;
  };
  const bool is_model = weights.metadata.contains("model_config");
  const std::string root = is_model ? "/model_weights" : "";
  Hdf5Writer writer;
  PENSTOCK_RETURN_IF_ERROR(writer.AddGroup(root));
  std::vector<std::string> names;
  bool has_top_level = false;
  for (const Layer& layer : layers) {
    const bool is_optimizer = layer.name == kKerasOptimizerWeights;
    const bool is_top_level = layer.name == kKerasTopLevelWeights;
    const std::string group = absl::StrCat(is_optimizer ? "" : root, "/", layer.name);
    const bool is_layer = !is_optimizer && !is_top_level;
    if (is_layer) names.push_back(layer.name);
    has_top_level = has_top_level || is_top_level;
    PENSTOCK_RETURN_IF_ERROR(
        AddWeights(writer, group, layer, is_layer ? 0 : layer.name.size() + 1));
  }
  if (!has_top_level) {
    const Layer none{.name = std::string(kKerasTopLevelWeights)};
    PENSTOCK_RETURN_IF_ERROR(AddWeights(writer, absl::StrCat(root, "/", none.name), none, 0));
  }
  PENSTOCK_RETURN_IF_ERROR(writer.AddTexts(root, "layer_names", names));
  std::vector<std::string> objects = {root};
  if (is_model) objects.push_back("");
  for (const std::string& object : objects) {
    PENSTOCK_RETURN_IF_ERROR(
        writer.AddText(object, "keras_version", text("keras_version", kVersion)));
    PENSTOCK_RETURN_IF_ERROR(writer.AddText(object, "backend", text("backend", kBackend)));
  }
  for (const char* key : {"model_config", "training_config"}) {
    const auto found = weights.metadata.find(key);
    if (found == weights.metadata.end()) continue;
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(writer.AddText("", key, found->second),
                                               absl::StrCat("metadata '", key, "'")));
  }
  return writer.Finish();
}

absl::StatusOr<Hdf5Image> Keras3Image(const Weights& weights) {
  PENSTOCK_RETURN_IF_ERROR(CheckNames(weights.arrays));
  Hdf5Writer writer;
  std::map<std::string, std::string> objects;  // names of objects, by their groups
  for (const auto& [name, array] : weights.arrays) {
    const absl::string_view group = VarsGroup(name);
    if (group.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          TensorContext(name), ": Keras 3 finds weights by paths such as 'layers/dense/vars/0'; ",
          "write .h5, whose weights have any names, or save the model"));
    }
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(writer.AddArray(name, array), TensorContext(name)));
    const auto variable = weights.variables.find(name);
    if (variable == weights.variables.end()) continue;
    absl::string_view object = variable->second;
    if (!absl::ConsumeSuffix(&object, absl::string_view(name).substr(group.size()))) continue;
    objects.emplace(group, object);
  }
  for (const auto& [group, object] : objects) {
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(writer.AddText(group, "name", object), TensorContext(group)));
  }
  return writer.Finish();
}

// Publishes what `write` appends.
absl::Status Publish(io::FileSystem& fs, absl::string_view uri,
                     const std::function<absl::Status(const formats::ZipWriter::Sink&)>& write) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(uri));
  PENSTOCK_RETURN_IF_ERROR(write([&](absl::string_view bytes) { return out->Append(bytes); }));
  return out->Close();
}

absl::Status PublishImage(io::FileSystem& fs, absl::string_view uri,
                          const absl::StatusOr<Hdf5Image>& image) {
  if (!image.ok()) return base::WithContext(image.status(), io::DisplayName(uri));
  return Publish(fs, uri, [&](const formats::ZipWriter::Sink& append) {
    for (const absl::string_view piece : image->pieces) {
      PENSTOCK_RETURN_IF_ERROR(append(piece));
    }
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace keras_hdf5_write

bool HasOutputNumber(absl::string_view weight, size_t* colon) {
  const size_t place = weight.rfind(':');
  if (place == absl::string_view::npos || place + 1 == weight.size() ||
      !std::all_of(weight.begin() + place + 1, weight.end(), absl::ascii_isdigit)) {
    return false;
  }
  if (colon != nullptr) *colon = place;
  return true;
}

absl::Status WriteKerasLegacy(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                              const WriteOptions&) {
  return keras_hdf5_write::PublishImage(fs, uri, keras_hdf5_write::LegacyImage(weights));
}

absl::Status WriteKerasWeights(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                               const WriteOptions&) {
  return keras_hdf5_write::PublishImage(fs, uri, keras_hdf5_write::Keras3Image(weights));
}

absl::Status WriteKerasArchive(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                               const WriteOptions&) {
  const auto config = weights.metadata.find(std::string(kKerasConfigMember));
  const auto metadata = weights.metadata.find(std::string(kKerasMetadataMember));
  if (config == weights.metadata.end() || metadata == weights.metadata.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        io::DisplayName(uri), ": a Keras archive holds a model, and its description (metadata '",
        kKerasConfigMember, "' and '", kKerasMetadataMember,
        "') is missing; write .weights.h5, or save the model"));
  }
  const absl::StatusOr<Hdf5Image> image = keras_hdf5_write::Keras3Image(weights);
  if (!image.ok()) return base::WithContext(image.status(), io::DisplayName(uri));
  return keras_hdf5_write::Publish(fs, uri, [&](const formats::ZipWriter::Sink& append) {
    formats::ZipWriter zip(append);
    for (const auto& member : {metadata, config}) {
      PENSTOCK_RETURN_IF_ERROR(zip.Add(member->first, {absl::string_view(member->second)}, false));
    }
    PENSTOCK_RETURN_IF_ERROR(zip.Add(kKerasWeightsMember, image->pieces, false));
    return zip.Finish();
  });
}

}  // namespace penstock::save
