#include "penstock/data/engine/tuner.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/stage.h"

namespace penstock::data {
namespace tuner_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBudget = 1000;

// Fixture: a pipeline of one stage; the test specifies what happens in each second.
class TunerTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Knob> Add(KnobOptions options) {
    return tuner_.Get("Source(a)", counters_, memory_, options);
  }
  static KnobOptions Reads() { return {.what = "files", .initial = 8, .min = 1, .max = 32}; }
  static KnobOptions Bytes() {
    return {.what = "elements ready",
            .evidence = KnobOptions::kQueueFull,
            .initial = 2,
            .min = 1,
            .max = 8};
  }

  struct Second {
    double reader_waits = 0;
    double stage_waits = 0;
    bool full = false;
    int64_t elements = 100;
  };
  void Run(Second second) {
    moment_.now += 1;
    moment_.reader_wait_seconds += second.reader_waits;
    moment_.elements += second.elements;
    StageCounters::AddSeconds(counters_.wait_input_ns, second.stage_waits);
    counters_.full += second.full ? 1 : 0;
    tuner_.Tick(moment_);
  }

  const std::shared_ptr<MemoryBudget> budget_ = MemoryBudget::Make(kBudget, "the test");
  MemoryAccount* const memory_ = budget_->Open("Source(a)");
  StageCounters counters_;
  Tuner tuner_{budget_};
  Tuner::Moment moment_;
};

TEST_F(TunerTest, RaisesKnobWhenStageAndReaderWait) {
  const auto reads = Add(Reads());
  tuner_.Tick(moment_);
  Run({.reader_waits = 0.5, .stage_waits = 0.4});
  EXPECT_EQ(reads->value(), 16);
  EXPECT_THAT(tuner_.Decisions(),
              ElementsAre("1.0 s: Source(a): 8 -> 16 files, because the reader waited 50 % of the "
                          "time, and this stage waited for its input 40 %"));
  // Throughput improved, so the knob is raised again, up to its maximum.
  for (int i = 0; i < 10; ++i) {
    Run({.reader_waits = 0.5, .stage_waits = 0.4, .elements = 200 + 100 * i});
  }
  EXPECT_EQ(reads->value(), 32);
}

TEST_F(TunerTest, DoesNotChangePipelineThatKeepsUp) {
  const auto reads = Add(Reads());
  tuner_.Tick(moment_);
  Run({.reader_waits = 0.01, .stage_waits = 0.9});  // the reader is the bottleneck
  Run({.reader_waits = 0.9, .stage_waits = 0.01});  // another stage is the bottleneck
  EXPECT_EQ(reads->value(), 8);
  EXPECT_THAT(tuner_.Decisions(), IsEmpty());
}

TEST_F(TunerTest, RevertsKnobWithoutGainAndCoolsDown) {
  const auto reads = Add(Reads());
  tuner_.Tick(moment_);
  const Second same = {.reader_waits = 0.5, .stage_waits = 0.4};
  Run(same);
  EXPECT_EQ(reads->value(), 16);
  Run(same);  // this interval includes work from before the change
  EXPECT_EQ(reads->value(), 16);
  Run(same);
  EXPECT_EQ(reads->value(), 8);
  EXPECT_THAT(tuner_.Decisions().back(),
              HasSubstr("16 -> 8 files, because more did not help (100 elements/s, 100 before)"));
  Run(same);
  EXPECT_EQ(reads->value(), 8);
  int64_t max_reads = 0;
  for (int i = 0; i < 10; ++i) {
    Run(same);
    max_reads = std::max(max_reads, reads->value());
  }
  EXPECT_EQ(max_reads, 16);  // retried later, because conditions of the storage may have changed
  EXPECT_LT(tuner_.Decisions().size(), 7u);
}

TEST_F(TunerTest, RaisesPrefetchOfQueueThatWasFullAndEmpty) {
  const auto ready = Add(Bytes());
  tuner_.Tick(moment_);
  Run({.reader_waits = 0.3, .stage_waits = 0.3});
  EXPECT_EQ(ready->value(), 2);  // never full, so capacity is not the limit
  Run({.reader_waits = 0.3, .stage_waits = 0.3, .full = true});
  EXPECT_EQ(ready->value(), 4);
  EXPECT_THAT(tuner_.Decisions().back(), HasSubstr("had been full"));
}

TEST_F(TunerTest, HalvesLargestKnobWhenMemoryIsShort) {
  const auto reads = Add(Reads());
  StageCounters other;
  MemoryAccount* const small = budget_->Open("Prefetch(auto)");
  const auto ready = tuner_.Get("Prefetch(auto)", other, small, Bytes());
  const MemoryCharge held(memory_, 700), more(small, 290);
  tuner_.Tick(moment_);
  Run({.reader_waits = 0.5, .stage_waits = 0.9});
  EXPECT_EQ(reads->value(), 4);
  EXPECT_EQ(ready->value(), 2);
  EXPECT_THAT(tuner_.Decisions().back(), AllOf(HasSubstr("Source(a): 8 -> 4 files"),
                                               HasSubstr("990 bytes of 1000 bytes are used")));
  for (int i = 0; i < 9; ++i) Run({.reader_waits = 0.5, .stage_waits = 0.9, .full = true});
  EXPECT_EQ(reads->value(), 1);  // the minimum
  EXPECT_EQ(ready->value(), 1);
}

TEST_F(TunerTest, DoesNotRaiseKnobBeyondBudget) {
  const auto reads = Add(Reads());
  const MemoryCharge held(memory_, 600);
  tuner_.Tick(moment_);
  Run({.reader_waits = 0.9, .stage_waits = 0.9});
  EXPECT_EQ(reads->value(), 8);
}

TEST_F(TunerTest, KeepsKnobValueForNextPass) {
  const auto reads = Add(Reads());
  tuner_.Tick(moment_);
  Run({.reader_waits = 0.5, .stage_waits = 0.4});
  EXPECT_EQ(Add(Reads())->value(), 16);
  EXPECT_EQ(Add(Bytes())->value(), 2);
}

TEST_F(TunerTest, WaitsForEnoughElements) {
  const auto reads = Add(Reads());
  tuner_.Tick(moment_);
  Run({.reader_waits = 1, .stage_waits = 1, .elements = 1});
  EXPECT_EQ(reads->value(), 8);
  Run({.reader_waits = 1, .stage_waits = 1, .elements = 0});  // an idle interval counts as well
  EXPECT_EQ(reads->value(), 16);
}

}  // namespace tuner_test
}  // namespace penstock::data
