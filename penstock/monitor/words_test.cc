#include "penstock/monitor/words.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/stage.h"

namespace penstock::monitor {
namespace words_test {

// 10 seconds at 1000 images a second, of which the devices waited 41 % for data. Decoding one image
// takes 3 ms of a core.
LiveNumbers DecodeBound() {
  data::StageStats files{.stage = "FromShards(8 files)", .elements = 10000};
  files.work = data::StageWork::kIo;
  files.wait_input_seconds = 0.1;
  data::StageStats decode{.stage = "DecodeImage(\"image\")", .elements = 10000};
  decode.busy_seconds = 30;
  decode.work = data::StageWork::kCompute;
  decode.parallelism = 3;
  decode.inputs = {0};
  data::StageStats batch{.stage = "Batch(100)", .elements = 100};
  batch.busy_seconds = 0.01;
  batch.inputs = {1};
  return {.recent = {.seconds = 10, .idle_data = 4, .idle_host = 0.1, .steps = 100},
          .examples_per_second = 1000,
          .cores = 3,
          .pipeline = data::PipelineReport{
              .stages = {files, decode, batch}, .seconds = 10, .reader_wait_seconds = 4}};
}

TEST(WordsTest, SaysHowManyCoresDecodingNeeds) {
  // 1000 / (1 - 0.4) images a second take 5 cores; there are 3.
  EXPECT_EQ(Words(DecodeBound()), "idle 41 %, waiting for data: decoding needs 2.0 cores more");
}

TEST(WordsTest, UsesTheDoctorsRules) {
  const diagnose::Symptoms symptoms = LiveSymptoms(DecodeBound());
  EXPECT_EQ(symptoms.noun, std::string("images"));
  EXPECT_NEAR(symptoms.device_rate, 1000 / 0.6, 1);
  EXPECT_EQ(std::string(diagnose::Diagnose(symptoms).front().rule), "decode-bound");
}

TEST(WordsTest, FindsSlowStorage) {
  LiveNumbers live = DecodeBound();
  live.pipeline->stages[1].busy_seconds = 0.5;
  live.pipeline->stages[0].wait_input_seconds = 9.5;
  EXPECT_EQ(Words(live),
            "idle 41 %, waiting for data: storage is too slow (FromShards(8 files) waits for it "
            "95 % of the time)");
}

TEST(WordsTest, BlamesNoStageIfAllAreIdle) {
  LiveNumbers live = DecodeBound();
  live.pipeline->stages[1].busy_seconds = 1;
  EXPECT_EQ(Words(live), "idle 41 %, waiting for data");
}

TEST(WordsTest, NamesDecodingIfCoresAreNotTheReason) {
  LiveNumbers live = DecodeBound();
  live.cores = 8;
  EXPECT_EQ(Words(live),
            "idle 41 %, waiting for data: decoding is the bottleneck (DecodeImage(\"image\"), busy "
            "100 %)");
}

// A function of the user's is neither shuffling nor batching, which the doctor's rules know.
TEST(WordsTest, NamesAStageThatTheRulesDoNotKnow) {
  LiveNumbers live = DecodeBound();
  live.pipeline->stages[1].busy_seconds = 3;
  live.pipeline->stages.push_back({.stage = "Map(1 column)", .elements = 10000});
  live.pipeline->stages.back().busy_seconds = 9.7;
  live.pipeline->stages.back().inputs = {2};
  EXPECT_EQ(Words(live),
            "idle 41 %, waiting for data: Map(1 column) is the bottleneck, busy 97 % of the time");
}

// A pipeline that runs on a worker has the worker's cores.
TEST(WordsTest, CountsTheCoresOfTheMachineThatRunsThePipeline) {
  LiveNumbers live = DecodeBound();
  live.cores = 64;
  live.pipeline->cores = 3;
  EXPECT_EQ(Words(live), "idle 41 %, waiting for data: decoding needs 2.0 cores more");
}

TEST(WordsTest, NamesTheLargestCause) {
  LiveNumbers live;
  EXPECT_EQ(Words(live), "");
  live.recent = {.seconds = 10, .idle_data = 0.1, .idle_host = 0.1};
  EXPECT_EQ(Words(live), "the devices are busy 98 % of the time");
  live.recent.idle_compile = 5;
  EXPECT_EQ(Words(live), "idle 52 %, compiling: 5 s of the last 10 s");
  live.recent = {.seconds = 10, .idle_callbacks = 2};
  EXPECT_EQ(Words(live),
            "idle 20 %, running callbacks: 2 s of the last 10 s; save and log less often");
  live.recent = {.seconds = 10, .idle_host = 3};
  EXPECT_EQ(Words(live), "idle 30 %, dispatching: raise steps_per_execution, or set it to auto");
  live.recent = {.seconds = 10, .idle_host = 3, .steps = 10000, .executions = 10000};
  EXPECT_EQ(Words(live),
            "idle 30 %, dispatching: 0.3 ms per execution of 1 step; raise steps_per_execution, or "
            "set it to auto");
  live.recent.executions = 2000;
  live.cores = 2;
  live.load = 9.25;
  EXPECT_EQ(Words(live),
            "idle 30 %, dispatching: 1.5 ms per execution of 5 steps; other work slows this host "
            "down, whose load is 9.2 on 2 cores");
  live.recent = {.seconds = 10, .idle_data = 3};
  EXPECT_EQ(Words(live), "idle 30 %, waiting for data");
}

TEST(WordsTest, SaysThatNoStepEndsAndWhatTheHostWaitsFor) {
  using train::HostWork;
  EXPECT_EQ(StalledWords(HostWork::kData, 40, 0.1), "no step has ended for 40 s: waiting for data");
  EXPECT_EQ(StalledWords(HostWork::kCompile, 75.2, 0), "no step has ended for 75 s: compiling");
  EXPECT_EQ(StalledWords(HostWork::kWait, 12, 0.1),
            "no step has ended for 12 s: the devices are running one");
  EXPECT_EQ(StalledWords(HostWork::kCallback, 12, 0.1),
            "no step has ended for 12 s: running callbacks");
  EXPECT_EQ(StalledWords(HostWork::kData, 9, 0.1), "") << "nothing unusual yet";
  EXPECT_EQ(StalledWords(HostWork::kWait, 40, 5), "") << "long steps";
  EXPECT_EQ(StalledWords(HostWork::kExcluded, 400, 0.1), "") << "a validation";
}

TEST(WordsTest, IsOneSentenceWhateverTheNumbers) {
  for (const double idle : {0.0, 1e-9, 5.0, 10.0, 20.0}) {
    for (const double rate : {0.0, 1.0, 1e12}) {
      for (const int64_t elements : {int64_t{0}, int64_t{1}, int64_t{1} << 60}) {
        LiveNumbers live = DecodeBound();
        live.recent.idle_data = idle;
        live.examples_per_second = rate;
        live.pipeline->stages[1].elements = elements;
        live.pipeline->seconds = idle;
        const std::string words = Words(live);
        EXPECT_EQ(words.find('\n'), std::string::npos);
        EXPECT_EQ(words.find("nan"), std::string::npos) << words;
        EXPECT_EQ(words.find("inf"), std::string::npos) << words;
      }
    }
  }
}

}  // namespace words_test
}  // namespace penstock::monitor
