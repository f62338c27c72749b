// Files of tests, in memory: texts and TFRecord shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::data::testing {

// A file system in memory with the files memory://d/00.txt, 01.txt, ..., one for each text.
// `extension`: ".txt".
std::shared_ptr<io::FileSystem> MemoryFiles(absl::string_view extension,
                                            const std::vector<std::string>& texts);

// As MemoryFiles, with TFRecord shards memory://d/00.tfrec, ...; shard i has sizes[i] records.
std::shared_ptr<io::FileSystem> MemoryShards(const std::vector<int64_t>& sizes);
// "2/5": record 5 of shard 2, both from 0.
std::string ShardRecord(int64_t shard, int64_t record);

void WriteShard(io::FileSystem& files, absl::string_view uri,
                const std::vector<std::string>& records);

}  // namespace penstock::data::testing
