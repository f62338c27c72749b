#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {
namespace shuffled_tfrecords_test {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::ReadSome;
using ::testing::UnorderedElementsAreArray;

using Options = IteratorOptions;

constexpr char kPattern[] = "memory://d/*";  // names the indices, too
const std::vector<int64_t> kSizes = {70, 0, 300, 1, 120};

struct Shards {
  Shards() {
    for (size_t f = 0; f < kSizes.size(); ++f) {
      for (int64_t r = 0; r < kSizes[f]; ++r) {
        printed.push_back("record=string[] {\"" + testing::ShardRecord(f, r) + "\"}");
      }
    }
  }
  std::shared_ptr<io::FileSystem> fs = testing::MemoryShards(kSizes);
  std::vector<std::string> printed;  // all records
};

Dataset Shuffled(TfRecordOptions options = {}) {
  options.global_shuffle = true;
  return Dataset::FromTfRecords({kPattern}, options);
}

TEST(ShuffledTfRecords, ReturnsEveryRecordOnceWhenNotDeterministic) {
  const Shards shards;
  const auto got = *ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1});
  EXPECT_THAT(got, UnorderedElementsAreArray(shards.printed));
  EXPECT_NE(got, shards.printed);
  // The second pass finds the index files and does not take them for shards.
  EXPECT_TRUE(*shards.fs->Exists("memory://d/02.tfrec.index"));
  EXPECT_EQ(*ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1}), got);
  EXPECT_THAT(*ReadAll(Dataset::FromTfRecords({kPattern}), {.file_system = shards.fs}),
              UnorderedElementsAreArray(shards.printed));
}

TEST(ShuffledTfRecords, OrderDependsOnlyOnSeedAndEpoch) {
  const Shards shards;
  const auto first = *ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1});
  base::ThreadPool pool(3);
  for (int parallel : {1, 3, 16}) {
    for (int64_t bytes : {1, 1000, 1 << 20}) {
      const Dataset other = Shuffled({.parallel_files = parallel, .read_ahead_bytes = bytes});
      EXPECT_EQ(*ReadAll(other, {.pool = &pool, .file_system = shards.fs, .seed = 1}), first);
    }
  }
  EXPECT_NE(*ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 2}), first);
  EXPECT_NE(*ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1, .epoch = 1}), first);
  // Repeat's second pass is epoch 1.
  auto both = first;
  const auto second = *ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1, .epoch = 1});
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(*ReadAll(Shuffled().Repeat(2), {.file_system = shards.fs, .seed = 1}), both);
}

TEST(ShuffledTfRecords, NotDeterministicReturnsSameRecords) {
  const Shards shards;
  base::ThreadPool pool(3);
  EXPECT_THAT(
      *ReadAll(Shuffled(),
               {.pool = &pool, .file_system = shards.fs, .seed = 1, .deterministic = false}),
      UnorderedElementsAreArray(shards.printed));
}

TEST(ShuffledTfRecords, ResumesAtAnyPosition) {
  const Shards shards;
  const auto all = *ReadAll(Shuffled().Batch(7), {.file_system = shards.fs, .seed = 4});
  for (int64_t skip : {1, 30, 70, 71}) {
    const auto from = std::min<size_t>(static_cast<size_t>(skip), all.size());
    EXPECT_THAT(*ReadAll(Shuffled().Batch(7), {.file_system = shards.fs, .seed = 4, .skip = skip}),
                ElementsAreArray(all.begin() + static_cast<int64_t>(from), all.end()));
  }
}

TEST(ShuffledTfRecords, CanBeDestroyedAnywhere) {
  const Shards shards;
  for (int64_t count : {0, 1, 16, 17, 200}) {
    EXPECT_EQ(ReadSome(Shuffled(), count, {.file_system = shards.fs, .seed = 4})->size(), count);
  }
}

TEST(ShuffledTfRecords, NamesCorruptRecordAfterPrecedingRecords) {
  Shards shards;
  ASSERT_TRUE(ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1}).ok());  // writes indices
  std::string bytes = *io::ReadFile(*shards.fs, "memory://d/02.tfrec");
  const auto index = *record::TfRecordIndex::Load(*shards.fs, "memory://d/02.tfrec");
  bytes[static_cast<size_t>(index.OffsetOf(17) + record::kTfRecordHeaderBytes)] ^= 1;
  ASSERT_TRUE(io::WriteFile(*shards.fs, "memory://d/02.tfrec", bytes).ok());
  const std::string origin = absl::StrCat("memory://d/02.tfrec:", index.OffsetOf(17), ":17");
  EXPECT_THAT(
      std::string(ReadAll(Shuffled(), {.file_system = shards.fs, .seed = 1}).status().message()),
      AllOf(HasSubstr(origin), HasSubstr("do not match their checksum")));
  EXPECT_TRUE(ReadAll(Shuffled({.verify = false}), {.file_system = shards.fs, .seed = 1}).ok());
}

TEST(ShuffledTfRecords, RecoverableErrorsNameRecord) {
  const Shards shards;
  const Dataset parsed =
      Shuffled().ParseExample({.features = {{.name = "x", .dtype = base::DType::kI64}}});
  const auto first = ReadSome(Shuffled(), 1, {.file_system = shards.fs, .seed = 1});
  const absl::Status status = ReadAll(parsed, {.file_system = shards.fs, .seed = 1}).status();
  // The error names the first record of the shuffled order, whose contents are "file/record".
  const std::string text = first->front().substr(18, first->front().size() - 20);
  const size_t slash = text.find('/');
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrFormat("memory://d/%02d.tfrec:", std::stoi(text))),
                    HasSubstr(absl::StrCat(":", text.substr(slash + 1), ": "))));
}

TEST(ShuffledTfRecords, RejectsInvalidParameters) {
  const Shards shards;
  EXPECT_THAT(std::string(Shuffled({.skip_corrupt = true}).status().message()),
              HasSubstr("skip_corrupt and global_shuffle cannot be combined"));
  EXPECT_FALSE(Shuffled({.parallel_files = -1}).status().ok());
  EXPECT_TRUE(absl::IsNotFound(
      ReadAll(Dataset::FromTfRecords({"memory://d/none"}, {.global_shuffle = true}),
              {.file_system = shards.fs})
          .status()));
}

TEST(ShuffledTfRecords, OfNothingIsNothing) {
  auto fs = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK((*record::TfRecordWriter::Create(*fs, "memory://d/a"))->Close());
  EXPECT_EQ(ReadAll(Shuffled(), {.file_system = fs})->size(), 0);
  EXPECT_EQ(ReadAll(Shuffled().Repeat(), {.file_system = fs})->size(), 0);
}

}  // namespace shuffled_tfrecords_test
}  // namespace penstock::data
