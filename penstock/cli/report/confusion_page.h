// The page of `penstock evaluate --confusion`: the confusion matrix as a picture, the most frequent
// confusions, the most confident mistakes with their images, and the scores of each class. One HTML
// file without scripts or references to others; light and dark by the reader's setting.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/cli/report/confusion.h"

namespace penstock::cli {

struct ConfusionPageInput {
  const Confusion& confusion;
  const std::vector<Mistake>& mistakes;            // most confident first
  std::function<std::string(int64_t)> class_name;  // any bytes
  std::string title = {};                          // any bytes
};

// Maximum number of classes in the picture. If there are more, it shows those with the most
// mistakes (as true or predicted class), in the order of their numbers.
inline constexpr size_t kMostClassesDrawn = 40;

std::string ConfusionPage(const ConfusionPageInput& input);

}  // namespace penstock::cli
