// Arbitrary bytes as an index of a shard: it is either rejected, or every record in it can be
// requested, and the result lies inside the shard. The first half of the bytes is the shard, either
// its records or the raw file; the second half is the index, likewise.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::record {
namespace {

constexpr char kShard[] = "memory://fuzz/shard";

void WriteRecords(io::FileSystem& fs, const std::string& uri, absl::string_view bytes,
                  size_t record_bytes) {
  const auto writer = TfRecordWriter::Create(fs, uri);
  PENSTOCK_CHECK_OK(writer);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(record_bytes, bytes.size()))) {
    PENSTOCK_CHECK_OK((*writer)->Append(bytes.substr(0, record_bytes)));
  }
  PENSTOCK_CHECK_OK((*writer)->Close());
}

void AskForAll(io::FileSystem& fs, const TfRecordIndex& index) {
  const std::shared_ptr<io::RandomAccessFile> file = *fs.OpenRandomAccess(kShard);
  PENSTOCK_CHECK(index.OffsetOf(index.size()) == file->size());
  for (int64_t i = 0; i < index.size(); ++i) {
    const absl::StatusOr<RecordBlock> block = index.ReadRecord(file, i);
    PENSTOCK_CHECK(!block.ok() || block->size() == 1);
  }
}

}  // namespace
}  // namespace penstock::record

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::record;
  if (size < 2) return 0;
  const uint8_t choice = data[0];
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto fs = penstock::io::MakeMemoryFileSystem();
  const absl::string_view shard = bytes.substr(0, bytes.size() / 2);
  const absl::string_view beside = bytes.substr(bytes.size() / 2);
  if (choice & 1) {
    WriteRecords(*fs, kShard, shard, 1 + (choice >> 4));
  } else {
    PENSTOCK_CHECK_OK(penstock::io::WriteFile(*fs, kShard, shard));
  }
  if (choice & 2) {
    WriteRecords(*fs, TfRecordIndexUri(kShard), beside, beside.size());
  } else {
    PENSTOCK_CHECK_OK(penstock::io::WriteFile(*fs, TfRecordIndexUri(kShard), beside));
  }
  const auto loaded = TfRecordIndex::Load(*fs, kShard);
  if (loaded.ok()) AskForAll(*fs, *loaded);
  const auto built = TfRecordIndex::Build(*fs, kShard);
  PENSTOCK_CHECK(built.ok() || (choice & 1) == 0);
  if (built.ok()) AskForAll(*fs, *built);
  return 0;
}
