#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {
namespace from_tfrecords_test {

using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::MemoryShards;
using testing::ReadAll;
using testing::ReadSome;
using testing::ShardRecord;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> Printed(const std::vector<std::string>& records) {
  std::vector<std::string> out;
  for (const std::string& r : records) out.push_back("record=string[] {\"" + r + "\"}");
  return out;
}

// Reference implementation of the order documented in the header.
std::vector<std::string> Interleaved(const std::vector<int64_t>& records, size_t parallel,
                                     int64_t block_length) {
  std::vector<std::string> out;
  size_t next = 0;
  std::vector<std::pair<size_t, int64_t>> cycle;  // file, next record
  while (cycle.size() < parallel && next < records.size()) cycle.push_back({next++, 0});
  for (size_t turn = 0; !cycle.empty();) {
    auto& [file, record] = cycle[turn];
    int64_t left = block_length;
    while (left > 0 && record < records[file]) {
      out.push_back(ShardRecord(static_cast<int64_t>(file), record++));
      --left;
    }
    if (left > 0) {  // the file has ended
      if (next < records.size()) {
        cycle[turn] = {next++, 0};
      } else {
        cycle.erase(cycle.begin() + static_cast<int64_t>(turn));
        if (!cycle.empty()) turn %= cycle.size();
        continue;
      }
    }
    turn = (turn + 1) % cycle.size();
  }
  return Printed(out);
}

const std::vector<int64_t> kSizes = {7, 0, 30, 1, 12, 3};

TEST(FromTfRecords, NamesEmptyShards) {
  for (const bool global_shuffle : {false, true}) {
    const auto hint = [&](const std::vector<int64_t>& records) {
      const auto iterator =
          Dataset::FromTfRecords({"memory://d/*.tfrec"}, {.global_shuffle = global_shuffle})
              .MakeIterator({.file_system = MemoryShards(records)});
      PENSTOCK_CHECK_OK(iterator);
      return (*iterator)->Stats()[0].hint;
    };
    EXPECT_EQ(hint({2, 3}), "");
    EXPECT_THAT(hint({2, 0, 3, 0}),
                AllOf(HasSubstr("2 of 4 shards are empty"), HasSubstr("memory://d/01.tfrec")));
  }
}

TEST(FromTfRecords, InterleavesFiles) {
  const auto fs = MemoryShards(kSizes);
  for (int parallel : {1, 2, 3, 10}) {
    for (int64_t block_length : {1, 4, 100}) {
      const Dataset dataset = Dataset::FromTfRecords(
          {"memory://d/*.tfrec"}, {.parallel_files = parallel, .block_length = block_length});
      EXPECT_THAT(*ReadAll(dataset, {.file_system = fs}),
                  ElementsAreArray(Interleaved(kSizes, parallel, block_length)))
          << parallel << " by " << block_length;
    }
  }
}

TEST(FromTfRecords, OrderDoesNotDependOnBlocksOrThreads) {
  const auto fs = MemoryShards(kSizes);
  for (int64_t bytes : {1, 40, 1 << 20}) {
    base::ThreadPool pool(3);
    const Dataset dataset = Dataset::FromTfRecords(
        {"memory://d/*.tfrec"},
        {.parallel_files = 3, .block_length = 4, .read_ahead_bytes = bytes, .block_bytes = bytes});
    EXPECT_THAT(*ReadAll(dataset, {.pool = &pool, .file_system = fs}),
                ElementsAreArray(Interleaved(kSizes, 3, 4)));
  }
}

TEST(FromTfRecords, SequentialOrderIsOrderOfList) {
  const Dataset dataset =
      Dataset::FromTfRecords({"memory://d/02.tfrec", "memory://d/00.tfrec"}, {.parallel_files = 1});
  const auto got = *ReadAll(dataset, {.file_system = MemoryShards(kSizes)});
  ASSERT_EQ(got.size(), 37);
  EXPECT_THAT(got[0], HasSubstr("\"2/0\""));
  EXPECT_THAT(got[30], HasSubstr("\"0/0\""));
}

TEST(FromTfRecords, LosesNothingWhenNotDeterministic) {
  const Dataset dataset = Dataset::FromTfRecords({"memory://d/*"}, {.block_bytes = 40});
  EXPECT_THAT(*ReadAll(dataset, {.file_system = MemoryShards(kSizes), .deterministic = false}),
              UnorderedElementsAreArray(Interleaved(kSizes, 1, 1)));
}

TEST(FromTfRecords, ReshufflesFilesInEachEpoch) {
  const auto fs = MemoryShards(std::vector<int64_t>(20, 1));
  const Dataset dataset =
      Dataset::FromTfRecords({"memory://d/*"}, {.parallel_files = 1, .shuffle_files = true});
  const auto first = *ReadAll(dataset, {.file_system = fs, .seed = 1});
  const auto second = *ReadAll(dataset, {.file_system = fs, .seed = 1, .epoch = 1});
  EXPECT_NE(first, second);
  EXPECT_THAT(first, UnorderedElementsAreArray(second));
  EXPECT_EQ(*ReadAll(dataset, {.file_system = fs, .seed = 1}), first);
}

TEST(FromTfRecords, RejectsStateOfOtherFiles) {
  const auto fs = io::MakeMemoryFileSystem();
  const auto add = [&](const std::string& name) {
    auto writer = *record::TfRecordWriter::Create(*fs, "memory://d/" + name + ".tfrec");
    PENSTOCK_CHECK_OK(writer->Append("x"));
    PENSTOCK_CHECK_OK(writer->Close());
  };
  add("a");
  add("b");
  for (const bool global_shuffle : {false, true}) {
    const Dataset dataset =
        Dataset::FromTfRecords({"memory://d/*.tfrec"}, {.global_shuffle = global_shuffle});
    const IteratorState state = (*dataset.MakeIterator({.file_system = fs, .seed = 1}))->State();
    EXPECT_TRUE(dataset.MakeIterator({.file_system = fs, .state = state}).ok());
    add(global_shuffle ? "d" : "c");
    const auto refused = dataset.MakeIterator({.file_system = fs, .state = state});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("other input files"));
  }
}

TEST(FromTfRecords, NamesMissingFilesBeforeItReads) {
  const auto fs = MemoryShards({1});
  const auto missing = Dataset::FromTfRecords({"memory://d/00.tfrec", "memory://d/07.tfrec"})
                           .MakeIterator({.file_system = fs});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("memory://d/07.tfrec"));
  const auto none = Dataset::FromTfRecords({"memory://d/*.gz"}).MakeIterator({.file_system = fs});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("memory://d/*.gz"));
  EXPECT_FALSE(Dataset::FromTfRecords({}).status().ok());
}

// Flips a bit of the byte at `offset`.
void Corrupt(io::FileSystem& fs, const std::string& uri, int64_t offset) {
  std::string bytes = *io::ReadFile(fs, uri);
  bytes[static_cast<size_t>(offset)] ^= 1;
  PENSTOCK_CHECK_OK(io::WriteFile(fs, uri, bytes));
}

TEST(FromTfRecords, NamesCorruptRecord) {
  const auto fs = MemoryShards({5});
  // A record of 3 bytes takes 19 bytes, so the third begins at 38.
  Corrupt(*fs, "memory://d/00.tfrec", 38 + 12);
  const Dataset dataset = Dataset::FromTfRecords({"memory://d/00.tfrec"});
  const auto got = ReadAll(dataset.Batch(2), {.file_system = fs});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("memory://d/00.tfrec:38:2"));
  EXPECT_EQ(ReadSome(dataset, 2, {.file_system = fs})->size(), 2);

  const Dataset skipping = Dataset::FromTfRecords({"memory://d/00.tfrec"}, {.skip_corrupt = true});
  EXPECT_THAT(*ReadAll(skipping, {.file_system = fs}),
              ElementsAreArray(Printed({"0/0", "0/1", "0/3", "0/4"})));
}

// Iterator states saved by older versions contain this text.
TEST(FromTfRecords, PrintsSkipCorruptAsOlderVersions) {
  EXPECT_THAT(Dataset::FromTfRecords({"memory://d/*"}, {.skip_corrupt = true}).ToString(),
              HasSubstr(", skip damaged)"));
}

TEST(FromTfRecords, ShuffledRowsKeepTheirOrigins) {
  const auto fs = MemoryShards({10, 10});
  // The error of each record contains its contents, which are compared with its origin.
  const Dataset dataset =
      Dataset::FromTfRecords({"memory://d/*"})
          .Shuffle(20)
          .Map([](const NamedArrays& in, NamedArrays*) {
            return absl::DataLossError(in[0].second.data<absl::string_view>()[0]);
          });
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto got = ReadAll(dataset.Batch(3), {.file_system = fs, .seed = seed});
    const std::string message(got.status().message());
    const int64_t file = message.at(message.rfind('/') - 1) - '0';
    const int64_t record = message.back() - '0';
    EXPECT_EQ(message, absl::StrFormat("memory://d/%02d.tfrec:%d:%d: Map: %d/%d", file, record * 19,
                                       record, file, record));
  }
}

TEST(FromTfRecords, CanBeDestroyedAnywhere) {
  const auto fs = MemoryShards(kSizes);
  const Dataset dataset = Dataset::FromTfRecords(
      {"memory://d/*"}, {.parallel_files = 2, .read_ahead_bytes = 1, .block_bytes = 20});
  for (int64_t count = 0; count < 54; ++count) {
    EXPECT_TRUE(ReadSome(dataset.Shuffle(5).Batch(2).Repeat(), count, {.file_system = fs}).ok());
  }
}

TEST(FromTfRecords, ContinuesAfterSkip) {
  const auto fs = MemoryShards(kSizes);
  const Dataset dataset = Dataset::FromTfRecords({"memory://d/*"}, {.shuffle_files = true})
                              .Shuffle(6)
                              .Batch(4)
                              .Repeat(2);
  const auto all = *ReadAll(dataset, {.file_system = fs, .seed = 2});
  for (size_t skip = 0; skip < all.size(); ++skip) {
    EXPECT_THAT(
        *ReadAll(dataset, {.file_system = fs, .seed = 2, .skip = static_cast<int64_t>(skip)}),
        ElementsAreArray(all.begin() + static_cast<int64_t>(skip), all.end()));
  }
}

}  // namespace from_tfrecords_test
}  // namespace penstock::data
