// Files in this process's memory, "memory://folder/name": for tests. Each has its own files; they
// are gone when the last reference to it is.
//
// It is as strict as the strictest: as in an object store a folder exists only while a file is
// below it, and as on a disk a name is either a file's or a folder's.
#pragma once

#include <memory>

#include "penstock/io/file_system.h"

namespace penstock::io {

std::shared_ptr<FileSystem> MakeMemoryFileSystem();

}  // namespace penstock::io
