#include "penstock/cli/print_json.h"

#include <cstdio>

#include "penstock/base/json_dump.h"

namespace penstock::cli {

void PrintJson(const nlohmann::ordered_json& json) {
  std::printf("%s\n", base::DumpJson(json, 2).c_str());
}

}  // namespace penstock::cli
