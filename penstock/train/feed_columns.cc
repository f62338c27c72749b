#include "penstock/train/feed_columns.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"

namespace penstock::train {
namespace {

using base::Array;

// Default column of the examples' weights.
constexpr char kSampleWeight[] = "sample_weight";

bool Has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

absl::Status Unclear(absl::string_view what, const std::vector<std::string>& present) {
  return UnclearColumns(what, present);
}

// The ports' names, if there are columns of all of them; else none.
std::vector<std::string> NamedAsPorts(const std::vector<std::string>& ports,
                                      const std::vector<std::string>& present) {
  for (const std::string& port : ports) {
    if (!Has(present, port)) return {};
  }
  return ports;
}

absl::StatusOr<std::vector<std::string>> InputNames(const std::vector<std::string>& ports,
                                                    const Columns& wanted,
                                                    const std::vector<std::string>& present,
                                                    bool with_labels) {
  std::vector<std::string> names = wanted.inputs;
  if (names.empty()) names = NamedAsPorts(ports, present);
  const size_t weights = Has(present, kSampleWeight) ? 1 : 0;
  if (names.empty() && ports.size() == 1 &&
      (present.size() == 2 + weights || (present.size() == 1 && !with_labels))) {
    names.push_back(present[0]);
  }
  if (names.empty()) {
    return Unclear(
        "it is not clear which columns are the network's inputs; say so with Columns.inputs",
        present);
  }
  if (names.size() != ports.size()) {
    return Unclear(absl::StrCat("the network has ", ports.size(), " inputs, Columns.inputs names ",
                                names.size()),
                   present);
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> LabelNames(const std::vector<std::string>& ports,
                                                    const Columns& wanted,
                                                    const std::vector<std::string>& present,
                                                    const FeedColumns& inputs) {
  std::vector<std::string> names = wanted.labels;
  if (names.empty() && ports.size() > 1) names = NamedAsPorts(ports, present);
  if (names.empty() && ports.size() == 1) {
    for (const std::string& name : present) {
      const bool weight = name == kSampleWeight || Has(wanted.sample_weights, name);
      if (!weight && !inputs.Has(name)) names.push_back(name);
    }
    if (names.empty()) return Unclear("there is no column left to be the label", present);
    if (names.size() > 1) {
      return Unclear("it is not clear which column is the label; say so with Columns.labels",
                     present);
    }
  }
  if (names.size() != ports.size()) {
    return Unclear(
        absl::StrCat("the network has ", ports.size(), " outputs (", absl::StrJoin(ports, ", "),
                     "), which want a column of labels each; name them with "
                     "Columns.labels"),
        present);
  }
  return names;
}

absl::Status AddWeightColumn(const Columns& wanted, const std::vector<std::string>& present,
                             bool class_weights, FeedColumns& columns) {
  std::vector<std::string> weights = wanted.sample_weights;
  if (weights.empty() && Has(present, kSampleWeight) && !columns.Has(kSampleWeight)) {
    weights.push_back(kSampleWeight);
  }
  if (weights.size() > 1 && weights.size() != columns.num_labels) {
    return Unclear(absl::StrCat("Columns.sample_weights names ", weights.size(),
                                " columns; it takes one for all outputs, or one for each of the ",
                                columns.num_labels),
                   present);
  }
  if (class_weights) {
    if (columns.num_labels != 1) {
      return Unclear(absl::StrCat("class_weight requires a network with one output; this one has ",
                                  columns.num_labels, "; give weights of the examples instead"),
                     present);
    }
    if (!weights.empty() && !Has(present, weights[0])) {
      return Unclear(absl::StrCat("there is no column '", weights[0], "'"), present);
    }
    columns.given_weights = weights.empty() ? "" : weights[0];
    weights = {kClassWeight};
  }
  columns.names.insert(columns.names.end(), weights.begin(), weights.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status UnclearColumns(absl::string_view what, const std::vector<std::string>& present) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, "; the batch's columns are ", absl::StrJoin(present, ", ")));
}

absl::StatusOr<FeedColumns> ResolveFeedColumns(const FeedPorts& ports, const Columns& wanted,
                                               const std::vector<std::string>& present,
                                               bool with_labels, bool class_weights) {
  FeedColumns columns;
  PENSTOCK_ASSIGN_OR_RETURN(columns.names, InputNames(ports.inputs, wanted, present, with_labels));
  if (with_labels) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> labels,
                              LabelNames(ports.outputs, wanted, present, columns));
    columns.names.insert(columns.names.end(), labels.begin(), labels.end());
    columns.num_labels = labels.size();
    PENSTOCK_RETURN_IF_ERROR(AddWeightColumn(wanted, present, class_weights, columns));
  }
  for (const std::string& name : columns.names) {
    if (name != kClassWeight && !Has(present, name)) {
      return Unclear(absl::StrCat("there is no column '", name, "'"), present);
    }
  }
  return columns;
}

BatchTypes TypesOfBatch(const FeedPorts& ports, const FeedColumns& columns,
                        const std::vector<ir::TensorType>& types, int64_t rows, int64_t depth) {
  BatchTypes batch;
  batch.depth = depth;
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<ir::TensorType>& group = i < ports.inputs.size() ? batch.inputs
                                         : i < ports.inputs.size() + columns.num_labels
                                             ? batch.labels
                                             : batch.weights;
    group.push_back({types[i].dtype, types[i].shape.RowShape().Prepend(rows)});
  }
  return batch;
}

absl::StatusOr<Array> ClassWeightsOf(absl::string_view label_name, const Array& label,
                                     const std::map<int64_t, double>& class_weight,
                                     absl::string_view given_name, const Array* given) {
  const int64_t rows = label.dim(0), width = rows == 0 ? 0 : label.num_elements() / rows;
  if (label.rank() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("class_weight requires labels [batch] or [batch, classes]; column '",
                     label_name, "' is ", label.TypeString()));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Array numbers, label.Cast(base::DType::kF64));
  const double* of = numbers.data<double>();
  Array weights = Array::Uninitialized(base::DType::kF32, {rows});
  float* out = weights.mutable_data<float>();
  Array scale;
  if (given != nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(scale, given->Cast(base::DType::kF32));
    if (scale.num_elements() != rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample weights are one number for each example; column '", given_name,
                       "' is ", given->TypeString()));
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const double* row = of + i * width;
    const int64_t number =
        width == 1 ? static_cast<int64_t>(row[0]) : std::max_element(row, row + width) - row;
    const auto found = class_weight.find(number);
    out[i] = static_cast<float>(found == class_weight.end() ? 1.0 : found->second);
    if (given != nullptr) out[i] *= scale.data<float>()[i];
  }
  return weights;
}

}  // namespace penstock::train
