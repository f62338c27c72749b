#include "penstock/train/weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"

namespace penstock::train {
namespace {

bool FitsVariable(const Array& array, const ir::TensorType& type) {
  const bool both_float = base::IsFloat(array.dtype()) && base::IsFloat(type.dtype);
  return array.shape() == type.shape && (array.dtype() == type.dtype || both_float);
}

bool SameBytes(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

// Maps the names of a shared layer's other paths to the names of its variables: in older versions
// each path had variables of its own.
absl::StatusOr<NamedArrays> ByVariable(const nn::Network& network, const NamedArrays& given) {
  const auto is_variable = [&](const auto& entry) {
    return network.VariableName(entry.first) == entry.first;
  };
  if (std::all_of(given.begin(), given.end(), is_variable)) return given;
  NamedArrays weights;
  for (const auto& [name, array] : given) {
    const std::string variable = network.VariableName(name);
    const Array* other = weights.Find(variable);
    if (other == nullptr) {
      weights.Append(variable, array);
    } else if (!SameBytes(array, *other)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weights have two different arrays for the variable '", variable,
          "', one of them as '", name,
          "': in this network the layer is shared, so both are one variable. They come from a "
          "network with two separate layers: build that one, or drop one of the two"));
    }
  }
  return weights;
}

}  // namespace

absl::StatusOr<NamedArrays> VariablesFromWeights(const nn::Network& network,
                                                 const StateLayout& layout,
                                                 const NamedArrays& weights) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays by_name, ByVariable(network, weights));
  NamedArrays variables;
  std::set<std::string> known;
  std::vector<std::string> missing, superfluous;
  for (int i = 0; i < layout.num_variables; ++i) {
    const auto& [name, type] = layout.entries[i];
    known.insert(name);
    const Array* array = by_name.Find(name);
    if (array == nullptr) {
      missing.push_back(name);
      continue;
    }
    if (!FitsVariable(*array, type)) {
      return absl::InvalidArgumentError(absl::StrCat("variable '", name, "' is ", type.ToString(),
                                                     " in this network; the weights have ",
                                                     array->TypeString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(Array value, array->Cast(type.dtype));
    variables.Append(name, std::move(value));
  }
  for (const auto& [name, array] : by_name) {
    if (known.count(name) == 0) superfluous.push_back(name);
  }
  if (missing.empty() && superfluous.empty()) return variables;
  return absl::InvalidArgumentError(absl::StrCat(
      "these are not this network's weights: ", missing.size(), " variables have none (",
      absl::StrJoin(missing, ", "), "), ", superfluous.size(), " are of no variable (",
      absl::StrJoin(superfluous, ", "), ")"));
}

}  // namespace penstock::train
