#include "penstock/image/view.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/contract_error.h"

namespace penstock::image {
namespace {

absl::Status CheckFits(Size image, Size crop) {
  if (crop.height > 0 && crop.width > 0 && crop.height <= image.height &&
      crop.width <= image.width) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a crop of ", crop.ToString(),
                                                 " does not fit into an image of ",
                                                 image.ToString(), " (height x width)"));
}

// a * b / c, rounded to nearest.
int Scale(int a, int b, int c) { return static_cast<int>((int64_t{a} * b + c / 2) / c); }

absl::Status CheckIsImage(const base::Array& array) {
  constexpr int64_t kMax = 1 << 30;
  bool good = array.dtype() == base::DType::kU8 && (array.rank() == 2 || array.rank() == 3);
  for (int64_t extent : array.shape()) good = good && extent > 0 && extent <= kMax;
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an image must be a uint8 array [height,width,channels] or [height,width], not ",
                   array.valid() ? array.TypeString() : "an invalid array"));
}

}  // namespace

std::string Size::ToString() const { return absl::StrCat(height, "x", width); }

bool Box::Inside(Size image) const {
  return y >= 0 && x >= 0 && height > 0 && width > 0 && height <= image.height &&
         width <= image.width && y <= image.height - height && x <= image.width - width;
}

std::string Box::ToString() const {
  return absl::StrCat(size().ToString(), " at (", y, ", ", x, ")");
}

absl::StatusOr<MutableImageView> MutableViewOf(base::Array& array) {
  PENSTOCK_RETURN_IF_ERROR(CheckIsImage(array));
  const Size size{static_cast<int>(array.dim(0)), static_cast<int>(array.dim(1))};
  return TightView(array.mutable_data<uint8_t>(), size,
                   array.rank() == 3 ? static_cast<int>(array.dim(2)) : 1);
}

absl::StatusOr<ImageView> ViewOf(const base::Array& array) {
  base::Array same_memory = array;
  return MutableViewOf(same_memory);
}

void CopyPixels(ImageView from, const MutableImageView& to) {
  base::Require(from.size() == to.size() && from.channels == to.channels,
                "the source and the target of a copy must have the same size and channels");
  for (int y = 0; y < from.height; ++y) {
    std::memcpy(to.row(y), from.row(y), static_cast<size_t>(from.row_elements()));
  }
}

base::Array ToArray(ImageView view) {
  base::Array out =
      base::Array::Uninitialized(base::DType::kU8, {view.height, view.width, view.channels});
  CopyPixels(view, TightView(out.mutable_data<uint8_t>(), view.size(), view.channels));
  return out;
}

absl::StatusOr<Box> CenterCrop(Size image, Size crop) {
  PENSTOCK_RETURN_IF_ERROR(CheckFits(image, crop));
  return Box{(image.height - crop.height) / 2, (image.width - crop.width) / 2, crop.height,
             crop.width};
}

absl::StatusOr<Box> RandomCrop(Size image, Size crop, base::Random& random) {
  PENSTOCK_RETURN_IF_ERROR(CheckFits(image, crop));
  const auto at_most = [&](int limit) {
    return static_cast<int>(random.Below(static_cast<uint64_t>(limit) + 1));
  };
  const int y = at_most(image.height - crop.height);
  const int x = at_most(image.width - crop.width);
  return Box{y, x, crop.height, crop.width};
}

absl::Status CheckRandomResizedCrop(const RandomResizedCrop& crop) {
  const auto& [scale, ratio] = crop;
  if (scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1 && ratio[0] > 0 &&
      ratio[0] <= ratio[1] && std::isfinite(ratio[1])) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a random crop needs a scale with 0 < min <= max <= 1 and a ratio with 0 < min <= max, not ",
      scale[0], "..", scale[1], " and ", ratio[0], "..", ratio[1]));
}

Box RandomResizedCropBox(Size image, const RandomResizedCrop& crop, base::Random& random) {
  base::Require(image.height > 0 && image.width > 0, "an image to crop must not be empty");
  constexpr int kAttempts = 10;
  const double area = static_cast<double>(image.height) * image.width;
  const double min_log = std::log(crop.ratio[0]);
  const double max_log = std::log(crop.ratio[1]);
  // Rounds halves to even, like Python's round.
  const auto rounded = [](double x) { return std::nearbyint(x); };
  for (int i = 0; i < kAttempts; ++i) {
    const double box_area =
        area * (crop.scale[0] + (crop.scale[1] - crop.scale[0]) * random.Uniform());
    const double ratio = std::exp(min_log + (max_log - min_log) * random.Uniform());
    const double width = rounded(std::sqrt(box_area * ratio));
    const double height = rounded(std::sqrt(box_area / ratio));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    return *RandomCrop(image, {static_cast<int>(height), static_cast<int>(width)}, random);
  }
  Size size = image;
  const double ratio = static_cast<double>(image.width) / image.height;
  if (ratio < crop.ratio[0]) {
    size.height =
        static_cast<int>(std::clamp<double>(rounded(size.width / crop.ratio[0]), 1, image.height));
  } else if (ratio > crop.ratio[1]) {
    size.width =
        static_cast<int>(std::clamp<double>(rounded(size.height * crop.ratio[1]), 1, image.width));
  }
  return *CenterCrop(image, size);
}

Box CoverBox(Size image, Size aspect) {
  base::Require(image.height > 0 && image.width > 0 && aspect.height > 0 && aspect.width > 0,
                "the image to crop and the aspect ratio must not be empty");
  Size size = image;
  if (int64_t{image.height} * aspect.width > int64_t{image.width} * aspect.height) {
    size.height = std::clamp(Scale(image.width, aspect.height, aspect.width), 1, image.height);
  } else {
    size.width = std::clamp(Scale(image.height, aspect.width, aspect.height), 1, image.width);
  }
  return Box{(image.height - size.height) / 2, (image.width - size.width) / 2, size.height,
             size.width};
}

}  // namespace penstock::image
