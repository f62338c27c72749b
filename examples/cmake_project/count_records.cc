// Writes a TFRecord file and counts its records. Links penstock::record alone.
#include <cstdio>
#include <string>

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord.h"

namespace {

absl::StatusOr<size_t> WriteAndCount(const std::string& path) {
  penstock::io::FileSystem& files = *penstock::io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(auto writer, penstock::record::TfRecordWriter::Create(files, path));
  for (const char* const record : {"one", "two", "three"}) {
    PENSTOCK_RETURN_IF_ERROR(writer->Append(record));
  }
  PENSTOCK_RETURN_IF_ERROR(writer->Close());

  PENSTOCK_ASSIGN_OR_RETURN(auto reader, penstock::record::TfRecordReader::Open(files, path));
  for (size_t count = 0;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto block, reader->ReadBlock());
    if (block.empty()) return count;
    count += block.records.size();
  }
}

}  // namespace

int main() {
  const absl::StatusOr<size_t> count = WriteAndCount("three.tfrec");
  if (!count.ok()) {
    std::fprintf(stderr, "%s\n", count.status().ToString().c_str());
    return 1;
  }
  std::printf("%zu records\n", *count);
  return *count == 3 ? 0 : 1;
}
