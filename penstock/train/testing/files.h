// Temporary files for tests.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/base/random.h"

namespace penstock::train::testing {

// Returns a new path in the folder for temporary files; creates nothing.
inline std::string NewPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", getpid(), "_", base::EntropySeed(), name);
}

inline std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace penstock::train::testing
