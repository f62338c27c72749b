#include "penstock/train/callbacks/csv_logger.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/train/testing/fake_context.h"
#include "penstock/train/testing/files.h"

namespace penstock::train {
namespace csv_logger_test {

using testing::Contents;
using testing::FakeContext;
using testing::NewPath;

// The position of a resumed run (total_steps > 0) that starts with `epoch`.
std::string ResumeCsv(const std::string& path, int epoch, bool append,
                      absl::string_view restored = "") {
  FakeContext run;
  auto callback = CsvLogger({.path = path, .append = append});
  EXPECT_TRUE(callback->TrainBegin(run).ok());
  if (!restored.empty()) {
    EXPECT_TRUE(callback->Restore(restored).ok());
  }
  const Position at{.epoch = epoch, .step = 1, .total_steps = 9};
  EXPECT_TRUE(callback->EpochBegin(run, at).ok());
  EXPECT_TRUE(callback->EpochEnd(run, at, {{"loss", 9}}).ok());
  EXPECT_TRUE(callback->TrainEnd(run).ok());
  return Contents(path);
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(CsvLogger, WritesHeaderOnceAndOneRowPerEpochAlsoWhenAppending) {
  const std::string path = NewPath(".csv");
  FakeContext run;
  for (int part = 0; part < 2; ++part) {
    auto callback = CsvLogger({.path = path, .append = part == 1});
    ASSERT_TRUE(callback->TrainBegin(run).ok());
    ASSERT_TRUE(
        callback->EpochEnd(run, {.epoch = part}, {{"loss", 0.5 + part}, {"accuracy", 0.25}}).ok());
    ASSERT_TRUE(callback->TrainEnd(run).ok());
  }
  EXPECT_EQ(Contents(path), "epoch,loss,accuracy\n0,0.5,0.25\n1,1.5,0.25\n");
  std::filesystem::remove(path);
}

// Keras: "NA" where an epoch has no such number.
TEST(CsvLogger, HasColumnsForNumbersOfOtherEpochs) {
  class ValidatesEverySecondEpoch : public FakeContext {
   public:
    absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const override {
      if (name == "val_loss") return MonitorInfo{.every_epochs = 2};
      return absl::NotFoundError(name);
    }
  } run;
  const std::string path = NewPath(".csv");
  auto callback = CsvLogger({.path = path});
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"loss", 1}, {"lr", 2}}).ok());
  ASSERT_TRUE(
      callback->EpochEnd(run, {.epoch = 1}, {{"loss", 3}, {"val_loss", 4}, {"lr", 5}}).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  EXPECT_EQ(Contents(path), "epoch,loss,lr,val_loss\n0,1,2,NA\n1,3,5,4\n");
  // Resumed: in the order of the header that is there.
  WriteText(path, "epoch,val_loss,loss\n0,NA,8\n");
  EXPECT_EQ(ResumeCsv(path, 1, false), "epoch,val_loss,loss\n0,NA,8\n1,NA,9\n");
  std::filesystem::remove(path);
}

TEST(CsvLogger, RejectedResumeKeepsFile) {
  const std::string path = NewPath(".csv");
  WriteText(path, "epoch,loss\n0,1\n");
  FakeContext run;
  auto callback = CsvLogger({.path = path});
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());  // as after an error in another callback's TrainBegin
  EXPECT_EQ(Contents(path), "epoch,loss\n0,1\n");
  std::filesystem::remove(path);
}

TEST(CsvLogger, ResumedRunReplacesRowsOfItsEpochs) {
  const std::string path = NewPath(".csv");
  const std::string rows = "epoch,loss\n0,1\n1,2\n2,3\n";
  for (const bool append : {false, true}) {
    SCOPED_TRACE(append);
    WriteText(path, rows);
    EXPECT_EQ(ResumeCsv(path, 1, append, R"({"bytes":15,"pending":""})"), "epoch,loss\n0,1\n1,9\n");
    // A checkpoint without the logger's state, and a row truncated by a kill.
    WriteText(path, rows + "3,");
    EXPECT_EQ(ResumeCsv(path, 2, append), "epoch,loss\n0,1\n1,2\n2,9\n");
    EXPECT_EQ(ResumeCsv(path, 0, append), "epoch,loss\n0,9\n");
    // Rows of an earlier training in the same file are kept.
    WriteText(path, rows + "0,4\n1,5\n");
    EXPECT_EQ(ResumeCsv(path, 1, append), rows + "0,4\n1,9\n");
    // Rows that were not written before the checkpoint was saved.
    WriteText(path, rows);
    EXPECT_EQ(ResumeCsv(path, 2, append, R"({"bytes":15,"pending":"1,7\n"})"),
              "epoch,loss\n0,1\n1,7\n2,9\n");
    // The file was deleted.
    WriteText(path, "");
    EXPECT_EQ(ResumeCsv(path, 1, append, R"({"bytes":15,"pending":""})"), "epoch,loss\n1,9\n");
  }
  std::filesystem::remove(path);
}

TEST(CsvLogger, WarnsOfFullDiskAndWritesMissedRowsLater) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  FakeContext run;
  auto callback = CsvLogger({.path = "/dev/full"});
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  EXPECT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"loss", 1}}).ok());
  EXPECT_TRUE(callback->EpochEnd(run, {.epoch = 1}, {{"loss", 2}}).ok());
  EXPECT_TRUE(callback->IsLog()) << "such an error is a warning";
  EXPECT_EQ(callback->TrainEnd(run),
            absl::DataLossError("CsvLogger: /dev/full lacks its last 3 lines, which could not be "
                                "written (No space left on device)"));
}

}  // namespace csv_logger_test
}  // namespace penstock::train
