// Record of one labeled image, as ImageFolder writes it and training reads it (see the table in
// docs/design/pack.md).
#pragma once

#include <string>
#include <vector>

#include "penstock/pack/recompress.h"

namespace penstock::pack {

// Returns a tf.train.Example with the features image, class, label, one_hot_class and size.
// `class_index` must be an index into `classes`.
std::string ImageRecord(const RecompressedImage& image, int64_t class_index,
                        const std::vector<std::string>& classes);

}  // namespace penstock::pack
