// Local paths and file:// URIs.
//
// Create writes beside the target, into a hidden file ".penstock-....part", which List leaves out;
// Close writes it to the disk (fsync), renames it over the target and writes the folder to the
// disk. A killed program leaves at most such a hidden file, never half of the target. The target
// keeps its permission bits when it existed. A symbolic link is followed, so the file it points to
// is made or replaced and the link stays; where the folder of that file does not exist (a disk that
// is not mounted) it is an error, and nothing is made. Character devices and pipes (/dev/stdout)
// are written to as they are; a pipe that nobody reads from, a socket and a block device are
// refused.
//
// OpenInput reads regular files, pipes that some process writes to (/dev/stdin, process
// substitution), terminals and /dev/null; OpenRandomAccess regular files only. Everything else, a
// named pipe without a writer among it, is FailedPrecondition and named: opening never waits. A
// regular file that becomes shorter while it is read is Aborted.
//
// Links. List follows a link to what it points to, and says that it is one (FileInfo::is_link); one
// that points nowhere is listed as a file. ListRecursive follows links to folders, too, and enters
// each folder once: under its own path when that lies below the folder that is listed, otherwise
// under the first link to it by name (links behind other links last). So no file of a linked folder
// is listed twice, and folders may link to each other. RemoveRecursively removes links, not what
// they point to. A path through a link that leads nowhere (a disk that is not mounted) is
// FailedPrecondition, not NotFound.
#pragma once

#include <memory>

#include "penstock/io/file_system.h"

namespace penstock::io {

std::shared_ptr<FileSystem> MakeLocalFileSystem();

}  // namespace penstock::io
