#include "penstock/record/tfrecord_index.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"

namespace penstock::record {
namespace tfrecord_index_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kShard[] = "memory://d/a.tfrec";

// Contents of record i: i % 50 * 40 bytes, so that some are empty and some exceed one read.
std::string Record(int64_t i) { return std::string(static_cast<size_t>(i % 50 * 40), 'a' + i % 7); }

void Write(io::FileSystem& fs, int64_t records, TfRecordWriterOptions options = {},
           const std::string& shard = kShard) {
  auto writer = TfRecordWriter::Create(fs, shard, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int64_t i = 0; i < records; ++i) ASSERT_TRUE((*writer)->Append(Record(i)).ok());
  ASSERT_TRUE((*writer)->Close().ok());
}

void ExpectReadsAll(io::FileSystem& fs, const TfRecordIndex& index, int64_t records) {
  ASSERT_EQ(index.size(), records);
  const std::shared_ptr<io::RandomAccessFile> file = *fs.OpenRandomAccess(index.shard());
  for (int64_t i = records - 1; i >= 0; --i) {
    const auto block = index.ReadRecord(file, i);
    ASSERT_TRUE(block.ok()) << block.status();
    ASSERT_EQ(block->size(), 1);
    EXPECT_EQ(block->records[0], Record(i));
    EXPECT_EQ(block->Origin(0), absl::StrCat(kShard, ":", index.OffsetOf(i), ":", i));
  }
}

TEST(TfRecordIndex, FindsEveryRecord) {
  for (int64_t records : {0, 1, 300}) {
    const auto fs = io::MakeMemoryFileSystem();
    Write(*fs, records);
    const auto index = TfRecordIndex::Build(*fs, kShard);
    ASSERT_TRUE(index.ok()) << index.status();
    ExpectReadsAll(*fs, *index, records);
  }
}

TEST(TfRecordIndex, IsStoredNextToShard) {
  const auto fs = io::MakeMemoryFileSystem();
  Write(*fs, 300);
  EXPECT_TRUE(absl::IsNotFound(TfRecordIndex::Load(*fs, kShard).status()));
  ASSERT_TRUE(TfRecordIndex::LoadOrBuild(*fs, kShard).ok());
  EXPECT_TRUE(*fs->Exists("memory://d/a.tfrec.index"));
  const auto loaded = TfRecordIndex::Load(*fs, kShard);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectReadsAll(*fs, *loaded, 300);
}

// If the suffix followed the URI options, the URI would name the shard itself and overwrite it.
TEST(TfRecordIndex, IsStoredNextToShardWithUriOptions) {
  EXPECT_EQ(TfRecordIndexUri("gs://anonymous@b/00.tfrec?scheme=http&project_id=p"),
            "gs://anonymous@b/00.tfrec.index?scheme=http&project_id=p");
}

TEST(TfRecordIndex, IsRebuiltIfOfAnotherFile) {
  const auto fs = io::MakeMemoryFileSystem();
  Write(*fs, 300);
  ASSERT_TRUE(TfRecordIndex::LoadOrBuild(*fs, kShard).ok());
  Write(*fs, 200);
  EXPECT_THAT(std::string(TfRecordIndex::Load(*fs, kShard).status().message()),
              AllOf(HasSubstr("a.tfrec.index"), HasSubstr("does not belong to this file")));
  const auto index = TfRecordIndex::LoadOrBuild(*fs, kShard);
  ASSERT_TRUE(index.ok()) << index.status();
  ExpectReadsAll(*fs, *index, 200);
}

TEST(TfRecordIndex, IsRebuiltIfCorrupt) {
  const auto fs = io::MakeMemoryFileSystem();
  Write(*fs, 20);
  for (const char* bytes : {"", "nonsense that is no record at all"}) {
    ASSERT_TRUE(io::WriteFile(*fs, TfRecordIndexUri(kShard), bytes).ok());
    EXPECT_FALSE(TfRecordIndex::Load(*fs, kShard).ok());
    const auto index = TfRecordIndex::LoadOrBuild(*fs, kShard);
    ASSERT_TRUE(index.ok()) << index.status();
    ExpectReadsAll(*fs, *index, 20);
  }
}

// A replaced shard of the same size is detected by its records' positions.
TEST(TfRecordIndex, ReportsReplacedShard) {
  const auto fs = io::MakeMemoryFileSystem();
  Write(*fs, 3);
  const auto index = TfRecordIndex::Build(*fs, kShard);
  auto writer = *TfRecordWriter::Create(*fs, kShard);
  for (int64_t i : {2, 1, 0}) ASSERT_TRUE(writer->Append(Record(i)).ok());
  ASSERT_TRUE(writer->Close().ok());
  const std::shared_ptr<io::RandomAccessFile> file = *fs->OpenRandomAccess(kShard);
  for (int64_t i = 0; i < 2; ++i) {
    const absl::Status status = index->ReadRecord(file, i).status();
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("memory://d/a.tfrec:"));
  }
}

TEST(TfRecordIndex, RejectsCompressedAndMissingShards) {
  const auto fs = io::MakeMemoryFileSystem();
  Write(*fs, 30, {.compression = Compression::kGzip});
  const absl::Status compressed = TfRecordIndex::LoadOrBuild(*fs, kShard).status();
  EXPECT_TRUE(absl::IsInvalidArgument(compressed));
  EXPECT_THAT(std::string(compressed.message()), HasSubstr("compressed (gzip)"));

  Write(*fs, 30);
  std::string bytes = *io::ReadFile(*fs, kShard);
  bytes.resize(bytes.size() - 5);
  ASSERT_TRUE(io::WriteFile(*fs, kShard, bytes).ok());
  const absl::Status cut = TfRecordIndex::Build(*fs, kShard).status();
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr(":29: "));
  EXPECT_TRUE(absl::IsNotFound(TfRecordIndex::LoadOrBuild(*fs, "memory://d/none").status()));
}

}  // namespace tfrecord_index_test
}  // namespace penstock::record
