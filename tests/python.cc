#include "tests/python.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/status.h"

extern char** environ;

namespace penstock::tests {
namespace {

// The last lines contain the error; a Python traceback may be long.
constexpr size_t kMaxOutput = 3000;

// Runs the file that its first argument names. Python's garbage collector would look at all that TensorFlow, JAX or PyTorch have
// made so far again and again: a quarter of the time that their import takes, a sixth of a longer script's.
constexpr char kRunFile[] =
    "import gc, os, runpy, sys; gc.set_threshold(1000000, 20, 20); del sys.argv[0]; "
    "sys.path[0] = os.path.dirname(sys.argv[0]); runpy.run_path(sys.argv[0], run_name='__main__')";

std::string EndOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  std::string all = text.str();
  return all.size() <= kMaxOutput ? all : all.substr(all.size() - kMaxOutput);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "penstock_XXXXXX").string();
  PENSTOCK_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

absl::Status RunProgram(const std::string& python, absl::string_view script,
                        const std::vector<std::string>& arguments) {
  const std::string root = PENSTOCK_SOURCE_DIR;
  std::vector<std::string> words{python, "-c", kRunFile, absl::StrCat(root, "/tests/", script)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const TemporaryFolder folder;
  const std::string output = folder / "output";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, python.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::InternalError(absl::StrCat("cannot start ", python, ": ", strerror(error)));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("tests/", script, " failed:\n", EndOf(output)));
}

}  // namespace

absl::Status RunPython(absl::string_view script, const std::vector<std::string>& arguments) {
  const std::string root = PENSTOCK_SOURCE_DIR;
  if (!std::filesystem::exists(root + "/venv/.installed")) {
    return absl::FailedPreconditionError(absl::StrCat(
        root, "/venv is missing: run tools/venv first (it installs what tests compare with)"));
  }
  return RunProgram(root + "/venv/bin/python", script, arguments);
}

absl::Status RunDebianPython(absl::string_view script, const std::vector<std::string>& arguments) {
  return RunProgram("/usr/bin/python3", script, arguments);
}

}  // namespace penstock::tests
