// The local file system: local paths and file:// URIs.
//
// Writes are atomic: Create writes to a hidden temporary file ".penstock-....part" in the target's
// folder, which List omits; Close flushes it to disk (fsync), renames it over the target and
// flushes the folder. A killed program leaves at most such a temporary file, never a partial
// target; the next CheckWritableFile or CheckWritableFolder of its folder on this machine removes
// it. An existing target keeps its permission bits. A symbolic link is followed: the file it
// points to is created or replaced, and the link stays; if the folder of that file does not exist
// (a disk that is not mounted), it is an error and nothing is created. Character devices and pipes
// (/dev/stdout) are written to directly; a pipe without a reader, a socket and a block device are
// errors.
//
// OpenInput reads regular files, pipes that have a writer (/dev/stdin, process substitution),
// terminals and /dev/null; OpenRandomAccess reads regular files only. Everything else, including a
// named pipe without a writer, is a FailedPrecondition that names the type: opening never blocks. A
// regular file that is truncated while it is read is Aborted.
//
// Symbolic links. List describes the target of a link and sets FileInfo::is_link; a dangling link
// is listed as a file. ListRecursive follows links to folders and visits each folder once: under
// its own path if that is below the listed folder, otherwise under the first link to it in name
// order (links inside linked folders last). So no file of a linked folder is listed twice, and
// cyclic links are safe. RemoveRecursively removes links, not their targets. A path through a
// dangling link (a disk that is not mounted) is FailedPrecondition, not NotFound.
#pragma once

#include <memory>

#include "penstock/io/file_system.h"

namespace penstock::io {

std::shared_ptr<FileSystem> MakeLocalFileSystem();

}  // namespace penstock::io
