// Stages that make one element of each element (ParseExample, DecodeImage, Map), for those who
// write one: a RowStage says which columns it reads and makes, its RowKernel computes some rows at
// a time. The engine runs a chain of them at once, on many rows in parallel, and lets the last
// writer of a column write straight into the batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/base/random.h"
#include "penstock/data/rows.h"
#include "penstock/data/stage.h"

namespace penstock::data {

class ColumnWriter;

// The rows that a kernel is given.
struct RowsIn {
  int64_t rows = 0;
  // The first row's number in this pass, where the kernel is run (plan.h). Together with the epoch
  // and the seed, which is the stage's own, a source of randomness for each row (RowSeed).
  int64_t first = 0;
  int64_t epoch = 0;
  uint64_t seed = 0;
  std::vector<const Column*> columns;  // those that it said it reads, in that order
};

// Of row `row`, 0 being the first: the same for any number of threads, and after passing over rows.
inline uint64_t RowSeed(const RowsIn& in, uint64_t seed, int64_t row) {
  return base::MixSeeds(base::MixSeeds(seed, static_cast<uint64_t>(in.epoch)),
                        static_cast<uint64_t>(in.first + row));
}

// Where it writes them: columns that it said it makes, by their index in that list.
class RowsOut {
 public:
  RowsOut(int64_t rows, std::vector<ColumnWriter*> columns)
      : rows_(rows), columns_(std::move(columns)) {}

  int64_t rows() const { return rows_; }
  // All rows of a column whose shape is known before: [rows, shape of the spec].
  absl::StatusOr<base::Array> Dense(int column);
  // Memory for one row of that shape. All rows in turn, from 0. An error when rows are to be
  // stacked and an earlier one had another shape; give it to Fail.
  absl::StatusOr<void*> Row(int column, int64_t row, const base::Shape& shape);
  // All rows of a column of lists of different lengths: row i is values[splits[i], splits[i+1]).
  absl::Status Ragged(int column, base::Array values, std::vector<int64_t> splits);
  // What the strings written to a column point into.
  void KeepAlive(int column, std::shared_ptr<const void> owner);
  // The row cannot be made. The caller adds where it came from; `place` stands right behind that
  // and tells where in the row: ":3" for the third field.
  void Fail(int64_t row, absl::Status status, std::string place = "") {
    failures_.push_back({row, std::move(status), std::move(place)});
  }
  // The same, and rows beside it were not made either, although they could be: for a kernel that
  // goes no further than its first failure. It is then run again on the rows before and after.
  void FailAndStop(int64_t row, absl::Status status) {
    Fail(row, std::move(status));
    stopped_ = true;
  }

  struct Failure {
    int64_t row;
    absl::Status status;
    std::string place;
  };
  const std::vector<Failure>& failures() const { return failures_; }
  bool stopped() const { return stopped_; }

 private:
  int64_t rows_;
  std::vector<ColumnWriter*> columns_;
  std::vector<Failure> failures_;
  bool stopped_ = false;
};

// Called from many threads at once.
class RowKernel {
 public:
  virtual ~RowKernel() = default;
  virtual void Run(const RowsIn& in, RowsOut& out) const = 0;
};

struct RowKernelBinding {
  std::shared_ptr<const RowKernel> kernel;
  std::vector<int> reads;   // columns of the input
  std::vector<int> passes;  // for each column of the output: the input's that it is, -1 when made
};

class RowStage : public Stage {
 public:
  virtual absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                                const ElementSpec& output) const = 0;
  // Its kernel makes something of RowsIn::first that the user sees: it must not move behind what
  // chooses or orders elements. (One that only draws random numbers by it may.)
  virtual bool counts_rows() const { return false; }

  bool may_follow_shared() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const LookUpContext&) const override {
    return inputs[0];
  }

  // The plan puts its kernel into a chain instead (plan.h).
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext&) const final;
};

}  // namespace penstock::data
