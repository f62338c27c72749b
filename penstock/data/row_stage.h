// RowStage: interface of stages that map one element to one element (ParseExample, DecodeImage,
// Map). A RowStage says which columns it reads and makes; its RowKernel computes some rows at a
// time. The engine fuses consecutive row stages, runs them on many rows in parallel, and lets the
// last writer of a column write straight into the batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/base/random.h"
#include "penstock/data/engine/rows.h"
#include "penstock/data/stage.h"

namespace penstock::data {

class ColumnWriter;

// Input of a kernel: some consecutive rows.
struct RowsIn {
  int64_t rows = 0;
  // Index of the first row in this pass, at the node that runs the kernel (engine/plan.h). Together
  // with the epoch and the stage's seed it is a source of random numbers for each row (RowSeed).
  int64_t first = 0;
  int64_t epoch = 0;
  uint64_t seed = 0;
  std::vector<const Column*> columns;  // the columns of RowKernelBinding::reads, in that order
};

// Seed of row `row`, 0 being the first: the same for any number of threads, and after skipping
// rows.
inline uint64_t RowSeed(const RowsIn& in, uint64_t seed, int64_t row) {
  return base::MixSeeds(base::MixSeeds(seed, static_cast<uint64_t>(in.epoch)),
                        static_cast<uint64_t>(in.first + row));
}

// Output of a kernel: the columns that it makes, by their index in that list.
class RowsOut {
 public:
  RowsOut(int64_t rows, std::vector<ColumnWriter*> columns)
      : rows_(rows), columns_(std::move(columns)) {}

  int64_t rows() const { return rows_; }
  // Memory of all rows of a column whose shape is known in advance: [rows, shape of the spec].
  absl::StatusOr<base::Array> Dense(int column);
  // Memory for one row of that shape. Called for all rows in order, from 0. An error if rows are to
  // be stacked and an earlier one had another shape; pass it to Fail.
  absl::StatusOr<void*> Row(int column, int64_t row, const base::Shape& shape);
  // Sets all rows of a ragged column: row i is values[splits[i], splits[i+1]).
  absl::Status Ragged(int column, base::Array values, std::vector<int64_t> splits);
  // Keeps alive the memory that the strings written to a column point into.
  void KeepAlive(int column, std::shared_ptr<const void> owner);
  // Reports that the row cannot be computed. The caller adds its origin; `location` follows the
  // origin and says where in the row: ":3" for the third field.
  void Fail(int64_t row, absl::Status status, std::string location = "") {
    failures_.push_back({row, std::move(status), std::move(location)});
  }
  // As Fail, for a kernel that stops at its first failure, although other rows could be computed.
  // It is then run again on the rows before and after.
  void FailAndStop(int64_t row, absl::Status status) {
    Fail(row, std::move(status));
    stopped_ = true;
  }

  struct Failure {
    int64_t row;
    absl::Status status;
    std::string location;
  };
  const std::vector<Failure>& failures() const { return failures_; }
  bool stopped() const { return stopped_; }

 private:
  int64_t rows_;
  std::vector<ColumnWriter*> columns_;
  std::vector<Failure> failures_;
  bool stopped_ = false;
};

// Computation of a RowStage. Run is called concurrently by many threads.
class RowKernel {
 public:
  virtual ~RowKernel() = default;
  virtual void Run(const RowsIn& in, RowsOut& out) const = 0;
};

struct RowKernelBinding {
  std::shared_ptr<const RowKernel> kernel;
  std::vector<int> reads;  // columns of the input
  // For each column of the output: the input column that is forwarded; -1 if the kernel makes it.
  std::vector<int> passes;
};

class RowStage : public Stage {
 public:
  virtual absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                                const ElementSpec& output) const = 0;
  // Whether its kernel computes something from RowsIn::first that the user sees: it then must not
  // move after a stage that selects or reorders elements. (A kernel that only draws random numbers
  // by it may.)
  virtual bool counts_rows() const { return false; }

  bool may_follow_host_shard() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0];
  }

  // Not used: the plan fuses its kernel with others instead (engine/plan.h).
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext&) const final;
};

}  // namespace penstock::data
