// Arbitrary bytes as a TFRecord file. The records read from an uncompressed file, written again,
// must equal the file up to where reading stopped; reading terminates and stays in bounds.
//
// The last byte selects how the file is read. Checksums cannot be guessed, so one mode splits the
// bytes into records, writes them correctly and changes one byte.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::record {
namespace {

constexpr absl::string_view kUri = "memory://fuzz/file";

struct Choice {
  Compression compression;
  bool by_stream;
  bool skip_corrupt;
  bool write_first;
  int64_t block_bytes;
};

Choice Choose(uint8_t byte) {
  constexpr Compression kCompressions[] = {Compression::kAuto, Compression::kNone,
                                           Compression::kGzip, Compression::kZlib};
  return {kCompressions[byte & 3], (byte & 4) != 0, (byte & 8) != 0, (byte & 16) != 0,
          int64_t{1} << ((byte >> 5) * 2)};
}

struct Result {
  std::vector<std::string> records;
  bool ok = false;
  int64_t offset = 0;
  Compression compression = Compression::kNone;
};

Result Read(io::FileSystem& fs, const Choice& choice) {
  const TfRecordReaderOptions options{.compression = choice.compression,
                                      .block_bytes = choice.block_bytes,
                                      .max_record_bytes = 1 << 20,
                                      .skip_corrupt = choice.skip_corrupt};
  auto reader = choice.by_stream ? TfRecordReader::FromStream(fs.OpenInput(kUri).value(), options)
                                 : TfRecordReader::Open(fs, kUri, options);
  Result result;
  if (!reader.ok()) return result;
  result.compression = (*reader)->compression();
  for (;;) {
    const absl::StatusOr<RecordBlock> block = (*reader)->ReadBlock();
    result.ok = block.ok();
    result.offset = (*reader)->offset();
    if (!block.ok()) PENSTOCK_CHECK(absl::IsDataLoss(block.status()));
    if (!block.ok() || block->empty()) return result;
    PENSTOCK_CHECK(block->next_offset == result.offset);
    for (absl::string_view record : block->records) result.records.emplace_back(record);
  }
}

void Write(io::FileSystem& fs, const std::vector<std::string>& records, Compression compression) {
  auto writer = TfRecordWriter::Create(fs, kUri, {.compression = compression}).value();
  for (const std::string& record : records) PENSTOCK_CHECK_OK(writer->Append(record));
  PENSTOCK_CHECK_OK(writer->Close());
}

void ReadBytes(io::FileSystem& fs, absl::string_view bytes, const Choice& choice) {
  PENSTOCK_CHECK_OK(io::WriteFile(fs, kUri, bytes));
  const Result result = Read(fs, choice);
  if (result.compression != Compression::kNone || choice.skip_corrupt) return;
  Write(fs, result.records, Compression::kNone);
  PENSTOCK_CHECK(io::ReadFile(fs, kUri).value() ==
                 bytes.substr(0, static_cast<size_t>(result.offset)));
}

void WriteAndChange(io::FileSystem& fs, absl::string_view bytes, const Choice& choice) {
  std::vector<std::string> records;
  while (bytes.size() > 3) {
    const size_t size = static_cast<unsigned char>(bytes[0]);
    records.emplace_back(bytes.substr(1, size));
    bytes.remove_prefix(std::min(bytes.size(), 1 + size));
  }
  Write(fs, records, choice.compression);
  const Result whole = Read(fs, choice);
  PENSTOCK_CHECK(whole.ok && whole.records == records);
  std::string file = io::ReadFile(fs, kUri).value();
  if (bytes.size() < 3 || file.empty()) return;
  const size_t place =
      static_cast<unsigned char>(bytes[0]) * 256u + static_cast<unsigned char>(bytes[1]);
  if (bytes[2] == 0) return;
  file[place % file.size()] = static_cast<char>(file[place % file.size()] ^ bytes[2]);
  PENSTOCK_CHECK_OK(io::WriteFile(fs, kUri, file));
  const Result changed = Read(fs, choice);
  if (whole.compression == Compression::kNone && changed.compression == Compression::kNone) {
    PENSTOCK_CHECK(choice.skip_corrupt ? changed.records.size() < records.size() : !changed.ok);
  }
}

}  // namespace
}  // namespace penstock::record

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using penstock::record::Choice;
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size - 1);
  const Choice choice = penstock::record::Choose(data[size - 1]);
  const auto fs = penstock::io::MakeMemoryFileSystem();
  if (choice.write_first) {
    penstock::record::WriteAndChange(*fs, bytes, choice);
  } else {
    penstock::record::ReadBytes(*fs, bytes, choice);
  }
  return 0;
}
