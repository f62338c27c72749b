#include "penstock/pack/recompress.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/image/encode.h"
#include "penstock/pack/read_input.h"

namespace penstock::pack {
namespace {

constexpr int kDefaultQuality = 95;

absl::StatusOr<RecompressedImage> Encode(image::ImageView pixels, image::Format format,
                                         int quality) {
  RecompressedImage out{.bytes = "", .size = pixels.size()};
  if (quality == 0 && format == image::Format::kPng) {
    PENSTOCK_ASSIGN_OR_RETURN(out.bytes, image::EncodePng(pixels));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(
        out.bytes,
        image::EncodeJpeg(pixels, {.quality = quality == 0 ? kDefaultQuality : quality}));
  }
  return out;
}

}  // namespace

absl::Status RecompressOptions::Check() const {
  constexpr int kMaxPixels = 65500;  // per side: JPEG's limit
  const auto is_side = [](int pixels) { return pixels >= 1 && pixels <= kMaxPixels; };
  if (resizes() && (!is_side(size.height) || !is_side(size.width))) {
    return absl::InvalidArgumentError(
        absl::StrCat("RecompressOptions::size is {", size.height, ", ", size.width,
                     "}; height and width must be 1 to ", kMaxPixels, " pixels, or both 0"));
  }
  if (quality < 0 || quality > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat("RecompressOptions::quality is ", quality, "; it must be 1 to 100, or 0"));
  }
  return absl::OkStatus();
}

void RecompressOptions::AddTo(Job& job) const {
  if (resizes()) job.emplace_back("--size", absl::StrCat(size.height, " ", size.width));
  if (quality != 0) job.emplace_back("--quality", absl::StrCat(quality));
}

absl::StatusOr<RecompressedImage> Recompress(std::string file, const RecompressOptions& options) {
  const absl::StatusOr<image::ImageInfo> read = image::ReadInfo(file);
  if (!read.ok()) return ContentError(read.status());
  const image::ImageInfo& info = *read;
  image::DecodeOptions decode{.channels = 0, .apply_orientation = !options.untouched()};
  if (options.resizes()) {
    decode.resize = image::Resize{.height = options.size.height,
                                  .width = options.size.width,
                                  .filter = image::Filter::kBilinear,
                                  .antialias = true,
                                  .fit = image::Fit::kCenterCrop};
  }
  const absl::StatusOr<base::Array> pixels = image::Decode(file, decode);
  if (!pixels.ok()) return ContentError(pixels.status());
  if (options.untouched()) return RecompressedImage{std::move(file), info.size()};
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(*pixels));
  return Encode(view, info.format, options.quality);
}

absl::StatusOr<RecompressedImage> EncodePixels(image::ImageView pixels,
                                               const RecompressOptions& options) {
  if (!options.resizes()) return Encode(pixels, image::Format::kPng, options.quality);
  const image::Size size = options.size;
  base::Array resized =
      base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, pixels.channels});
  PENSTOCK_ASSIGN_OR_RETURN(const image::MutableImageView out, image::MutableViewOf(resized));
  image::Resizer().ResizeInto(pixels.Crop(image::CoverBox(pixels.size(), size)),
                              {.filter = image::Filter::kBilinear, .antialias = true}, out);
  return Encode(out, image::Format::kPng, options.quality);
}

}  // namespace penstock::pack
