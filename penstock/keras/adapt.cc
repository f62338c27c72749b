#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/iterator.h"
#include "penstock/keras/keras.h"

namespace penstock::keras {

absl::Status Adapt(const nn::Layer& layer, const data::Dataset& dataset, absl::string_view column) {
  nn::Adapter adapter(layer);
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, dataset.MakeIterator({}));
  base::NamedArrays batch;
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) return adapter.Finish();
    if (column.empty() && batch.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Adapt requires the name of one of the dataset's columns ", batch.ToString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        const base::Array array,
        batch.Get(column.empty() ? absl::string_view(batch.begin()->first) : column));
    PENSTOCK_RETURN_IF_ERROR(adapter.Update(array));
  }
}

}  // namespace penstock::keras
