// Conformance suite of stages: ExpectConforms runs every test of it on one stage. Also functions
// that read a dataset in a test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"

namespace penstock::data::testing {

// All columns of an element: "x=int64[] {3} s=string[] {\"a\"}".
std::string PrintElement(const base::NamedArrays& element);

// All elements, printed; or the error.
absl::StatusOr<std::vector<std::string>> ReadAll(const Dataset& dataset,
                                                 const IteratorOptions& options = {});
// The first `count` elements, printed.
absl::StatusOr<std::vector<std::string>> ReadSome(const Dataset& dataset, int64_t count,
                                                  const IteratorOptions& options = {});

// The values of one column of all elements: rows one by one, or batches joined. T: int64_t, or
// std::string.
template <typename T>
absl::StatusOr<std::vector<T>> ReadColumn(const Dataset& dataset, absl::string_view column,
                                          const IteratorOptions& options = {});

// Expects that an iterator can be destroyed after any number of elements, and that one that skips
// them returns the rest. The dataset ends.
void ExpectCanBeDroppedAndSkips(const Dataset& dataset, const IteratorOptions& options);

struct StageTraits {
  // False for a stage that may not reach a failing input element, as Take(0).
  bool reads_all_input = true;
  // False for an infinite stage: Repeat() is not read to the end.
  bool ends = true;
  // Whether the set of rows depends on the order of the input: Skip(1) after batches in any order.
  // Then only their number is compared.
  bool rows_depend_on_order = false;
  // Whether its random numbers depend on the row's index at the node where it runs, which changes
  // when it moves after stages that select (docs/design/data.md).
  bool numbers_rows_where_it_runs = false;
  // Maximum number of input rows read ahead of the reader: two output buffers of the engine (256
  // rows each if rows are small), one returned and one queued, and what the stage itself holds.
  int64_t max_ahead = 600;
};

// Runs the suite. `stage` adds the stage under test to a dataset of testing/source.h, and leaves
// column x first.
void ExpectConforms(const std::function<Dataset(const Dataset&)>& stage, StageTraits traits = {});

}  // namespace penstock::data::testing
