#include "penstock/data/testing/memory_files.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data::testing {

std::shared_ptr<io::FileSystem> MemoryFiles(absl::string_view extension,
                                            const std::vector<std::string>& texts) {
  auto files = io::MakeMemoryFileSystem();
  for (size_t i = 0; i < texts.size(); ++i) {
    PENSTOCK_CHECK_OK(
        io::WriteFile(*files, absl::StrFormat("memory://d/%02d%s", i, extension), texts[i]));
  }
  return files;
}

std::shared_ptr<io::FileSystem> MemoryShards(const std::vector<int64_t>& sizes) {
  auto files = io::MakeMemoryFileSystem();
  for (size_t shard = 0; shard < sizes.size(); ++shard) {
    std::vector<std::string> records;
    for (int64_t i = 0; i < sizes[shard]; ++i) {
      records.push_back(ShardRecord(static_cast<int64_t>(shard), i));
    }
    WriteShard(*files, absl::StrFormat("memory://d/%02d.tfrec", shard), records);
  }
  return files;
}

std::string ShardRecord(int64_t shard, int64_t record) { return absl::StrCat(shard, "/", record); }

void WriteShard(io::FileSystem& files, absl::string_view uri,
                const std::vector<std::string>& records) {
  auto writer = record::TfRecordWriter::Create(files, std::string(uri));
  PENSTOCK_CHECK_OK(writer);
  for (const std::string& record : records) PENSTOCK_CHECK_OK((*writer)->Append(record));
  PENSTOCK_CHECK_OK((*writer)->Close());
}

}  // namespace penstock::data::testing
