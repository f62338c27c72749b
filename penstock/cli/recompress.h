// What happens to an image's file on its way into a shard: nothing, or another size or quality.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/cli/options.h"
#include "penstock/cli/shard_plan.h"
#include "penstock/image/image.h"

namespace penstock::cli {

struct RecompressOptions {
  std::vector<int> size = {};  // {height, width}, or empty: as it is
  int quality = 0;             // of JPEG, 1 to 100; 0: JPEG at 95, PNG stays PNG

  bool untouched() const { return size.empty() && quality == 0; }
  // --size, --quality.
  void Describe(Options& options);
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

}  // namespace penstock::cli
