#include "penstock/cli/convert_progress.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::cli {
namespace convert_progress_test {

using Style = ConvertProgressOptions::Style;

// Returns what a conversion of 10 images prints: 4 were converted by an earlier run, and one more
// is converted every 5 seconds.
std::string Printed(Style style) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  base::FakeClock clock;
  {
    ConvertProgress line({.out = out, .style = style, .clock = &clock});
    pack::Progress progress{.noun = "images", .done = 4, .total = 10, .resumed = 4};
    line.Update(progress);
    for (int i = 0; i < 4; ++i) {
      clock.Advance(5);
      ++progress.done;
      progress.bytes += 2'000'000;
      progress.unreadable += i == 2;
      line.Update(progress);
      if (i == 0) ++progress.shards;
    }
  }
  std::fclose(out);
  std::string printed(text, size);
  std::free(text);
  return printed;
}

TEST(ConvertProgress, PrintsLineEveryTenSecondsToLog) {
  EXPECT_EQ(Printed(Style::kLines),
            "6/10 images, 1 shard, 0.2 images/s, 0.4 MB/s, ETA 0:00:20\n"
            "8/10 images, 1 shard, 0.2 images/s, 0.4 MB/s, 1 unreadable, ETA 0:00:10\n");
}

TEST(ConvertProgress, OverwritesAndClearsLineOnTerminal) {
  const std::string printed = Printed(Style::kTerminal);
  EXPECT_EQ(printed.find('\n'), std::string::npos);
  EXPECT_EQ(printed.find("\r\033[K5/10 images, 0 shards"), 0u);
  EXPECT_EQ(printed.substr(printed.size() - 4), "\r\033[K");
}

}  // namespace convert_progress_test
}  // namespace penstock::cli
