// For tests that give commands as a user gives them: in this process, on a temporary folder.
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

// Runs `penstock ARGUMENTS...` and returns what it printed. `before` and `after` are called right
// around it, while the output is caught.
CommandResult Penstock(std::vector<std::string> arguments, const std::function<void()>& before = {},
                       const std::function<void()>& after = {});

std::string Bytes(const std::filesystem::path& path);

class CommandFixture : public ::testing::Test {
 protected:
  CommandFixture();
  ~CommandFixture() override;

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // NAME/bright/0.png ... and NAME/dark/0.png ...: `count` of each, 8x8, gray, easy to tell apart,
  // with some noise.
  void MakeImages(const std::string& name, int count) const;

  // What is in a folder: the bytes of each file by its name.
  std::map<std::string, std::string> Folder(const std::string& name) const;

  // The records of all shards that match, in order. Views of memory that lives as long as this.
  std::vector<record::FeatureMap> Records(const std::string& pattern);

  const std::filesystem::path folder_;

 private:
  std::vector<std::shared_ptr<const void>> owners_;
};

// Runs `penstock ARGUMENTS...` in its own process, which is killed before it publishes its file
// number `files` (from 0) by renaming; false if it published fewer and ended by itself.
bool RunAndKill(const std::vector<std::string>& arguments, int files);

}  // namespace penstock::cli::testing
