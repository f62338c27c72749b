// A file system whose files, once read, are read from a local disk (disk_cache.h).
//
//   auto fs = WithDiskCache(MakeGcsFileSystem(MakeArrowFileSystem()),
//                           {.folder = "/mnt/ssd/penstock", .max_bytes = int64_t{200} << 30});
//
// Opening a file of which something is kept asks the other file system for its version (one
// request), and what is kept of another version is not used: a file that was replaced is read anew.
// Versions are what RandomAccessFile::version tells, and where that tells nothing, the file's size
// and time. A file of which nothing is kept is opened without a question, read as the other file
// system's stream is, and kept on the way.
//
// Everything but reading is the other file system's.
#pragma once

#include <memory>

#include "penstock/io/disk_cache.h"
#include "penstock/io/file_system.h"

namespace penstock::io {

// The folder is made when the first file is opened; an error of it is an error of opening.
std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs, DiskCacheOptions options);

// WithDiskCache of the folder that PENSTOCK_CACHE_DIR names, of PENSTOCK_CACHE_GB gigabytes; `fs`
// itself when none is named.
std::shared_ptr<FileSystem> WithCacheOfEnvironment(std::shared_ptr<FileSystem> fs);

}  // namespace penstock::io
