// JPEGs of every kind that libjpeg can write, chosen at random.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/base/random.h"

namespace penstock::image {

struct RandomJpeg {
  std::string bytes;
  std::string what;  // how it was made
};

// Gray, YCbCr, RGB, CMYK or YCCK; any sampling factors; sequential in one scan or several, or
// progressive; Huffman or arithmetic; with restarts and odd markers. From 1x1 up to some 200 rows
// or columns, now and then some thousands.
RandomJpeg MakeRandomJpeg(base::Random& random);

// The file with only its first scans, as an encoder that was stopped leaves it; unchanged when it
// has one.
std::string DropLastScans(absl::string_view jpeg, base::Random& random);

// With some bits or bytes changed, removed or added, or cut off.
std::string Damage(absl::string_view file, base::Random& random);

}  // namespace penstock::image
