// What every stage has to hold, whatever it does: ExpectConforms runs it all on one. And means to
// read a dataset in a test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"

namespace penstock::data::testing {

// "x=int64[] {3} s=string[] {\"a\"}", all elements.
std::string PrintElement(const base::NamedArrays& element);

// All elements, printed; or the error.
absl::StatusOr<std::vector<std::string>> ReadAll(const Dataset& dataset,
                                                 const IteratorOptions& options = {});
// The first `count`.
absl::StatusOr<std::vector<std::string>> ReadSome(const Dataset& dataset, int64_t count,
                                                  const IteratorOptions& options = {});

struct StageTraits {
  // A stage after which nothing comes of a failing input, as Take(0).
  bool reads_all_input = true;
  // It makes no element without end: Repeat() for ever is not read to the end.
  bool ends = true;
  // Which rows come out depends on the order they came in: Skip(1) after batches that may come in
  // any order. Then only their number is the same.
  bool rows_depend_on_order = false;
  // Its random numbers depend on the row's number at the stage where it runs, which changes when it
  // is moved past stages that select (docs/data.md).
  bool numbers_rows_where_it_runs = false;
  // How many input rows may be taken ahead of the reader: two portions of the engine's (256 rows
  // where they are small), one given and one that waits, and what the stage itself holds.
  int64_t most_ahead = 600;
};

// `stage` adds the stage under test to a dataset of testing/source.h, and leaves column x first.
void ExpectConforms(const std::function<Dataset(const Dataset&)>& stage, StageTraits traits = {});

}  // namespace penstock::data::testing
