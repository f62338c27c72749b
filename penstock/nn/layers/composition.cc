#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace {

struct LambdaLayer : LayerBody {
  explicit LambdaLayer(LambdaFunction f) : function(std::move(f)) {}
  absl::string_view class_name() const override { return "Lambda"; }
  bool supports_masking() const override { return true; }
  void Fields(Config&) override {}
  KerasForm keras_form() const override { return {.module = ""}; }
  absl::Status CheckSerializable() const override {
    return absl::UnimplementedError(
        "a Lambda is a function of your program, which a file cannot hold; save the weights alone "
        "and build the model again, or write the function with the layers there are");
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return function(ctx, inputs);
  }
  LambdaFunction function;
};

// Keras's class of a nested model.
struct NestedLayer : LayerBody {
  explicit NestedLayer(Network n = Network(absl::InvalidArgumentError("it contains no network")))
      : inner(std::move(n)) {}
  absl::string_view class_name() const override {
    return inner.sequential() ? "Sequential" : "Functional";
  }
  const Network* network() const override { return &inner; }
  void Fields(Config& config) override { config("network", inner); }
  std::string KerasPath(absl::string_view part) const override {
    return part.empty() ? "" : inner.KerasPath(part);
  }
  absl::Status CheckSerializable() const override { return inner.CheckSerializable(); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (!inner.status().ok()) return ctx.Fail(inner.status().message());
    Values masks;
    Outputs outputs = ctx.Call(inner, inputs, &masks);
    for (size_t i = 0; i < masks.size(); ++i) ctx.SetOutputMask(masks[i], i);
    return outputs;
  }
  Network inner;
};

}  // namespace

Layer Lambda(LambdaFunction function, const LambdaOptions& options, SourceLocation location) {
  return Layer(std::make_shared<LambdaLayer>(std::move(function)), options.name, options.dtype,
               location);
}
Layer Nested(const Network& network, const NestedOptions& options, SourceLocation location) {
  const std::string& name = options.name.empty() ? network.name() : options.name;
  return Layer(std::make_shared<NestedLayer>(network), name, "", location).SetRemat(options.remat);
}

absl::Span<const internal::LayerRow> internal::CompositionLayers() {
  // Sequential and other networks differ only in their class names.
  static constexpr LayerRow kRows[] = {
      {"Sequential",
       []() -> std::shared_ptr<LayerBody> { return std::make_shared<NestedLayer>(); }},
      {"Functional",
       []() -> std::shared_ptr<LayerBody> { return std::make_shared<NestedLayer>(); }},
  };
  return kRows;
}

}  // namespace penstock::nn
