// Pictures in a terminal, as characters: no colours, no escape codes, so that they survive a log
// file.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/array.h"

namespace penstock::cli {

// Images (uint8 [height, width, channels], any size) side by side with a caption under each, as
// many in a row as fit `columns` characters. A pixel is two characters wide, so that it looks
// square; large images are thinned out to 16 pixels a side.
std::string DrawImages(const std::vector<base::Array>& images,
                       const std::vector<std::string>& captions, int columns = 100);

}  // namespace penstock::cli
