// Images drawn as ASCII characters, without colors or escape codes, so that they are legible in a
// log file as well.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/array.h"

namespace penstock::cli {

// Draws images (uint8 [height, width, channels], any size) side by side, each with a caption below
// it, as many in a row as fit into `columns` characters. A pixel is two characters wide, so that it
// looks square; large images are subsampled to 16 pixels per side.
std::string DrawImages(const std::vector<base::Array>& images,
                       const std::vector<std::string>& captions, int columns = 100);

}  // namespace penstock::cli
