// Runs a fuzz target without libFuzzer: the files of the folder in its argument, then random variants of them, the same
// ones in every run. ./test does that with targets whose sanitized libraries take minutes to build; tools/fuzz runs all
// targets under AddressSanitizer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <signal.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kVariantsPerSeed = 1000;

// The running input, for the message of a crash.
char running[256];

void SayInput(int signal_number) {
  const ssize_t ignored = ::write(STDERR_FILENO, running, std::char_traits<char>::length(running));
  static_cast<void>(ignored);
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Run(const std::string& input, const std::string& name, int variant) {
  std::snprintf(running, sizeof running,
                "replay: the input that ended the program: %s, variant %d of it\n", name.c_str(),
                variant);
  // A copy of exactly this size.
  const std::vector<uint8_t> data(input.begin(), input.end());
  LLVMFuzzerTestOneInput(data.data(), data.size());
}

// One to four random changes.
std::string Variant(std::string input, const std::vector<std::string>& seeds,
                    std::mt19937_64& random) {
  const auto below = [&](size_t limit) {
    return static_cast<size_t>(random() % std::max<size_t>(limit, 1));
  };
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(input.size() + 1);
    switch (below(5)) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.insert(at, 1 + below(8), static_cast<char>(random()));
        break;
      case 2:
        input.erase(at, below(8));
        break;
      case 3:
        input = input.substr(0, at) + seeds[below(seeds.size())].substr(0, 4096);
        break;
      default:
        if (at < input.size()) input[at] = static_cast<char>(random());
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER-OF-SEEDS\n", argv[0]);
    return 2;
  }
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS})
    ::signal(signal_number, SayInput);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::fprintf(stderr, "replay: no seeds in %s\n", argv[1]);
    return 1;
  }
  std::vector<std::string> seeds;
  for (const auto& file : files) seeds.push_back(Read(file));
  Run("", "an empty input", 0);
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::mt19937_64 random(i);
    Run(seeds[i], files[i].string(), 0);
    for (int variant = 1; variant <= kVariantsPerSeed; ++variant) {
      Run(Variant(seeds[i], seeds, random), files[i].string(), variant);
    }
  }
  std::printf("%zu seeds and %d variants of each\n", seeds.size(), kVariantsPerSeed);
}
