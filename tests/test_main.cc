// The main program of tests. Those of a room are one: `data_tests --file map_test` runs only those of map_test.cc,
// as ctest's data_map_test does. --report NAME: the name of the report, if not <room>_<file>. With
// --compile-fast, XLA optimizes less on the CPU, unless XLA_FLAGS says otherwise.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

#include "tests/compile_fast.h"

namespace {

constexpr char kFile[] = "--file";
constexpr char kReport[] = "--report";
constexpr char kCompileFastOption[] = "--compile-fast";

// GoogleTest filter for the tests of `file`, identified by their source location: a test of another
// file that is instantiated in this one does not count.
std::string FilterOf(const std::string& file) {
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(k);
      if (std::filesystem::path(test.file()).stem() != file) continue;
      filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  if (argc > 2 && std::string(argv[1]) == kFile) file = argv[2];
  if (std::find(argv, argv + argc, std::string(kCompileFastOption)) != argv + argc &&
      std::getenv("PENSTOCK_TEST_DEVICE") == nullptr) {
    ::setenv("XLA_FLAGS", penstock::tests::kCompileFast, /*overwrite=*/0);
  }
  // Several processes of one program may write reports to the same folder: each gets its own file
  // name. GoogleTest has read the environment before main.
  const std::string output = GTEST_FLAG_GET(output);
  if (!file.empty() && !output.empty() && output.back() == '/') {
    const std::string program = std::filesystem::path(argv[0]).stem();
    const std::string room = program.substr(0, program.find("_tests"));
    std::string name = room + "_" + file;
    if (argc > 4 && std::string(argv[3]) == kReport) name = argv[4];
    GTEST_FLAG_SET(output, output + name + ".xml");
  }
  ::testing::InitGoogleTest(&argc, argv);
  if (!file.empty()) {
    const std::string filter = FilterOf(file);
    if (filter.empty()) {
      std::fprintf(stderr, "%s: no test is written in %s.cc\n", argv[0], file.c_str());
      return 2;
    }
    if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
