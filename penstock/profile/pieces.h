// Pieces: the operations of a program that are units of work of their own, each as a separate
// program. Internal to room profile.
#pragma once

#include <memory>
#include <vector>

#include "penstock/ir/graph.h"
#include "penstock/profile/operation_costs.h"

namespace penstock::profile {

struct Piece {
  OperationCost cost;  // without the measured time
  ir::Program program;
  double expected_seconds = 0;  // of all occurrences: an estimate, used to order pieces
};

// Equal operations with equal types form one piece. Pieces are in program order, without operations
// that no result depends on. The bodies of loops and branches belong to their loop. A piece that
// cannot be printed has the reason in cost.not_timed.
std::vector<Piece> FindPieces(const ir::Graph& program, const PrintFunction& print);

}  // namespace penstock::profile
