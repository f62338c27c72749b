#include "penstock/nn/layers/resizing.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/resize.h"
#include "penstock/nn/layers/spatial_input.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

struct ResizingLayer : LayerOf<ResizingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Resizing"; }
  void Fields(Config& config) override {
    config("height", options_.height)("width", options_.width)(
        "interpolation", options_.interpolation)("crop_to_aspect_ratio",
                                                 options_.crop_to_aspect_ratio)(
        "pad_to_aspect_ratio", options_.pad_to_aspect_ratio)("fill_mode", options_.fill_mode)(
        "fill_value", options_.fill_value)("antialias", options_.antialias);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (options_.fill_mode != "constant") {
      return ctx.Fail(absl::StrCat("fill_mode must be constant, got \"", options_.fill_mode, "\""));
    }
    return internal::Resize(ctx, internal::ImageInput(ctx, inputs), options_.height, options_.width,
                            {.interpolation = options_.interpolation,
                             .antialias = options_.antialias,
                             .crop_to_aspect_ratio = options_.crop_to_aspect_ratio,
                             .pad_to_aspect_ratio = options_.pad_to_aspect_ratio,
                             .fill_value = options_.fill_value});
  }
};

struct CenterCropLayer : LayerOf<CenterCropOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "CenterCrop"; }
  void Fields(Config& config) override {
    config("height", options_.height)("width", options_.width);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = ir::Convert(internal::ImageInput(ctx, inputs), ctx.compute_dtype());
    if (!x.valid()) return x;
    const int64_t height = options_.height, width = options_.width;
    const int64_t rows = x.shape().dim(1) - height, columns = x.shape().dim(2) - width;
    if (height <= 0 || width <= 0 || rows < 0 || columns < 0) {
      return internal::Resize(ctx, x, height, width, {.crop_to_aspect_ratio = true});
    }
    const Value middle = ir::SliceAxis(x, 1, rows / 2, rows / 2 + height);
    return ir::SliceAxis(middle, 2, columns / 2, columns / 2 + width);
  }
};

}  // namespace

Layer Resizing(const ResizingOptions& options, SourceLocation location) {
  return internal::MakeLayer<ResizingLayer>(options, location);
}
Layer CenterCrop(const CenterCropOptions& options, SourceLocation location) {
  return internal::MakeLayer<CenterCropLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::ResizingLayers() {
  static constexpr LayerRow kRows[] = {
      {"Resizing", MakeDefault<ResizingLayer>},
      {"CenterCrop", MakeDefault<CenterCropLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
