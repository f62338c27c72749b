// Benchmark of the throughput of room record, beside the limits of the machine for the same bytes:
//
//   read     TFRecord blocks, checksums verified, from the page cache | read(2) of the same file
//   crc      CRC-32C of memory                                        | memcpy
//   parse    Examples into columns                                    | -
//
// bench_record [records] [bytes per record]      (default: 4000 records of 36000 bytes)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/median.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/record/crc32c.h"
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"
#include "penstock/record/tfrecord.h"

namespace penstock::record {
namespace {

constexpr int kRounds = 9;

// Returns the median time of the rounds in seconds.
template <typename Body>
double MedianSeconds(Body&& body) {
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) {
    const double begin = base::Clock::Real()->Seconds();
    body();
    seconds.push_back(base::Clock::Real()->Seconds() - begin);
  }
  return base::Median(std::move(seconds));
}

void Print(const char* work, double bytes, double ours, const char* peer, double theirs) {
  std::printf("%-34s %6.2f GB/s   %-10s %6.2f GB/s   ratio %.2f\n", work, bytes / ours / 1e9, peer,
              bytes / theirs / 1e9, theirs / ours);
}

void ReadWhole(const std::string& path, std::vector<char>* buffer) {
  const int file = open(path.c_str(), O_RDONLY);
  PENSTOCK_CHECK(file >= 0);
  while (read(file, buffer->data(), buffer->size()) > 0) {
  }
  close(file);
}

std::string WriteShard(io::FileSystem& fs, int records, int bytes, const std::string& path) {
  base::Random random(1);
  std::string image(static_cast<size_t>(bytes), '\0');
  for (char& c : image) c = static_cast<char>(random.Next());
  auto writer = TfRecordWriter::Create(fs, path).value();
  ExampleBuilder example;
  for (int i = 0; i < records; ++i) {
    example.SetBytes("image", image);
    example.SetInt64("class", i % 104);
    example.SetFloatList("one_hot_class", std::vector<float>(104, 0.0f));
    PENSTOCK_CHECK_OK(writer->Append(example.Serialize()));
  }
  PENSTOCK_CHECK_OK(writer->Close());
  return image;
}

int64_t ReadRecords(io::FileSystem& fs, const std::string& path, const ExampleParser* parser,
                    bool verify) {
  auto reader = TfRecordReader::Open(fs, path, {.verify = verify}).value();
  int64_t records = 0;
  std::vector<base::Array> columns;
  for (;;) {
    const RecordBlock block = reader->ReadBlock().value();
    if (block.empty()) return records;
    records += block.size();
    if (parser == nullptr) continue;
    columns = parser->NewColumns(block.size());
    PENSTOCK_CHECK_OK(parser->ParseRange(block.records, 0, absl::MakeSpan(columns), nullptr,
                                         [&](int64_t i) { return block.Origin(i); }));
  }
}

void Run(int records, int bytes) {
  const auto fs = io::FileSystem::Default();
  const std::string path = absl::StrCat("/tmp/penstock_bench_record.", getpid());
  const std::string image = WriteShard(*fs, records, bytes, path);
  const double size = static_cast<double>(fs->Stat(path)->size);
  const ExampleParser parser =
      ExampleParser::Create(
          {.features = {{.name = "image", .dtype = base::DType::kString},
                        {.name = "class", .dtype = base::DType::kI64},
                        {.name = "one_hot_class", .dtype = base::DType::kF32, .shape = {104}}}})
          .value();

  std::vector<char> buffer(size_t{1} << 20);
  const double read = MedianSeconds([&] { ReadWhole(path, &buffer); });
  const double blocks = MedianSeconds([&] { ReadRecords(*fs, path, nullptr, true); });
  const double unverified = MedianSeconds([&] { ReadRecords(*fs, path, nullptr, false); });
  const double columns = MedianSeconds([&] { ReadRecords(*fs, path, &parser, true); });
  std::printf("%d records of %d bytes, %.0f MB, one thread\n", records, bytes, size / 1e6);
  Print("read, verified", size, blocks, "read(2)", read);
  Print("read, not verified", size, unverified, "read(2)", read);
  Print("read, verified, parsed", size, columns, "read(2)", read);
  std::printf("%-34s %6.2f million records/s\n", "read, verified, parsed", records / columns / 1e6);

  std::string copy(image.size(), '\0');
  uint32_t crc = 0;
  const double checksum = MedianSeconds([&] {
    for (int i = 0; i < records; ++i) crc = ExtendCrc32c(crc, image);
  });
  const double memcpy_time = MedianSeconds([&] {
    for (int i = 0; i < records; ++i) {
      std::memcpy(copy.data(), image.data(), image.size());
      asm volatile("" : : "r"(copy.data()) : "memory");
    }
  });
  Print("CRC-32C", double(records) * bytes, checksum, "memcpy", memcpy_time);
  PENSTOCK_CHECK_OK(fs->Remove(path));
  std::fprintf(stderr, "(%u)\n", crc);
}

}  // namespace
}  // namespace penstock::record

int main(int argc, char** argv) {
  penstock::record::Run(argc > 1 ? std::atoi(argv[1]) : 4000,
                        argc > 2 ? std::atoi(argv[2]) : 36000);
  return 0;
}
