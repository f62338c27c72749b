// Threads that use a session in every way at once, and feeds of every type and shape: results or errors, nothing else.
#include <atomic>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/testing/sanitized.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/data.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/saver.h"

namespace penstock::session {
namespace hostile_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class HostileTest : public testing::Test {
 protected:
  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  Session session_{"", {.client = runtime::TestClient(1)}};
};

TEST_F(HostileTest, ThreadsRunSaveRestoreAndCloseAtOnce) {
  const Variable w(Array::Of<float>({3}, {0, 0, 0}), "w");
  const Variable count(Array::Scalar<int64_t>(0), "count", {.trainable = false});
  const Tensor x = Placeholder(DType::kF32, {-1, 3}, "x");
  const Iterator iterator = MakeOneShotIterator(data::Dataset::Range(0, 1 << 30));
  const Element element = iterator.GetNext();
  const Operation step = Group({Operation(AssignAdd(w, ReduceMean(x, {0}))),
                                Operation(AssignAdd(count, Constant(Array::Scalar<int64_t>(1))))});
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  ASSERT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const std::string prefix = "memory://bucket/run/model.ckpt";
  {
    train::Saver saver(train::SaverOptions{.file_system = fs});
    ASSERT_TRUE(saver.Save(session_, prefix, 0).ok());
  }
  const auto rows = [](int64_t n) { return Array::Zeros(DType::kF32, {n, 3}); };
  std::atomic<bool> closed{false};
  const auto check = [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok() || (closed && absl::StrContains(status.message(), "is closed")))
        << status;
  };
  const std::vector<std::function<void(int)>> ways = {
      [&](int i) {
        check(session_.Run(step, {{x, rows(1 + i % 3)}}));
      },
      [&](int) {
        check(session_.RunLoop(3, {step, w}, {{x, rows(2)}}).status());
      },
      [&](int) { check(session_.Run(Fetches{element[0]}).status()); },
      [&](int) {
        auto callable = session_.MakeCallable({w, count}, {});
        check(callable.status());
        if (callable.ok()) check((*callable)({}).status());
      },
      [&](int i) {
        train::Saver saver(train::SaverOptions{.file_system = fs});
        check(saver.Save(session_, absl::StrCat(prefix, "-own"), i).status());
      },
      [&](int) {
        const train::Saver saver(train::SaverOptions{.file_system = fs});
        check(saver.Restore(session_, prefix + "-0"));
      },
      [&](int) {
        check(session_.GetVariableValue("w").status());
        check(session_.SetVariableValue("w", Array::Of<float>({3}, {1, 2, 3})));
      },
      [&](int) {
        const auto position = session_.IteratorPosition(iterator);
        check(position.status());
        if (position.ok()) check(session_.SetIteratorPosition(iterator, *position));
      },
  };
  const int rounds = static_cast<int>(base::FewerIfSanitized(60));
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (const auto& way : ways) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        way(i);
        ++done;
      }
    });
  }
  threads.emplace_back([&] {
    while (done < rounds * 2) std::this_thread::yield();
    closed = true;
    session_.Close();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session_.Run(step).message(), "the session is closed");
}

constexpr DType kTypes[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,   DType::kI64,
                            DType::kU8,   DType::kU16, DType::kU32, DType::kU64,   DType::kF16,
                            DType::kBF16, DType::kF32, DType::kF64, DType::kString};

// Numbers that other types lack: rounded or wrapped as Array::Cast does it.
TEST_F(HostileTest, FeedsOfEachTypeToEachType) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Array extremes =
      Array::Of<double>({8}, {0, -1, 1.5, 1e300, -1e300, kInfinity, -kInfinity, std::nan("")});
  for (const DType to : kTypes) {
    if (to == DType::kString) continue;
    const Tensor x = Placeholder(to, {-1}, "x");
    const Tensor y = Identity(Reshape(x, {-1, 1}));
    for (const DType from : kTypes) {
      SCOPED_TRACE(absl::StrCat(base::DTypeName(from), " to ", base::DTypeName(to)));
      const absl::StatusOr<Array> feed =
          from == DType::kString ? Array::Strings({2}, {"a", "b"}) : extremes.Cast(from);
      ASSERT_TRUE(feed.ok()) << feed.status();
      const absl::StatusOr<Array> got = session_.Run(y, {{x, *feed}});
      if (from == DType::kString) {
        EXPECT_THAT(std::string(got.status().message()), HasSubstr("devices have numbers only"));
        continue;
      }
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->dtype(), to);
      EXPECT_EQ(got->shape(), base::Shape({8, 1}));
      EXPECT_TRUE(base::BitwiseEqual(got->Reshape({8}).value(), feed->Cast(to).value()));
    }
  }
}

TEST_F(HostileTest, FeedsOfEachShapeToEachShape) {
  const std::vector<PartialShape> shapes = {PartialShape(), {},     {-1},       {3},
                                            {-1, 2},        {2, 3}, {-1, -1, 1}};
  const std::vector<base::Shape> fed = {{},     {0},    {1},       {3},      {0, 2},
                                        {2, 3}, {2, 2}, {1, 1, 1}, {0, 5, 1}};
  for (const PartialShape& shape : shapes) {
    const Tensor x = Placeholder(DType::kF32, shape, "x");
    const Tensor sum = ReduceSum(x);
    for (const base::Shape& dims : fed) {
      SCOPED_TRACE(absl::StrCat(dims.ToString(), " to ", shape.ToString()));
      const absl::StatusOr<Array> got = session_.Run(sum, {{x, Array::Zeros(DType::kF32, dims)}});
      EXPECT_EQ(got.ok(), shape.IsCompatibleWith(dims)) << got.status();
      if (got.ok()) {
        EXPECT_EQ(got->item<float>(), 0);
      } else {
        EXPECT_THAT(std::string(got.status().message()), HasSubstr("has the shape"));
      }
    }
  }
}

}  // namespace
}  // namespace hostile_test
}  // namespace penstock::session
