#include "penstock/runtime/folder/folder.h"

#include <string>

#include <dlfcn.h>

const char* PenstockLibraryFolder() {
  static const auto& folder = *new std::string([] {
    Dl_info info;
    if (::dladdr(reinterpret_cast<const void*>(&PenstockLibraryFolder), &info) == 0) {
      return std::string();
    }
    const std::string file = info.dli_fname;
    const size_t slash = file.rfind('/');
    return slash == std::string::npos ? std::string(".") : file.substr(0, slash);
  }());
  return folder.c_str();
}
