#include "penstock/nn/config.h"
#include "penstock/nn/image_input.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

ir::WindowOptions ImageWindow(const internal::Window2D& window,
                              const std::vector<std::pair<int64_t, int64_t>>& padding) {
  return {.size = {1, window.size.height, window.size.width, 1},
          .strides = {1, window.strides.height, window.strides.width, 1},
          .dilation = {},
          .padding = {{0, 0}, padding[0], padding[1], {0, 0}}};
}

// Max and average pooling differ in what they do with a window.
struct Pooling2DLayer : LayerOf<Pooling2DOptions> {
  using LayerOf::LayerOf;
  void Fields(Config& config) override {
    config("pool_size", options_.pool_size)("strides", options_.strides)("padding",
                                                                         options_.padding);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    const internal::Window2D window{
        options_.pool_size, options_.strides.value_or(options_.pool_size), 1, options_.padding};
    std::vector<std::pair<int64_t, int64_t>> padding;
    if (!internal::ResolvePadding(ctx, x, window, padding)) return Value();
    return Pool(x, ImageWindow(window, padding));
  }
  virtual Value Pool(Value x, const ir::WindowOptions& window) const = 0;
};

struct MaxPooling2DLayer : Pooling2DLayer {
  using Pooling2DLayer::Pooling2DLayer;
  absl::string_view class_name() const override { return "MaxPooling2D"; }
  Value Pool(Value x, const ir::WindowOptions& window) const override {
    return ir::ReduceWindow(x, ir::WindowReducer::kMax, window);
  }
};

struct AveragePooling2DLayer : Pooling2DLayer {
  using Pooling2DLayer::Pooling2DLayer;
  absl::string_view class_name() const override { return "AveragePooling2D"; }
  Value Pool(Value x, const ir::WindowOptions& window) const override {
    // Sums of 16-bit numbers need more bits than the numbers.
    return ir::Convert(Average(ir::Convert(x, DType::kF32), window), x.dtype());
  }

 private:
  static Value Average(Value x, const ir::WindowOptions& window) {
    const Value sum = ir::ReduceWindow(x, ir::WindowReducer::kSum, window);
    bool padded = false;
    for (const auto& [low, high] : window.padding) padded = padded || low != 0 || high != 0;
    if (!padded) return sum / static_cast<double>(window.size[1] * window.size[2]);
    // How many real pixels each window holds; the same for every image and channel.
    const Shape& shape = x.shape();
    const Value ones = ir::Splat(*x.graph(), {x.dtype(), {1, shape.dim(1), shape.dim(2), 1}}, 1);
    return sum / ir::ReduceWindow(ones, ir::WindowReducer::kSum, window);
  }
};

struct GlobalPooling2DLayer : LayerOf<GlobalPooling2DOptions> {
  using LayerOf::LayerOf;
  void Fields(Config& config) override { config("keepdims", options_.keepdims); }
};

struct GlobalAveragePooling2DLayer : GlobalPooling2DLayer {
  using GlobalPooling2DLayer::GlobalPooling2DLayer;
  absl::string_view class_name() const override { return "GlobalAveragePooling2D"; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return ir::ReduceMean(internal::ImageInput(ctx, inputs), {1, 2}, options_.keepdims);
  }
};

struct GlobalMaxPooling2DLayer : GlobalPooling2DLayer {
  using GlobalPooling2DLayer::GlobalPooling2DLayer;
  absl::string_view class_name() const override { return "GlobalMaxPooling2D"; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return ir::ReduceMax(internal::ImageInput(ctx, inputs), {1, 2}, options_.keepdims);
  }
};

}  // namespace

Layer MaxPooling2D(const Pooling2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<MaxPooling2DLayer>(options, location);
}
Layer AveragePooling2D(const Pooling2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<AveragePooling2DLayer>(options, location);
}
Layer GlobalAveragePooling2D(const GlobalPooling2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalAveragePooling2DLayer>(options, location);
}
Layer GlobalMaxPooling2D(const GlobalPooling2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalMaxPooling2DLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::PoolingLayers() {
  static constexpr LayerRow kRows[] = {
      {"MaxPooling2D", MakeDefault<MaxPooling2DLayer>},
      {"AveragePooling2D", MakeDefault<AveragePooling2DLayer>},
      {"GlobalAveragePooling2D", MakeDefault<GlobalAveragePooling2DLayer>},
      {"GlobalMaxPooling2D", MakeDefault<GlobalMaxPooling2DLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
