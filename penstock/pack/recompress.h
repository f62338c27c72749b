// What happens to an image's file on its way into a shard: nothing, or another size or quality.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/image/image.h"
#include "penstock/pack/shard_plan.h"

namespace penstock::pack {

struct RecompressOptions {
  image::Size size = {};  // {height, width}; {0, 0}: as it is
  int quality = 0;        // of JPEG, 1 to 100; 0: JPEG at 95, PNG stays PNG

  bool untouched() const { return !resizes() && quality == 0; }
  bool resizes() const { return size.height != 0 || size.width != 0; }
  // InvalidArgument for a size or a quality that no image can have.
  absl::Status Check() const;
  void AddTo(Job& job) const;
};

struct RecompressedImage {
  std::string bytes = {};
  image::Size size = {};
};

// Decodes the file, which shows whether it can be read. An image with another aspect than the
// wanted is cropped about its centre, and it is resized with bilinear weights over all pixels that
// an output pixel covers. A recompressed file has no EXIF, so the image is turned first as that
// says. Gray stays gray.
absl::StatusOr<RecompressedImage> Recompress(std::string file, const RecompressOptions& options);

// The same for pixels that come from no file: PNG unless options.quality asks for JPEG.
absl::StatusOr<RecompressedImage> EncodePixels(image::ImageView pixels,
                                               const RecompressOptions& options);

}  // namespace penstock::pack
