#include "penstock/keras/arguments.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::keras {

absl::StatusOr<std::vector<base::Array>> ArraysArg::InOrder(const std::vector<std::string>& names,
                                                            absl::string_view what) const {
  std::vector<base::Array> arrays = in_order_;
  if (!by_name_.empty()) {
    for (const std::string& name : names) {
      const base::Array* array = by_name_.Find(name);
      if (array == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            what, " has no array '", name, "'; the model wants ", absl::StrJoin(names, ", ")));
      }
      arrays.push_back(*array);
    }
  }
  const size_t given = by_name_.empty() ? in_order_.size() : by_name_.size();
  if (given != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", given,
                                                   " arrays; the model wants ", names.size(), ": ",
                                                   absl::StrJoin(names, ", ")));
  }
  for (const base::Array& array : arrays) {
    if (array.rank() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, " must have rows, got a scalar"));
    }
  }
  return arrays;
}

}  // namespace penstock::keras
