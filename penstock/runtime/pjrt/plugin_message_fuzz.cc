#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/runtime/pjrt/plugin_message.h"

// Arbitrary plugin messages: explaining one keeps its text, and parsing terminates.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view message(reinterpret_cast<const char*>(data), size);
  penstock::ir::Program program;
  program.name = "step";
  program.text = "module {\n  %0 = one\n}\n";
  program.line_origins = {{}, {"net", "a.cc", 7}};
  const absl::Status explained =
      penstock::runtime::ExplainCompileError(absl::InternalError(message), program);
  PENSTOCK_CHECK(absl::IsInternal(explained));
  return 0;
}
