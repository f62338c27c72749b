// Arbitrary bytes as the program of a SavedModel: an error, or a function whose parts exist.
#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/saved_model/saved_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace penstock;
  const auto fs = io::MakeMemoryFileSystem();
  const absl::string_view program(reinterpret_cast<const char*>(bytes), size);
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, "memory://bucket/net/saved_model.pb", program));
  const save::Format format = save::SavedModelFormat();
  format.inspect(*fs, "memory://bucket/net").status().IgnoreError();
  const auto function = save::ReadServingFunction(*fs, "memory://bucket/net");
  if (!function.ok()) return 0;
  PENSTOCK_CHECK(function->results.size() == function->outputs.size());
  for (const save::ServingFunction::Argument& argument : function->arguments) {
    PENSTOCK_CHECK(argument.input < static_cast<int>(function->inputs.size()));
    PENSTOCK_CHECK(argument.input >= 0 || !argument.variable.empty());
  }
  return 0;
}
