#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/cli/image_list.h"
#include "penstock/io/memory_file_system.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto fs = io::MakeMemoryFileSystem();
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* file : {"memory://labels.csv", "memory://labels.json"}) {
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, file, text));
    const auto labels = cli::ReadImageLabels(*fs, file);
    if (labels.ok()) (void)cli::ListImages(*fs, {.labels = &*labels});
  }
  return 0;
}
