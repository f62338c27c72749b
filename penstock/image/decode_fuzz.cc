// Decodes arbitrary bytes after format detection: the full image; a crop, rotated and resized; and
// as in training: random crops, DCT scaling, flips, bfloat16 output.
#include <cstddef>
#include <cstdint>

#include "penstock/image/image.h"

namespace {

using namespace penstock::image;  // NOLINT: a standalone program

constexpr int64_t kMaxPixels = 1 << 18;

void DecodeParts(absl::string_view bytes, const ImageInfo& info) {
  Decoder decoder;
  (void)decoder.Decode(bytes, {.max_pixels = kMaxPixels, .channels = 0});
  const Box box{info.height / 3, info.width / 4, (info.height + 2) / 3, (info.width + 1) / 2};
  (void)decoder.Decode(bytes, {.max_pixels = kMaxPixels, .channels = 1, .crop = box});
  (void)decoder.Decode(bytes, {.max_pixels = kMaxPixels,
                               .apply_orientation = true,
                               .resize = Resize{.height = 8,
                                                .width = 9,
                                                .filter = Filter::kBicubic,
                                                .antialias = true,
                                                .fit = Fit::kCenterCrop}});
  penstock::base::Random random(bytes.size());
  for (const int target : {1, 7, 40}) {
    const Box random_box = RandomResizedCropBox(info.oriented_size(), {}, random);
    (void)decoder.Decode(bytes,
                         {.max_pixels = kMaxPixels,
                          .apply_orientation = true,
                          .crop = random_box,
                          .resize = Resize{.height = target, .width = 1 + target / 2},
                          .dct_scaling = DctScaling::kAuto,
                          .flip = random.Below(2) == 1,
                          .normalize = {.scale = 1 / 255.0f}},
                         penstock::base::DType::kBF16);
    (void)decoder.Decode(
        bytes,
        {.max_pixels = kMaxPixels,
         .channels = 1,
         .crop = RandomResizedCropBox(info.size(), {}, random),
         .resize = Resize{.height = 1 + target / 2, .width = target, .filter = Filter::kArea},
         .dct_scaling = DctScaling::kAuto});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto info = ReadInfo(bytes);
  if (info.ok() && int64_t{info->height} * info->width <= kMaxPixels) DecodeParts(bytes, *info);
  return 0;
}
