// Layers that wrap another layer.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using internal::OnlyInput;

std::string NameOf(const Layer& layer) {
  return layer.given_name().empty() ? SnakeCase(layer.class_name()) : layer.given_name();
}

// KerasPath of a wrapper that has the layer `name` in an attribute.
std::string PathInWrapped(absl::string_view attribute, const Layer& layer, absl::string_view name,
                          absl::string_view part) {
  absl::ConsumePrefix(&part, name);
  absl::ConsumePrefix(&part, "/");
  const std::string inside = layer.body().KerasPath(part);
  return inside.empty() ? std::string(attribute) : absl::StrCat(attribute, "/", inside);
}

// ---- Bidirectional ----

// Options of one direction: those of the layer, some of them changed.
struct Direction {
  std::string name;
  nlohmann::ordered_json options;
  Layer layer;
};

bool Flag(const nlohmann::ordered_json& options, const char* key) {
  return options.contains(key) && options[key].is_boolean() && options[key].get<bool>();
}

struct BidirectionalLayer : LayerBody {
  BidirectionalLayer() = default;
  BidirectionalLayer(const Layer& layer, const BidirectionalOptions& options)
      : layer_(layer), options_(options) {}

  absl::string_view class_name() const override { return "Bidirectional"; }
  void Fields(Config& config) override {
    config("layer", layer_)("backward_layer", options_.backward_layer);
    config.OrNull("merge_mode", options_.merge_mode, "none");
  }
  KerasForm keras_form() const override { return {.arguments = {"initial_state"}}; }
  std::string KerasPath(absl::string_view part) const override {
    const absl::StatusOr<std::pair<Direction, Direction>> both = Directions();
    if (!both.ok()) return std::string(part);
    const auto& [forward, backward] = *both;
    return absl::StartsWith(absl::StrCat(part, "/"), forward.name + "/")
               ? PathInWrapped("forward_layer", forward.layer, forward.name, part)
               : PathInWrapped("backward_layer", backward.layer, backward.name, part);
  }
  absl::Status CheckSerializable() const override {
    return layer_.valid() ? layer_.body().CheckSerializable() : absl::OkStatus();
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const absl::StatusOr<std::pair<Direction, Direction>> both = Directions();
    if (!both.ok()) return ctx.Fail(both.status().message());
    const auto& [forward, backward] = *both;
    if (inputs.size() % 2 == 0) {
      return ctx.Fail(absl::StrCat("takes a sequence, then as many states for each direction; got ",
                                   inputs.size(), " inputs"));
    }
    const auto middle = inputs.begin() + 1 + (inputs.size() - 1) / 2;
    Values there{inputs[0]}, back{inputs[0]};
    there.insert(there.end(), inputs.begin() + 1, middle);
    back.insert(back.end(), middle, inputs.end());
    const Values masks{ctx.input_mask()};
    const Values y = ctx.Call(forward.layer, forward.name, there, masks);
    Values r = ctx.Call(backward.layer, backward.name, back, masks);
    if (!y[0].valid() || !r[0].valid()) return Value();
    const bool sequences = Flag(forward.options, "return_sequences");
    if (sequences) r[0] = ir::Reverse(r[0], {1});
    Values outputs = Merge(ctx, y[0], r[0]);
    for (size_t i = 0; sequences && i < outputs.size(); ++i) ctx.SetOutputMask(masks[0], i);
    outputs.insert(outputs.end(), y.begin() + 1, y.end());
    outputs.insert(outputs.end(), r.begin() + 1, r.end());
    return outputs;
  }

 private:
  static absl::StatusOr<Direction> MakeDirection(const Layer& layer, const std::string& prefix,
                                                 std::optional<bool> go_backwards) {
    Direction direction;
    const std::string name = NameOf(layer);
    direction.name = absl::StartsWith(name, prefix) ? name : prefix + name;
    direction.options = LayerConfig(layer);
    if (!direction.options.contains("go_backwards")) {
      return absl::InvalidArgumentError(
          absl::StrCat("wraps a recurrent layer (LSTM, GRU, "
                       "SimpleRNN), got ",
                       std::string(layer.class_name())));
    }
    if (go_backwards.has_value()) direction.options["go_backwards"] = *go_backwards;
    direction.options["zero_output_for_mask"] = Flag(direction.options, "return_sequences");
    PENSTOCK_ASSIGN_OR_RETURN(direction.layer,
                              LayerFromConfig(layer.class_name(), name, direction.options));
    return direction;
  }

  absl::StatusOr<std::pair<Direction, Direction>> Directions() const {
    if (!layer_.valid()) return absl::InvalidArgumentError("it wraps no layer");
    std::pair<Direction, Direction> both;
    PENSTOCK_ASSIGN_OR_RETURN(both.first, MakeDirection(layer_, "forward_", std::nullopt));
    if (const Layer& backward = options_.backward_layer; backward.valid()) {
      PENSTOCK_ASSIGN_OR_RETURN(both.second, MakeDirection(backward, "", std::nullopt));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(both.second, MakeDirection(layer_, "backward_", true));
    }
    if (Flag(both.first.options, "go_backwards") == Flag(both.second.options, "go_backwards")) {
      return absl::InvalidArgumentError(
          "the two layers must differ in go_backwards; the first has none, or both have it");
    }
    for (const char* key : {"return_sequences", "return_state"}) {
      if (Flag(both.first.options, key) == Flag(both.second.options, key)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the two layers must agree in ", key));
    }
    return both;
  }

  Values Merge(CallContext& ctx, Value y, Value r) const {
    const std::string& mode = options_.merge_mode;
    if (mode == "none") return {y, r};
    if (mode == "concat") return {ir::Concatenate({y, r}, y.rank() - 1)};
    if (mode == "sum") return {y + r};
    if (mode == "ave") return {(y + r) / 2.0};
    if (mode == "mul") return {y * r};
    return {ctx.Fail(
        absl::StrCat("merge_mode must be sum, mul, ave, concat or none, got '", mode, "'"))};
  }

  Layer layer_;
  BidirectionalOptions options_;
};

// ---- TimeDistributed ----

struct TimeDistributedLayer : LayerBody {
  explicit TimeDistributedLayer(Layer layer = Layer()) : layer_(std::move(layer)) {}
  absl::string_view class_name() const override { return "TimeDistributed"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("layer", layer_); }
  std::string KerasPath(absl::string_view part) const override {
    if (part.empty() || !layer_.valid()) return std::string(part);
    return PathInWrapped("layer", layer_, NameOf(layer_), part);
  }
  absl::Status CheckSerializable() const override {
    return layer_.valid() ? layer_.body().CheckSerializable() : absl::OkStatus();
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (!layer_.valid()) return ctx.Fail("it wraps no layer");
    if (x.rank() < 3) {
      return ctx.Fail(absl::StrCat("expects [batch, steps, ...], got ", x.type().ToString()));
    }
    const int64_t steps = x.shape().dim(1);
    // Splits a mask with more axes along the steps. A mask of the steps themselves has one bool per
    // step, which says for vectors whether they count in the statistics of batch normalization.
    Value mask = ctx.input_mask();
    mask = mask.valid() && (mask.rank() > 2 || x.rank() == 3) ? Folded(mask) : Value();
    Outputs outputs = ctx.CallParts(layer_, NameOf(layer_), {Folded(x)}, steps, {mask});
    for (Value& y : outputs) {
      if (!y.valid()) continue;
      std::vector<int64_t> dims{x.shape().dim(0), steps};
      dims.insert(dims.end(), y.shape().begin() + 1, y.shape().end());
      if (dims.size() > base::kMaxRank) {
        return ctx.Fail(absl::StrCat("with the steps of each, ", y.type().ToString(),
                                     " has more axes than ", base::kMaxRank));
      }
      y = ir::Reshape(y, Shape(dims));
    }
    return outputs;
  }

 private:
  // [batch, steps, ...] -> [batch * steps, ...].
  static Value Folded(Value x) {
    std::vector<int64_t> dims(x.shape().begin() + 1, x.shape().end());
    dims[0] = -1;
    return ir::Reshape(x, Shape(dims));
  }

  Layer layer_;
};

}  // namespace

Layer Bidirectional(const Layer& layer, const BidirectionalOptions& options,
                    SourceLocation location) {
  return Layer(std::make_shared<BidirectionalLayer>(layer, options), options.name, options.dtype,
               location);
}
Layer TimeDistributed(const Layer& layer, const TimeDistributedOptions& options,
                      SourceLocation location) {
  return Layer(std::make_shared<TimeDistributedLayer>(layer), options.name, options.dtype,
               location);
}

absl::Span<const internal::LayerRow> internal::WrapperLayers() {
  static constexpr LayerRow kRows[] = {
      {"Bidirectional",
       []() -> std::shared_ptr<LayerBody> { return std::make_shared<BidirectionalLayer>(); }},
      {"TimeDistributed",
       []() -> std::shared_ptr<LayerBody> { return std::make_shared<TimeDistributedLayer>(); }},
  };
  return kRows;
}

}  // namespace penstock::nn
