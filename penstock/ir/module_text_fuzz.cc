// Arbitrary bytes as a module's text: an error, or types that are equal when they are read again.
#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/ir/module_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace penstock;
  const absl::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto signature = ir::ReadModuleSignature(text);
  const auto program = ir::SpecializeModule(text, 3);
  if (!program.ok()) return 0;
  const auto again = ir::ReadModuleSignature(program->text);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->arguments.size() == program->parameters.size());
  PENSTOCK_CHECK(again->results.size() == program->results.size());
  for (const ir::TensorType& type : program->parameters) {
    for (const int64_t extent : type.shape) PENSTOCK_CHECK(extent >= 0);
  }
  return 0;
}
