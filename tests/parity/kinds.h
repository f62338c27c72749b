// Computes a row with Penstock, one function per kind of row.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/ir/graph.h"

#include "tests/parity/row.h"

namespace penstock::tests {

// Adds a row's computation to a program shared by several rows, because compilation takes most of
// the time.
class RowBuilder {
 public:
  virtual ~RowBuilder() = default;
  virtual ir::Graph& graph() = 0;
  virtual ir::Value Input(const base::Array& value) = 0;
  // Requires `got` to equal `want`.
  virtual void Expect(const std::string& name, ir::Value got, const base::Array& want) = 0;
};

// Adds the row's computation; an error, also one of the graph, fails the row.
using BuildRow = absl::Status (*)(const Row& row, RowBuilder& builder);

absl::Status BuildLayer(const Row& row, RowBuilder& builder);
absl::Status BuildLoss(const Row& row, RowBuilder& builder);
absl::Status BuildMetric(const Row& row, RowBuilder& builder);
absl::Status BuildSchedule(const Row& row, RowBuilder& builder);
absl::Status BuildOptimizer(const Row& row, RowBuilder& builder);
absl::Status BuildRegularizer(const Row& row, RowBuilder& builder);
absl::Status BuildConstraint(const Row& row, RowBuilder& builder);

// Trains with room keras, which makes its own programs; returns the differences, one per line.
absl::StatusOr<std::string> CheckTraining(const Row& row);

}  // namespace penstock::tests
