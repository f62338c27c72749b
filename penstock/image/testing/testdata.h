// Access to the small test images in testdata/ (described in testdata/make_testdata.py).
#pragma once

#include <string>

#include "penstock/image/view.h"

namespace penstock::image {

// Contents of penstock/image/testdata/`name`; aborts the test program if it is missing.
std::string ReadTestdata(const std::string& name);

// Maximum absolute difference of the samples of two images of the same shape.
int MaxDifference(ImageView a, ImageView b);

// A deterministic test image with gradients and noise.
base::Array NoisyPicture(Size size, int channels);

}  // namespace penstock::image
