#include "penstock/train/callback.h"

#include "absl/strings/str_cat.h"

namespace penstock::train {

void Logs::Set(absl::string_view name, double value) {
  for (auto& entry : entries_) {
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  }
  entries_.emplace_back(std::string(name), value);
}

const double* Logs::Find(absl::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

absl::StatusOr<double> Logs::Get(absl::string_view name) const {
  if (const double* value = Find(name)) return *value;
  std::string names;
  for (const auto& entry : entries_)
    absl::StrAppend(&names, names.empty() ? "" : ", ", entry.first);
  return absl::NotFoundError(
      absl::StrCat("nothing named '", name, "' is measured; there are ", names));
}

}  // namespace penstock::train
