// Programs of the peers that tests compare with (TensorFlow, Keras, JAX, safetensors), run in
// venv/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::tests {

// Runs tests/`script` with `arguments` and waits. The error holds the end of what it printed, or
// says that venv/ is missing and what makes it.
absl::Status RunPython(absl::string_view script, const std::vector<std::string>& arguments);

// A new folder of this process's own, removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(absl::string_view name) const {
    return (path_ / std::string(name)).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock::tests
