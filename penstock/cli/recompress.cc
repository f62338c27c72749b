#include "penstock/cli/recompress.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/cli/read_input.h"
#include "penstock/image/encode.h"

namespace penstock::cli {
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

void RecompressOptions::Describe(Options& options) {
  options
      .Add("--size", size,
           "Height and width: images are resized to it, cropped about their centre where the "
           "aspect is another; default: the bytes as they are")
      .Count(2)
      .Range(1, 65500);
  options
      .Add("--quality", quality,
           "Write all images as JPEG of this quality; default with --size: JPEG at 95, PNG "
           "stays PNG; else the bytes as they are")
      .Range(1, 100);
}

void RecompressOptions::AddTo(Job& job) const {
  if (!size.empty()) job.emplace_back("--size", absl::StrCat(size[0], " ", size[1]));
  if (quality != 0) job.emplace_back("--quality", absl::StrCat(quality));
}

absl::StatusOr<RecompressedImage> Recompress(std::string file, const RecompressOptions& options) {
  const absl::StatusOr<image::ImageInfo> read = image::ReadInfo(file);
  if (!read.ok()) return ContentError(read.status());
  const image::ImageInfo& info = *read;
  image::DecodeOptions decode{.channels = 0, .apply_orientation = !options.untouched()};
  if (!options.size.empty()) {
    decode.resize = image::Resize{.height = options.size[0],
                                  .width = options.size[1],
                                  .filter = image::Filter::kBilinear,
                                  .antialias = true,
                                  .fit = image::Fit::kCentreCrop};
  }
  const absl::StatusOr<base::Array> pixels = image::Decode(file, decode);
  if (!pixels.ok()) return ContentError(pixels.status());
  if (options.untouched()) return RecompressedImage{std::move(file), info.size()};
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(*pixels));
  return Encode(view, info.format, options.quality);
}

absl::StatusOr<RecompressedImage> EncodePixels(image::ImageView pixels,
                                               const RecompressOptions& options) {
  if (options.size.empty()) return Encode(pixels, image::Format::kPng, options.quality);
  const image::Size size{options.size[0], options.size[1]};
  base::Array resized =
      base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, pixels.channels});
  PENSTOCK_ASSIGN_OR_RETURN(const image::MutableImageView out, image::MutableViewOf(resized));
  image::Resizer().ResizeInto(pixels.Crop(image::CoverBox(pixels.size(), size)),
                              {.filter = image::Filter::kBilinear, .antialias = true}, out);
  return Encode(out, image::Format::kPng, options.quality);
}

}  // namespace penstock::cli
