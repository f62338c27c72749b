// Drawings of a learning rate range test: smoothed loss over the logarithm of the learning rate.
#pragma once

#include <string>

#include "penstock/keras/learning_rate_finder.h"

namespace penstock::cli {

// Chart of ASCII characters for the terminal: "*" the smoothed loss, "|" the proposed rate.
std::string LearningRateText(const keras::LearningRateCurve& curve, int width = 64,
                             int height = 14);
// The same as an SVG image, with the losses of the batches as dots.
std::string LearningRateSvg(const keras::LearningRateCurve& curve);

}  // namespace penstock::cli
