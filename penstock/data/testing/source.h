// Source for tests of stages: asynchronous, fails at a chosen row, and counts the rows read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/data/dataset.h"

namespace penstock::data::testing {

struct SourceOptions {
  int64_t rows = 20;     // number of rows; -1: infinite
  int64_t fail_at = -1;  // index of a row that fails; -1: none
  int64_t portion = 3;   // number of rows that each job of the pool makes available
};

struct SourceCounts {
  std::atomic<int64_t> rows = 0;    // number of rows returned or skipped
  std::atomic<int64_t> passes = 0;  // number of nodes made
};

// Rows {x: int64[] = i, v: float32[2] = {i, -i}, s: string[] = "row i"}, with origin "source:i".
Dataset TestSource(SourceOptions options = {}, std::shared_ptr<SourceCounts> counts = nullptr);

// Elements that are views of the rows of arrays owned by the dataset: an iterator returns them
// without a copy, unlike those of FromArrays.
Dataset OwnedRows(base::NamedArrays arrays);

// Of each row x of TestSource: x % 4 tags (10 x, 10 x + 1, ...) and names of them instead of `s`.
Dataset Lists(const Dataset& dataset);

// TestSource's row `i`, printed as PrintElement does.
std::string PrintedRow(int64_t i);
std::vector<std::string> PrintedRows(const std::vector<int64_t>& rows);

}  // namespace penstock::data::testing
