// The small images of testdata/ (testdata/make_testdata.py says what they are).
#pragma once

#include <string>

#include "penstock/image/view.h"

namespace penstock::image {

// The whole file penstock/image/testdata/`name`; a missing one stops the test program.
std::string ReadTestdata(const std::string& name);

// The largest difference of two samples; the shapes are the same (contract).
int MaxDifference(ImageView a, ImageView b);

// A picture with gradients and noise, the same for the same size.
base::Array NoisyPicture(Size size, int channels);

}  // namespace penstock::image
