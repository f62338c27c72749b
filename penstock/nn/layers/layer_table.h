// Table of layer classes, by family: each .cc of the folder ends with its rows. Internal to room
// nn.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

struct LayerRow {
  const char* class_name;
  std::shared_ptr<LayerBody> (*make)();  // with default options, which a Config then fills in
};

// The input of a single-input layer; an error and an invalid value if there is another number of
// inputs.
Value OnlyInput(CallContext& ctx, const Values& inputs);

absl::Span<const LayerRow> CoreLayers();
absl::Span<const LayerRow> ActivationLayers();
absl::Span<const LayerRow> MergeLayers();
absl::Span<const LayerRow> ReshapingLayers();
absl::Span<const LayerRow> ConvolutionLayers();
absl::Span<const LayerRow> PoolingLayers();
absl::Span<const LayerRow> NormalizationLayers();
absl::Span<const LayerRow> RegularizationLayers();
absl::Span<const LayerRow> ResizingLayers();
absl::Span<const LayerRow> AugmentationLayers();
absl::Span<const LayerRow> ColorAugmentationLayers();
absl::Span<const LayerRow> PreprocessingLayers();
absl::Span<const LayerRow> EmbeddingLayers();
absl::Span<const LayerRow> AttentionLayers();
absl::Span<const LayerRow> RecurrentLayers();
absl::Span<const LayerRow> WrapperLayers();
absl::Span<const LayerRow> CompositionLayers();

// As in layers.h, for a layer inside a larger description; `shared` is null for a layer alone.
class SharedLayerReader;
class SharedLayerWriter;
nlohmann::ordered_json LayerConfig(const Layer& layer, SharedLayerWriter* shared);
nlohmann::ordered_json LayerToJson(const Layer& layer, SharedLayerWriter* shared);
absl::StatusOr<Layer> LayerFromJson(const nlohmann::ordered_json& json, const CustomLayers* custom,
                                    SharedLayerReader* shared);
absl::StatusOr<Layer> LayerFromConfig(absl::string_view class_name, const std::string& name,
                                      const nlohmann::ordered_json& config,
                                      const CustomLayers* custom, SharedLayerReader* shared);

template <typename Body>
std::shared_ptr<LayerBody> MakeDefault() {
  return std::make_shared<Body>(typename Body::Options());
}

template <typename Body>
Layer MakeLayer(const typename Body::Options& options, const base::SourceLocation& location) {
  return Layer(std::make_shared<Body>(options), options.name, options.dtype, location);
}

// Base of layer classes: `struct DenseLayer : LayerOf<DenseOptions>` with Call and Fields.
template <typename OptionsType>
class LayerOf : public LayerBody {
 public:
  using Options = OptionsType;
  explicit LayerOf(OptionsType options) : options_(std::move(options)) {}

 protected:
  OptionsType options_;
};

}  // namespace penstock::nn::internal
