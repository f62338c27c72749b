// Iterators over datasets within a graph (tf.data in TensorFlow 1): each Run takes the next batch,
// without feeds.
//
//   tf::Iterator iterator = tf::MakeOneShotIterator(dataset);
//   const tf::Element next = iterator.GetNext();
//   tf::Tensor loss = Loss(next["image"], next["label"]);
//   for (;;) {
//     const auto result = session.Run({step, loss});
//     if (absl::IsOutOfRange(result.status())) break;              // the dataset has ended
//     ...
//   }
//
// Each session reads the dataset by itself. A Run takes one element for each GetNext that it needs,
// however many tensors of it are used, and the elements after them are read and transferred to the
// devices while the program runs; not from a dataset with FromGenerator, which may give an element
// only after that Run, and must not call the session itself. RunLoop(n, ...) takes n elements for
// each GetNext. After the last element Run returns OUT_OF_RANGE and changes nothing. A column used
// by tpu::Shard only is sent in slices.
//
// Columns of strings are an error that names the column: devices have no strings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/data/dataset.h"
#include "penstock/session/graph.h"

namespace penstock::session {

struct IteratorDef;  // run/iterator_def.h

// The tensors of one element.
class Element {
 public:
  Element() = default;
  Element(Graph* graph, std::vector<std::string> names, Tensors tensors, SourceLocation where)
      : graph_(graph), names_(std::move(names)), tensors_(std::move(tensors)), where_(where) {}

  // The column of that name; an error of the graph, which lists the columns, if there is none.
  Tensor operator[](absl::string_view name) const;
  Tensor operator[](const char* name) const { return (*this)[absl::string_view(name)]; }
  // Column i, in the dataset's order.
  Tensor operator[](int i) const;
  int size() const { return static_cast<int>(tensors_.size()); }
  const Tensors& tensors() const { return tensors_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  Graph* graph_ = nullptr;
  std::vector<std::string> names_;
  Tensors tensors_;
  SourceLocation where_;
};

// Handle to an iterator of a graph (tf.data.Iterator); cheap to copy. Default-constructed: invalid.
class Iterator {
 public:
  Iterator() = default;
  explicit Iterator(IteratorDef* def) : def_(def) {}

  // An iterator without a dataset, for elements of this form: MakeInitializer gives it one
  // (tf.data.Iterator.from_structure).
  static Iterator FromStructure(const data::ElementSpec& spec, absl::string_view name = "Iterator",
                                SourceLocation where = SourceLocation::Current());

  bool valid() const { return def_ != nullptr; }
  IteratorDef* def() const { return def_; }
  const data::ElementSpec& element_spec() const;

  // The next element. As in TensorFlow, each call adds an operation that takes an element of its
  // own in each Run that needs it: call it once, and use the tensors of the result together.
  Element GetNext(absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current()) const;
  // Operation that opens the dataset, and starts again at its beginning when it is run again.
  // Invalid for iterators that need none (one-shot) and those of FromStructure.
  Operation initializer() const;
  // Operation that makes the iterator read `dataset`, whose elements have the same columns.
  Operation MakeInitializer(const data::Dataset& dataset, const data::IteratorOptions& options = {},
                            absl::string_view name = "",
                            SourceLocation where = SourceLocation::Current()) const;

 private:
  IteratorDef* def_ = nullptr;
};

// An iterator that is ready without initialization and runs once through the dataset
// (tf.compat.v1.data.make_one_shot_iterator).
Iterator MakeOneShotIterator(const data::Dataset& dataset,
                             const data::IteratorOptions& options = {},
                             SourceLocation where = SourceLocation::Current());
// An iterator that its initializer opens (make_initializable_iterator). The epoch of the options
// counts up with each initialization, so that shuffled orders differ.
Iterator MakeInitializableIterator(const data::Dataset& dataset,
                                   const data::IteratorOptions& options = {},
                                   SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
