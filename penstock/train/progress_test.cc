#include "penstock/train/progress.h"

#include <algorithm>
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/clock.h"
#include "penstock/train/testing/fake_context.h"

namespace penstock::train {
namespace progress_test {

using testing::FakeContext;
using testing::FakeInference;

std::string ProgressOf(ProgressOptions::Style style) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line =
      ProgressLine({.out = file, .style = style, .seconds_between_lines = 10, .clock = &clock});
  FakeContext run;
  EXPECT_TRUE(line->EpochBegin(run, {.epoch = 1}).ok());
  for (int64_t step = 1; step <= 20; ++step) {
    clock.Advance(1);
    EXPECT_TRUE(line->BatchEnd(run, {.epoch = 1, .step = step}, {{"loss", 0.5}}).ok());
  }
  EXPECT_TRUE(
      line->EpochEnd(run, {.epoch = 1, .step = 20}, {{"loss", 0.25}, {"accuracy", 1e-5}}).ok());
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(ProgressLine, PrintsPeriodicLinesWithoutTerminal) {
  EXPECT_EQ(ProgressOf(ProgressOptions::Style::kLines),
            "Epoch 2/3  10/20  10.0 img/s  loss 0.5000  ETA 0:00:10\n"
            "Epoch 2/3  20/20  10.0 img/s  loss 0.5000  ETA 0:00:00\n"
            "Epoch 2/3  20/20  10.0 img/s  loss 0.2500  accuracy 1.000e-05  0:00:20\n");
}

TEST(ProgressLine, OverwritesLineOnTerminal) {
  const std::string text = ProgressOf(ProgressOptions::Style::kTerminal);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 21);
  EXPECT_THAT(text, ::testing::EndsWith("accuracy 1.000e-05  0:00:20\n"));
}

TEST(ProgressLine, PrintsIdleTimeAtEndOfEpoch) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line = ProgressLine({.out = file, .style = ProgressOptions::Style::kLines, .clock = &clock});
  FakeContext run;
  run.measured = {.seconds = 20, .idle_data = 1.5, .idle_compile = 0.5, .idle_host = 0.001};
  ASSERT_TRUE(line->EpochBegin(run, {.epoch = 1}).ok());
  clock.Advance(20);
  ASSERT_TRUE(line->EpochEnd(run, {.epoch = 1, .step = 20}, {{"loss", 0.25}}).ok());
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text,
            "Epoch 2/3  20/20  10.0 img/s  loss 0.2500  0:00:20  idle 10.0 % (data 7.5 %, compile "
            "2.5 %)\n");
}

TEST(ProgressLine, NotesAreOnTheirOwnLine) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line =
      ProgressLine({.out = file, .style = ProgressOptions::Style::kTerminal, .clock = &clock});
  FakeContext run;
  ASSERT_TRUE(line->EpochBegin(run, {.epoch = 1}).ok());
  clock.Advance(1);
  ASSERT_TRUE(line->BatchEnd(run, {.epoch = 1, .step = 1}, {{"loss", 0.5}}).ok());
  line->Note("read: pack the files");
  ASSERT_TRUE(line->TrainEnd(run).ok());
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_THAT(text, ::testing::EndsWith("\nnote: read: pack the files\n"));
}

TEST(ProgressLine, PrintsReasonForRecompilation) {
  std::FILE* file = std::tmpfile();
  auto line = ProgressLine({.out = file, .style = ProgressOptions::Style::kLines});
  line->Recompiling("train_step", "argument 'x' changed");
  std::rewind(file);
  char text[100] = {};
  EXPECT_GT(std::fread(text, 1, sizeof(text) - 1, file), 0u);
  std::fclose(file);
  EXPECT_STREQ(text, "train_step is compiled again: argument 'x' changed\n");
}

TEST(ProgressLine, PrintsReadableDurations) {
  EXPECT_EQ(FormatDuration(0.4), "0:00:00");
  EXPECT_EQ(FormatDuration(3725), "1:02:05");
  EXPECT_EQ(FormatDuration(2 * 86400 + 61), "2 d 0:01:01");
}

std::string InferenceProgress(FakeInference& context) {
  std::FILE* file = std::tmpfile();
  base::FakeClock clock;
  auto line = ProgressLine({.out = file,
                            .style = ProgressOptions::Style::kLines,
                            .seconds_between_lines = 10,
                            .clock = &clock});
  context.batches = 20;
  EXPECT_TRUE(line->TestBegin(context).ok());
  for (int64_t batch = 0; batch < 20; ++batch) {
    clock.Advance(1);
    context.seen += 8;
    EXPECT_TRUE(line->TestBatchEnd(context, batch, {{"loss", 0.5}}).ok());
  }
  EXPECT_TRUE(line->TestEnd(context, {{"loss", 0.25}}).ok());
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(ProgressLine, ShowsEvaluationButNotValidation) {
  FakeInference context;
  EXPECT_EQ(InferenceProgress(context),
            "Evaluate  10/20  8.0 img/s  loss 0.5000  ETA 0:00:10\n"
            "Evaluate  20/20  8.0 img/s  loss 0.5000  ETA 0:00:00\n"
            "Evaluate  20/20  8.0 img/s  loss 0.2500  0:00:20\n");
  FakeContext training;
  FakeInference validation;
  validation.validates = &training;
  EXPECT_EQ(InferenceProgress(validation), "");
}

}  // namespace progress_test
}  // namespace penstock::train
