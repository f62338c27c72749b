#include "penstock/lazy/data/data_loader.h"

#include <atomic>
#include <latch>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/replicas.h"

namespace penstock::lazy {
namespace data_loader_test {
namespace {

namespace data = utils::data;
using base::Array;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Get = std::function<absl::StatusOr<data::Sample>(int64_t)>;

absl::StatusOr<data::Sample> Number(int64_t i) {
  return data::Sample{{"x", Array::Scalar<int64_t>(i)}};
}

data::DatasetPtr Numbers(int64_t size, Get get = Number) { return data::MapDataset(size, get); }

// Values of "x" in each batch of a pass.
std::vector<std::vector<int64_t>> Pass(data::DataLoader& loader) {
  std::vector<std::vector<int64_t>> batches;
  for (const data::Sample& batch : loader) {
    const auto values = batch[0].second.values<int64_t>();
    batches.emplace_back(values.begin(), values.end());
  }
  return batches;
}

TEST(DataLoader, BatchesAreInOrderWithAnyNumberOfWorkers) {
  std::vector<std::vector<int64_t>> want;
  for (int64_t i = 0; i < 100; i += 7) {
    want.emplace_back();
    for (int64_t k = i; k < std::min<int64_t>(i + 7, 100); ++k) want.back().push_back(k);
  }
  for (const int workers : {0, 1, 3, 8}) {
    for (const int prefetch : {1, 3}) {
      data::DataLoader loader(
          Numbers(100), {.batch_size = 7, .num_workers = workers, .prefetch_factor = prefetch});
      EXPECT_EQ(loader.size(), 15);
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_EQ(Pass(loader), want) << workers << " workers";
        EXPECT_TRUE(loader.status().ok()) << loader.status();
      }
    }
  }
}

TEST(DataLoader, ShuffleIsByTheSeedForAnyNumberOfWorkers) {
  data::DataLoader one(Numbers(50), {.batch_size = 8, .shuffle = true, .seed = 4});
  data::DataLoader two(Numbers(50),
                       {.batch_size = 8, .shuffle = true, .num_workers = 3, .seed = 4});
  const auto first = Pass(one), second = Pass(one);
  EXPECT_EQ(first, Pass(two));
  EXPECT_NE(first, second);
  EXPECT_EQ(second, Pass(two));
}

// What a dataset draws at random differs between workers and passes, and follows manual_seed.
TEST(DataLoader, RandomNumbersOfADatasetDiffer) {
  const auto draw = [](int64_t) -> absl::StatusOr<data::Sample> {
    PENSTOCK_ASSIGN_OR_RETURN(Array x, rand({1}).cpu());
    return data::Sample{{"x", std::move(x)}};
  };
  const auto passes = [&] {
    data::DataLoader loader(data::MapDataset(6, draw), {.num_workers = 1});
    std::vector<float> values;
    for (int pass = 0; pass < 2; ++pass) {
      for (const data::Sample& batch : loader) values.push_back(batch[0].second.values<float>()[0]);
    }
    return values;
  };
  manual_seed(7);
  const std::vector<float> first = passes(), second = passes();
  manual_seed(7);
  EXPECT_EQ(passes(), first);
  std::set<float> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  EXPECT_EQ(all.size(), 24u);
  // Each of two workers draws its own; which batch it takes is a matter of time.
  data::DataLoader two(data::MapDataset(6, draw), {.num_workers = 2});
  std::set<float> of_two;
  for (const data::Sample& batch : two) of_two.insert(batch[0].second.values<float>()[0]);
  EXPECT_EQ(of_two.size(), 6u);
}

TEST(DataLoader, DefaultCollateStacksEachArray) {
  data::DataLoader loader(
      Numbers(3,
              [](int64_t i) -> absl::StatusOr<data::Sample> {
                const float value = static_cast<float>(i);
                return data::Ordered({Array::Of<float>({2}, {value, value + 0.5f}),
                                      Array::Strings({}, {absl::StrCat("name ", i)})});
              }),
      {.batch_size = 3});
  int batches = 0;
  for (const data::Sample& batch : loader) {
    ++batches;
    EXPECT_EQ(batch[0].second.TypeString(), "float32[3,2]");
    EXPECT_THAT(batch[0].second.values<float>(), ElementsAre(0, 0.5, 1, 1.5, 2, 2.5));
    EXPECT_THAT(batch[1].second.values<absl::string_view>(),
                ElementsAre("name 0", "name 1", "name 2"));
  }
  EXPECT_EQ(batches, 1);
}

TEST(DataLoader, ExamplesThatCannotBeStackedAreAnErrorWithTheirShapes) {
  data::DataLoader loader(
      Numbers(4,
              [](int64_t i) -> absl::StatusOr<data::Sample> {
                return data::Sample{{"image", Array::Zeros(base::DType::kU8, {i + 1})}};
              }),
      {.batch_size = 2});
  EXPECT_TRUE(Pass(loader).empty());
  EXPECT_THAT(loader.status().message(), AllOf(HasSubstr("examples 0 to 1"), HasSubstr("uint8[2]"),
                                               HasSubstr("uint8[1]"), HasSubstr("'image'")));
}

TEST(DataLoader, ExamplesWithDifferentArraysAreAnError) {
  const auto unequal = [](int64_t i) -> absl::StatusOr<data::Sample> {
    data::Sample sample{{"a", Array::Scalar<int64_t>(i)}};
    if (i == 1) sample.Append("b", Array::Scalar<int64_t>(i));
    return sample;
  };
  data::DataLoader loader(Numbers(2, unequal), {.batch_size = 2});
  EXPECT_TRUE(Pass(loader).empty());
  EXPECT_THAT(loader.status().message(), HasSubstr("has 2 arrays"));
}

TEST(DataLoader, BatchSizeZeroGivesSingleExamples) {
  data::DataLoader loader(Numbers(3), {.batch_size = 0, .num_workers = 2});
  std::vector<int64_t> values;
  for (const data::Sample& example : loader) {
    EXPECT_EQ(example[0].second.rank(), 0);
    values.push_back(example[0].second.item<int64_t>());
  }
  EXPECT_THAT(values, ElementsAre(0, 1, 2));
}

TEST(DataLoader, CustomCollateAndBatchSamplerAreUsed) {
  class Pairs : public data::BatchSamplerBase {
   public:
    absl::StatusOr<std::vector<std::vector<int64_t>>> batches() override {
      return std::vector<std::vector<int64_t>>{{4, 1}, {2}};
    }
    int64_t size() const override { return 2; }
  };
  const auto sum = [](std::vector<data::Sample> examples) -> absl::StatusOr<data::Sample> {
    int64_t total = 0;
    for (const auto& example : examples) total += example[0].second.item<int64_t>();
    return data::Sample{{"x", Array::Of<int64_t>({1}, {total})}};
  };
  data::DataLoader loader(
      Numbers(5),
      {.batch_sampler = std::make_shared<Pairs>(), .num_workers = 1, .collate_fn = sum});
  EXPECT_THAT(Pass(loader), ElementsAre(ElementsAre(5), ElementsAre(2)));
}

TEST(DataLoader, ErrorOfAnExampleComesInItsPlaceWithItsIndex) {
  for (const int workers : {0, 3}) {
    data::DataLoader loader(Numbers(20,
                                    [](int64_t i) -> absl::StatusOr<data::Sample> {
                                      if (i == 9) return absl::DataLossError("JPEG is corrupt");
                                      return Number(i);
                                    }),
                            {.batch_size = 2, .num_workers = workers});
    EXPECT_EQ(Pass(loader).size(), 4u);
    EXPECT_EQ(loader.status(), absl::DataLossError("dataset, get(9): JPEG is corrupt"));
  }
}

TEST(DataLoader, ExceptionsOfADatasetAreErrors) {
  data::DataLoader loader(
      Numbers(4,
              [](int64_t) -> absl::StatusOr<data::Sample> { throw std::runtime_error("broken"); }),
      {.num_workers = 2});
  EXPECT_TRUE(Pass(loader).empty());
  EXPECT_THAT(loader.status().message(), AllOf(HasSubstr("get(0)"), HasSubstr("broken")));
}

// As in PyTorch, whose samplers ask for the length at each pass.
TEST(DataLoader, PassesFollowADatasetThatGrowsAndShrinks) {
  struct Growing : data::Dataset {
    int64_t size() const override {
      if (examples < 0) throw std::runtime_error("no list of files");
      return examples;
    }
    absl::StatusOr<data::Sample> get(int64_t index) const override { return Number(index); }
    std::atomic<int64_t> examples = 0;
  };
  for (const bool shuffle : {false, true}) {
    const auto dataset = std::make_shared<Growing>();
    data::DataLoader loader(dataset, {.batch_size = 4, .shuffle = shuffle, .num_workers = 2});
    for (const int64_t examples : {5, 0, 3}) {
      dataset->examples = examples;
      EXPECT_EQ(loader.size(), (examples + 3) / 4);
      const auto batches = Pass(loader);
      EXPECT_TRUE(loader.status().ok()) << loader.status();
      EXPECT_EQ(batches.size(), static_cast<size_t>(loader.size())) << examples;
    }
    dataset->examples = -1;
    EXPECT_TRUE(Pass(loader).empty());
    EXPECT_THAT(loader.status().message(), HasSubstr("no list of files"));
  }
  // Shorter in the middle of a pass.
  const auto dataset = std::make_shared<Growing>();
  dataset->examples = 6;
  data::DataLoader loader(dataset, {.batch_size = 2});
  int batches = 0;
  for (const data::Sample& batch : loader) {
    EXPECT_FALSE(batch.empty());
    if (++batches == 2) dataset->examples = 3;
  }
  EXPECT_EQ(batches, 2);
  EXPECT_THAT(loader.status().message(), HasSubstr("index 4 is not in the dataset"));
}

TEST(DataLoader, ABatchLargerThanTheDatasetIsItsOnlyOneOrDropped) {
  for (const int workers : {0, 2}) {
    data::DataLoader all(Numbers(3), {.batch_size = 100, .num_workers = workers});
    EXPECT_THAT(Pass(all), ElementsAre(ElementsAre(0, 1, 2)));
    data::DataLoader none(Numbers(3),
                          {.batch_size = 100, .num_workers = workers, .drop_last = true});
    EXPECT_EQ(none.size(), 0);
    EXPECT_TRUE(Pass(none).empty());
    EXPECT_TRUE(none.status().ok());
  }
}

TEST(DataLoader, IndexThatTheDatasetLacksIsAnError) {
  data::DataLoader loader(Numbers(4), {.sampler = std::make_shared<data::SequentialSampler>(5)});
  EXPECT_EQ(Pass(loader).size(), 4u);
  EXPECT_EQ(loader.status().code(), absl::StatusCode::kOutOfRange);
}

TEST(DataLoader, RejectsOptionsThatExcludeEachOther) {
  const auto sampler = std::make_shared<data::SequentialSampler>(5);
  const auto message = [](data::DataLoaderOptions options) {
    data::DataLoader loader(Numbers(5), options);
    EXPECT_TRUE(Pass(loader).empty());
    return std::string(loader.status().message());
  };
  EXPECT_THAT(message({.shuffle = true, .sampler = sampler}), HasSubstr("exclude"));
  EXPECT_THAT(message({.batch_size = 3,
                       .batch_sampler = std::make_shared<data::BatchSampler>(sampler, 1, false)}),
              HasSubstr("batch_sampler excludes"));
  EXPECT_THAT(message({.batch_size = -2}), HasSubstr("-2"));
  EXPECT_THAT(message({.num_workers = -1}), HasSubstr("num_workers"));
  EXPECT_THAT(message({.num_workers = 1, .prefetch_factor = 0}), HasSubstr("prefetch_factor"));
  EXPECT_THAT(message({.collate_fn = nullptr}), HasSubstr("collate_fn"));
  data::DataLoader none(nullptr);
  EXPECT_TRUE(Pass(none).empty());
  EXPECT_THAT(none.status().message(), HasSubstr("null"));
}

TEST(DataLoader, AnAbandonedPassEndsItsThreads) {
  std::atomic<int> running = 0, calls = 0;
  {
    data::DataLoader loader(Numbers(1000,
                                    [&](int64_t i) {
                                      ++running;
                                      ++calls;
                                      const auto sample = Number(i);
                                      --running;
                                      return sample;
                                    }),
                            {.num_workers = 4});
    for (const data::Sample& batch : loader) {
      if (batch[0].second.item<int64_t>() == 3) break;
    }
    EXPECT_TRUE(loader.status().ok());
  }
  EXPECT_EQ(running, 0);
  EXPECT_LE(calls, 4 + 8 + 4);  // read, ahead, in work: backpressure
}

TEST(DataLoader, WaitingReaderIsCancelledWhenAnotherReplicaFails) {
  const auto replicas = std::make_shared<Replicas>(2, 3600);
  std::latch blocked(1), release(1);
  data::DataLoader loader(Numbers(4,
                                  [&](int64_t i) {
                                    blocked.count_down();
                                    release.wait();
                                    return Number(i);
                                  }),
                          {.batch_size = 1, .num_workers = 1});
  std::thread failing([&] {
    blocked.wait();
    replicas->Ended(1, absl::InternalError("x"));
    release.count_down();
  });
  {
    const ReplicaScope scope({.replicas = replicas, .ordinal = 0, .device = Device()});
    EXPECT_TRUE(Pass(loader).size() < 4u);
  }
  failing.join();
  EXPECT_EQ(loader.status(), absl::CancelledError("ordinal 1 failed: x"));
}

TEST(DataLoader, PipelineOfRoomDataIsReadEpochByEpoch) {
  data::DataLoader loader(::penstock::data::Dataset::Range(0, 10).Shuffle(10).Batch(4),
                          {.seed = 1});
  EXPECT_EQ(loader.size(), 3);
  const auto first = Pass(loader), second = Pass(loader);
  EXPECT_EQ(first.size(), 3u);
  EXPECT_NE(first, second);
  data::DataLoader again(::penstock::data::Dataset::Range(0, 10).Shuffle(10).Batch(4), {.seed = 1});
  EXPECT_EQ(first, Pass(again));
}

TEST(DataLoader, ErrorOfAPipelineEndsThePass) {
  data::DataLoader loader(::penstock::data::Dataset::FromTfRecords({"memory://none/x"}).Batch(4));
  EXPECT_TRUE(Pass(loader).empty());
  EXPECT_FALSE(loader.status().ok());
}

}  // namespace
}  // namespace data_loader_test
}  // namespace penstock::lazy
