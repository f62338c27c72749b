// User-defined code that throws: wherever it is called, the iterator returns an error that names
// the place, and neither hangs nor ends the process.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace exceptions_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadAll;
using ::testing::StartsWith;
using testing::TestSource;

// Throws at element 17, like faulty user-defined code.
using Throw = std::function<void()>;
void ThrowRuntimeError() { throw std::runtime_error("boom"); }
void ThrowInt() { throw 7; }
void ThrowBadAlloc() { throw std::bad_alloc(); }

int64_t X(const NamedArrays& in) { return in.Find("x")->item<int64_t>(); }

Dataset MapThat(const Dataset& dataset, Throw what) {
  return dataset.Map(
      [what](const NamedArrays& in, NamedArrays* out) {
        if (X(in) == 17) what();
        *out = in;
        return absl::OkStatus();
      },
      {.reads = {"x"}});
}

Dataset FilterThat(const Dataset& dataset, Throw what) {
  return dataset.Filter([what](const NamedArrays& in) {
    if (X(in) == 17) what();
    return true;
  });
}

Dataset ScanThat(const Dataset& dataset, Throw what) {
  return dataset.Scan({{"n", Array::Scalar<int64_t>(0)}},
                      [what](const NamedArrays& in, NamedArrays*, NamedArrays* out) {
                        if (X(in) == 17) what();
                        *out = in;
                        return absl::OkStatus();
                      },
                      {.reads = {"x"}});
}

absl::StatusOr<Dataset> OneRow(const NamedArrays& in) {
  return Dataset::FromArrays({{"x", Array::Of<int64_t>({1}, {X(in)})}});
}

DatasetFunction DatasetThat(Throw what) {
  return [what](const NamedArrays& in) {
    if (X(in) == 17) what();
    return OneRow(in);
  };
}

const ElementSpec kX = {{"x", DType::kI64, {}}};

Dataset FlatMapThat(const Dataset& dataset, Throw what) {
  return dataset.FlatMap(DatasetThat(what), {.makes = kX});
}

Dataset InterleaveThat(const Dataset& dataset, Throw what) {
  return dataset.Interleave(DatasetThat(what), {.makes = kX, .cycle_length = 3});
}

struct Case {
  std::string stage;
  std::function<Dataset(const Dataset&, Throw)> add;
};
const std::vector<Case> kPerElement = {{"Map", MapThat},
                                       {"Filter", FilterThat},
                                       {"Scan", ScanThat},
                                       {"FlatMap", FlatMapThat},
                                       {"Interleave", InterleaveThat}};

TEST(Exceptions, OfFunctionsNameElementStageAndException) {
  base::ThreadPool one(1), four(4);
  for (const Case& c : kPerElement) {
    for (base::ThreadPool* pool : {&one, &four}) {
      SCOPED_TRACE(c.stage);
      const Dataset dataset = c.add(TestSource({.rows = 100}), ThrowRuntimeError);
      for (const Dataset& d :
           {dataset, dataset.Batch(5), dataset.Prefetch(3), dataset.Shuffle(9)}) {
        const auto rows = ReadAll(d, {.pool = pool, .seed = 1});
        EXPECT_EQ(rows.status(), absl::InternalError("source:17: " + c.stage +
                                                     ": threw std::runtime_error: boom"));
      }
      const Dataset other = c.add(TestSource({.rows = 100}), ThrowInt);
      EXPECT_THAT(std::string(ReadAll(other, {.pool = pool}).status().message()),
                  HasSubstr("source:17: " + c.stage + ": threw a value of type int"));
    }
  }
}

TEST(Exceptions, LoseOneElementUnderIgnoreErrors) {
  for (const Case& c : kPerElement) {
    SCOPED_TRACE(c.stage);
    const auto rows = ReadAll(c.add(TestSource({.rows = 100}), ThrowRuntimeError).IgnoreErrors());
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->size(), 99);
  }
}

// Misuse of arrays is an error of the function, like any exception.
TEST(Exceptions, OfArrayMisuseNameElementAndStage) {
  const std::vector<std::pair<Throw, std::string>> mistakes = {
      {[] { Array::Scalar<int64_t>(3).data<float>(); }, "int64[] was accessed as float32"},
      {[] { Array::Zeros(DType::kF32, {2}).item<float>(); }, "this is float32[2]"},
      {[] { Array::Strings({}, {"x"}).item<int>(); }, "this is string[]"},
      {[] { Array::Zeros(DType::kF32, {2}).Row(2); }, "row 2 of float32[2] does not exist"},
      {[] { base::Shape().dim(0); }, "axis 0"},
      {[] { base::Random(1).Below(0); }, "Below(0)"}};
  for (const Case& c : kPerElement) {
    for (const auto& [mistake, message] : mistakes) {
      SCOPED_TRACE(c.stage + " " + message);
      const Dataset dataset = c.add(TestSource({.rows = 100}), mistake);
      const absl::Status status = ReadAll(dataset).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(StartsWith("source:17: " + c.stage + ": threw penstock::base::Contract"),
                        HasSubstr(message)));
      EXPECT_EQ(ReadAll(dataset.IgnoreErrors())->size(), 99);
    }
  }
}

TEST(Exceptions, OfExhaustedMemoryAreNotTheElementsFault) {
  for (const Case& c : kPerElement) {
    SCOPED_TRACE(c.stage);
    const auto rows = ReadAll(c.add(TestSource({.rows = 100}), ThrowBadAlloc).IgnoreErrors());
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kResourceExhausted) << rows.status();
    EXPECT_THAT(std::string(rows.status().message()),
                HasSubstr("source:17: " + c.stage + ": out of memory"));
  }
}

// The only thread of the pool is busy, so the reader runs the function itself.
TEST(Exceptions, AreCaughtInReadersThread) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false;
  base::ThreadPool pool(1);  // destroyed before the condition variable that its thread waits for
  pool.Schedule([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return go_on; });
  });
  for (const Case& c : kPerElement) {
    EXPECT_EQ(ReadAll(c.add(TestSource({.rows = 100}), ThrowRuntimeError), {.pool = &pool})
                  .status()
                  .code(),
              absl::StatusCode::kInternal);
  }
  const std::lock_guard lock(mutex);
  go_on = true;
  changed.notify_all();
}

TEST(Exceptions, OfGeneratorsNameGeneratorAndElement) {
  const auto make_throws = [](const GeneratorContext&) -> ElementGenerator {
    throw std::runtime_error("no file");
  };
  EXPECT_EQ(ReadAll(Dataset::FromGenerator(make_throws, kX)).status(),
            absl::InternalError("generator:0: FromGenerator: threw std::runtime_error: no file"));
  for (const Throw& what : {Throw(ThrowRuntimeError), Throw(ThrowInt), Throw(ThrowBadAlloc)}) {
    const auto make = [what](const GeneratorContext&) -> ElementGenerator {
      return [what, i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
        if (i == 5) what();
        element->Set("x", Array::Scalar<int64_t>(i++));
        return true;
      };
    };
    auto iterator = Dataset::FromGenerator(make, kX).MakeIterator();
    NamedArrays element;
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(*(*iterator)->Next(&element));
    const absl::Status status = (*iterator)->Next(&element).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("generator:5: FromGenerator: "));
    EXPECT_EQ((*iterator)->Next(&element).status(), status);
  }
}

TEST(Exceptions, OfOnSkippedEndTheIterator) {
  const Dataset dataset = MapThat(TestSource({.rows = 100}), ThrowRuntimeError).IgnoreErrors();
  const auto rows = ReadAll(dataset, {.on_skipped = [](const SkippedElement&) -> absl::Status {
                              throw std::runtime_error("no log");
                            }});
  EXPECT_EQ(rows.status(),
            absl::InternalError("IteratorOptions.on_skipped: threw std::runtime_error: no log"));
}

// ---- User-defined stages ----

class KernelThatThrows : public RowKernel {
 public:
  void Run(const RowsIn& in, RowsOut&) const override {
    if (in.first + in.rows > 17) throw std::runtime_error("boom");
  }
};

class RowStageThatThrows : public RowStage {
 public:
  absl::string_view name() const override { return "Own"; }
  std::string Parameters() const override { return ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return inputs[0];
  }
  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec&, const ElementSpec&) const override {
    return RowKernelBinding{
        .kernel = std::make_shared<KernelThatThrows>(), .reads = {0}, .passes = {0, 1, 2}};
  }
};

// A failed kernel may have computed any of the rows, so IgnoreErrors must not drop any of them.
TEST(Exceptions, OfAKernelEndTheIterator) {
  const Dataset own = TestSource({.rows = 100}).Then(std::make_shared<RowStageThatThrows>());
  for (const Dataset& d : {own, own.Batch(5), own.IgnoreErrors(), own.Batch(5).IgnoreErrors()}) {
    const absl::Status status = ReadAll(d).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(": Own: threw std::runtime_error: boom"));
  }
}

enum class Where { kNext, kAdvance, kJob };

class NodeThatThrows : public Node {
 public:
  NodeThatThrows(const NodeContext& context, Where where) : Node(context, nullptr), where_(where) {}

 protected:
  void DoAdvance() override {
    if (where_ == Where::kAdvance) ThrowRuntimeError();
  }
  absl::StatusOr<Poll> DoNext(int64_t, RowRefs*) override {
    if (where_ == Where::kNext) ThrowRuntimeError();
    if (where_ == Where::kJob && !began_) engine_.Compute([] { ThrowRuntimeError(); });
    began_ = true;
    return Poll::kPending;
  }

 private:
  const Where where_;
  bool began_ = false;
};

class StageThatThrows : public Stage {
 public:
  explicit StageThatThrows(Where where) : where_(where) {}
  absl::string_view name() const override { return "Own"; }
  std::string Parameters() const override { return ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    return kX;
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<NodeThatThrows>(context, where_);
  }

 private:
  const Where where_;
};

TEST(Exceptions, OfNodesOrTheirJobsEndIterator) {
  for (const Where where : {Where::kNext, Where::kAdvance, Where::kJob}) {
    const Dataset own = Dataset::From(std::make_shared<StageThatThrows>(where));
    for (const Dataset& d : {own, own.Batch(5), own.Prefetch(3).IgnoreErrors()}) {
      const absl::Status status = ReadAll(d).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("threw std::runtime_error: boom"));
    }
  }
}

}  // namespace exceptions_test
}  // namespace penstock::data
