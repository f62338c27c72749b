// Conformance test suite for file systems. The test of every FileSystem instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, FileSystemConformance,
//                            ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
//                              return FileSystemUnderTest{MakeMemoryFileSystem(), "memory://root"};
//                            }));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "penstock/io/file_system.h"

namespace penstock::io {

struct FileSystemUnderTest {
  std::shared_ptr<FileSystem> fs;
  std::string root;                    // an empty folder; it need not exist
  int many_files = 100;                // more than one page of a paged listing
  bool has_modification_times = true;  // whether modification times are known
};

// Called for each test.
using MakeFileSystem = std::function<absl::StatusOr<FileSystemUnderTest>()>;

class FileSystemConformance : public testing::TestWithParam<MakeFileSystem> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // URI of `name` below the root.
  std::string At(absl::string_view name) const;
  // Writes a file below the root and expects success.
  void Put(absl::string_view name, absl::string_view bytes);

  FileSystemUnderTest made_;
  FileSystem* fs_ = nullptr;
};

decltype(testing::Values(MakeFileSystem())) ConformanceOf(MakeFileSystem make);

}  // namespace penstock::io
