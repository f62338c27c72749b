// Labelled images that are pixels in memory, each encoded when its turn comes.
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
  std::string origin = {};  // the file, for messages
  // The pixels of image i, uint8 [height, width, 1 or 3]. Any thread.
  std::function<base::Array(int64_t)> image = {};
  std::vector<int64_t> class_indices = {};  // one for each image
  std::vector<std::string> classes = {};
};

// Pictures become PNG, or JPEG where a quality asks for it. `content` is a fingerprint of it all.
std::unique_ptr<RecordSource> PixelImages(Pixels pixels, std::string content,
                                          RecompressOptions recompress);

}  // namespace penstock::pack
