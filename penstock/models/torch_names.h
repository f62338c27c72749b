// Names and layouts of variables by the tables of torch_layout.h. Internal to room models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/models/torch_layout.h"

namespace penstock::models::internal {

// A variable of a network in PyTorch.
struct TorchVariable {
  std::string name;        // here: "conv1_conv/kernel"
  std::string torch_name;  // "conv1.weight"; empty if no row of the table matches
  // Axis i here is axis permutation[i] in PyTorch; empty: the same layout.
  std::vector<int> permutation = {};
  int64_t flattened_channels = 0;  // TorchRow
  int trailing_axes = 0;           // axes of extent 1 that PyTorch has after the others
};

// PyTorch's names for variables of these names, from which `prefix` is removed first; variables
// without it are in no row.
std::vector<TorchVariable> TorchVariablesOf(const TorchLayout& layout,
                                            const std::vector<std::string>& names,
                                            absl::string_view prefix);

// The array in the layout of this room, or of PyTorch; nullopt if it has another number of axes, or
// no numbers.
std::optional<base::Array> FromTorchLayout(const base::Array& array, const TorchVariable& variable);
std::optional<base::Array> ToTorchLayout(const base::Array& array, const TorchVariable& variable);

}  // namespace penstock::models::internal
