// What the pickle of a PyTorch file describes: tensors as views of storages, and other values.
// Internal to pytorch*.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/save/pickle.h"
#include "penstock/save/save.h"

namespace penstock::save {

// An element type of PyTorch.
struct PyTorchDType {
  base::DType dtype;
  absl::string_view storage;  // "FloatStorage"; empty for types that are saved untyped
  absl::string_view name;     // "float32": torch.float32
};
absl::Span<const PyTorchDType> PyTorchDTypes();
const PyTorchDType* FindPyTorchDType(base::DType dtype);  // nullptr if there is none

struct PyTorchStorage {
  std::string key = {};
  base::DType dtype = base::DType::kInvalid;  // kInvalid: untyped
  int64_t num_bytes = 0;
};

struct PyTorchTensor {
  std::string name = {};
  base::DType dtype = base::DType::kInvalid;
  base::Shape shape = {};
  size_t storage = 0;  // index into PyTorchState::storages
  int64_t offset = 0;  // elements before the first one, in the storage
  std::vector<int64_t> strides = {};
  int64_t xser_id = -1;  // >= 0: the tensor is in a file of the xser folder, and has no storage
};

struct PyTorchState {
  std::vector<PyTorchStorage> storages = {};
  std::vector<PyTorchTensor> tensors = {};
  std::map<std::string, std::string> metadata = {};
};

// Interprets the pickle. Every tensor is then known to lie inside its storage.
absl::StatusOr<PyTorchState> InterpretPyTorch(const Pickle& pickle);

// Memory for tensors beyond the size of the file, which views that overlap or repeat elements need:
// the tensors together may take this more.
inline constexpr int64_t kMaxExpansion = int64_t{1} << 30;
// RESOURCE_EXHAUSTED if the tensors of a file of `file_size` bytes would take more.
absl::Status CheckExpansion(const PyTorchState& state, int64_t file_size);

// Indices of the tensors of each storage, parallel to state.storages.
std::vector<std::vector<size_t>> TensorsByStorage(const PyTorchState& state);

// Makes the tensors with these indices, which are those of one storage, from its bytes: at their
// places in `arrays`, which is parallel to state.tensors.
absl::Status MakeTensors(const PyTorchState& state, absl::Span<const size_t> tensors,
                         const base::Array& bytes, std::vector<base::Array>& arrays);

}  // namespace penstock::save
