#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/base/status.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/io/memory/memory_file_system.h"

// Any text: an error, or a dataset that is written and read back the same. Nothing outside memory:// is
// opened.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const data::DatasetJsonLimits limits = {
      .check =
          [](absl::string_view uri, bool) {
            return uri.substr(0, 9) == "memory://" ? absl::OkStatus()
                                                   : absl::PermissionDeniedError("not in memory");
          },
      .file_system = io::MakeMemoryFileSystem()};
  const auto dataset = data::DatasetFromJson({reinterpret_cast<const char*>(data), size}, limits);
  if (!dataset.ok()) return 0;
  const auto text = data::DatasetToJson(*dataset);
  if (!text.ok()) return 0;  // as a number that JSON cannot hold
  const auto again = data::DatasetFromJson(*text, limits);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->ToString() == dataset->ToString());
  PENSTOCK_CHECK(*data::DatasetToJson(*again) == *text);
  return 0;
}
