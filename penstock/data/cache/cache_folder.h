// Stage of Dataset::Cache(folder).
#pragma once

#include <memory>
#include <string>

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {

std::shared_ptr<const Stage> MakeCacheFolder(const Dataset& input, std::string folder);

}  // namespace penstock::data
