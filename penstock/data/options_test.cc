// Every numeric option, with out-of-range numbers: the result is an error, or a pipeline that runs.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/data/testing/source.h"
#include "penstock/formats/npy.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace options_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using base::Shape;
using ::testing::HasSubstr;
using testing::ReadSome;
using testing::TestSource;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

struct Option {
  std::string name;
  int64_t min;  // values below the minimum are rejected
  int64_t max;  // values above it as well; kMax and kMaxInt are the maximum of the type
  std::function<Dataset(int64_t)> make;
};

std::shared_ptr<io::FileSystem> Files() {
  auto fs = io::MakeMemoryFileSystem();
  testing::WriteShard(*fs, "memory://d/a.tfrec", {"0", "1", "2", "3", "4", "5", "6", "7", "8"});
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, "memory://d/a.txt", "x\n1\n2\n3\n"));
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs, "memory://d/a.npy", Array::Zeros(DType::kI64, {3})));
  return fs;
}

std::vector<Option> Options(const std::shared_ptr<io::FileSystem>& fs) {
  const std::vector<std::string> shards = {"memory://d/a.tfrec"}, texts = {"memory://d/a.txt"};
  const Dataset source = TestSource(), range = Dataset::Range(0, 20);
  const auto datasets = [range](const NamedArrays&) -> absl::StatusOr<Dataset> {
    return range.Take(2);
  };
  const auto generate = [](const GeneratorContext&) -> ElementGenerator {
    return [i = 0](NamedArrays* element) mutable {
      element->Set("x", Array::Scalar<int64_t>(i));
      return i++ < 5;
    };
  };
  constexpr int64_t kMaxRows = int64_t{1} << 31, kMaxBlock = int64_t{1} << 30;
  return {
      {"Batch", 1, kMaxRows, [=](int64_t n) { return source.Batch(n); }},
      {"Batch, dropping", 1, kMaxRows,
       [=](int64_t n) { return range.Batch(n, {.drop_remainder = true}); }},
      {"PaddedBatch", 1, kMaxRows, [=](int64_t n) { return source.PaddedBatch(n); }},
      {"Rebatch", 1, kMaxRows, [=](int64_t n) { return source.Batch(3).Rebatch(n); }},
      {"Shuffle", 1, kMax, [=](int64_t n) { return source.Shuffle(n); }},
      {"Shuffle behind Prefetch", 1, kMax,
       [=](int64_t n) { return source.Prefetch(n).Shuffle(n); }},
      {"Prefetch of Shuffle", 1, kMax, [=](int64_t n) { return source.Shuffle(n).Prefetch(n); }},
      {"Prefetch", 0, kMax, [=](int64_t n) { return source.Prefetch(n); }},
      {"Repeat", -1, kMax, [=](int64_t n) { return source.Repeat(n).Repeat(n); }},
      {"Take", 0, kMax, [=](int64_t n) { return source.Take(n).Batch(2).Take(n); }},
      {"Skip", 0, kMax, [=](int64_t n) { return source.Skip(n); }},
      {"Skip of batches", 0, kMax, [=](int64_t n) { return source.Batch(7).Skip(n); }},
      {"Shard count", 1, kMax, [=](int64_t n) { return source.Shard(n, 0); }},
      {"Shard index", 0, kMax - 1, [=](int64_t n) { return source.Shard(kMax, n); }},
      {"Window", 1, kMaxRows, [=](int64_t n) { return source.Window(n); }},
      {"Window shift", 1, kMax, [=](int64_t n) { return source.Window(3, {.shift = n}); }},
      {"Window stride", 1, kMaxRows / 3,
       [=](int64_t n) { return source.Window(3, {.stride = n}); }},
      {"Enumerate", INT64_MIN, kMax, [=](int64_t n) { return range.Enumerate(n); }},
      {"Range", INT64_MIN, kMax, [=](int64_t n) { return Dataset::Range(n, kMax).Take(3); }},
      {"Range end", INT64_MIN, kMax, [=](int64_t n) { return Dataset::Range(INT64_MIN, n); }},
      {"IgnoreErrors", -1, kMax, [=](int64_t n) { return source.IgnoreErrors({.max_errors = n}); }},
      {"Interleave cycle_length", 1, 1 << 16,
       [=](int64_t n) { return range.Interleave(datasets, {.cycle_length = n}); }},
      {"Interleave block_length", 1, kMax,
       [=](int64_t n) { return range.Interleave(datasets, {.block_length = n}); }},
      {"Interleave parallel", 0, kMax,
       [=](int64_t n) { return range.Interleave(datasets, {.parallel = n}); }},
      {"FromGenerator read_ahead", 1, kMax,
       [=](int64_t n) {
         return Dataset::FromGenerator(generate, {{"x", DType::kI64, {}}}, {.read_ahead = n});
       }},
      {"Snapshot shard_bytes", 1, kMax,
       [=](int64_t n) {
         return range.Snapshot(absl::StrCat("memory://s/", static_cast<uint64_t>(n)),
                               {.shard_bytes = n});
       }},
      {"TFRecords parallel_files", 0, kMaxInt,
       [=](int64_t n) {
         return Dataset::FromTfRecords(shards, {.parallel_files = static_cast<int>(n)});
       }},
      {"TFRecords block_length", 1, kMax,
       [=](int64_t n) { return Dataset::FromTfRecords(shards, {.block_length = n}); }},
      {"TFRecords read_ahead_bytes", 0, kMax,
       [=](int64_t n) { return Dataset::FromTfRecords(shards, {.read_ahead_bytes = n}); }},
      {"TFRecords block_bytes", 1, kMaxBlock,
       [=](int64_t n) { return Dataset::FromTfRecords(shards, {.block_bytes = n}); }},
      {"global shuffle parallel_files", 0, kMaxInt,
       [=](int64_t n) {
         return Dataset::FromTfRecords(
             shards, {.parallel_files = static_cast<int>(n), .global_shuffle = true});
       }},
      {"global shuffle read_ahead_bytes", 0, kMax,
       [=](int64_t n) {
         return Dataset::FromTfRecords(shards, {.global_shuffle = true, .read_ahead_bytes = n});
       }},
      {"Files parallel_files", 0, kMaxInt,
       [=](int64_t n) {
         return Dataset::FromFiles(texts, {.parallel_files = static_cast<int>(n)});
       }},
      {"Files read_ahead_bytes", 0, kMax,
       [=](int64_t n) { return Dataset::FromFiles(texts, {.read_ahead_bytes = n}); }},
      {"Text parallel_files", 0, kMaxInt,
       [=](int64_t n) {
         return Dataset::FromText(texts, {.parallel_files = static_cast<int>(n)});
       }},
      {"Text block_length", 1, kMax,
       [=](int64_t n) { return Dataset::FromText(texts, {.block_length = n}); }},
      {"Text read_ahead_bytes", 0, kMax,
       [=](int64_t n) { return Dataset::FromText(texts, {.read_ahead_bytes = n}); }},
      {"Text block_bytes", 1, kMaxBlock,
       [=](int64_t n) { return Dataset::FromText(texts, {.block_bytes = n}); }},
      {"Text max_line_bytes", 1, kMaxBlock,
       [=](int64_t n) { return Dataset::FromText(texts, {.max_line_bytes = n}); }},
      {"CSV infer_rows", 1, kMax,
       [=](int64_t n) { return Dataset::FromCsv(texts, {.infer_rows = n, .file_system = fs}); }},
      {"CSV parallel_files", 0, kMaxInt,
       [=](int64_t n) {
         return Dataset::FromCsv(texts, {.parallel_files = static_cast<int>(n), .file_system = fs});
       }},
      {"CSV block_length", 1, kMax,
       [=](int64_t n) { return Dataset::FromCsv(texts, {.block_length = n, .file_system = fs}); }},
      {"CSV read_ahead_bytes", 0, kMax,
       [=](int64_t n) {
         return Dataset::FromCsv(texts, {.read_ahead_bytes = n, .file_system = fs});
       }},
      {"CSV block_bytes", 1, kMaxBlock,
       [=](int64_t n) { return Dataset::FromCsv(texts, {.block_bytes = n, .file_system = fs}); }},
      {"CSV max_row_bytes", 1, kMaxBlock,
       [=](int64_t n) { return Dataset::FromCsv(texts, {.max_row_bytes = n, .file_system = fs}); }},
      {"Npy block_bytes", 1, kMax,
       [=](int64_t n) {
         return Dataset::FromNpy(
             "memory://d/a.npy",
             {.access = NpyAccess::kStream, .block_bytes = n, .file_system = fs});
       }},
      {"Npy read_ahead_bytes", 0, kMax,
       [=](int64_t n) {
         return Dataset::FromNpy(
             "memory://d/a.npy",
             {.access = NpyAccess::kStream, .read_ahead_bytes = n, .file_system = fs});
       }},
      {"Npy memory_bytes", 0, kMax,
       [=](int64_t n) {
         return Dataset::FromNpy("memory://d/a.npy", {.memory_bytes = n, .file_system = fs});
       }},
  };
}

TEST(Options, RejectsValuesOutOfRangeAndRunsOthers) {
  const auto fs = Files();
  base::ThreadPool pool(2);
  for (const Option& option : Options(fs)) {
    for (int64_t value : {INT64_MIN, int64_t{-2}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
                          kMaxInt, kMaxInt + 1, kMaxInt + 2, kMax - 1, kMax}) {
      if (option.max == kMaxInt && (value > kMaxInt || value < -kMaxInt)) continue;
      SCOPED_TRACE(absl::StrCat(option.name, " ", value));
      const Dataset dataset = option.make(value);
      if (value < option.min || value > option.max) {
        EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      if (absl::IsResourceExhausted(dataset.status())) continue;  // already loaded by FromNpy
      ASSERT_TRUE(dataset.status().ok()) << dataset.status();
      // Either it needs too much memory or it runs; other tests check its elements.
      const IteratorOptions options = {
          .pool = &pool, .file_system = fs, .seed = 1, .memory_bytes = int64_t{1} << 26};
      const auto elements = ReadSome(dataset, 3, options);
      if (!elements.ok()) {
        EXPECT_THAT(elements.status().code(), ::testing::AnyOf(absl::StatusCode::kResourceExhausted,
                                                               absl::StatusCode::kInvalidArgument))
            << elements.status();
      }
      EXPECT_TRUE(dataset.Cardinality({.file_system = fs}).ok());
    }
  }
}

TEST(Options, RejectImpossibleShapes) {
  const int64_t huge = int64_t{1} << 40;
  const auto same = [](const NamedArrays& in, NamedArrays* out) {
    *out = in;
    return absl::OkStatus();
  };
  const auto generate = [](const GeneratorContext&) -> ElementGenerator { return nullptr; };
  const auto datasets = [](const NamedArrays&) -> absl::StatusOr<Dataset> {
    return Dataset::Range(0, 1);
  };
  const auto message = [](const Dataset& dataset) {
    return std::string(dataset.status().message());
  };
  const Dataset source = TestSource();
  for (const Shape& shape : {Shape({huge, huge}), Shape({huge, 0, huge}), Shape({-5}),
                             Shape({1, 1, 1, 1, 1, 1, 1, 1})}) {
    const ElementSpec spec = {{"y", DType::kF32, shape}};
    EXPECT_FALSE(source.Map(same, {.makes = spec}).status().ok());
    EXPECT_FALSE(Dataset::FromGenerator(generate, spec).status().ok());
    EXPECT_FALSE(source.FlatMap(datasets, {.makes = spec}).status().ok());
  }
  const ElementSpec no_type = {{"y", DType::kInvalid, {}}};
  EXPECT_FALSE(source.Map(same, {.makes = no_type}).status().ok());
  EXPECT_THAT(
      message(Dataset::FromGenerator(generate, {{"y", DType::kF32, {}}, {"y", DType::kI64, {}}})),
      HasSubstr("two columns 'y'"));
  // A padded shape larger than memory is rejected before a batch of it is allocated.
  const Dataset padded = Dataset::FromArrays({{"y", Array::Zeros(DType::kF32, {4, 2})}})
                             .PaddedBatch(2, {.padded_shapes = {{"y", Shape({huge})}}});
  ASSERT_TRUE(padded.status().ok()) << padded.status();
  EXPECT_EQ(padded.MakeIterator().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(source.PaddedBatch(2, {.padded_shapes = {{"v", Shape({-2})}}}).status().ok());
}

TEST(Options, RejectMissingArrays) {
  const auto step = [](const NamedArrays& in, NamedArrays*, NamedArrays* out) {
    *out = in;
    return absl::OkStatus();
  };
  NamedArrays none;
  none.Set("v", Array());
  EXPECT_FALSE(TestSource().Scan(none, step).status().ok());
  EXPECT_FALSE(TestSource().PaddedBatch(2, {.padding_values = none}).status().ok());
  EXPECT_FALSE(Dataset::FromArrays(none).status().ok());
}

TEST(Options, OfIteratorsOutsideTheirRangeAreErrors) {
  const Dataset dataset = TestSource().Batch(4);
  for (int64_t value : {INT64_MIN, int64_t{-1}}) {
    EXPECT_FALSE(dataset.MakeIterator({.epoch = value}).ok());
    EXPECT_FALSE(dataset.MakeIterator({.skip = value}).ok());
    EXPECT_FALSE(dataset.MakeIterator({.memory_bytes = value}).ok());
    EXPECT_FALSE(dataset.MakeIterator({.seed = 1, .host = {value, 0}}).ok());
    EXPECT_FALSE(dataset.MakeIterator({.seed = 1, .host = {2, value}}).ok());
  }
  EXPECT_FALSE(dataset.MakeIterator({.max_errors = -2}).ok());
  EXPECT_FALSE(dataset.MakeIterator({.seed = 1, .host = {kMax, kMax - 1}}).ok());
  EXPECT_TRUE(ReadSome(dataset.Repeat(kMax), 3, {.epoch = kMax}).ok());
  EXPECT_TRUE(ReadSome(dataset, 3, {.skip = kMax}).ok());
}

}  // namespace options_test
}  // namespace penstock::data
