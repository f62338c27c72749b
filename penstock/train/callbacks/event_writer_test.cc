#include "penstock/train/callbacks/event_writer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/record/tfrecord.h"

namespace penstock::train {
namespace event_writer_test {

// The events of all files of a folder, in the order in which TensorBoard reads them.
std::vector<std::string> EventsIn(io::FileSystem& fs, absl::string_view folder) {
  std::vector<std::string> events;
  const std::vector<io::FileInfo> files = fs.List(folder).value_or(std::vector<io::FileInfo>());
  for (const io::FileInfo& file : files) {
    const auto reader = record::TfRecordReader::Open(fs, file.uri);
    for (;;) {
      const auto block = (*reader)->ReadBlock();
      if (!block.ok() || block->empty()) break;
      for (const absl::string_view record : block->records) events.emplace_back(record);
    }
  }
  return events;
}

TEST(EventWriter, WritersOfOneSecondHaveFilesOfTheirOwn) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  base::FakeClock clock;
  const EventWriter::Options options{
      .folder = "memory://bucket/logs", .suffix = ".mine", .file_system = fs, .clock = &clock};
  for (int i = 0; i < 3; ++i) {
    const auto events = EventWriter::Open(options);
    ASSERT_TRUE(events.ok()) << events.status();
    ASSERT_EQ((*events)->Append(i, ScalarSummary({{"loss", 1}})), absl::OkStatus());
    ASSERT_EQ((*events)->Flush(), absl::OkStatus());
  }
  const auto files = fs->List("memory://bucket/logs");
  ASSERT_EQ(files->size(), 3u);
  for (const io::FileInfo& file : *files) EXPECT_THAT(file.uri, ::testing::HasSubstr(".mine."));
}

TEST(EventWriter, ObjectsStaySmallAndHaveTheVersionFirst) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const auto events = EventWriter::Open({.folder = "memory://bucket/logs", .file_system = fs});
  ASSERT_TRUE(events.ok()) << events.status();
  const std::string large(100 << 10, 'x');
  for (int i = 0; i < 5; ++i) ASSERT_EQ((*events)->Append(i, large), absl::OkStatus());
  ASSERT_EQ((*events)->Flush(), absl::OkStatus());
  EXPECT_EQ(fs->List("memory://bucket/logs")->size(), 2u);
  const std::vector<std::string> all = EventsIn(*fs, "memory://bucket/logs");
  ASSERT_EQ(all.size(), 7u);
  EXPECT_THAT(all[0], ::testing::HasSubstr("brain.Event:2"));
  EXPECT_THAT(all[4], ::testing::HasSubstr("brain.Event:2"));
}

TEST(EventWriter, ReportsAFolderThatCannotBeMade) {
  EXPECT_FALSE(EventWriter::Open({.folder = "/dev/null/logs"}).ok());
}

}  // namespace event_writer_test
}  // namespace penstock::train
