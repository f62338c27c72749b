#include "penstock/pack/record_index.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::pack {
namespace record_index_test {

using ::testing::HasSubstr;

class RecordIndexTest : public ::testing::Test {
 protected:
  // Records "NAME 0" to "NAME n-1".
  void Write(const std::string& name, int n, record::Compression compression) {
    auto writer =
        record::TfRecordWriter::Create(*fs_, "memory://" + name, {.compression = compression});
    for (int i = 0; i < n; ++i) ASSERT_TRUE((*writer)->Append(absl::StrCat(name, " ", i)).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }
  void Corrupt(const std::string& name, size_t at, size_t keep = std::string::npos) {
    std::string bytes = *io::ReadFile(*fs_, "memory://" + name);
    bytes[at] ^= 1;
    ASSERT_TRUE(io::WriteFile(*fs_, "memory://" + name, bytes.substr(0, keep)).ok());
  }
  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

TEST_F(RecordIndexTest, ReadsRecordsOfPlainCompressedAndEmptyFiles) {
  Write("a", 3, record::Compression::kNone);
  Write("empty", 0, record::Compression::kNone);
  Write("b", 2, record::Compression::kGzip);
  Write("c", 1, record::Compression::kZlib);
  for (int64_t memory : {int64_t{0}, int64_t{1} << 20}) {
    const auto index =
        RecordIndex::Build(*fs_, {"memory://a", "memory://empty", "memory://b", "memory://c"},
                           {.memory_bytes = memory, .folder = ::testing::TempDir()});
    ASSERT_TRUE(index.ok()) << index.status();
    ASSERT_EQ(index->size(), 6);
    const char* expected[] = {"a 0", "a 1", "a 2", "b 0", "b 1", "c 0"};
    for (int64_t i : {5, 0, 3, 2, 4, 1}) EXPECT_EQ(*index->Read(i), expected[i]);
    EXPECT_EQ(index->Location(2), "memory://a:38:2");
    EXPECT_THAT(index->Location(4), HasSubstr("memory://b"));
  }
}

TEST_F(RecordIndexTest, ReadsRecordsAfterCorruptRecord) {
  Write("a", 3, record::Compression::kNone);
  Corrupt("a", 19 + 12);  // the first byte of record 1
  const auto index = RecordIndex::Build(*fs_, {"memory://a"});
  ASSERT_EQ(index->size(), 3);
  EXPECT_TRUE(absl::IsDataLoss(index->Read(1).status())) << index->Read(1).status();
  EXPECT_EQ(std::string(index->Read(1).status().message()).find("the rest"), std::string::npos);
  EXPECT_EQ(*index->Read(2), "a 2");
}

TEST_F(RecordIndexTest, ReportsUnreadableRestOfFileAsOneRecord) {
  Write("length", 3, record::Compression::kNone);
  Corrupt("length", 24);
  Write("cut", 3, record::Compression::kNone);
  Corrupt("cut", 56, 60);
  Write("zip", 200, record::Compression::kGzip);
  Corrupt("zip", 0, 300);
  Write("good", 1, record::Compression::kNone);
  std::string zip = *io::ReadFile(*fs_, "memory://zip");
  zip[0] ^= 1;
  ASSERT_TRUE(io::WriteFile(*fs_, "memory://zip", zip).ok());
  for (const char* name : {"length", "cut", "zip"}) {
    const auto index = RecordIndex::Build(*fs_, {absl::StrCat("memory://", name), "memory://good"});
    ASSERT_TRUE(index.ok()) << index.status();
    const int64_t corrupt = index->size() - 2;
    EXPECT_EQ(*index->Read(0), absl::StrCat(name, " 0"));
    EXPECT_THAT(std::string(index->Read(corrupt).status().message()),
                HasSubstr("the rest of the file is skipped"))
        << name;
    EXPECT_THAT(index->Location(corrupt), HasSubstr(name));
    EXPECT_EQ(*index->Read(corrupt + 1), "good 0");
  }
}

TEST_F(RecordIndexTest, NamesMissingFileInError) {
  EXPECT_THAT(std::string(RecordIndex::Build(*fs_, {"memory://none"}).status().message()),
              HasSubstr("memory://none"));
}

}  // namespace record_index_test
}  // namespace penstock::pack
