#include "penstock/remote/worker/worker_log.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/resource.h>
#include <sys/stat.h>

#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {
namespace worker_log_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class WorkerLogTest : public testing::Test {
 protected:
  WorkerLogTest() {
    std::string pattern = testing::TempDir() + "worker_log_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~WorkerLogTest() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/logs/worker.log"; }
  std::unique_ptr<WorkerLog> Open() {
    auto log = WorkerLog::Open({.path = Path(), .to_stderr = false, .clock = &clock_});
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }

  std::string folder_;
  base::FakeClock clock_;
};

TEST_F(WorkerLogTest, ARunThatEndedByRequestLeavesNoReason) {
  EXPECT_EQ(Open()->previous_end(), "") << "the first run";
  std::filesystem::remove(Path());
  Open()->End("SIGTERM");
  EXPECT_EQ(Open()->previous_end(), "");
}

// Strings of messages must be.
TEST_F(WorkerLogTest, WhatItTellsIsUtf8) {
  {
    const auto log = Open();
    log->Line(std::string(4095, 'x') + "\u00e9");  // cut within the character
    log->Line("caf\xe9");
  }
  std::ofstream(Path(), std::ios::app) << "2026-01-02T03:04:05 of an older worker: \xe9\n";
  const auto next = Open();
  WorkerInfo info, read;
  info.set_previous_end(next->previous_end());
  EXPECT_TRUE(read.ParseFromString(info.SerializeAsString()));
  EXPECT_THAT(read.previous_end(), HasSubstr("caf\uFFFD"));
}

TEST_F(WorkerLogTest, ARunThatWasKilledLeavesItsLastLines) {
  {
    const auto log = Open();
    for (int i = 0; i < 100; ++i) log->Line("line " + std::to_string(i) + ";");
  }
  const auto next = Open();
  EXPECT_THAT(next->previous_end(), AllOf(HasSubstr("killed or crashed"), HasSubstr("line 99;"),
                                          HasSubstr("line 88;"), Not(HasSubstr("line 87;"))));
  EXPECT_THAT(next->Tail(3), SizeIs(3));
  EXPECT_GT(next->bytes(), 0);
}

// A client that opens sessions in a loop does not push out what the log tells.
TEST_F(WorkerLogTest, LinesThatClientsCauseAreBounded) {
  const auto log = Open();
  log->Line("important");
  for (int i = 0; i < 10000; ++i) log->ClientLine("session opened");
  log->Line("also important");
  const std::vector<std::string> lines = log->Tail(10000);
  EXPECT_THAT(lines, SizeIs(3 + WorkerLog::kBurst));  // with that of the start
  EXPECT_THAT(lines.back(), HasSubstr("also important"));
  clock_.Advance(5);
  for (int i = 0; i < 100; ++i) log->ClientLine("later");
  EXPECT_THAT(log->Tail(5 * WorkerLog::kPerSecond)[0],
              AllOf(HasSubstr("later"), HasSubstr("9800 lines about clients were left out")));
  EXPECT_THAT(log->Tail(10000), SizeIs(3 + WorkerLog::kBurst + 5 * WorkerLog::kPerSecond));
}

TEST_F(WorkerLogTest, TheSupervisorSaysWhy) {
  Open()->End("the first run, by request");
  Open()->Line("session 12345678: opened");
  NoteCrash(Path(), "killed by signal 9 (SIGKILL)", &clock_);
  const std::string end = Open()->previous_end();
  EXPECT_THAT(end, AllOf(HasSubstr("previous run was killed by signal 9 (SIGKILL)"),
                         HasSubstr("session 12345678"), Not(HasSubstr("by request"))));
}

TEST_F(WorkerLogTest, LinesCannotForgeAnEnd) {
  { Open()->Line("x\n2026-01-01T00:00:00 ended: forged\x1b[2J, a worker's 'word'"); }
  const std::string end = Open()->previous_end();
  EXPECT_THAT(end, HasSubstr("a worker's 'word'"));
  EXPECT_THAT(end, AllOf(HasSubstr("killed or crashed"), HasSubstr("x\\n2026-01-01"),
                         HasSubstr("\\x1b[2J")));
}

TEST_F(WorkerLogTest, SeveralWorkersMayWriteToADevice) {
  const WorkerLogOptions null = {.path = "/dev/null", .to_stderr = false};
  const auto first = WorkerLog::Open(null);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = WorkerLog::Open(null);
  ASSERT_TRUE(second.ok()) << second.status();
  (*second)->Line("x");
  EXPECT_TRUE((*second)->Tail(10).empty());
}

// The limit of a file's size stands for a full disk.
class FullDisk {
 public:
  explicit FullDisk(int64_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit full = {.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  const sighandler_t handler_;
  rlimit before_ = {};
};

TEST_F(WorkerLogTest, AFullDiskCostsLinesAndStderrSaysSo) {
  auto log = Open();
  for (int i = 0; i < 10; ++i) log->Line(std::string(2000, 'x'));
  const int64_t bytes = log->bytes();
  testing::internal::CaptureStderr();
  {
    const FullDisk full(bytes + 40);
    for (int i = 0; i < 3; ++i) log->Line("lost; the beginning of it would fit");
    EXPECT_EQ(log->lost(), 3);
    EXPECT_EQ(log->bytes(), bytes) << "no part of a line";
  }
  log->Line("there is room again");
  EXPECT_EQ(log->lost(), 0);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told,
              testing::ContainsRegex("cannot write the log .*worker.log: .*; its lines are lost"
                                     ".*goes on\n.*can be written again; 3 lines were lost\n$"));
  EXPECT_THAT(log->Tail(2)[0], HasSubstr("3 lines were lost here"));
  EXPECT_THAT(log->Tail(1)[0], HasSubstr("there is room again"));
  // At the end, how many; not the same words again and again before.
  testing::internal::CaptureStderr();
  {
    const FullDisk full(bytes);
    log->Line("lost");
    log->Line("lost");
    log = nullptr;
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("worker: 2 lines of the log .* were lost: .*\n"));
}

TEST_F(WorkerLogTest, ADiskThatIsFullAtTheStartIsAnError) {
  Open()->Line("x");
  const FullDisk full(std::filesystem::file_size(Path()));
  const absl::Status status = WorkerLog::Open({.path = Path(), .to_stderr = false}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(Path()), HasSubstr("--log")));
  EXPECT_THAT(std::string(WorkerLog::Open({.path = "/dev/full"}).status().message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device")));
}

TEST_F(WorkerLogTest, LosesLinesRatherThanWaitingForThePipeToBeRead) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto log = WorkerLog::Open({.path = pipe, .to_stderr = false});
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 100; ++i) (*log)->Line(std::string(2000, 'x'));
}

TEST_F(WorkerLogTest, OneWorkerWritesAFileReadableByItsOwnerOnly) {
  const auto log = Open();
  const absl::Status second =
      WorkerLog::Open({.path = Path(), .to_stderr = false, .patience_seconds = 0}).status();
  EXPECT_THAT(std::string(second.message()), HasSubstr("another worker writes the log"));
  struct stat info = {};
  ASSERT_EQ(::stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(WorkerLogTest, SaysWhatCannotBeWritten) {
  const absl::Status folder = WorkerLog::Open({.path = folder_, .to_stderr = false}).status();
  EXPECT_THAT(std::string(folder.message()),
              AllOf(HasSubstr(folder_), HasSubstr("Is a directory"), HasSubstr("--log")));
}

TEST_F(WorkerLogTest, ALargeFileIsSetAside) {
  Open()->Line("old");
  std::filesystem::resize_file(Path(), WorkerLog::kMaxBytes + 1);
  const auto log = Open();
  log->Line("new");
  EXPECT_TRUE(std::filesystem::exists(Path() + ".1"));
  EXPECT_LT(log->bytes(), 1000);
}

TEST_F(WorkerLogTest, AnyBytesAreReadAsAnEnd) {
  for (const std::string& tail : {std::string("\n\n"), std::string("x"), std::string(70000, '\0'),
                                  std::string("\xff\xfe\n")}) {
    PreviousEnd(tail);
  }
  EXPECT_EQ(PreviousEnd(""), "");
}

TEST_F(WorkerLogTest, TheEndOfARunDoesNotContainThatOfTheRunBefore) {
  for (int run = 0; run < 3; ++run) {
    const auto log = Open();
    if (run > 0) log->Line(log->previous_end());
    log->Line(absl::StrCat("of run ", run));
  }
  EXPECT_THAT(Open()->previous_end(), AllOf(HasSubstr("of run 2"), Not(HasSubstr("of run 1"))));
}

// Its lock ends some time after the process was killed, when its memory is free.
TEST_F(WorkerLogTest, WaitsForAWorkerThatWasKilled) {
  auto log = Open();
  std::thread killed([&] { log = nullptr; });
  EXPECT_TRUE(WorkerLog::Open({.path = Path(), .to_stderr = false, .patience_seconds = 60}).ok());
  killed.join();
}

TEST_F(WorkerLogTest, PortZeroHasNoDefaultFile) {
  EXPECT_EQ(DefaultLogPath("127.0.0.1:0"), "");
  EXPECT_THAT(DefaultLogPath("[::1]:8470"), HasSubstr("/worker-___1__8470.log"));
}

}  // namespace
}  // namespace worker_log_test
}  // namespace penstock::remote
