#include "penstock/runtime/cache/user_cache.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include <unistd.h>

namespace penstock::runtime {

std::string UserCacheFolder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return absl::StrCat(cache, "/penstock");
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return absl::StrCat(home, "/.cache/penstock");
  }
  return absl::StrCat("/tmp/penstock-", ::getuid(), "/penstock");
}

}  // namespace penstock::runtime
