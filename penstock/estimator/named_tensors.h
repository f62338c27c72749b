// NamedTensors: tensors by name, as a model_fn receives features and labels and returns predictions
// (in TensorFlow a dict, or a single tensor).
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/session/graph.h"

namespace penstock::estimator {

class NamedTensors {
 public:
  using Entry = std::pair<std::string, session::Tensor>;

  NamedTensors() = default;
  // {{"classes", classes}, {"probabilities", probabilities}}
  NamedTensors(std::initializer_list<Entry> entries) : entries_(entries) {}
  explicit NamedTensors(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  // One tensor without a name of its own: it is named kSingle.
  NamedTensors(const session::Tensor& tensor) : entries_({{kSingle, tensor}}) {}  // NOLINT
  // Tensors named "0", "1", ...: the list form of eval_metrics and host_call.
  NamedTensors(const session::Tensors& tensors);  // NOLINT
  static constexpr char kSingle[] = "predictions";

  // The tensor of this name. If there is none, the graph gets an error that lists the names, and
  // the result is invalid.
  session::Tensor operator[](absl::string_view name) const;
  session::Tensor operator[](const char* name) const { return (*this)[absl::string_view(name)]; }
  session::Tensor operator[](int index) const;
  // The only tensor; an error of the graph if there are several, or none.
  operator session::Tensor() const { return Single(); }  // NOLINT: as in TensorFlow
  session::Tensor Single() const;

  // Null if there is none of this name.
  const session::Tensor* Find(absl::string_view name) const;
  bool Contains(absl::string_view name) const { return Find(name) != nullptr; }
  // Adds a tensor, or replaces the one of that name in place.
  void Set(absl::string_view name, const session::Tensor& tensor);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  session::Tensors tensors() const;
  std::vector<std::string> names() const;

  // What the tensors are, for errors: "labels"; and advice for the case that there are none.
  void Describe(std::string what, std::string advice);

 private:
  session::Tensor Fail(absl::string_view message) const;

  std::vector<Entry> entries_;
  std::string what_ = "tensors", advice_;
};

}  // namespace penstock::estimator
