// Files of values: torch.save and torch.load, torch_xla's xm.save and utils.serialization (xser).
//
//   PENSTOCK_RETURN_IF_ERROR(xm::save(model->state_dict(), "gs://bucket/net.pt"));
//   PENSTOCK_RETURN_IF_ERROR(xser::save(model->state_dict(), "net.pt"));     // + net.pt.tensors/
//   PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays state, lazy::load("net.pt"));
//
// Values are tensors or arrays under names, in order, as an nn::Module's state_dict. torch.load
// opens the files as an OrderedDict. Paths are local or of a store (gs://, s3://). A file is
// complete or does not exist.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy {

// Values to save. Tensors are copied to the host; they must be defined.
class StateDict {
 public:
  StateDict() = default;
  StateDict(base::NamedArrays arrays);                                    // NOLINT: converts
  StateDict(const std::vector<std::pair<std::string, Tensor>>& tensors);  // NOLINT: converts

  void Set(absl::string_view name, base::Array array);
  void Set(absl::string_view name, Tensor tensor);
  // "model/" + names of the other, as nested dicts are read.
  void Set(absl::string_view prefix, const StateDict& other);

  // Whether any value is a tensor.
  bool has_tensors() const;
  // The values on the host; runs what they need.
  absl::StatusOr<base::NamedArrays> ToHost() const;

 private:
  struct Entry {
    std::string name = {};
    base::Array array = {};
    Tensor tensor = {};  // if defined
  };
  std::vector<Entry> entries_;
};

// torch.save: PyTorch's zip format. Not for xmp::spawn, where all ordinals would write: xm::save.
absl::Status save(const StateDict& data, absl::string_view path);
// torch.load of a file of torch.save, xm.save or xser.save: the arrays by name (save/pytorch.h says
// how nested values are named). Model and optimizer state are loaded from it: load_state_dict.
absl::StatusOr<base::NamedArrays> load(absl::string_view path);

namespace xm {
// save by the master ordinal only, or by every ordinal (to different paths). All ordinals must call
// it: the step is ended (mark_step) and they wait until the file is written. An error of the writer
// is returned to all. `global_master`: there is one host, so it changes nothing.
absl::Status save(const StateDict& data, absl::string_view path, bool master_only = true,
                  bool global_master = false, SourceLocation where = SourceLocation::Current());
}  // namespace xm

namespace xser {
// The format of torch_xla.utils.serialization: `path`, which refers to a file for each tensor in
// `path`.tensors. Otherwise as xm::save.
absl::Status save(const StateDict& data, absl::string_view path, bool master_only = true,
                  bool global_master = false, SourceLocation where = SourceLocation::Current());
// As lazy::load.
absl::StatusOr<base::NamedArrays> load(absl::string_view path);
}  // namespace xser

}  // namespace penstock::lazy
