// Runs programs of reference libraries (TensorFlow, Keras, JAX, safetensors) in venv/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::tests {

// Runs tests/`script` with `arguments` and waits. The error contains the end of its output, or says
// that venv/ is missing and how to create it.
absl::Status RunPython(absl::string_view script, const std::vector<std::string>& arguments);

// The same with Debian's python3, for the libraries that tools/setup installs there (python3-torch).
absl::Status RunDebianPython(absl::string_view script, const std::vector<std::string>& arguments);

// A temporary folder, removed with its contents on destruction.
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
