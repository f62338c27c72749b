#include "penstock/keras/adapt.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/iterator.h"
#include "penstock/keras/keras.h"

namespace penstock::keras {

absl::Status ForEachColumnValue(const data::Dataset& dataset, absl::string_view column,
                                absl::FunctionRef<absl::Status(const base::Array&)> visit,
                                absl::string_view who) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t elements, dataset.Cardinality());
  if (elements == data::kInfiniteCardinality) {
    return absl::InvalidArgumentError(absl::StrCat(
        who,
        " reads the dataset to its end, but the data has no end: pass the dataset before "
        "Repeat, or limit it with Take(n)"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, dataset.MakeIterator({}));
  base::NamedArrays element;
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&element));
    if (!more) return absl::OkStatus();
    if (column.empty() && element.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          who, " requires the name of one of the dataset's columns ", element.ToString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        const base::Array array,
        element.Get(column.empty() ? absl::string_view(element.begin()->first) : column));
    PENSTOCK_RETURN_IF_ERROR(visit(array));
  }
}

absl::Status Adapt(const nn::Layer& layer, const data::Dataset& dataset, absl::string_view column) {
  nn::Adapter adapter(layer);
  PENSTOCK_RETURN_IF_ERROR(ForEachColumnValue(
      dataset, column, [&](const base::Array& array) { return adapter.Update(array); }));
  return adapter.Finish();
}

absl::StatusOr<std::map<int64_t, double>> BalancedClassWeights(const data::Dataset& dataset,
                                                               absl::string_view column) {
  std::map<int64_t, int64_t> counts;
  const auto count = [&](const base::Array& labels) { return train::CountClasses(labels, counts); };
  PENSTOCK_RETURN_IF_ERROR(ForEachColumnValue(dataset, column, count, "BalancedClassWeights"));
  if (counts.empty()) {
    return absl::InvalidArgumentError("BalancedClassWeights found no labels: the dataset is empty");
  }
  return train::BalancedClassWeights(counts);
}

}  // namespace penstock::keras
