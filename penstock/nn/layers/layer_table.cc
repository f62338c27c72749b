#include "penstock/nn/layers/layer_table.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/shared_layers.h"

namespace penstock::nn {
namespace {

// A layer's "remat" in JSON; full rematerialization is `true`.
constexpr char kRematActivations[] = "activations";

std::vector<internal::LayerRow> AllRows() {
  std::vector<internal::LayerRow> all;
  for (auto family :
       {internal::CoreLayers(), internal::ActivationLayers(), internal::MergeLayers(),
        internal::ReshapingLayers(), internal::ConvolutionLayers(), internal::PoolingLayers(),
        internal::NormalizationLayers(), internal::RegularizationLayers(),
        internal::ResizingLayers(), internal::AugmentationLayers(),
        internal::ColorAugmentationLayers(), internal::PreprocessingLayers(),
        internal::EmbeddingLayers(), internal::AttentionLayers(), internal::RecurrentLayers(),
        internal::WrapperLayers(), internal::CompositionLayers()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace

Value internal::OnlyInput(CallContext& ctx, const Values& inputs) {
  if (inputs.size() == 1) return inputs[0];
  return ctx.Fail(absl::StrCat("takes one input, got ", inputs.size()));
}

std::vector<std::string> LayerClassNames() {
  std::vector<std::string> names;
  for (const internal::LayerRow& row : AllRows()) names.push_back(row.class_name);
  return names;
}

nlohmann::ordered_json internal::LayerConfig(const Layer& layer, SharedLayerWriter* shared) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  Config config = Config::Writer(json, shared);
  layer.body().Fields(config);
  if (const std::string& dtype = layer.given_dtype(); !dtype.empty()) {
    const absl::StatusOr<Policy> policy = Policy::FromName(dtype);
    // An unknown name becomes an error at the layer's first call.
    json["dtype"] = policy.ok() ? policy->ToJson() : nlohmann::ordered_json(dtype);
  }
  if (layer.given_trainable().has_value()) json["trainable"] = *layer.given_trainable();
  if (layer.remat().mode() == Remat::kFull) json["remat"] = true;
  if (layer.remat().mode() == Remat::kActivations) json["remat"] = kRematActivations;
  return json;
}

nlohmann::ordered_json internal::LayerToJson(const Layer& layer, SharedLayerWriter* shared) {
  nlohmann::ordered_json config = LayerConfig(layer, shared);
  if (!layer.given_name().empty()) config["name"] = layer.given_name();
  nlohmann::ordered_json json = {{"class_name", std::string(layer.class_name())},
                                 {"config", std::move(config)}};
  if (shared != nullptr) shared->Write(layer, json);
  return json;
}

absl::StatusOr<Layer> internal::LayerFromJson(const nlohmann::ordered_json& json,
                                              const CustomLayers* custom,
                                              SharedLayerReader* shared) {
  if (!json.is_object() || !json.contains("class_name") || !json["class_name"].is_string() ||
      !json.contains("config") || !json["config"].is_object()) {
    return absl::InvalidArgumentError("a layer is {\"class_name\", \"config\"}");
  }
  const auto& config = json["config"];
  const bool named = config.contains("name") && config["name"].is_string();
  const auto make = [&] {
    return internal::LayerFromConfig(json["class_name"].get<std::string>(),
                                     named ? config["name"].get<std::string>() : "", config, custom,
                                     shared);
  };
  return shared == nullptr ? make() : shared->Read(json, make);
}

nlohmann::ordered_json LayerConfig(const Layer& layer) {
  return internal::LayerConfig(layer, nullptr);
}
nlohmann::ordered_json LayerToJson(const Layer& layer) {
  return internal::LayerToJson(layer, nullptr);
}
absl::StatusOr<Layer> LayerFromJson(const nlohmann::ordered_json& json,
                                    const CustomLayers* custom) {
  return internal::LayerFromJson(json, custom, nullptr);
}
absl::StatusOr<Layer> LayerFromConfig(absl::string_view class_name, const std::string& name,
                                      const nlohmann::ordered_json& config,
                                      const CustomLayers* custom) {
  return internal::LayerFromConfig(class_name, name, config, custom, nullptr);
}

namespace {

// Every integer in a layer's JSON is a size, a count or a position. With a limit of 2^31, a product
// of two of them fits int64, on which layers rely.
absl::Status CheckNumbers(const nlohmann::ordered_json& json) {
  constexpr int32_t kMax = INT32_MAX;
  for (const auto& [key, value] : json.items()) {
    absl::Status status;
    if (value.is_structured()) {
      status = CheckNumbers(value);
    } else if (value.is_number_integer() && key != "seed" &&
               (value.is_number_unsigned() ? value.get<uint64_t>() > static_cast<uint64_t>(kMax)
                                           : std::abs(value.get<double>()) > kMax)) {
      status = absl::InvalidArgumentError(
          absl::StrCat(value.dump(), " is too large; the maximum is ", kMax));
    }
    if (!status.ok()) {
      return json.is_object() ? base::WithContext(status, absl::StrCat("option '", key, "'"))
                              : status;
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<LayerBody> DefaultBody(absl::string_view class_name, const CustomLayers* custom) {
  if (custom != nullptr) {
    if (const auto own = custom->find(std::string(class_name)); own != custom->end()) {
      return own->second();
    }
  }
  for (const internal::LayerRow& row : AllRows()) {
    if (class_name == row.class_name) return row.make();
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Layer> internal::LayerFromConfig(absl::string_view class_name,
                                                const std::string& name,
                                                const nlohmann::ordered_json& json,
                                                const CustomLayers* custom,
                                                SharedLayerReader* shared) {
  std::shared_ptr<LayerBody> body = DefaultBody(class_name, custom);
  if (body == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("unknown layer class '", class_name,
                                                   "'; for a custom layer, pass it in the custom "
                                                   "layers when loading; available: ",
                                                   absl::StrJoin(LayerClassNames(), ", ")));
  }
  if (absl::Status status = CheckNumbers(json); !status.ok()) {
    return base::WithContext(status, absl::StrCat(class_name, " \"", name, "\""));
  }
  std::string dtype;
  if (const auto given = json.find("dtype"); given != json.end() && !given->is_null()) {
    const absl::StatusOr<Policy> policy = Policy::FromJson(*given);
    if (!policy.ok()) {
      return base::WithContext(policy.status(), absl::StrCat(class_name, " \"", name, "\""));
    }
    dtype = policy->name;
  }
  // A layer read from a file has no source line.
  Layer layer(std::move(body), name, std::move(dtype), base::SourceLocation());
  // Before the layers in it are read, which have flags of their own.
  if (const auto given = json.find("trainable"); given != json.end() && given->is_boolean()) {
    layer.SetTrainable(given->get<bool>());
  }
  Config config = Config::Reader(json, custom, shared);
  layer.body().Fields(config);
  if (absl::Status status = config.Finish(); !status.ok()) {
    return base::WithContext(status, absl::StrCat(class_name, " \"", name, "\""));
  }
  if (const auto given = json.find("remat"); given != json.end() && given->is_boolean()) {
    layer.SetRemat(given->get<bool>());
  } else if (given != json.end() && *given == kRematActivations) {
    layer.SetRemat(Remat::kActivations);
  }
  return layer;
}

}  // namespace penstock::nn
