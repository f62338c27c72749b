#include "penstock/train/arrays.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"

namespace penstock::train {
namespace {

std::vector<std::string> PortNames(const std::vector<nn::Network::Port>& ports) {
  std::vector<std::string> names;
  for (const auto& port : ports) names.push_back(port.name);
  return names;
}

// Column names for arrays: those in `columns`; else Keras's x and y if the network has one input
// and one output, and else the names of its inputs and outputs.
Columns ColumnsForArrays(const nn::Network& network, const Columns& columns) {
  Columns names = columns;
  const bool one = network.inputs().size() == 1 && network.outputs().size() == 1;
  if (names.inputs.empty()) {
    names.inputs = one ? std::vector<std::string>{"x"} : PortNames(network.inputs());
  }
  if (names.labels.empty()) {
    names.labels = one ? std::vector<std::string>{"y"} : PortNames(network.outputs());
  }
  if (names.sample_weights.empty()) names.sample_weights = {"sample_weight"};
  return names;
}

}  // namespace

absl::StatusOr<std::vector<base::Array>> ArraysArg::InOrder(const std::vector<std::string>& names,
                                                            absl::string_view what) const {
  std::vector<base::Array> arrays = in_order_;
  if (!by_name_.empty()) {
    for (const std::string& name : names) {
      const base::Array* array = by_name_.Find(name);
      if (array == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            what, " has no array '", name, "'; the model expects ", absl::StrJoin(names, ", ")));
      }
      arrays.push_back(*array);
    }
  }
  const size_t given = by_name_.empty() ? in_order_.size() : by_name_.size();
  if (given != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", given,
                                                   " arrays; the model expects ", names.size(),
                                                   ": ", absl::StrJoin(names, ", ")));
  }
  for (const base::Array& array : arrays) {
    if (array.rank() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, " must have rows, got a scalar"));
    }
  }
  return arrays;
}

absl::StatusOr<data::Dataset> RowsOf(const nn::Network& network, const Columns& columns,
                                     const ArraysArg& x, const ArraysArg* y,
                                     const ArraysArg& sample_weight) {
  const Columns names = ColumnsForArrays(network, columns);
  base::NamedArrays rows;
  const auto add = [&](const ArraysArg& arrays, const std::vector<std::string>& ports,
                       const std::vector<std::string>& as, const char* what) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<base::Array> in_order, arrays.InOrder(ports, what));
    if (as.size() < in_order.size()) {
      return absl::InvalidArgumentError(absl::StrCat("Columns names ", as.size(), " columns for ",
                                                     what, ", which has ", in_order.size(),
                                                     " arrays"));
    }
    for (size_t i = 0; i < in_order.size(); ++i) {
      if (!rows.empty() && in_order[i].dim(0) != rows.begin()->second.dim(0)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "x, y and sample_weight must have as many rows as each other; got ",
            rows.begin()->second.TypeString(), " and, for ", what, ", ", in_order[i].TypeString()));
      }
      rows.Set(as[i], in_order[i]);
    }
    return absl::OkStatus();
  };
  PENSTOCK_RETURN_IF_ERROR(add(x, PortNames(network.inputs()), names.inputs, "x"));
  if (y != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(add(*y, PortNames(network.outputs()), names.labels, "y"));
  }
  if (!sample_weight.empty()) {
    const std::string& name = names.sample_weights[0];
    PENSTOCK_RETURN_IF_ERROR(add(sample_weight, {name}, {name}, "sample_weight"));
  }
  return data::Dataset::FromArrays(rows);
}

}  // namespace penstock::train
