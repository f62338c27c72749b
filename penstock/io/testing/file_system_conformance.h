// What every file system of room io must do, as one suite. A file system's test instantiates it:
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
  std::string root;         // a folder in which nothing is yet; it need not exist
  int many_files = 100;     // more than one page of a listing, where there are pages
  bool tells_times = true;  // whether each file's time of modification is known
};

// Called for each test.
using MakeFileSystem = std::function<absl::StatusOr<FileSystemUnderTest>()>;

class FileSystemConformance : public testing::TestWithParam<MakeFileSystem> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The URI of something below the root.
  std::string At(absl::string_view name) const;
  // Writes a file below the root, and expects that to work.
  void Put(absl::string_view name, absl::string_view bytes);

  FileSystemUnderTest made_;
  FileSystem* fs_ = nullptr;
};

decltype(testing::Values(MakeFileSystem())) ConformanceOf(MakeFileSystem make);

}  // namespace penstock::io
