#include "penstock/cli/standard_streams.h"

#include <csignal>
#include <cstdio>
#include <iostream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/cli/testing/command_fixture.h"

namespace penstock::cli {
namespace standard_streams_test {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::Penstock;

// Runs a command whose standard output is `file`.
CommandResult PrintTo(int file, const std::vector<std::string>& arguments) {
  int captured = -1;
  CommandResult result = Penstock(
      arguments,
      [&] {
        captured = ::dup(STDOUT_FILENO);
        ::dup2(file, STDOUT_FILENO);
      },
      [&] {
        ::dup2(captured, STDOUT_FILENO);
        ::close(captured);
        std::clearerr(stdout);
        std::cout.clear();
      });
  ::close(file);
  return result;
}

TEST(StandardStreams, ResultsThatAreLostAreAnError) {
  // The help of train is longer than a buffer.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"devices"}, {"train", "--help"}, {"--version"}}) {
    const CommandResult result = PrintTo(::open("/dev/full", O_WRONLY), arguments);
    EXPECT_EQ(result.code, 1) << arguments.back();
    EXPECT_THAT(result.err, HasSubstr("to 'standard output'")) << arguments.back();
  }
}

TEST(StandardStreams, ReaderOfPipeMayLeave) {
  const auto handler = std::signal(SIGPIPE, SIG_IGN);  // as programs in Python do
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const CommandResult result = PrintTo(ends[1], {"bench", "--help"});
  std::signal(SIGPIPE, handler);
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(StandardStreamsDeathTest, FilesDoNotGetTheNumberOfClosedOutput) {
  EXPECT_EXIT(
      {
        ::close(STDIN_FILENO);
        ::close(STDOUT_FILENO);
        OpenClosedStreams();
        const int file = ::open("/dev/null", O_RDONLY);
        const bool fails = ::write(STDOUT_FILENO, "x", 1) < 0;
        ::_exit(file > STDERR_FILENO && fails ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace standard_streams_test
}  // namespace penstock::cli
