// Record source for labeled images that are pixels in memory; each is encoded on demand.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/array.h"
#include "penstock/pack/recompress.h"
#include "penstock/pack/record_source.h"

namespace penstock::pack {

struct Pixels {
  std::string origin = {};  // name of the file, for messages
  // Returns the pixels of image i, uint8 [height, width, 1 or 3]. Called from any thread.
  std::function<base::Array(int64_t)> image = {};
  std::vector<int64_t> class_indices = {};  // one per image
  std::vector<std::string> classes = {};
};

// Images are encoded as PNG, or as JPEG if `recompress.quality` is set. `content` is a fingerprint
// of all pixels.
std::unique_ptr<RecordSource> PixelImages(Pixels pixels, std::string content,
                                          RecompressOptions recompress);

}  // namespace penstock::pack
