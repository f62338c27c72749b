// What Penstock makes of a row, for each kind of row.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/ir/graph.h"

#include "tests/parity/row.h"

namespace penstock::tests {

// Where a row adds its part of a program that it shares with other rows: compiling takes longer
// than anything else.
class RowBuilder {
 public:
  virtual ~RowBuilder() = default;
  virtual ir::Graph& graph() = 0;
  virtual ir::Value Input(const base::Array& value) = 0;
  // `got` has to come out as `want`.
  virtual void Expect(const std::string& name, ir::Value got, const base::Array& want) = 0;
};

// Adds the row's computation; an error is the row's failure, as is one of the graph.
using BuildRow = absl::Status (*)(const Row& row, RowBuilder& builder);

absl::Status BuildLayer(const Row& row, RowBuilder& builder);
absl::Status BuildLoss(const Row& row, RowBuilder& builder);
absl::Status BuildMetric(const Row& row, RowBuilder& builder);
absl::Status BuildSchedule(const Row& row, RowBuilder& builder);
absl::Status BuildOptimizer(const Row& row, RowBuilder& builder);
absl::Status BuildRegularizer(const Row& row, RowBuilder& builder);
absl::Status BuildConstraint(const Row& row, RowBuilder& builder);

// Training goes through room keras and makes its own programs; what differs, a line each.
absl::StatusOr<std::string> CheckTraining(const Row& row);

}  // namespace penstock::tests
