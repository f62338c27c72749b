// An in-memory file system for tests, "memory://folder/name". Each instance has its own files,
// which are freed with the last reference to it.
//
// It combines the restrictions of all file systems: a folder exists only while a file is below it
// (as in an object store), and a name is either a file or a folder (as on a disk).
#pragma once

#include <memory>

#include "penstock/io/file_system.h"

namespace penstock::io {

std::shared_ptr<FileSystem> MakeMemoryFileSystem();

}  // namespace penstock::io
