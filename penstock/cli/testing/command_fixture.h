// CommandFixture: fixture for tests that run commands in this process, with a temporary folder.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "penstock/record/example.h"

namespace penstock::cli::testing {

struct CommandResult {
  int code;
  std::string out, err;
};

// Runs `penstock ARGUMENTS...` and returns its exit code and output. `before` and `after` are
// called immediately before and after the command, while the output is captured.
CommandResult Penstock(std::vector<std::string> arguments, const std::function<void()>& before = {},
                       const std::function<void()>& after = {});

std::string Bytes(const std::filesystem::path& path);

class CommandFixture : public ::testing::Test {
 protected:
  CommandFixture();
  ~CommandFixture() override;

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Writes NAME/bright/0.png ... and NAME/dark/0.png ..., `count` of each: 8x8 grayscale images
  // with noise that are easy to classify.
  void MakeImages(const std::string& name, int count) const;

  // Returns the contents of a folder: the bytes of each file by its name.
  std::map<std::string, std::string> Folder(const std::string& name) const;

  // Returns the records of all shards that match, in order. They refer to memory of the fixture.
  std::vector<record::FeatureMap> Records(const std::string& pattern);

  const std::filesystem::path folder_;

 private:
  std::vector<std::shared_ptr<const void>> owners_;
};

// Runs `penstock ARGUMENTS...` in a child process, which is killed before it publishes file number
// `files` (from 0) by renaming it. Returns false if the process exited before that.
bool RunAndKill(const std::vector<std::string>& arguments, int files);

}  // namespace penstock::cli::testing
