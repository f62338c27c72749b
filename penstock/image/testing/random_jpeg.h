// Generator of random JPEGs of every variant that libjpeg can write.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/base/random.h"

namespace penstock::image {

struct RandomJpeg {
  std::string bytes;
  std::string what;  // description of how it was generated
};

// Gray, YCbCr, RGB, CMYK or YCCK; any sampling factors; sequential in one scan or several, or
// progressive; Huffman or arithmetic; with restarts and unusual markers. From 1x1 up to some 200
// rows or columns, occasionally some thousands.
RandomJpeg MakeRandomJpeg(base::Random& random);

// The file with only its first scans, as an interrupted encoder leaves it; unchanged if it has one
// scan.
std::string DropLastScans(absl::string_view jpeg, base::Random& random);

// The file with some bits or bytes changed, removed or added, or truncated.
std::string Corrupt(absl::string_view file, base::Random& random);

}  // namespace penstock::image
