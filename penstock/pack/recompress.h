// Recompression of images that are packed: resizing, JPEG quality.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/image/image.h"
#include "penstock/pack/shard_plan.h"

namespace penstock::pack {

struct RecompressOptions {
  image::Size size = {};  // {height, width}; {0, 0}: do not resize
  int quality = 0;        // JPEG quality, 1 to 100; 0: 95 for JPEG, and PNG stays PNG

  bool untouched() const { return !resizes() && quality == 0; }
  bool resizes() const { return size.height != 0 || size.width != 0; }
  // Returns InvalidArgument for a size or quality out of range.
  absl::Status Check() const;
  // Adds the options that are set to the job of a plan.
  void AddTo(Job& job) const;
};

struct RecompressedImage {
  std::string bytes = {};
  image::Size size = {};
};

// Recompresses an encoded image. It is decoded even if the options change nothing, to detect
// corrupt images. Resizing crops the image about its center to the new aspect ratio and uses an
// antialiased bilinear filter. The EXIF orientation is applied to a recompressed image, since the
// output has no EXIF data. Grayscale images stay grayscale.
absl::StatusOr<RecompressedImage> Recompress(std::string file, const RecompressOptions& options);

// Encodes pixels in memory in the same way: as PNG, or as JPEG if options.quality is set.
absl::StatusOr<RecompressedImage> EncodePixels(image::ImageView pixels,
                                               const RecompressOptions& options);

}  // namespace penstock::pack
