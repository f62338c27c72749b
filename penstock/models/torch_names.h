// Names and layouts of variables by the tables of torch_layout.h. Internal to room models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/models/torch_layout.h"

namespace penstock::models::internal {

// How PyTorch stores a variable. From there to here: take the part, remove axes, permute, split.
struct TorchForm {
  // Axis i here is axis permutation[i] in PyTorch; empty: the same layout.
  std::vector<int> permutation = {};
  int leading_axes = 0, trailing_axes = 0;  // of extent 1, that PyTorch has around the others
  int joined_axis = -1;  // axes joined_axis and joined_axis + 1 here are one axis in PyTorch
  // PyTorch's array has this many variables of equal size, one after another along its first axis,
  // and this is number `part` of them, from 0.
  int parts = 1, part = 0;
};

// A variable of a network in PyTorch.
struct TorchVariable {
  std::string name;        // here: "conv1_conv/kernel"
  std::string torch_name;  // "conv1.weight"; empty if no row of the table matches
  TorchForm form = {};
  int64_t flattened_channels = 0;  // TorchRow
};

// PyTorch's names for variables of these names, from which `prefix` is removed first; variables
// without it are in no row.
std::vector<TorchVariable> TorchVariablesOf(const TorchLayout& layout,
                                            const std::vector<std::string>& names,
                                            absl::string_view prefix);

// PyTorch's array in the layout of this room, for a variable of this shape; the result has another
// shape if the array is of other extents. nullopt if it has another number of axes, or no numbers.
std::optional<base::Array> FromTorchLayout(const base::Array& array, const TorchVariable& variable,
                                           const base::Shape& shape);

// The array in PyTorch's layout (of a part of a PyTorch array: without the other parts). nullopt if
// it has another number of axes, or no numbers.
std::optional<base::Array> ToTorchLayout(const base::Array& array, const TorchVariable& variable);

// Parts of a PyTorch array, one after another along the first axis; nullopt if their types or other
// extents differ.
std::optional<base::Array> JoinedParts(const std::vector<base::Array>& parts);

}  // namespace penstock::models::internal
