#include "penstock/record/tfrecord.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/example.h"

namespace penstock::record {
namespace tfrecord_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::string_view kUri = "memory://shards/a.tfrec";

// Contents of a file in the testdata/ folder next to this source.
std::string Testdata(absl::string_view name) {
  std::string path = __FILE__;
  path = absl::StrCat(path.substr(0, path.rfind('/')), "/testdata/", name);
  std::ifstream file(path, std::ios::binary);
  PENSTOCK_CHECK(file.good());
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Fixture: one file in a memory file system.
class TfRecord : public ::testing::Test {
 protected:
  void Put(absl::string_view bytes) { PENSTOCK_CHECK_OK(io::WriteFile(*fs_, kUri, bytes)); }
  std::string Bytes() { return io::ReadFile(*fs_, kUri).value(); }

  // Writes `records` with TfRecordWriter and returns the bytes of the file.
  std::string Written(const std::vector<std::string>& records, TfRecordWriterOptions options = {}) {
    auto writer = TfRecordWriter::Create(*fs_, kUri, options).value();
    for (const std::string& record : records) PENSTOCK_CHECK_OK(writer->Append(record));
    PENSTOCK_CHECK_OK(writer->Close());
    return Bytes();
  }

  std::unique_ptr<TfRecordReader> Open(TfRecordReaderOptions options = {}) {
    return TfRecordReader::Open(*fs_, kUri, options).value();
  }
  std::unique_ptr<TfRecordReader> OpenStream(TfRecordReaderOptions options = {}) {
    return TfRecordReader::FromStream(fs_->OpenInput(kUri).value(), options).value();
  }

  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

// Returns all records up to the end or the first error, which is stored in `status`.
std::vector<std::string> ReadAll(TfRecordReader& reader, absl::Status* status = nullptr) {
  std::vector<std::string> records;
  for (;;) {
    absl::StatusOr<RecordBlock> block = reader.ReadBlock();
    if (status != nullptr) *status = block.status();
    if (status == nullptr) PENSTOCK_CHECK_OK(block);
    if (!block.ok() || block->empty()) return records;
    for (absl::string_view record : block->records) records.emplace_back(record);
  }
}

std::vector<std::string> SomeRecords(int count, int max_size, uint64_t seed = 1) {
  base::Random random(seed);
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    std::string& record = records.emplace_back(random.Below(max_size + 1), '\0');
    for (char& c : record) c = static_cast<char>(random.Next());
  }
  return records;
}

// The expected file is assembled from the format's specification, with a bitwise CRC.
uint32_t MaskedCrcByDefinition(absl::string_view data) {
  uint32_t crc = 0xffffffffu;
  for (char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string LittleEndian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::string FrameByDefinition(absl::string_view record) {
  const std::string length = LittleEndian(record.size(), 8);
  return absl::StrCat(length, LittleEndian(MaskedCrcByDefinition(length), 4), record,
                      LittleEndian(MaskedCrcByDefinition(record), 4));
}

std::string HeaderClaiming(uint64_t length) {
  const std::string bytes = LittleEndian(length, 8);
  return absl::StrCat(bytes, LittleEndian(MaskedCrcByDefinition(bytes), 4));
}

TEST_F(TfRecord, WritesTheFormatByteForByte) {
  EXPECT_EQ(Written({"abc", "", std::string(5000, 'x')}),
            absl::StrCat(FrameByDefinition("abc"), FrameByDefinition(""),
                         FrameByDefinition(std::string(5000, 'x'))));
  EXPECT_EQ(Written({}), "");
}

TEST_F(TfRecord, AppendVConcatenatesPieces) {
  auto writer = TfRecordWriter::Create(*fs_, kUri).value();
  PENSTOCK_CHECK_OK(writer->AppendV({"ab", "", "c"}));
  EXPECT_EQ(writer->num_records(), 1);
  EXPECT_EQ(writer->offset(), 19);
  PENSTOCK_CHECK_OK(writer->Close());
  EXPECT_EQ(Bytes(), FrameByDefinition("abc"));
}

TEST_F(TfRecord, PublishesOnClose) {
  {
    auto writer = TfRecordWriter::Create(*fs_, kUri).value();
    PENSTOCK_CHECK_OK(writer->Append("abc"));
  }
  EXPECT_FALSE(fs_->Exists(kUri).value());
}

TEST_F(TfRecord, RoundTripsWithEveryCompressionAndBlockSize) {
  const std::vector<std::string> records = SomeRecords(300, 2000);
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    Written(records, {.compression = compression});
    for (int64_t block_bytes : {1, 100, 4096, 1 << 20}) {
      SCOPED_TRACE(absl::StrCat(CompressionName(compression), ", block_bytes ", block_bytes));
      auto reader = Open({.block_bytes = block_bytes});
      EXPECT_EQ(ReadAll(*reader), records);
      EXPECT_EQ(reader->compression(), compression);
      EXPECT_EQ(reader->index(), 300);
      EXPECT_EQ(ReadAll(*OpenStream({.block_bytes = block_bytes})), records);
      EXPECT_EQ(ReadAll(*Open({.compression = compression, .block_bytes = block_bytes})), records);
    }
  }
}

TEST_F(TfRecord, EmptyFileHasNoRecords) {
  Put("");
  EXPECT_THAT(ReadAll(*Open()), IsEmpty());
  EXPECT_THAT(ReadAll(*OpenStream()), IsEmpty());
  EXPECT_THAT(ReadAll(*Open({.compression = Compression::kGzip})), IsEmpty());
  Written({}, {.compression = Compression::kZlib});
  EXPECT_THAT(ReadAll(*Open()), IsEmpty());
}

TEST_F(TfRecord, BlockKnowsOriginsOfItsRecords) {
  Written({"abc", "", "defgh"});
  const RecordBlock block = Open()->ReadBlock().value();
  ASSERT_THAT(block.records, ElementsAre("abc", "", "defgh"));
  EXPECT_EQ(block.OffsetOf(1), 19);
  EXPECT_EQ(block.OffsetOf(2), 35);
  EXPECT_EQ(block.next_offset, 56);
  EXPECT_EQ(block.Origin(2), "memory://shards/a.tfrec:35:2");

  Written({"abc", "", "defgh"}, {.compression = Compression::kGzip});
  EXPECT_EQ(Open()->ReadBlock()->Origin(2),
            "memory://shards/a.tfrec:35:2 (offset when uncompressed)");
}

TEST_F(TfRecord, BlocksOutliveTheReaderAndItsLaterBlocks) {
  const std::vector<std::string> records = SomeRecords(200, 500);
  Written(records);
  std::vector<RecordBlock> blocks;
  {
    auto reader = Open({.block_bytes = 1000});
    for (;;) {
      RecordBlock block = reader->ReadBlock().value();
      if (block.empty()) break;
      blocks.push_back(std::move(block));
    }
  }
  ASSERT_GT(blocks.size(), 10u);
  size_t i = 0;
  for (const RecordBlock& block : blocks) {
    EXPECT_EQ(block.first_index, static_cast<int64_t>(i));
    for (absl::string_view record : block.records) ASSERT_EQ(record, records[i++]);
  }
  EXPECT_EQ(i, records.size());
}

TEST_F(TfRecord, BlocksMayBeDroppedOnOtherThreads) {
  const std::vector<std::string> records = SomeRecords(2000, 500);
  Written(records);
  std::atomic<int64_t> bytes = 0;
  {
    base::ThreadPool pool(3);
    auto reader = Open({.block_bytes = 10000});
    for (;;) {
      RecordBlock block = reader->ReadBlock().value();
      if (block.empty()) break;
      pool.Schedule([&bytes, block = std::move(block)] {
        for (absl::string_view record : block.records) bytes += record.size();
      });
    }
  }
  int64_t expected = 0;
  for (const std::string& record : records) expected += record.size();
  EXPECT_EQ(bytes, expected);
}

TEST_F(TfRecord, AdjacentRangesReadEachRecordOnce) {
  const std::vector<std::string> records = SomeRecords(60, 300);
  for (Compression compression : {Compression::kNone, Compression::kGzip}) {
    Written(records, {.compression = compression});
    std::vector<std::pair<int64_t, int64_t>> starts;  // offset, index
    auto reader = Open({.block_bytes = 1});
    for (;;) {
      starts.emplace_back(reader->offset(), reader->index());
      if (reader->ReadBlock()->empty()) break;
    }
    ASSERT_EQ(starts.size(), 61u);
    for (size_t cut = 0; cut < starts.size(); cut += 7) {
      const auto [offset, index] = starts[cut];
      std::vector<std::string> joined = ReadAll(*Open({.end = offset, .block_bytes = 512}));
      EXPECT_EQ(static_cast<int64_t>(joined.size()), index);
      auto rest = Open({.begin = offset, .first_index = index, .block_bytes = 512});
      EXPECT_EQ(rest->compression(), compression);
      for (std::string& record : ReadAll(*rest)) joined.push_back(std::move(record));
      EXPECT_EQ(joined, records);
      EXPECT_EQ(rest->index(), 60);
    }
    // A record that begins before `end` is part of the range.
    EXPECT_EQ(ReadAll(*Open({.end = starts[3].first + 1})).size(), 4u);
  }
}

TEST_F(TfRecord, RangeReadsNothingBeyondEnd) {
  const std::string file = Written({"abc", "defg", "hij"});
  Put(absl::StrCat(file.substr(0, 39), "not a record at all"));
  auto reader = Open({.compression = Compression::kNone, .begin = 19, .end = 39});
  EXPECT_THAT(ReadAll(*reader), ElementsAre("defg"));
}

TEST_F(TfRecord, SeeksForwardAndBackward) {
  const std::vector<std::string> records = SomeRecords(50, 200);
  for (Compression compression : {Compression::kNone, Compression::kZlib}) {
    Written(records, {.compression = compression});
    auto reader = Open({.block_bytes = 700});
    std::vector<int64_t> offsets;
    for (;;) {
      const RecordBlock block = reader->ReadBlock().value();
      if (block.empty()) break;
      for (int64_t i = 0; i < block.size(); ++i) offsets.push_back(block.OffsetOf(i));
    }
    ASSERT_EQ(offsets.size(), 50u);
    for (int64_t i : {0, 49, 1, 2, 30, 31, 17}) {
      PENSTOCK_CHECK_OK(reader->Seek(offsets[i], i));
      const RecordBlock block = reader->ReadBlock().value();
      EXPECT_EQ(block.records[0], records[i]);
      EXPECT_EQ(block.first_index, i);
    }
  }
}

TEST_F(TfRecord, StreamSeeksForwardOnly) {
  Written({"abc", "defg", "hij"});
  auto reader = OpenStream({.begin = 19, .first_index = 1, .block_bytes = 1});
  EXPECT_EQ(reader->ReadBlock()->records[0], "defg");
  EXPECT_THAT(std::string(reader->Seek(0, 0).message()), HasSubstr("read as a stream"));
  EXPECT_EQ(reader->ReadBlock()->records[0], "hij");
}

TEST_F(TfRecord, RejectsOffsetBeyondEndOfFile) {
  Written({"abc"});
  EXPECT_THAT(ReadAll(*Open({.begin = 19})), IsEmpty());
  const absl::Status status = TfRecordReader::Open(*fs_, kUri, {.begin = 20}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_FALSE(TfRecordReader::FromStream(fs_->OpenInput(kUri).value(), {.begin = 20}).ok());
  Written({"abc"}, {.compression = Compression::kGzip});
  EXPECT_TRUE(absl::IsOutOfRange(TfRecordReader::Open(*fs_, kUri, {.begin = 20}).status()));
}

// Options and positions come from users and checkpoints, so invalid ones must not abort the
// process.
TEST_F(TfRecord, RejectsInvalidOptionsAndPositions) {
  Written({"abc"});
  for (const TfRecordReaderOptions& options : std::vector<TfRecordReaderOptions>{
           {.begin = -1},
           {.begin = 5, .end = 4},
           {.first_index = -1},
           {.block_bytes = 0},
           {.max_record_bytes = -1},
           {.max_record_bytes = std::numeric_limits<int64_t>::max()}}) {
    const absl::Status status = TfRecordReader::Open(*fs_, kUri, options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Open()->Seek(-1, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(Open()->Seek(0, -1)));
}

TEST_F(TfRecord, OriginsContainNoSecrets) {
  EXPECT_EQ(RecordOrigin("s3://KEY:hush@b/x?region=eu", 19, 1, false), "s3://b/x:19:1");
}

TEST_F(TfRecord, MissingFileIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(TfRecordReader::Open(*fs_, kUri).status()));
}

TEST_F(TfRecord, RejectsLengthBeyondEndOfFile) {
  Put(absl::StrCat(FrameByDefinition("abc"), HeaderClaiming(1000), "short"));
  absl::Status status;
  EXPECT_THAT(ReadAll(*Open(), &status), ElementsAre("abc"));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("memory://shards/a.tfrec:19:1: "), HasSubstr("17 bytes of 1016")));
}

TEST_F(TfRecord, HostileLengthAllocatesNoMemory) {
  for (uint64_t length : {uint64_t{1} << 30, uint64_t{1} << 31, ~uint64_t{0}, ~uint64_t{0} - 15}) {
    Put(HeaderClaiming(length));
    for (bool by_stream : {false, true}) {
      auto reader = by_stream ? OpenStream() : Open();
      absl::Status status;
      EXPECT_THAT(ReadAll(*reader, &status), IsEmpty());
      EXPECT_TRUE(absl::IsDataLoss(status));
    }
  }
}

TEST_F(TfRecord, TruncatedFileReturnsCompleteRecordsAndReportsEnd) {
  const std::vector<std::string> records = {"abc", "", "defgh"};
  const std::vector<size_t> ends = {0, 19, 35, 56};
  const std::string file = Written(records);
  for (size_t size = 0; size < file.size(); ++size) {
    Put(file.substr(0, size));
    size_t whole = 0;
    while (ends[whole + 1] <= size) ++whole;
    for (bool by_stream : {false, true}) {
      auto reader = by_stream ? OpenStream() : Open({.block_bytes = 20});
      absl::Status status;
      EXPECT_EQ(ReadAll(*reader, &status).size(), whole);
      EXPECT_EQ(status.ok(), ends[whole] == size);
      if (status.ok()) continue;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(absl::StrCat(":", ends[whole], ":", whole, ": ")),
                        HasSubstr("the file is truncated within the record")));
    }
  }
}

TEST_F(TfRecord, DetectsEveryCorruptByte) {
  const std::vector<std::string> records = {"abc", "", "defgh"};
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::string file = Written(records, {.compression = compression});
    int unfound = 0;
    for (size_t i = 0; i < file.size(); ++i) {
      for (int flip : {0x01, 0x80, 0xff}) {
        std::string bad = file;
        bad[i] = static_cast<char>(bad[i] ^ flip);
        Put(bad);
        absl::Status status;
        const std::vector<std::string> read = ReadAll(*Open({.compression = compression}), &status);
        EXPECT_TRUE(std::equal(read.begin(), read.end(), records.begin()));
        if (status.ok()) {
          // These bits carry no information.
          ++unfound;
          EXPECT_EQ(read, records);
          continue;
        }
        EXPECT_TRUE(absl::IsDataLoss(status)) << status;
        EXPECT_THAT(std::string(status.message()), StartsWith("memory://shards/a.tfrec:"));
      }
    }
    // Gzip's header contains a timestamp and similar fields; deflate's last byte has padding bits.
    const int meaningless =
        compression == Compression::kNone ? 0 : (compression == Compression::kZlib ? 3 : 24);
    EXPECT_LE(unfound, meaningless) << CompressionName(compression);
  }
}

TEST_F(TfRecord, WithoutVerifyOnlyDataIsUnchecked) {
  std::string file = Written({"abc", "defgh"});
  file[13] ^= 1;
  Put(file);
  EXPECT_THAT(ReadAll(*Open({.verify = false})), ElementsAre("acc", "defgh"));
  file[0] ^= 1;
  Put(file);
  absl::Status status;
  EXPECT_THAT(ReadAll(*Open({.verify = false}), &status), IsEmpty());
  EXPECT_TRUE(absl::IsDataLoss(status));
}

TEST_F(TfRecord, ErrorIsStickyUntilSeek) {
  std::string file = Written({"abc", "defgh"});
  file[13] ^= 1;
  Put(file);
  auto reader = Open();
  const absl::Status first = reader->ReadBlock().status();
  EXPECT_TRUE(absl::IsDataLoss(first));
  EXPECT_EQ(reader->ReadBlock().status(), first);
  PENSTOCK_CHECK_OK(reader->Seek(19, 1));
  EXPECT_THAT(ReadAll(*reader), ElementsAre("defgh"));
}

TEST_F(TfRecord, SkipsCorruptRecordsAndKeepsIndices) {
  std::string file = Written({"abc", "defgh", "ij", "klm"});
  file[12] ^= 1;       // in record "abc"
  file[40 + 12] ^= 1;  // in record "ij"
  Put(file);
  auto reader = Open({.skip_corrupt = true});
  const RecordBlock first = reader->ReadBlock().value();
  ASSERT_THAT(first.records, ElementsAre("defgh"));
  EXPECT_EQ(first.first_index, 1);
  EXPECT_EQ(first.next_offset, 40);
  const RecordBlock second = reader->ReadBlock().value();
  ASSERT_THAT(second.records, ElementsAre("klm"));
  EXPECT_EQ(second.Origin(0), "memory://shards/a.tfrec:58:3");
  EXPECT_TRUE(reader->ReadBlock()->empty());
  EXPECT_EQ(reader->corruption().records, 2);
  EXPECT_FALSE(reader->corruption().ended_early);
  EXPECT_THAT(std::string(reader->corruption().first.message()),
              AllOf(HasSubstr("a.tfrec:0:0: "), HasSubstr("checksum"),
                    Not(HasSubstr("the rest of the file"))));
}

TEST_F(TfRecord, SkippingEndsFileAfterCorruptLength) {
  const std::string file = Written({"abc", "defgh", "ij"});
  std::string bad_length = file;
  bad_length[19] ^= 1;
  std::string too_long = absl::StrCat(file.substr(0, 19), HeaderClaiming(uint64_t{1} << 40));
  for (const std::string& bad : {bad_length, too_long, file.substr(0, 30)}) {
    Put(bad);
    auto reader = Open({.skip_corrupt = true});
    EXPECT_THAT(ReadAll(*reader), ElementsAre("abc"));
    EXPECT_TRUE(reader->ReadBlock()->empty());
    EXPECT_EQ(reader->corruption().records, 1);
    EXPECT_TRUE(reader->corruption().ended_early);
    EXPECT_THAT(std::string(reader->corruption().first.message()),
                AllOf(HasSubstr(":19:1: "), HasSubstr("the rest of the file")));
    EXPECT_EQ(reader->offset(), 19);
  }
  Put(Written(SomeRecords(50, 100), {.compression = Compression::kGzip}).substr(0, 1500));
  auto reader = Open({.skip_corrupt = true});
  EXPECT_THAT(ReadAll(*reader), Not(IsEmpty()));
  EXPECT_TRUE(reader->corruption().ended_early);
  EXPECT_THAT(std::string(reader->corruption().first.message()), HasSubstr("is truncated"));
}

TEST_F(TfRecord, RecordBeyondLimitErrorNamesOption) {
  Written({"abc", std::string(100, 'x')});
  absl::Status status;
  EXPECT_THAT(ReadAll(*Open({.max_record_bytes = 99}), &status), ElementsAre("abc"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_record_bytes"));
  EXPECT_EQ(ReadAll(*Open({.max_record_bytes = 100})).size(), 2u);
}

TEST_F(TfRecord, ReportsTextFileAsNotTfRecord) {
  Put("image,label\n1.png,3\n2.png,4\n");
  EXPECT_THAT(std::string(Open()->ReadBlock().status().message()),
              HasSubstr("not a TFRecord file"));
}

TEST_F(TfRecord, DoesNotMistakeLengthForGzipMagic) {
  // The lowest bytes of the length equal gzip's magic number; the CRC of the length resolves this.
  const std::string record(0x8b1f, 'r');
  Written({record});
  EXPECT_THAT(ReadAll(*Open()), ElementsAre(record));
}

TEST_F(TfRecord, ReadsConcatenatedGzipMembers) {
  const std::string one = Written({"abc"}, {.compression = Compression::kGzip});
  const std::string two = Written({"defgh"}, {.compression = Compression::kGzip});
  Put(one + two);
  EXPECT_THAT(ReadAll(*Open()), ElementsAre("abc", "defgh"));
  Put(one + "trailing");
  absl::Status status;
  EXPECT_THAT(ReadAll(*Open(), &status), ElementsAre("abc"));
  EXPECT_TRUE(absl::IsDataLoss(status));
}

TEST_F(TfRecord, RejectsInvalidCompressionLevel) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      TfRecordWriter::Create(*fs_, kUri,
                             {.compression = Compression::kGzip, .compression_level = 10})
          .status()));
}

// A stream that fails. Skipping corrupt data must not hide an error of the file system.
class FailingStream : public io::InputStream {
 public:
  explicit FailingStream(std::string bytes)
      : io::InputStream("memory://failing"), bytes_(std::move(bytes)) {}
  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    if (bytes_.empty()) return absl::UnavailableError("the service did not answer");
    const size_t n = bytes_.copy(out.data(), out.size());
    bytes_.erase(0, n);
    return static_cast<int64_t>(n);
  }

 private:
  std::string bytes_;
};

TEST_F(TfRecord, DoesNotSkipFileSystemErrors) {
  for (Compression compression : {Compression::kNone, Compression::kGzip}) {
    for (size_t missing : {0, 3}) {
      std::string file = Written({"abc", "defgh"}, {.compression = compression});
      file.resize(file.size() - missing);
      auto reader = TfRecordReader::FromStream(std::make_unique<FailingStream>(file),
                                               {.compression = compression, .skip_corrupt = true})
                        .value();
      absl::Status status;
      ReadAll(*reader, &status);
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_EQ(reader->corruption().records, 0);
    }
  }
}

// testdata/make.py uses the same formulas.
ExampleBuilder GoldenExample(int i) {
  ExampleBuilder example;
  std::string image;
  for (int k = 0; k < 10 * i; ++k) image.push_back(static_cast<char>(k));
  example.SetBytes("image", image);
  example.SetInt64("class", i);
  example.SetFloatList("box", {i / 2.0f, static_cast<float>(-i), 1e10f, 0.1f});
  std::vector<std::string> tags;
  std::vector<int64_t> steps;
  for (int64_t k = 0; k < i; ++k) {
    tags.push_back(absl::StrCat("tag", k));
    steps.push_back(k * k * k - 1000 * i);
  }
  example.SetBytesList("tags", std::vector<absl::string_view>(tags.begin(), tags.end()));
  if (i != 2) example.SetInt64List("steps", steps);
  example.SetFloatList("größe", std::vector<float>(i % 2, static_cast<float>(i)));
  example.SetArray("nothing", base::Array());
  return example;
}

TEST_F(TfRecord, WritesSameBytesAsTensorFlow) {
  std::vector<std::string> records;
  for (int i = 0; i < 5; ++i) records.push_back(GoldenExample(i).Serialize());
  EXPECT_EQ(Written(records), Testdata("examples.plain.tfrec"));
}

TEST_F(TfRecord, ReadsTensorFlowFiles) {
  for (absl::string_view name : {"plain", "gzip", "zlib"}) {
    Put(Testdata(absl::StrCat("examples.", name, ".tfrec")));
    auto reader = Open();
    const std::vector<std::string> records = ReadAll(*reader);
    ASSERT_EQ(records.size(), 5u) << name;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(records[i], GoldenExample(i).Serialize());
  }
  Put(Testdata("empty.gzip.tfrec"));
  EXPECT_THAT(ReadAll(*Open()), IsEmpty());
}

// A file of which only the first `bytes` are readable. Reads beyond them return `end`; if `end` is
// OK, they return no bytes, as if the file had been truncated.
class CutFile : public io::RandomAccessFile {
 public:
  CutFile(std::shared_ptr<io::RandomAccessFile> file, int64_t bytes, absl::Status end)
      : RandomAccessFile(file->uri(), file->size()),
        file_(std::move(file)),
        bytes_(bytes),
        end_(std::move(end)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    const auto left = static_cast<size_t>(std::max<int64_t>(bytes_ - offset, 0));
    if (out.size() > left && !end_.ok()) return end_;
    return file_->Read(offset, out.first(std::min(out.size(), left)));
  }

 private:
  const std::shared_ptr<io::RandomAccessFile> file_;
  const int64_t bytes_;
  const absl::Status end_;
};

class CutStream : public io::InputStream {
 public:
  CutStream(std::string bytes, absl::Status end)
      : InputStream(std::string(kUri)), bytes_(std::move(bytes)), end_(std::move(end)) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    const size_t n = bytes_.copy(out.data(), out.size());
    bytes_.erase(0, n);
    if (n == 0 && !end_.ok()) return end_;
    return static_cast<int64_t>(n);
  }

 private:
  std::string bytes_;
  const absl::Status end_;
};

// A storage error hides records that may be intact. Whatever its code, it must not be taken for
// corruption that ends the file under skip_corrupt.
TEST_F(TfRecord, SkipsNothingOnReadErrors) {
  const std::vector<std::string> records = SomeRecords(100, 500);
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::string bytes = Written(records, {.compression = compression});
    const std::shared_ptr<io::RandomAccessFile> file = fs_->OpenRandomAccess(kUri).value();
    for (int code = 1; code <= 16; ++code) {
      const absl::Status failure(static_cast<absl::StatusCode>(code), "the connection broke");
      for (size_t cut = 0; cut < bytes.size(); cut += bytes.size() / 7 + 1) {
        SCOPED_TRACE(absl::StrCat(CompressionName(compression), ", ", failure.ToString(), ", byte ",
                                  cut, " of ", bytes.size()));
        const TfRecordReaderOptions options = {.block_bytes = 1000, .skip_corrupt = true};
        for (bool stream : {false, true}) {
          auto reader =
              stream ? TfRecordReader::FromStream(
                           std::make_unique<CutStream>(bytes.substr(0, cut), failure), options)
                     : TfRecordReader::FromFile(
                           std::make_shared<CutFile>(file, static_cast<int64_t>(cut), failure),
                           options);
          absl::Status status = reader.status();
          size_t read = 0;
          if (reader.ok()) read = ReadAll(**reader, &status).size();
          ASSERT_EQ(status.code(), failure.code()) << status << " after " << read << " records";
          if (reader.ok()) {
            ASSERT_EQ((*reader)->corruption().records, 0);
          }
        }
      }
    }
  }
}

TEST_F(TfRecord, ReportsTruncationWhileReadingAlsoBetweenRecords) {
  const std::vector<std::string> records(64, std::string(1008, 'x'));  // each framed in 1024 bytes
  for (Compression compression : {Compression::kNone, Compression::kGzip}) {
    const std::string bytes = Written(records, {.compression = compression});
    const std::shared_ptr<io::RandomAccessFile> file = fs_->OpenRandomAccess(kUri).value();
    for (size_t cut = 0; cut < bytes.size(); cut += compression == Compression::kNone ? 1024 : 10) {
      SCOPED_TRACE(
          absl::StrCat(CompressionName(compression), ", byte ", cut, " of ", bytes.size()));
      for (bool skip : {false, true}) {
        auto reader = TfRecordReader::FromFile(
            std::make_shared<CutFile>(file, static_cast<int64_t>(cut), absl::OkStatus()),
            {.block_bytes = 4096, .skip_corrupt = skip});
        absl::Status status = reader.status();
        if (reader.ok()) ReadAll(**reader, &status);
        ASSERT_TRUE(absl::IsAborted(status)) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("was truncated"));
      }
    }
  }
}

}  // namespace tfrecord_test
}  // namespace penstock::record
