// Windows of time series, beside the indices of Keras's documentation.
#include "penstock/keras/timeseries.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/iterator.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace timeseries_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 0, 1, 2...
Array Steps(int64_t count) {
  Array steps = Array::Uninitialized(DType::kI64, {count});
  for (int64_t i = 0; i < count; ++i) steps.mutable_data<int64_t>()[i] = i;
  return steps;
}

// The numbers of column `x` of each element: "0 2 4", and " -> 7" for that of `y`.
std::vector<std::string> Windows(const absl::StatusOr<data::Dataset>& dataset, int64_t epochs = 1) {
  PENSTOCK_CHECK_OK(dataset.status());
  const auto iterator = *dataset->Repeat(epochs).MakeIterator({.seed = 1});
  std::vector<std::string> windows;
  base::NamedArrays element;
  while (*iterator->Next(&element)) {
    const Array x = *element.Find("x")->Cast(DType::kF64);
    std::string text = absl::StrJoin(x.values<double>(), " ");
    if (const Array* y = element.Find("y"); y != nullptr)
      absl::StrAppend(&text, " -> ", y->item<double>());
    windows.push_back(text);
  }
  return windows;
}

TEST(Timeseries, HasTheIndicesOfKerassFirstExample) {
  const auto windows = Windows(TimeseriesDatasetFromArray(
      Steps(99), {},
      {.sequence_length = 10, .sequence_stride = 3, .sampling_rate = 2, .batch_size = {}}));
  ASSERT_EQ(windows.size(), 27u);
  EXPECT_EQ(windows[0], "0 2 4 6 8 10 12 14 16 18");
  EXPECT_EQ(windows[1], "3 5 7 9 11 13 15 17 19 21");
  EXPECT_EQ(windows.back(), "78 80 82 84 86 88 90 92 94 96");
}

TEST(Timeseries, TargetsBelongToTheFirstStep) {
  const Array data = Steps(20);
  EXPECT_THAT(Windows(TimeseriesDatasetFromArray(data, data.Slice(3, 7),
                                                 {.sequence_length = 3, .batch_size = {}})),
              ElementsAre("0 1 2 -> 3", "1 2 3 -> 4", "2 3 4 -> 5", "3 4 5 -> 6"));
  // As keras.utils.timeseries_dataset_from_array(np.arange(20), np.arange(20) + 100, 3,
  // sampling_rate=2, start_index=4, end_index=10, batch_size=None).
  EXPECT_THAT(Windows(TimeseriesDatasetFromArray(data, Steps(120).Slice(100, 120),
                                                 {.sequence_length = 3,
                                                  .sampling_rate = 2,
                                                  .batch_size = {},
                                                  .start_index = 4,
                                                  .end_index = 10})),
              ElementsAre("4 6 8 -> 104", "5 7 9 -> 105"));
}

TEST(Timeseries, BatchesWindowsOfRows) {
  const Array rows = Array::Of<float>({4, 2}, {0, 10, 1, 11, 2, 12, 3, 13});
  const auto dataset =
      TimeseriesDatasetFromArray(rows, {}, {.sequence_length = 2, .batch_size = 2});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->spec().ToString(), "{x: float32[?,2,2]}");
  EXPECT_EQ(*dataset->Cardinality({}), 2);
  EXPECT_THAT(Windows(dataset), ElementsAre("0 10 1 11 1 11 2 12", "2 12 3 13"));
}

TEST(Timeseries, ShufflesAllWindowsInEachEpoch) {
  const auto shuffled = Windows(
      TimeseriesDatasetFromArray(
          Steps(60), {}, {.sequence_length = 2, .batch_size = {}, .shuffle = true, .seed = 5}),
      /*epochs=*/2);
  const auto in_order =
      Windows(TimeseriesDatasetFromArray(Steps(60), {}, {.sequence_length = 2, .batch_size = {}}));
  ASSERT_EQ(shuffled.size(), 2 * in_order.size());
  const auto middle = shuffled.begin() + static_cast<int64_t>(in_order.size());
  const std::multiset<std::string> all(in_order.begin(), in_order.end());
  EXPECT_EQ(std::multiset<std::string>(shuffled.begin(), middle), all);
  EXPECT_EQ(std::multiset<std::string>(middle, shuffled.end()), all);
  EXPECT_NE(std::vector<std::string>(shuffled.begin(), middle), in_order);
  EXPECT_NE(std::vector<std::string>(shuffled.begin(), middle),
            std::vector<std::string>(middle, shuffled.end()));
}

TEST(Timeseries, TrainsAModel) {
  Array series = Array::Uninitialized(DType::kF32, {40, 1});
  for (int64_t i = 0; i < 40; ++i) series.mutable_data<float>()[i] = i % 2 == 0 ? 1 : -1;
  const auto train = TimeseriesDatasetFromArray(
      series, series.Slice(4, 40), {.sequence_length = 4, .batch_size = 8, .shuffle = true});
  ASSERT_TRUE(train.ok()) << train.status();
  Model model = Sequential({Input({.shape = {4, 1}}), Flatten(), Dense({.units = 1})});
  ASSERT_TRUE(model
                  .Compile({.optimizer = SGD({.learning_rate = 0.1}),
                            .loss = "mse",
                            .client = runtime::TestClient(1)})
                  .ok());
  const auto history = model.Fit(*train, {.epochs = 10, .verbose = 0});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_LT((*history)["loss"].back(), 0.01);
}

// A run that failed within an epoch and is started again has the weights of an uninterrupted one.
TEST(Timeseries, ResumesWithinAnEpoch) {
  Array series = Array::Uninitialized(DType::kF32, {40, 1});
  for (int64_t i = 0; i < 40; ++i) series.mutable_data<float>()[i] = static_cast<float>(i % 7);
  const auto fs = io::MakeMemoryFileSystem();
  const auto run = [&](const std::string& to, int64_t fail_at) -> absl::StatusOr<Array> {
    PENSTOCK_ASSIGN_OR_RETURN(
        const data::Dataset windows,
        TimeseriesDatasetFromArray(series, series.Slice(4, 40),
                                   {.sequence_length = 4, .batch_size = 5, .shuffle = true}));
    Model model = Sequential({Input({.shape = {4, 1}}), Flatten(), Dense({.units = 1})});
    PENSTOCK_RETURN_IF_ERROR(model.Compile(
        {.optimizer = Adam(), .loss = "mse", .client = runtime::TestClient(1), .seed = 3}));
    int64_t batches = 0;
    const auto fails =
        LambdaCallback({.on_train_batch_end = [&](train::TrainingContext&, const train::Position&,
                                                  const train::Logs&) {
          return ++batches == fail_at ? absl::AbortedError("stopped") : absl::OkStatus();
        }});
    PENSTOCK_RETURN_IF_ERROR(
        model
            .Fit(windows,
                 {.epochs = 3,
                  .verbose = 0,
                  .callbacks = {Checkpoint({.folder = to, .every_steps = 2, .file_system = fs}),
                                fails}})
            .status());
    return model.Predict(series.Slice(0, 4).Reshape({1, 4, 1}).value());
  };
  const auto whole = run("memory://whole", -1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto failed = run("memory://parts", 11);
  ASSERT_TRUE(absl::IsAborted(failed.status())) << failed.status();
  const auto resumed = run("memory://parts", -1);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(base::BitwiseEqual(*whole, *resumed)) << *whole << " " << *resumed;
}

TEST(Timeseries, RejectsWhatMakesNoWindow) {
  const auto error = [](const TimeseriesOptions& options, const Array& targets = {}) {
    return std::string(TimeseriesDatasetFromArray(Steps(10), targets, options).status().message());
  };
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(error({}), HasSubstr("sequence_length must be at least 1, got 0"));
  EXPECT_THAT(error({.sequence_length = 11}), HasSubstr("no window of 11 steps"));
  EXPECT_THAT(error({.sequence_length = kHuge, .sampling_rate = 10}), HasSubstr("no window"));
  EXPECT_THAT(error({.sequence_length = 2, .sequence_stride = 0}), HasSubstr("sequence_stride"));
  EXPECT_THAT(error({.sequence_length = 2, .sampling_rate = 11}), HasSubstr("sampling_rate"));
  EXPECT_THAT(error({.sequence_length = 2, .batch_size = 0}), HasSubstr("batch_size"));
  EXPECT_THAT(error({.sequence_length = 2, .start_index = -1}), HasSubstr("start_index"));
  EXPECT_THAT(error({.sequence_length = 2, .start_index = 5, .end_index = 4}),
              HasSubstr("end_index"));
  EXPECT_THAT(error({.sequence_length = 2, .end_index = 11}), HasSubstr("end_index"));
  EXPECT_THAT(error({.sequence_length = 2, .start_index = 5}, Steps(5)),
              HasSubstr("with targets of 5 steps"));
  EXPECT_THAT(error({.sequence_length = 2}, Array::Scalar(1.0f)), HasSubstr("targets"));
  EXPECT_EQ(error({.sequence_length = 10, .sequence_stride = kHuge}), "");
  EXPECT_THAT(
      std::string(
          TimeseriesDatasetFromArray(Steps(0), {}, {.sequence_length = 1}).status().message()),
      HasSubstr("data has no steps, int64[0]"));
  // Windows and batches add axes.
  const auto deep_error = [](const base::Shape& shape, std::optional<int64_t> batch) {
    const TimeseriesOptions options = {.sequence_length = 2, .batch_size = batch};
    return std::string(TimeseriesDatasetFromArray(Array::Zeros(DType::kF32, shape), {}, options)
                           .status()
                           .message());
  };
  EXPECT_THAT(deep_error({4, 1, 1, 1, 1, 1, 1, 1}, std::nullopt),
              HasSubstr("data has too many axes, 8"));
  EXPECT_THAT(deep_error({4, 1, 1, 1, 1, 1, 1}, 2), HasSubstr("data has too many axes, 7"));
  EXPECT_EQ(deep_error({4, 1, 1, 1, 1, 1, 1}, std::nullopt), "");
}

}  // namespace timeseries_test
}  // namespace penstock::keras
