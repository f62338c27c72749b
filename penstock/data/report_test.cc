#include "penstock/data/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace report_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TestSource;

// Ten seconds of a pipeline: a source, a parser, and a decoder fused into a batch, on 4 threads.
std::vector<StageStats> Stages() {
  return {{.stage = "FromTfRecords(a)",
           .elements = 1000,
           .busy_seconds = 3,
           .work = StageWork::kIo,
           .parallelism = 8},
          {.stage = "ParseExample()",
           .inside_next = true,
           .elements = 1000,
           .busy_seconds = 1,
           .work = StageWork::kCompute,
           .parallelism = 4,
           .inputs = {0}},
          {.stage = "DecodeImage()",
           .inside_next = true,
           .elements = 1000,
           .busy_seconds = 2,
           .work = StageWork::kCompute,
           .parallelism = 4,
           .inputs = {1}},
          {.stage = "Batch(10)",
           .elements = 100,
           .busy_seconds = 1,
           .work = StageWork::kCompute,
           .parallelism = 4,
           .prefetch_limit = 3,
           .prefetch_unit = "batches",
           .memory_bytes = 3 << 20,
           .inputs = {2}}};
}

TEST(BottleneckTest, IsNoneWhenReaderHardlyWaits) {
  EXPECT_EQ(Bottleneck(Stages(), 10, 0.4), std::nullopt);
  EXPECT_EQ(Bottleneck({}, 10, 9), std::nullopt);
}

TEST(BottleneckTest, IsSourceWhenReadsAreTheBottleneck) {
  auto stages = Stages();
  stages[0].wait_input_seconds = 9;
  stages[3].wait_input_seconds = 9.5;  // only a consequence
  EXPECT_EQ(Bottleneck(stages, 10, 9), 0u);
}

TEST(BottleneckTest, IsStageThatUsesMostOfBusyPool) {
  auto stages = Stages();
  stages[2].busy_seconds = 30;  // together with 2 s of other stages, of 40 thread-seconds
  stages[0].wait_input_seconds = 5;
  EXPECT_EQ(Bottleneck(stages, 10, 9), 2u);
}

// Only 12 of 40 thread-seconds, but one thread is fully busy.
TEST(BottleneckTest, IsBusyStageOfOneThread) {
  auto stages = Stages();
  stages[2].busy_seconds = 12;
  stages.push_back({.stage = "Scan(f)",
                    .busy_seconds = 9.8,
                    .work = StageWork::kCompute,
                    .parallelism = 1,
                    .inputs = {3}});
  EXPECT_EQ(Bottleneck(stages, 10, 9), 4u);
  stages[4] = {.stage = "Shuffle(10)", .busy_seconds = 9.8, .inputs = {3}};  // the driving thread
  EXPECT_EQ(Bottleneck(stages, 10, 9), 4u);
}

// An hour without a wait, then ten seconds in which decoding is the bottleneck.
TEST(ReportTest, SinceShowsWhatHasChanged) {
  PipelineReport before{.stages = Stages(), .seconds = 3600, .reader_wait_seconds = 1};
  PipelineReport now = before;
  now.seconds += 10;
  now.reader_wait_seconds += 8;
  now.stages[2].busy_seconds += 39;
  now.stages[2].elements += 100;
  EXPECT_EQ(Bottleneck(now.stages, now.seconds, now.reader_wait_seconds), std::nullopt);
  const PipelineReport recent = ReportSince(now, before);
  EXPECT_EQ(recent.seconds, 10);
  EXPECT_EQ(recent.stages[2].elements, 100);
  EXPECT_EQ(Bottleneck(recent.stages, recent.seconds, recent.reader_wait_seconds), 2u);
  // Another iterator: less time, fewer elements, other stages.
  EXPECT_EQ(ReportSince(before, now).seconds, 3600);
  before.stages[1].elements = 5000;
  EXPECT_EQ(ReportSince(now, before).seconds, 3610);
  before.stages.pop_back();
  EXPECT_EQ(ReportSince(now, before).seconds, 3610);
}

TEST(ReportTest, TableMarksBottleneckAndListsDecisions) {
  auto stages = Stages();
  stages[0].wait_input_seconds = 9;
  const std::string table = Table({.stages = stages,
                                   .seconds = 10,
                                   .reader_wait_seconds = 8,
                                   .memory_budget_bytes = 1 << 30,
                                   .memory_bytes = 4 << 20,
                                   .peak_memory_bytes = 5 << 20,
                                   .decisions = {"3.0 s: more files"}});
  EXPECT_THAT(table, AllOf(HasSubstr("the reader waited 80 % of the time"), HasSubstr("4.0 MiB"),
                           HasSubstr("1.0 GiB"), HasSubstr("\n> FromTfRecords(a) "),
                           HasSubstr("\n    DecodeImage() "), HasSubstr("2 ms"),
                           HasSubstr("3 batches"), HasSubstr("3.0 s: more files")))
      << table;
}

TEST(ReportTest, DotColorsBottleneckAndFollowsDataFlow) {
  auto stages = Stages();
  stages[0].wait_input_seconds = 9;
  const std::string dot = Dot({.stages = stages, .seconds = 10, .reader_wait_seconds = 8});
  EXPECT_THAT(dot, AllOf(HasSubstr("digraph"), HasSubstr("s0 -> s1;"), HasSubstr("s2 -> s3;")));
  const size_t colored = dot.find("fillcolor");
  ASSERT_NE(colored, std::string::npos);
  EXPECT_LT(colored, dot.find("s1 ["));
  EXPECT_EQ(dot.find("fillcolor", colored + 1), std::string::npos);
}

TEST(ReportTest, EscapesLabels) { EXPECT_EQ(DotQuoted("a \"b\" c\\d\n"), "a \\\"b\\\" c\\\\d\\n"); }

// The report of a running iterator lists every stage with its inputs.
TEST(ReportTest, ReportsRunningPipeline) {
  const Dataset dataset =
      Dataset::Zip({TestSource({.rows = 40}).Shuffle(5), Dataset::Range(0, 40)}).Batch(4);
  auto iterator = dataset.MakeIterator({.seed = 1});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  base::NamedArrays batch;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE((*iterator)->Next(&batch).ok());
  const PipelineReport report = (*iterator)->Report();
  ASSERT_EQ(report.stages.size(), 5u);
  EXPECT_EQ(report.stages[3].stage, "Zip()");
  EXPECT_THAT(report.stages[3].inputs, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(report.stages[4].elements, 10);
  EXPECT_EQ(report.stages[4].work, StageWork::kCompute);
  EXPECT_GT(report.memory_budget_bytes, 0);
  EXPECT_GT(report.peak_memory_bytes, 0);
  EXPECT_THAT((*iterator)->Table(), AllOf(HasSubstr("  Shuffle(5)"), HasSubstr("Batch(4)")));
  EXPECT_THAT((*iterator)->Dot(), HasSubstr("s1 -> s3;"));
  EXPECT_EQ((*iterator)->Explain(),
            "  TestSource(40)\n  Shuffle(5)\n  Range(0, 40)\nZip()\nBatch(4)\n");
}

// Cache(folder) and iterator states identify a pipeline by this text.
TEST(DescriptionTest, ShowsHowStagesAreNested) {
  const Dataset a = TestSource({.rows = 1}), b = TestSource({.rows = 2}),
                c = TestSource({.rows = 3});
  EXPECT_EQ(a.Concatenate(b.Take(1)).Take(2).ToString(),
            "input 0:\n"
            "  TestSource(1)\n"
            "input 1:\n"
            "  TestSource(2)\n"
            "  Take(1)\n"
            "Concatenate()\n"
            "Take(2)\n");
  // A flat list of stages would be ambiguous. For example, it would not show which inputs a Shuffle
  // applies to.
  EXPECT_NE(a.Concatenate(b).Concatenate(c).ToString(), a.Concatenate(b.Concatenate(c)).ToString());
  const auto sample = [](std::vector<Dataset> datasets) { return Dataset::Sample(datasets, {}); };
  EXPECT_NE(sample({a, b.Concatenate(c)}).ToString(), sample({a.Concatenate(b), c}).ToString());
  EXPECT_NE(
      Dataset::Zip({Dataset::Zip({a, b}, {.prefixes = {"p", "q"}}), c}, {.prefixes = {"r", "s"}})
          .ToString(),
      Dataset::Zip({a, Dataset::Zip({b, c}, {.prefixes = {"p", "q"}})}, {.prefixes = {"r", "s"}})
          .ToString());
}

TEST(DescriptionTest, EscapesNamesThatLookLikeStages) {
  const auto map = [](std::string name) {
    return TestSource()
        .Map([](const base::NamedArrays&, base::NamedArrays*) { return absl::OkStatus(); },
             {.name = std::move(name)})
        .ToString();
  };
  EXPECT_THAT(map("f, C++ of this process)\nMap(g"), Not(HasSubstr("\nMap(g")));
  EXPECT_NE(map("a\nb"), map("a\\nb"));
}

TEST(DescriptionTest, IsRandomByDefault) {
  const std::string dot = TestSource().Concatenate(TestSource().Take(3)).Dot();
  EXPECT_THAT(dot, AllOf(HasSubstr("s1 -> s2;"), HasSubstr("s0 -> s3 [label=\"0\"];"),
                         HasSubstr("s2 -> s3 [label=\"1\"];"), HasSubstr("Take(3)\\n{x: int64[]")))
      << dot;
}

}  // namespace report_test
}  // namespace penstock::data
