#include "penstock/lazy/optim/state_parts.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"

namespace penstock::lazy::optim {

absl::StatusOr<double> NumberIn(absl::string_view owner, const base::NamedArrays& state,
                                absl::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array array, state.Get(name));
  if (!base::IsNumeric(array.dtype()) || array.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(owner, ": ", name, " is no number, but ", array.TypeString()));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Array wide, array.Cast(DType::kF64));
  return wide.values<double>()[0];
}

void AppendStates(const Schedulers& schedulers, base::NamedArrays& state) {
  for (size_t i = 0; i < schedulers.size(); ++i) {
    for (const auto& [name, array] : schedulers[i]->state_dict()) {
      state.Append(absl::StrCat("schedulers/", i, "/", name), array);
    }
  }
}

absl::Status LoadStates(const Schedulers& schedulers, const base::NamedArrays& state) {
  for (size_t i = 0; i < schedulers.size(); ++i) {
    const std::string prefix = absl::StrCat("schedulers/", i, "/");
    base::NamedArrays part;
    for (const auto& [name, array] : state) {
      absl::string_view rest = name;
      if (absl::ConsumePrefix(&rest, prefix)) part.Append(std::string(rest), array);
    }
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(schedulers[i]->load_state_dict(part), prefix));
  }
  return absl::OkStatus();
}

}  // namespace penstock::lazy::optim
