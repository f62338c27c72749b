#include "penstock/nn/layers/reshaping.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/checked_size.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/resize.h"
#include "penstock/nn/layers/spatial_input.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

struct FlattenLayer : LayerOf<FlattenOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Flatten"; }
  void Fields(Config&) override {}
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (x.rank() < 1) return ctx.Fail("expects a batch, got a scalar");
    return ir::Reshape(x, {x.shape().dim(0), x.shape().RowShape().num_elements()});
  }
};

struct ReshapeLayer : LayerOf<ReshapeOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Reshape"; }
  void Fields(Config& config) override { config("target_shape", options_.target_shape); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (x.rank() < 1) return ctx.Fail("expects a batch, got a scalar");
    const std::vector<int64_t>& target = options_.target_shape;
    const int64_t elements = x.shape().RowShape().num_elements();
    std::vector<int64_t> extents;
    for (int64_t extent : target) {
      if (extent < -1 || extent == 0) return ctx.Fail(Wrong(x));
      if (extent != -1) extents.push_back(extent);
    }
    const size_t unknown = target.size() - extents.size();
    const int64_t known = base::CheckedElements(extents).value_or(0);
    if (target.size() >= base::kMaxRank || unknown > 1 || known == 0 || elements % known != 0 ||
        (unknown == 0 && elements != known)) {
      return ctx.Fail(Wrong(x));
    }
    std::vector<int64_t> shape{x.shape().dim(0)};
    for (int64_t extent : target) shape.push_back(extent == -1 ? elements / known : extent);
    return ir::Reshape(x, Shape(shape));
  }

 private:
  std::string Wrong(const Value& x) const {
    return absl::StrCat("an example of ", x.type().ToString(), " has ",
                        x.shape().RowShape().num_elements(),
                        " elements, which do not make target_shape [",
                        absl::StrJoin(options_.target_shape, ", "), "]");
  }
};

struct PermuteLayer : LayerOf<PermuteOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Permute"; }
  void Fields(Config& config) override { config("dims", options_.dims); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    std::vector<int64_t> sorted = options_.dims;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] == static_cast<int64_t>(i) + 1) continue;
      return ctx.Fail(
          absl::StrCat("dims names each axis after the batch's once, counted from 1; got [",
                       absl::StrJoin(options_.dims, ", "), "]"));
    }
    if (x.rank() != static_cast<int>(sorted.size()) + 1) {
      return ctx.Fail(absl::StrCat("dims has ", sorted.size(), " axes besides the batch's, got ",
                                   x.type().ToString()));
    }
    ir::Axes axes{0};
    axes.insert(axes.end(), options_.dims.begin(), options_.dims.end());
    return ir::Transpose(x, axes);
  }
};

struct FlipLayer : LayerOf<FlipOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Flip"; }
  void Fields(Config& config) override { config("axis", options_.axis); }
  KerasForm keras_form() const override {
    return {.module = kKerasOperations, .operation_options = {"axis"}};
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    const int64_t axis = options_.axis < 0 ? options_.axis + x.rank() : options_.axis;
    if (axis < 1 || axis >= x.rank()) {
      return ctx.Fail(absl::StrCat("reverses an axis from 1 to ", x.rank() - 1, " of ",
                                   x.type().ToString(), ", got ", options_.axis));
    }
    return ir::Reverse(x, {axis});
  }
};

struct RepeatVectorLayer : LayerOf<RepeatVectorOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RepeatVector"; }
  void Fields(Config& config) override { config("n", options_.n); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (options_.n <= 0) return ctx.Fail(absl::StrCat("n must be above 0, got ", options_.n));
    if (x.rank() != 2) {
      return ctx.Fail(absl::StrCat("expects [batch, features], got ", x.type().ToString()));
    }
    return ir::BroadcastInDim(x, {x.shape().dim(0), options_.n, x.shape().dim(1)}, {0, 2});
  }
};

template <int N>
std::string Text(const Ends<N>& ends) {
  return absl::StrCat("[",
                      absl::StrJoin(ends, ", ",
                                    [](std::string* out, const auto& pair) {
                                      absl::StrAppend(out, "[", pair.first, ", ", pair.second, "]");
                                    }),
                      "]");
}

template <int N>
struct ZeroPaddingLayer : LayerOf<ZeroPaddingOptions<N>> {
  using LayerOf<ZeroPaddingOptions<N>>::LayerOf;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"};
    return kNames[N - 1];
  }
  void Fields(Config& config) override { config("padding", this->options_.padding); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    std::vector<ir::PadAxis> edges(N + 2);
    for (int i = 0; i < N; ++i) {
      const auto& [low, high] = this->options_.padding[i];
      if (low < 0 || high < 0) {
        return ctx.Fail(
            absl::StrCat("padding must not be below 0, got ", Text<N>(this->options_.padding)));
      }
      edges[i + 1] = {low, high, 0};
    }
    return ir::Pad(x, 0, edges);
  }
};

template <int N>
struct CroppingLayer : LayerOf<CroppingOptions<N>> {
  using LayerOf<CroppingOptions<N>>::LayerOf;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"Cropping1D", "Cropping2D", "Cropping3D"};
    return kNames[N - 1];
  }
  void Fields(Config& config) override { config("cropping", this->options_.cropping); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    std::vector<int64_t> begin(N + 2, 0), end(x.shape().begin(), x.shape().end());
    for (int i = 0; i < N; ++i) {
      const auto& [low, high] = this->options_.cropping[i];
      begin[i + 1] = low;
      end[i + 1] -= high;
      if (low < 0 || high < 0 || begin[i + 1] >= end[i + 1]) {
        return ctx.Fail(absl::StrCat("cropping ", Text<N>(this->options_.cropping),
                                     " leaves nothing of ", x.type().ToString()));
      }
    }
    return ir::Slice(x, begin, end);
  }
};

// Repeats each element along `axis` `times` times.
Value Repeat(Value x, int axis, int64_t times) {
  if (!x.valid() || times == 1) return x;
  std::vector<int64_t> wide(x.shape().begin(), x.shape().end()), merged = wide;
  wide.insert(wide.begin() + axis + 1, times);
  merged[axis] *= times;
  ir::Axes axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i <= axis ? i : i + 1);
  return ir::Reshape(ir::BroadcastInDim(x, Shape(wide), axes), Shape(merged));
}

template <int N>
struct UpSamplingLayer : LayerOf<UpSamplingOptions<N>> {
  using LayerOf<UpSamplingOptions<N>>::LayerOf;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"UpSampling1D", "UpSampling2D", "UpSampling3D"};
    return kNames[N - 1];
  }
  KerasForm keras_form() const override {
    return N == 1 ? KerasForm{.numbers = {"size"}} : KerasForm();
  }
  void Fields(Config& config) override {
    config("size", this->options_.size);
    if constexpr (N == 2) config("interpolation", this->options_.interpolation);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    const Size<N>& size = this->options_.size;
    for (int64_t times : size) {
      if (times <= 0) return ctx.Fail(absl::StrCat("size must be above 0, got ", times));
    }
    if constexpr (N == 2) {
      if (this->options_.interpolation != "nearest") {
        return internal::Resize(ctx, x, x.shape().dim(1) * size[0], x.shape().dim(2) * size[1],
                                {.interpolation = this->options_.interpolation});
      }
    }
    for (int i = 0; i < N; ++i) x = Repeat(x, i + 1, size[i]);
    return x;
  }
};

}  // namespace

Layer Flatten(const FlattenOptions& options, SourceLocation location) {
  return internal::MakeLayer<FlattenLayer>(options, location);
}
Layer Reshape(const ReshapeOptions& options, SourceLocation location) {
  return internal::MakeLayer<ReshapeLayer>(options, location);
}
Layer Permute(const PermuteOptions& options, SourceLocation location) {
  return internal::MakeLayer<PermuteLayer>(options, location);
}
Layer RepeatVector(const RepeatVectorOptions& options, SourceLocation location) {
  return internal::MakeLayer<RepeatVectorLayer>(options, location);
}
Layer ZeroPadding1D(const ZeroPaddingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<ZeroPaddingLayer<1>>(options, location);
}
Layer ZeroPadding2D(const ZeroPaddingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<ZeroPaddingLayer<2>>(options, location);
}
Layer ZeroPadding3D(const ZeroPaddingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<ZeroPaddingLayer<3>>(options, location);
}
Layer Flip(const FlipOptions& options, SourceLocation location) {
  return internal::MakeLayer<FlipLayer>(options, location);
}
Layer Cropping1D(const CroppingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<CroppingLayer<1>>(options, location);
}
Layer Cropping2D(const CroppingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<CroppingLayer<2>>(options, location);
}
Layer Cropping3D(const CroppingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<CroppingLayer<3>>(options, location);
}
Layer UpSampling1D(const UpSamplingOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<UpSamplingLayer<1>>(options, location);
}
Layer UpSampling2D(const UpSamplingOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<UpSamplingLayer<2>>(options, location);
}
Layer UpSampling3D(const UpSamplingOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<UpSamplingLayer<3>>(options, location);
}

absl::Span<const internal::LayerRow> internal::ReshapingLayers() {
  static constexpr LayerRow kRows[] = {
      {"Flatten", MakeDefault<FlattenLayer>},
      {"Reshape", MakeDefault<ReshapeLayer>},
      {"Permute", MakeDefault<PermuteLayer>},
      {"RepeatVector", MakeDefault<RepeatVectorLayer>},
      {"ZeroPadding1D", MakeDefault<ZeroPaddingLayer<1>>},
      {"ZeroPadding2D", MakeDefault<ZeroPaddingLayer<2>>},
      {"ZeroPadding3D", MakeDefault<ZeroPaddingLayer<3>>},
      {"Flip", MakeDefault<FlipLayer>},
      {"Cropping1D", MakeDefault<CroppingLayer<1>>},
      {"Cropping2D", MakeDefault<CroppingLayer<2>>},
      {"Cropping3D", MakeDefault<CroppingLayer<3>>},
      {"UpSampling1D", MakeDefault<UpSamplingLayer<1>>},
      {"UpSampling2D", MakeDefault<UpSamplingLayer<2>>},
      {"UpSampling3D", MakeDefault<UpSamplingLayer<3>>},
  };
  return kRows;
}

}  // namespace penstock::nn
