// Arbitrary bytes as an ONNX model: an error, or tensors with shapes that memory can hold.
#include <cstddef>
#include <cstdint>

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/onnx/onnx_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace penstock;
  const auto fs = io::MakeMemoryFileSystem();
  const absl::string_view model(reinterpret_cast<const char*>(bytes), size);
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, "memory://bucket/model.onnx", model));
  const auto contents = save::OnnxFormat().inspect(*fs, "memory://bucket/model.onnx");
  if (!contents.ok()) return 0;
  for (const save::TensorInfo& tensor : contents->tensors) {
    PENSTOCK_CHECK(tensor.num_bytes == *base::CheckedBytes(tensor.dtype, tensor.shape));
  }
  return 0;
}
