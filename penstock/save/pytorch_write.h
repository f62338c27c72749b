// Writer of PyTorch's zip format. Internal to pytorch*.cc.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

// A file that torch.load opens as an OrderedDict of the arrays.
absl::Status WritePyTorch(io::FileSystem& fs, absl::string_view uri,
                          const base::NamedArrays& arrays);

// A file in which torch_xla.utils.serialization.load finds references to tensors, and a folder
// beside it with a file of each tensor. The tensors are published before the file that refers to
// them; files of an earlier version are removed afterwards.
absl::Status WriteXser(io::FileSystem& fs, absl::string_view uri, const base::NamedArrays& arrays);

}  // namespace penstock::save
