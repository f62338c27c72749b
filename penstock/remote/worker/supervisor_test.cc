#include "penstock/remote/worker/supervisor.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/remote/worker/worker_log.h"

namespace penstock::remote {
namespace supervisor_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    std::string pattern = testing::TempDir() + "supervisor_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(Log()) << "2026-01-01T00:00:00 started: process 1\n";
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  std::string Log() const { return folder_ + "/log"; }
  std::string LogText() const {
    std::stringstream text;
    text << std::ifstream(Log()).rdbuf();
    return text.str();
  }
  // Runs a shell script as the child; $1 is a temporary folder.
  int Run(const std::string& script, int max_restarts = 3) {
    return RunCommand({"/bin/sh", "-c", script, "sh", folder_}, max_restarts);
  }
  // In a process without other threads, as Supervise requires.
  int RunCommand(std::vector<std::string> command, int max_restarts = 3) {
    const pid_t process = ::fork();
    if (process == 0) {
      const absl::StatusOr<int> code = Supervise({.command = std::move(command),
                                                  .log_file = Log(),
                                                  .first_delay_seconds = 0,
                                                  .max_restarts = max_restarts});
      ::_exit(code.value_or(99));
    }
    int status = 0;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string folder_;
};

TEST_F(SupervisorTest, StartsAKilledChildAgainAndNotesWhy) {
  EXPECT_EQ(Run("if [ -e $1/second ]; then exit 0; fi; touch $1/second;"
                "echo 'worker: a line' >&2; echo 'F0000 check failed: boom' >&2; kill -9 $$"),
            0);
  EXPECT_THAT(LogText(), HasSubstr("crashed: killed by signal 9 (SIGKILL), after: F0000 check "
                                   "failed: boom\n"));
  EXPECT_THAT(PreviousEnd(LogText()), HasSubstr("previous run was killed by signal 9 (SIGKILL)"));
}

TEST_F(SupervisorTest, DoesNotRepeatAFirstRunThatFails) {
  EXPECT_EQ(Run("echo x >> $1/runs; echo 'worker: bad option' >&2; exit 2"), 2);
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/runs"), 2u);
}

TEST_F(SupervisorTest, GivesUpAfterTheLimit) {
  EXPECT_EQ(Run("echo x >> $1/runs; kill -SEGV $$", 2), 128 + SIGSEGV);
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/runs"), 6u);
}

TEST_F(SupervisorTest, ForwardsSigtermAndStops) {
  // The child sends SIGTERM to its parent, the supervisor, which sends it to the child.
  EXPECT_EQ(Run("trap 'exit 7' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"), 7);
}

TEST_F(SupervisorTest, AChildThatClosesItsMessagesIsStillAwaited) {
  EXPECT_EQ(Run("exec 2>&-; exit 0"), 0);
}

TEST_F(SupervisorTest, SaysThatTheProgramIsMissing) {
  EXPECT_EQ(RunCommand({folder_ + "/missing"}), 127);
  EXPECT_THAT(LogText(), AllOf(HasSubstr("exit code 127"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace supervisor_test
}  // namespace penstock::remote
