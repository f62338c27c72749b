// A file system that dispatches each URI to the file system registered for its scheme.
//
//   auto fs = MakeSchemeRouter({{"", local}, {"file", local}, {"memory", MakeMemoryFileSystem()}});
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/io/file_system.h"

namespace penstock::io {

// Keys are schemes in lower case, "" for local paths. A URI with another scheme is an
// InvalidArgument error that lists the known ones.
std::shared_ptr<FileSystem> MakeSchemeRouter(
    std::map<std::string, std::shared_ptr<FileSystem>> by_scheme);

}  // namespace penstock::io
