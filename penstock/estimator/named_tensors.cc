#include "penstock/estimator/named_tensors.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::estimator {

using session::Tensor;
using session::Tensors;

NamedTensors::NamedTensors(const Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) entries_.emplace_back(absl::StrCat(i), tensors[i]);
}

Tensor NamedTensors::Fail(absl::string_view message) const {
  const std::string text =
      entries_.empty()
          ? absl::StrCat("there are no ", what_, advice_.empty() ? "" : ": ", advice_)
          : absl::StrCat(message, "; the ", what_, " are ", absl::StrJoin(names(), ", "));
  session::Graph* graph = entries_.empty() ? nullptr : entries_.front().second.graph();
  if (graph == nullptr) graph = session::Graph::Default();
  if (graph != nullptr) {
    graph->Fail(absl::InvalidArgumentError(text), "NamedTensors", session::SourceLocation());
  }
  return Tensor();
}

Tensor NamedTensors::operator[](absl::string_view name) const {
  if (const Tensor* found = Find(name)) return *found;
  return Fail(absl::StrCat("there is no '", name, "' among the ", what_));
}

Tensor NamedTensors::operator[](int index) const {
  if (index >= 0 && index < static_cast<int>(entries_.size())) return entries_[index].second;
  return Fail(absl::StrCat("there is no number ", index, " among the ", what_));
}

Tensor NamedTensors::Single() const {
  if (entries_.size() == 1) return entries_.front().second;
  return Fail(absl::StrCat("several ", what_, " were used as one tensor: select one by its name"));
}

void NamedTensors::Describe(std::string what, std::string advice) {
  what_ = std::move(what);
  advice_ = std::move(advice);
}

const Tensor* NamedTensors::Find(absl::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

void NamedTensors::Set(absl::string_view name, const Tensor& tensor) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = tensor;
      return;
    }
  }
  entries_.emplace_back(std::string(name), tensor);
}

Tensors NamedTensors::tensors() const {
  Tensors tensors;
  for (const Entry& entry : entries_) tensors.push_back(entry.second);
  return tensors;
}

std::vector<std::string> NamedTensors::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.first);
  return names;
}

}  // namespace penstock::estimator
