// CacheFolder: a temporary folder for one test, removed with its contents.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::runtime {

class CacheFolder {
 public:
  CacheFolder() {
    static std::atomic<int> count{0};
    path_ = absl::StrCat(testing::TempDir(), "/penstock_runtime_", ::getpid(), "_", ++count);
    std::filesystem::create_directories(path_);
  }
  ~CacheFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace penstock::runtime
