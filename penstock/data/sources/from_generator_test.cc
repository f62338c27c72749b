#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"

namespace penstock::data {
namespace from_generator_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::PrintElement;
using testing::ReadAll;
using testing::ReadSome;

const ElementSpec kSpec = {{"x", DType::kI64, {}}, {"v", DType::kF32, {-1}}};

// Element i of an epoch; v has i % 3 values.
NamedArrays Element(int64_t epoch, int64_t i) {
  Array v = Array::Uninitialized(DType::kF32, {i % 3});
  for (int64_t k = 0; k < i % 3; ++k) v.mutable_data<float>()[k] = static_cast<float>(i + k);
  return {{"x", Array::Scalar<int64_t>(100 * epoch + i)}, {"v", std::move(v)}};
}

Dataset Count(int64_t n, GeneratorOptions options = {}) {
  return Dataset::FromGenerator(
      [n](const GeneratorContext& context) {
        return [n, epoch = context.epoch,
                i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
          if (i == n) return false;
          *element = Element(epoch, i++);
          return true;
        };
      },
      kSpec, std::move(options));
}

std::vector<std::string> Expected(int64_t n, int64_t epochs = 1) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < n * epochs; ++i) out.push_back(PrintElement(Element(i / n, i % n)));
  return out;
}

TEST(FromGenerator, CallsGeneratorInEachEpoch) {
  for (int64_t ahead : {1, 2, 100}) {
    const Dataset dataset = Count(30, {.read_ahead = ahead});
    EXPECT_EQ(dataset.spec(), kSpec);
    EXPECT_THAT(*ReadAll(dataset), ElementsAreArray(Expected(30)));
    EXPECT_THAT(*ReadAll(dataset, {.deterministic = false}), ElementsAreArray(Expected(30)));
    EXPECT_THAT(*ReadAll(dataset.Repeat(3)), ElementsAreArray(Expected(30, 3)));
  }
  EXPECT_THAT(*ReadAll(Count(0)), ElementsAreArray(Expected(0)));
}

TEST(FromGenerator, ContinuesAfterSkipAndCanBeDestroyedAnywhere) {
  const Dataset dataset = Count(9).Shuffle(4).Repeat(2);
  const auto all = *ReadAll(dataset, {.seed = 1});
  for (int64_t skip = 0; skip <= static_cast<int64_t>(all.size()); ++skip) {
    EXPECT_THAT(*ReadAll(dataset, {.seed = 1, .skip = skip}),
                ElementsAreArray(all.begin() + skip, all.end()));
    EXPECT_TRUE(ReadSome(dataset, skip).ok());
  }
}

TEST(FromGenerator, StopsAtReadAheadLimit) {
  auto made = std::make_shared<std::atomic<int64_t>>(0);
  const Dataset dataset = Dataset::FromGenerator(
      [made](const GeneratorContext&) {
        return [made](NamedArrays* element) -> absl::StatusOr<bool> {
          element->Set("x", Array::Scalar<int64_t>((*made)++));
          return true;
        };
      },
      {{"x", DType::kI64, {}}}, {.read_ahead = 4});
  auto iterator = dataset.Batch(2).MakeIterator();
  NamedArrays batch;
  for (int64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(*(*iterator)->Next(&batch));
    EXPECT_EQ(batch[0].second.data<int64_t>()[0], 2 * i);
    EXPECT_LE(*made, 2 * (i + 1) + 200);
  }
}

TEST(FromGenerator, ChecksElementsAgainstSpec) {
  const auto message = [](const NamedArrays& second) {
    const Dataset dataset = Dataset::FromGenerator(
        [second](const GeneratorContext&) {
          return [second, i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
            *element = i++ == 0 ? Element(0, 0) : second;
            return true;
          };
        },
        kSpec, {.name = "camera"});
    EXPECT_EQ(ReadSome(dataset, 1)->size(), 1);
    return std::string(ReadAll(dataset).status().message());
  };
  const Array x = Array::Scalar<int64_t>(1), v = Array::Of<float>({2}, {1, 2});
  EXPECT_EQ(message({{"x", Array::Scalar<int32_t>(1)}, {"v", v}}),
            "camera:1: FromGenerator: the generator should make x: int64[], but made int32[]");
  EXPECT_EQ(message({{"x", x}, {"v", Array::Scalar(1.f)}}),
            "camera:1: FromGenerator: the generator should make v: float32[?], but made float32[]");
  EXPECT_THAT(message({{"x", x}}), HasSubstr("but made no such column, only {x: int64[]}"));
  EXPECT_THAT(message({{"x", x}, {"v", v}, {"w", v}}), HasSubstr("w: float32[2]}"));
  EXPECT_THAT(message({{"x", Array()}, {"v", v}}), HasSubstr("camera:1: "));
  // The order of columns does not matter.
  const Dataset dataset = Dataset::FromGenerator(
      [&](const GeneratorContext&) {
        return [v, x, left = 1](NamedArrays* element) mutable -> absl::StatusOr<bool> {
          *element = {{"v", v}, {"x", x}};
          return left-- > 0;
        };
      },
      kSpec);
  EXPECT_THAT(*ReadAll(dataset), ElementsAreArray({PrintElement({{"x", x}, {"v", v}})}));
}

TEST(FromGenerator, ForwardsErrorOfFunction) {
  const Dataset dataset = Dataset::FromGenerator(
      [](const GeneratorContext&) {
        return [i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
          if (i == 5) return absl::UnavailableError("the camera was unplugged");
          *element = Element(0, i++);
          return true;
        };
      },
      kSpec);
  EXPECT_EQ(ReadSome(dataset, 5)->size(), 5);
  const auto got = ReadAll(dataset);
  EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(got.status().message(), "generator:5: FromGenerator: the camera was unplugged");
  const Dataset none =
      Dataset::FromGenerator([](const GeneratorContext&) { return ElementGenerator(); }, kSpec);
  EXPECT_THAT(std::string(ReadAll(none).status().message()), HasSubstr("returned no generator"));
}

// A generator that blocks until the test releases elements.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t open = 0;
  bool waited = false;

  void Let(int64_t elements) {
    std::lock_guard lock(mutex);
    open += elements;
    changed.notify_all();
  }
};

TEST(FromGenerator, ReturnsElementWhileNextBlocks) {
  const auto gate = std::make_shared<Gate>();
  const Dataset dataset = Dataset::FromGenerator(
      [gate](const GeneratorContext&) {
        return [gate, i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
          std::unique_lock lock(gate->mutex);
          gate->changed.wait(lock, [&] { return gate->open > i; });
          *element = Element(0, i++);
          return true;
        };
      },
      kSpec);
  // The pool's only thread must not be the one that blocks.
  base::ThreadPool pool(1);
  auto iterator = dataset.MakeIterator({.pool = &pool});
  NamedArrays element;
  for (int64_t i = 0; i < 5; ++i) {
    gate->Let(1);
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(PrintElement(element), PrintElement(Element(0, i)));
  }
  gate->Let(100);
}

TEST(FromGenerator, IsNotifiedOfCancellation) {
  const auto gate = std::make_shared<Gate>();
  const Dataset dataset = Dataset::FromGenerator(
      [gate](const GeneratorContext& context) {
        return [gate, cancelled = context.cancelled](NamedArrays*) -> absl::StatusOr<bool> {
          {
            std::lock_guard lock(gate->mutex);
            gate->waited = true;
            gate->changed.notify_all();
          }
          while (!cancelled()) std::this_thread::yield();
          return absl::CancelledError("nobody waits");
        };
      },
      kSpec);
  auto iterator = dataset.MakeIterator();
  {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->waited; });
  }
  iterator->reset();  // must not hang
}

TEST(FromGenerator, RejectsInvalidParameters) {
  const MakeGenerator make = [](const GeneratorContext&) { return ElementGenerator(); };
  EXPECT_FALSE(Dataset::FromGenerator(nullptr, kSpec).status().ok());
  EXPECT_FALSE(Dataset::FromGenerator(make, {}).status().ok());
  EXPECT_FALSE(Dataset::FromGenerator(make, kSpec, {.read_ahead = 0}).status().ok());
  EXPECT_FALSE(Dataset::FromGenerator(make, {{"x", DType::kF4, {2}}}).status().ok());
  EXPECT_FALSE(
      Dataset::FromGenerator(make, {{"x", DType::kF32, {1, 1, 1, 1, 1, 1, 1, 1}}}).status().ok());
}

}  // namespace from_generator_test
}  // namespace penstock::data
