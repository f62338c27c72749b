// Stage of Dataset::Cache(folder).
#pragma once

#include <memory>
#include <string>

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {

std::shared_ptr<const Stage> MakeCacheFolder(const Dataset& input, std::string folder);

// Where a Cache without a folder keeps its elements: this process, Cache("worker"), Cache("device").
enum class CacheHome { kHere, kWorker, kDevice };

// Stage::WriteFields of every Cache. folder: empty in memory.
absl::Status WriteCacheFields(StageFields& out, std::string folder, bool memory_first,
                              CacheHome home);

}  // namespace penstock::data
