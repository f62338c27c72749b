#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/pack/sources/image_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto fs = io::MakeMemoryFileSystem();
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* file : {"memory://labels.csv", "memory://labels.json"}) {
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, file, text));
    const auto labels = pack::ReadImageLabels(*fs, file);
    if (labels.ok()) (void)pack::ListImages(*fs, {.labels = &*labels});
  }
  return 0;
}
