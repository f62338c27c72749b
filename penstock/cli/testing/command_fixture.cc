#include "penstock/cli/testing/command_fixture.h"

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/cli/command.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/testing/system_call_faults.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli::testing {
namespace {

int Run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "penstock");
  std::vector<const char*> argv;
  for (const std::string& a : arguments) argv.push_back(a.c_str());
  return Main(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

CommandResult Penstock(std::vector<std::string> arguments, const std::function<void()>& before,
                       const std::function<void()>& after) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  CommandResult result{.code = 0, .out = "", .err = ""};
  if (before) before();
  result.code = Run(std::move(arguments));
  if (after) after();
  std::fflush(stdout);
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

std::string Bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

CommandFixture::CommandFixture()
    : folder_(std::filesystem::path(::testing::TempDir()) /
              absl::StrCat("cli_", getpid(), "_", base::EntropySeed())) {
  std::filesystem::create_directories(folder_);
}

CommandFixture::~CommandFixture() { std::filesystem::remove_all(folder_); }

void CommandFixture::MakeImages(const std::string& name, int count) const {
  base::Random random(1);
  for (int label = 0; label < 2; ++label) {
    for (int i = 0; i < count; ++i) {
      base::Array pixels = base::Array::Uninitialized(base::DType::kU8, {8, 8, 1});
      for (int p = 0; p < 64; ++p) {
        pixels.mutable_data<uint8_t>()[p] = static_cast<uint8_t>(label * 150 + random.Below(100));
      }
      const auto png = image::EncodePng(*image::ViewOf(pixels));
      ASSERT_TRUE(png.ok()) << png.status();
      const std::filesystem::path file =
          folder_ / name / (label ? "bright" : "dark") / absl::StrCat(i, ".png");
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file, std::ios::binary) << *png;
    }
  }
}

std::map<std::string, std::string> CommandFixture::Folder(const std::string& name) const {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / name))
    files[entry.path().filename().string()] = Bytes(entry.path());
  return files;
}

std::vector<record::FeatureMap> CommandFixture::Records(const std::string& pattern) {
  const auto fs = io::FileSystem::Default();
  std::vector<record::FeatureMap> records;
  const auto files = io::Glob(*fs, Path(pattern));
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return records;
  for (const std::string& file : *files) {
    auto reader = record::TfRecordReader::Open(*fs, file);
    EXPECT_TRUE(reader.ok()) << reader.status();
    for (;;) {
      const auto block = (*reader)->ReadBlock();
      EXPECT_TRUE(block.ok()) << block.status();
      if (!block.ok() || block->empty()) break;
      owners_.push_back(block->owner);
      for (absl::string_view bytes : block->records) {
        auto features = record::ReadExample(bytes);
        EXPECT_TRUE(features.ok()) << features.status();
        records.push_back(*std::move(features));
      }
    }
  }
  return records;
}

bool RunAndKill(const std::vector<std::string>& arguments, int files) {
  const pid_t child = fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    io::ArmSystemCalls({.call = "rename", .number = files, .kill = true});
    _exit(Run(arguments));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

}  // namespace penstock::cli::testing
