#include "penstock/nn/image_input.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/layer_table.h"

namespace penstock::nn::internal {

Value ImageInput(CallContext& ctx, const Values& inputs) {
  const Value image = OnlyInput(ctx, inputs);
  if (!image.valid() || image.rank() == 4) return image;
  return ctx.Fail(
      absl::StrCat("wants images [batch, height, width, channels], got ", image.type().ToString()));
}

bool ResolvePadding(CallContext& ctx, const Value& image, const Window2D& window,
                    std::vector<std::pair<int64_t, int64_t>>& padding) {
  if (window.padding != "valid" && window.padding != "same") {
    ctx.Fail(absl::StrCat("padding is \"valid\" or \"same\", got \"", window.padding, "\""));
    return false;
  }
  const int64_t sizes[] = {window.size.height, window.size.width};
  const int64_t strides[] = {window.strides.height, window.strides.width};
  const int64_t dilations[] = {window.dilation.height, window.dilation.width};
  padding.clear();
  for (int i = 0; i < 2; ++i) {
    if (sizes[i] <= 0 || strides[i] <= 0 || dilations[i] <= 0) {
      ctx.Fail(absl::StrCat("window, strides and dilation must be above 0, got ", sizes[i], ", ",
                            strides[i], ", ", dilations[i]));
      return false;
    }
    const int64_t extent = image.shape().dim(1 + i), reach = (sizes[i] - 1) * dilations[i] + 1;
    if (window.padding == "same") {
      padding.push_back(ir::SamePadding(extent, sizes[i], strides[i], dilations[i]));
    } else if (reach > extent) {
      ctx.Fail(absl::StrCat("the window reaches over ", reach, " pixels, but the image ",
                            image.type().ToString(), " has only ", extent,
                            "; use padding \"same\" or a smaller window"));
      return false;
    } else {
      padding.push_back({0, 0});
    }
  }
  return true;
}

}  // namespace penstock::nn::internal
