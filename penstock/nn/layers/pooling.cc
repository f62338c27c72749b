#include "penstock/nn/layers/pooling.h"

#include <numeric>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/spatial_input.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

// Reduction of a window.
enum class Pool { kMax, kAverage };

const char* NameOf(Pool pool) { return pool == Pool::kMax ? "Max" : "Average"; }

// Pools the windows of x; sums of 16-bit floats are computed in float32.
Value PoolWindows(Pool pool, Value x, const ir::WindowOptions& window) {
  if (pool == Pool::kMax) return ir::ReduceWindow(x, ir::WindowReducer::kMax, window);
  const DType dtype = base::BitWidth(x.dtype()) < 32 ? DType::kF32 : x.dtype();
  const Value sum = ir::ReduceWindow(ir::Convert(x, dtype), ir::WindowReducer::kSum, window);
  if (!sum.valid()) return sum;
  bool padded = false;
  for (const auto& [low, high] : window.padding) padded = padded || low != 0 || high != 0;
  if (!padded) {
    const int64_t count = std::accumulate(window.size.begin(), window.size.end(), int64_t{1},
                                          std::multiplies<int64_t>());
    return ir::Convert(sum / static_cast<double>(count), x.dtype());
  }
  // Number of real positions in each window; the same for every example and channel.
  std::vector<int64_t> extents(x.shape().begin(), x.shape().end());
  extents.front() = extents.back() = 1;
  const Value ones = ir::Splat(*x.graph(), {dtype, Shape(extents)}, 1);
  return ir::Convert(sum / ir::ReduceWindow(ones, ir::WindowReducer::kSum, window), x.dtype());
}

// Pools a sequence as an image of height 1, for which platforms have kernels.
Value PoolAsImage(Pool pool, Value x, ir::WindowOptions window) {
  if (x.rank() != 3) return PoolWindows(pool, x, window);
  window.size.insert(window.size.begin() + 1, 1);
  window.strides.insert(window.strides.begin() + 1, 1);
  window.padding.insert(window.padding.begin() + 1, {0, 0});
  const Value y = PoolWindows(pool, ir::ExpandDims(x, 1), window);
  return y.valid() ? ir::Squeeze(y, {1}) : y;
}

template <Pool kPool, int N>
struct PoolingLayer : LayerOf<PoolingOptions<N>> {
  explicit PoolingLayer(PoolingOptions<N> options)
      : LayerOf<PoolingOptions<N>>(std::move(options)),
        class_name_(absl::StrCat(NameOf(kPool), "Pooling", N, "D")) {}
  absl::string_view class_name() const override { return class_name_; }
  void Fields(Config& config) override {
    config("pool_size", this->options_.pool_size)("strides", this->options_.strides)(
        "padding", this->options_.padding);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    const internal::Window window{
        .size = internal::ToVector(this->options_.pool_size),
        .strides = internal::ToVector(this->options_.strides.value_or(this->options_.pool_size)),
        .dilation = std::vector<int64_t>(N, 1),
        .padding = this->options_.padding};
    std::vector<std::pair<int64_t, int64_t>> padding;
    if (!internal::ResolvePadding(ctx, x, window, padding)) return Value();
    ir::WindowOptions whole;  // including the batch and the channels
    whole.size.assign(N + 2, 1);
    whole.strides.assign(N + 2, 1);
    whole.padding.assign(N + 2, {0, 0});
    for (int i = 0; i < N; ++i) {
      whole.size[i + 1] = window.size[i];
      whole.strides[i + 1] = window.strides[i];
      whole.padding[i + 1] = padding[i];
    }
    return PoolAsImage(kPool, x, std::move(whole));
  }

 private:
  const std::string class_name_;
};

template <Pool kPool, int N>
struct GlobalPoolingLayer : LayerOf<GlobalPoolingOptions> {
  explicit GlobalPoolingLayer(GlobalPoolingOptions options)
      : LayerOf(std::move(options)),
        class_name_(absl::StrCat("Global", NameOf(kPool), "Pooling", N, "D")) {}
  absl::string_view class_name() const override { return class_name_; }
  void Fields(Config& config) override { config("keepdims", options_.keepdims); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    ir::Axes axes(N);
    std::iota(axes.begin(), axes.end(), 1);
    if (kPool == Pool::kMax) return ir::ReduceMax(x, axes, options_.keepdims);
    const Value mask = ctx.input_mask();
    if (N > 1 || !mask.valid()) return ir::ReduceMean(x, axes, options_.keepdims);
    // Sums in float32: with many steps, 16-bit sums overflow and counts are rounded.
    const Value wide = base::BitWidth(x.dtype()) < 32 ? ir::Convert(x, DType::kF32) : x;
    const Value real = ir::ExpandDims(ir::Convert(mask, wide.dtype()), 2);
    const Value kept = ir::Select(ir::ExpandDims(mask, 2), wide, ir::SplatLike(wide, 0));
    return ir::Convert(
        ir::ReduceSum(kept, axes, options_.keepdims) / ir::ReduceSum(real, axes, options_.keepdims),
        x.dtype());
  }

 private:
  const std::string class_name_;
};

// Adaptive pooling along one axis of x. Windows have at most two sizes, so two poolings with stride
// 1 contain all of them, and an index selects.
Value PoolAdaptively(Pool pool, Value x, int axis, int64_t out) {
  const int64_t n = x.shape().dim(axis), small = (n + out - 1) / out;
  const auto windows = [&](int64_t size, int64_t stride) {
    ir::WindowOptions window;
    window.size.assign(x.rank(), 1);
    window.strides.assign(x.rank(), 1);
    window.size[axis] = size;
    window.strides[axis] = stride;
    return PoolWindows(pool, x, window);
  };
  if (n % out == 0) return windows(small, small);
  Array places = Array::Zeros(DType::kI32, {out});
  bool larger = false;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * n / out, end = ((i + 1) * n + out - 1) / out;
    const bool is_larger = end - begin > small;
    larger = larger || is_larger;
    places.mutable_data<int32_t>()[i] =
        static_cast<int32_t>(is_larger ? begin + n - small + 1 : begin);
  }
  const Value all = larger ? ir::Concatenate({windows(small, 1), windows(small + 1, 1)}, axis)
                           : windows(small, 1);
  return ir::Take(all, ir::Constant(*x.graph(), places), axis);
}

template <Pool kPool, int N>
struct AdaptivePoolingLayer : LayerOf<AdaptivePoolingOptions<N>> {
  explicit AdaptivePoolingLayer(AdaptivePoolingOptions<N> options)
      : LayerOf<AdaptivePoolingOptions<N>>(std::move(options)),
        class_name_(absl::StrCat("Adaptive", NameOf(kPool), "Pooling", N, "D")) {}
  absl::string_view class_name() const override { return class_name_; }
  void Fields(Config& config) override { config("output_size", this->options_.output_size); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    Value x = internal::SpatialInput(ctx, inputs, N);
    for (int i = 0; i < N && x.valid(); ++i) {
      const int64_t out = this->options_.output_size[i];
      constexpr int64_t kMax = 1 << 24;  // size of a table that the layer builds
      if (out <= 0 || out > kMax) {
        return ctx.Fail(absl::StrCat("output_size must be from 1 to ", kMax, ", got ", out));
      }
      x = PoolAdaptively(kPool, x, i + 1, out);
    }
    return x;
  }

 private:
  const std::string class_name_;
};

}  // namespace

Layer MaxPooling1D(const PoolingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<PoolingLayer<Pool::kMax, 1>>(options, location);
}
Layer MaxPooling2D(const PoolingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<PoolingLayer<Pool::kMax, 2>>(options, location);
}
Layer MaxPooling3D(const PoolingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<PoolingLayer<Pool::kMax, 3>>(options, location);
}
Layer AveragePooling1D(const PoolingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<PoolingLayer<Pool::kAverage, 1>>(options, location);
}
Layer AveragePooling2D(const PoolingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<PoolingLayer<Pool::kAverage, 2>>(options, location);
}
Layer AveragePooling3D(const PoolingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<PoolingLayer<Pool::kAverage, 3>>(options, location);
}
Layer GlobalMaxPooling1D(const GlobalPoolingOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalPoolingLayer<Pool::kMax, 1>>(options, location);
}
Layer GlobalMaxPooling2D(const GlobalPoolingOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalPoolingLayer<Pool::kMax, 2>>(options, location);
}
Layer GlobalMaxPooling3D(const GlobalPoolingOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalPoolingLayer<Pool::kMax, 3>>(options, location);
}
Layer GlobalAveragePooling1D(const GlobalPoolingOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalPoolingLayer<Pool::kAverage, 1>>(options, location);
}
Layer GlobalAveragePooling2D(const GlobalPoolingOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalPoolingLayer<Pool::kAverage, 2>>(options, location);
}
Layer GlobalAveragePooling3D(const GlobalPoolingOptions& options, SourceLocation location) {
  return internal::MakeLayer<GlobalPoolingLayer<Pool::kAverage, 3>>(options, location);
}
Layer AdaptiveMaxPooling1D(const AdaptivePoolingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<AdaptivePoolingLayer<Pool::kMax, 1>>(options, location);
}
Layer AdaptiveMaxPooling2D(const AdaptivePoolingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<AdaptivePoolingLayer<Pool::kMax, 2>>(options, location);
}
Layer AdaptiveMaxPooling3D(const AdaptivePoolingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<AdaptivePoolingLayer<Pool::kMax, 3>>(options, location);
}
Layer AdaptiveAveragePooling1D(const AdaptivePoolingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<AdaptivePoolingLayer<Pool::kAverage, 1>>(options, location);
}
Layer AdaptiveAveragePooling2D(const AdaptivePoolingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<AdaptivePoolingLayer<Pool::kAverage, 2>>(options, location);
}
Layer AdaptiveAveragePooling3D(const AdaptivePoolingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<AdaptivePoolingLayer<Pool::kAverage, 3>>(options, location);
}

absl::Span<const internal::LayerRow> internal::PoolingLayers() {
  static constexpr LayerRow kRows[] = {
      {"MaxPooling1D", MakeDefault<PoolingLayer<Pool::kMax, 1>>},
      {"MaxPooling2D", MakeDefault<PoolingLayer<Pool::kMax, 2>>},
      {"MaxPooling3D", MakeDefault<PoolingLayer<Pool::kMax, 3>>},
      {"AveragePooling1D", MakeDefault<PoolingLayer<Pool::kAverage, 1>>},
      {"AveragePooling2D", MakeDefault<PoolingLayer<Pool::kAverage, 2>>},
      {"AveragePooling3D", MakeDefault<PoolingLayer<Pool::kAverage, 3>>},
      {"GlobalMaxPooling1D", MakeDefault<GlobalPoolingLayer<Pool::kMax, 1>>},
      {"GlobalMaxPooling2D", MakeDefault<GlobalPoolingLayer<Pool::kMax, 2>>},
      {"GlobalMaxPooling3D", MakeDefault<GlobalPoolingLayer<Pool::kMax, 3>>},
      {"GlobalAveragePooling1D", MakeDefault<GlobalPoolingLayer<Pool::kAverage, 1>>},
      {"GlobalAveragePooling2D", MakeDefault<GlobalPoolingLayer<Pool::kAverage, 2>>},
      {"GlobalAveragePooling3D", MakeDefault<GlobalPoolingLayer<Pool::kAverage, 3>>},
      {"AdaptiveMaxPooling1D", MakeDefault<AdaptivePoolingLayer<Pool::kMax, 1>>},
      {"AdaptiveMaxPooling2D", MakeDefault<AdaptivePoolingLayer<Pool::kMax, 2>>},
      {"AdaptiveMaxPooling3D", MakeDefault<AdaptivePoolingLayer<Pool::kMax, 3>>},
      {"AdaptiveAveragePooling1D", MakeDefault<AdaptivePoolingLayer<Pool::kAverage, 1>>},
      {"AdaptiveAveragePooling2D", MakeDefault<AdaptivePoolingLayer<Pool::kAverage, 2>>},
      {"AdaptiveAveragePooling3D", MakeDefault<AdaptivePoolingLayer<Pool::kAverage, 3>>},
  };
  return kRows;
}

}  // namespace penstock::nn
