// Local paths and file:// URIs.
//
// Create writes beside the target, into a hidden file ".penstock-....part", which List leaves out;
// Close writes it to the disk (fsync), renames it over the target and writes the folder to the
// disk. A killed program leaves at most such a hidden file, never half of the target. The target
// keeps its permission bits when it existed. A symbolic link is followed, so the file it points to
// is replaced and the link stays. What is no regular file (/dev/stdout, a pipe) is written to as it
// is.
//
// List and ListRecursive follow links to folders, each chain of folders once; a link that points
// nowhere is listed as a file. RemoveRecursively removes links, not what they point to.
#pragma once

#include <memory>

#include "penstock/io/file_system.h"

namespace penstock::io {

std::shared_ptr<FileSystem> MakeLocalFileSystem();

}  // namespace penstock::io
