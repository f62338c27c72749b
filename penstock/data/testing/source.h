// A source for tests of stages: it answers late, fails where it is told to, and counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/data/dataset.h"

namespace penstock::data::testing {

struct SourceOptions {
  int64_t rows = 20;     // -1: without end
  int64_t fail_at = -1;  // this row is an error instead
  int64_t portion = 3;   // rows that come at once, each portion by a job of the pool
};

struct SourceCounts {
  std::atomic<int64_t> rows = 0;    // handed out or passed over
  std::atomic<int64_t> passes = 0;  // nodes made
};

// Rows {x: int64[] = i, v: float32[2] = {i, -i}, s: string[] = "row i"}, with origin "source:i".
Dataset TestSource(SourceOptions options = {}, std::shared_ptr<SourceCounts> counts = nullptr);

// Elements that are views of the rows of arrays owned by the dataset: an iterator returns them
// without a copy, unlike those of FromArrays.
Dataset OwnedRows(base::NamedArrays arrays);

// What TestSource's row is, printed as PrintElement does.
std::string PrintedRow(int64_t i);
std::vector<std::string> PrintedRows(const std::vector<int64_t>& rows);

}  // namespace penstock::data::testing
