#include "penstock/nn/layers/spatial_input.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/layers/layer_table.h"

namespace penstock::nn::internal {

const char* SpatialShapeName(int axes) {
  constexpr const char* kNames[] = {"[batch, steps, channels]", "[batch, height, width, channels]",
                                    "[batch, depth, height, width, channels]"};
  return kNames[axes - 1];
}

Value SpatialInput(CallContext& ctx, const Values& inputs, int axes) {
  const Value x = OnlyInput(ctx, inputs);
  if (!x.valid() || x.rank() == axes + 2) return x;
  constexpr const char* kInputKinds[] = {"sequences", "images", "volumes"};
  return ctx.Fail(absl::StrCat("expects ", kInputKinds[axes - 1], " ", SpatialShapeName(axes),
                               ", got ", x.type().ToString()));
}

bool ResolvePadding(CallContext& ctx, const Value& x, const Window& window,
                    std::vector<std::pair<int64_t, int64_t>>& padding) {
  const std::string& how = window.padding;
  const bool causal = window.allow_causal && how == "causal";
  if (how != "valid" && how != "same" && !causal) {
    ctx.Fail(absl::StrCat("padding must be \"valid\"",
                          window.allow_causal ? ", \"same\" or \"causal\"" : " or \"same\"",
                          ", got \"", how, "\""));
    return false;
  }
  padding.clear();
  for (size_t i = 0; i < window.size.size(); ++i) {
    const int64_t size = window.size[i], stride = window.strides[i], dilation = window.dilation[i];
    if (size <= 0 || stride <= 0 || dilation <= 0) {
      ctx.Fail(absl::StrCat("window, strides and dilation must be above 0, got ", size, ", ",
                            stride, ", ", dilation));
      return false;
    }
    const int64_t extent = x.shape().dim(static_cast<int>(i) + 1),
                  reach = (size - 1) * dilation + 1;
    if (causal) {
      padding.push_back({reach - 1, 0});
    } else if (how == "same") {
      padding.push_back(ir::SamePadding(extent, size, stride, dilation));
    } else if (reach > extent) {
      constexpr const char* kUnits[] = {"steps", "pixels", "voxels"};
      ctx.Fail(absl::StrCat("the window reaches over ", reach, " ", kUnits[window.size.size() - 1],
                            ", but the input ", x.type().ToString(), " has only ", extent,
                            "; use padding \"same\" or a smaller window"));
      return false;
    } else {
      padding.push_back({0, 0});
    }
  }
  return true;
}

}  // namespace penstock::nn::internal
