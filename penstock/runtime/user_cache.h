// Where a user's files lie that can be made again.
#pragma once

#include <string>

namespace penstock::runtime {

// $XDG_CACHE_HOME/penstock, else ~/.cache/penstock, else one in /tmp. Not made.
std::string UserCacheFolder();

}  // namespace penstock::runtime
