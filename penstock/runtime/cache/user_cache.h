// Folder of a user's files that can be recreated.
#pragma once

#include <string>

namespace penstock::runtime {

// $XDG_CACHE_HOME/penstock, else ~/.cache/penstock, else one in /tmp. Does not create it.
std::string UserCacheFolder();

}  // namespace penstock::runtime
