#include "penstock/pack/shard_writer.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::pack {
namespace shard_writer_test {

using ::testing::ElementsAre;

class ShardWriterTest : public ::testing::Test {
 protected:
  // Writes records of these sizes and returns the names of the shards.
  std::vector<std::string> Write(const std::vector<int>& sizes, ShardWriterOptions options) {
    ShardWriter writer(*fs_, "memory://out", options);
    std::vector<std::string> names;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto full = writer.Append(std::string(sizes[i], static_cast<char>('a' + i)));
      EXPECT_TRUE(full.ok()) << full.status();
      if (*full) names.push_back((*full)->file);
    }
    const auto last = writer.Publish();
    EXPECT_TRUE(last.ok()) << last.status();
    if (*last) names.push_back((*last)->file);
    return names;
  }

  std::vector<std::string> Read(const std::string& name) {
    auto reader = record::TfRecordReader::Open(*fs_, "memory://out/" + name);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<std::string> records;
    for (;;) {
      const auto block = (*reader)->ReadBlock();
      EXPECT_TRUE(block.ok()) << block.status();
      if (block->empty()) return records;
      for (absl::string_view record : block->records) records.emplace_back(record);
    }
  }

  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

TEST_F(ShardWriterTest, PublishesShardBeforeRecordThatDoesNotFit) {
  // Framing adds 16 bytes to each record: 40, 40, 40, 116, 40.
  EXPECT_THAT(Write({24, 24, 24, 100, 24}, {.target_bytes = 80}),
              ElementsAre("00-2.tfrec", "01-1.tfrec", "02-1.tfrec", "03-1.tfrec"));
  EXPECT_THAT(Read("00-2.tfrec"), ElementsAre(std::string(24, 'a'), std::string(24, 'b')));
  EXPECT_THAT(Read("02-1.tfrec"), ElementsAre(std::string(100, 'd')));
  for (const char* name : {"00-2.tfrec", "01-1.tfrec", "02-1.tfrec", "03-1.tfrec"}) {
    const std::string uri = absl::StrCat("memory://out/", name);
    const auto saved = record::TfRecordIndex::Load(*fs_, uri);
    ASSERT_TRUE(saved.ok()) << saved.status();
    const auto built = record::TfRecordIndex::Build(*fs_, uri);
    ASSERT_EQ(saved->size(), built->size());
    for (int64_t i = 0; i <= saved->size(); ++i) EXPECT_EQ(saved->OffsetOf(i), built->OffsetOf(i));
  }
}

TEST_F(ShardWriterTest, WritesSameBytesFromMemoryAndDisk) {
  const auto in_memory = Write({24, 0, 300, 7}, {.first_index = 5});
  ASSERT_THAT(in_memory, ElementsAre("05-4.tfrec"));
  const std::string bytes = *io::ReadFile(*fs_, "memory://out/05-4.tfrec");
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), 24 + 300 + 7 + 4 * 16);
  ASSERT_TRUE(fs_->Remove("memory://out/05-4.tfrec").ok());
  EXPECT_THAT(Write({24, 0, 300, 7}, {.first_index = 5, .memory_bytes = 50}),
              ElementsAre("05-4.tfrec"));
  EXPECT_EQ(*io::ReadFile(*fs_, "memory://out/05-4.tfrec"), bytes);
}

TEST_F(ShardWriterTest, WritesNeitherUnpublishedNorEmptyShards) {
  {
    ShardWriter writer(*fs_, "memory://out");
    ASSERT_TRUE(writer.Append("x").ok());
  }
  EXPECT_THAT(Write({}, {}), ElementsAre());
  EXPECT_FALSE(*fs_->Exists("memory://out"));
}

TEST(ShardName, ConsistsOfTwoNumbers) {
  EXPECT_TRUE(IsShardName("00-40.tfrec"));
  EXPECT_TRUE(IsShardName("123-0.tfrec"));
  for (const char* name : {"00-40.tfrecord", "a-40.tfrec", "00-.tfrec", "0-1-2.tfrec", "40.tfrec"})
    EXPECT_FALSE(IsShardName(name)) << name;
}

}  // namespace shard_writer_test
}  // namespace penstock::pack
