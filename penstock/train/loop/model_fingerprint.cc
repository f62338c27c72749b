#include "penstock/train/loop/model_fingerprint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/layers.h"

namespace penstock::train {
namespace {

using FingerprintJson = nlohmann::ordered_json;

constexpr absl::string_view kRemat = "remat";

bool IsOfTrainingOnly(absl::string_view key) {
  static constexpr absl::string_view kKeys[] = {"name",
                                                "trainable",
                                                "dtype",
                                                "seed",
                                                "rate",
                                                "dropout",
                                                "recurrent_dropout",
                                                "batch_shape",
                                                "batch_input_shape",
                                                "build_config"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) ||
         absl::EndsWith(key, "_initializer") || absl::EndsWith(key, "_regularizer") ||
         absl::EndsWith(key, "_constraint");
}

// Removes the options that affect only training, at any depth.
FingerprintJson Stripped(const FingerprintJson& json, bool with_remat) {
  if (json.is_array()) {
    FingerprintJson out = FingerprintJson::array();
    for (const FingerprintJson& element : json) out.push_back(Stripped(element, with_remat));
    return out;
  }
  if (!json.is_object()) return json;
  FingerprintJson out = FingerprintJson::object();
  for (const auto& [key, value] : json.items()) {
    if (!IsOfTrainingOnly(key) && (with_remat || key != kRemat))
      out[key] = Stripped(value, with_remat);
  }
  return out;
}

// http://www.isthe.com/chongo/tech/comp/fnv: the same in every program, unlike absl::Hash.
uint64_t Fnv1a(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// How a line says whether layers are rematerialized: not at all; as earlier versions did, for a run
// with the settings of this one, or for one that rematerialized this layer.
enum class RematInLine { kNone, kAsSet, kThisLayer };

std::string LayerLine(const nn::Network::Use& use, RematInLine remat = RematInLine::kNone) {
  if (!use.layer.valid()) return "Input";
  std::string line(use.layer.class_name());
  absl::StrAppend(&line, "(",
                  absl::StrJoin(use.inputs, ",",
                                [](std::string* out, const nn::Network::Use::From& from) {
                                  absl::StrAppend(out, from.use);
                                  if (from.output > 0) absl::StrAppend(out, ":", from.output);
                                }),
                  ")");
  // A user-defined function cannot be described.
  if (!use.layer.body().CheckSerializable().ok()) return line;
  FingerprintJson config =
      Stripped(nn::LayerConfig(use.layer), /*with_remat=*/remat == RematInLine::kAsSet);
  if (remat == RematInLine::kThisLayer) config[std::string(kRemat)] = true;
  absl::StrAppend(&line, " ", config.dump());
  // A longer line contains a vocabulary or a table of means.
  constexpr size_t kLongest = 400;
  if (line.size() > kLongest) {
    line = absl::StrCat(line.substr(0, kLongest), "... #", absl::Hex(Fnv1a(line)));
  }
  return line;
}

std::string Described(const FingerprintJson& model) {
  return absl::StrCat("network '", model.at("network").get<std::string>(), "' with ",
                      model.at("layers").size(), " layers and ",
                      model.at("parameters").get<int64_t>(), " parameters, trained by ",
                      model.at("optimizer").get<std::string>());
}

// Lists the first few.
std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kMax = 5;
  const size_t shown = std::min(names.size(), kMax);
  std::string out = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (names.size() > shown) absl::StrAppend(&out, " and ", names.size() - shown, " more");
  return out;
}

constexpr absl::string_view kRemedy =
    "train the model of the checkpoint, or use another folder to start over";

}  // namespace

FingerprintJson ModelFingerprint(const Objective& objective) {
  FingerprintJson layers = FingerprintJson::array();
  for (const nn::Network::Use& use : objective.network.uses()) layers.push_back(LayerLine(use));
  return {{"network", objective.network.name()},
          {"parameters", objective.network.CountParameters()},
          {"optimizer", std::string(objective.optimizer.class_name())},
          {"layers", std::move(layers)}};
}

absl::Status CheckFingerprint(const FingerprintJson& saved, const Objective& objective) {
  const FingerprintJson own = ModelFingerprint(objective);
  std::string difference;
  const FingerprintJson &theirs = saved.at("layers"), &ours = own.at("layers");
  for (size_t i = 0; i < std::min(theirs.size(), ours.size()) && difference.empty(); ++i) {
    const nn::Network::Use& use = objective.network.uses()[i];
    if (theirs[i] == ours[i] || theirs[i] == LayerLine(use, RematInLine::kAsSet) ||
        theirs[i] == LayerLine(use, RematInLine::kThisLayer)) {
      continue;
    }
    difference =
        absl::StrCat("; layer ", i, " (from 0) is ", theirs[i].get<std::string>(),
                     " in the checkpoint and ", ours[i].get<std::string>(), " in this run");
  }
  if (difference.empty() && theirs.size() == ours.size() &&
      saved.at("optimizer") == own.at("optimizer")) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the checkpoint is of another model: it has ",
                                                    Described(saved), ", this run has ",
                                                    Described(own), difference, "; ", kRemedy));
}

absl::Status CheckStateFits(const StateLayout& layout, const base::NamedArrays& state) {
  std::vector<std::string> missing, superfluous, different;
  absl::flat_hash_set<absl::string_view> known;
  for (const StateLayout::Entry& entry : layout.entries) {
    known.insert(entry.name);
    const base::Array* array = state.Find(entry.name);
    if (array == nullptr) {
      missing.push_back(entry.name);
    } else if (array->dtype() != entry.type.dtype || !(array->shape() == entry.type.shape)) {
      different.push_back(absl::StrCat(entry.name, " (", array->TypeString(), " instead of ",
                                       entry.type.ToString(), ")"));
    }
  }
  for (const auto& [name, array] : state) {
    if (!known.contains(name) && !absl::StartsWith(name, kRunArrays)) superfluous.push_back(name);
  }
  std::vector<std::string> parts;
  if (!missing.empty()) {
    parts.push_back(
        absl::StrCat("it lacks ", missing.size(), " arrays of this run: ", Some(missing)));
  }
  if (!superfluous.empty()) {
    parts.push_back(absl::StrCat("it has ", superfluous.size(),
                                 " arrays that this run lacks: ", Some(superfluous)));
  }
  if (!different.empty()) {
    parts.push_back(absl::StrCat(different.size(), " arrays have another type: ", Some(different)));
  }
  if (parts.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the checkpoint is of another model, optimizer or set of metrics; ",
                   absl::StrJoin(parts, "; "), "; ", kRemedy));
}

}  // namespace penstock::train
