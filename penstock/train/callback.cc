#include "penstock/train/callback.h"

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <cxxabi.h>

namespace penstock::train {

std::string Callback::name() const {
  const char* mangled = typeid(*this).name();
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), std::free);
  absl::string_view name = plain == nullptr ? mangled : plain.get();
  if (const size_t scope = name.rfind("::"); scope != absl::string_view::npos) {
    name.remove_prefix(scope + 2);
  }
  if (name.size() > absl::string_view("Callback").size()) absl::ConsumeSuffix(&name, "Callback");
  return std::string(name);
}

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
  return absl::InvalidArgumentError(
      absl::StrCat("nothing named '", name, "' is measured; there are ", names));
}

}  // namespace penstock::train
