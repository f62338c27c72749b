// One file system made of several: each URI goes to the one that serves its scheme.
//
//   auto fs = MakeSchemeRouter({{"", local}, {"file", local}, {"memory", MakeMemoryFileSystem()}});
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/io/file_system.h"

namespace penstock::io {

// By scheme, lower case, "" for local paths. A URI of another scheme is an InvalidArgument error
// that lists these.
std::shared_ptr<FileSystem> MakeSchemeRouter(
    std::map<std::string, std::shared_ptr<FileSystem>> by_scheme);

}  // namespace penstock::io
