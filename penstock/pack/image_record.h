// The record of one labelled image, as ImageFolder writes it and training reads it (the table
// in docs/design/pack.md).
#pragma once

#include <string>
#include <vector>

#include "penstock/pack/recompress.h"

namespace penstock::pack {

// Features image, class, label, one_hot_class and size. `class_index` is an index into `classes`
// (contract).
std::string ImageRecord(const RecompressedImage& image, int64_t class_index,
                        const std::vector<std::string>& classes);

}  // namespace penstock::pack
