// The pieces of a program that are work of their own, each as a program. Internal to room profile.
#pragma once

#include <memory>
#include <vector>

#include "penstock/ir/graph.h"
#include "penstock/profile/operation_costs.h"

namespace penstock::profile {

struct Piece {
  OperationCost cost;  // without its time
  ir::Program program;
  double expected_seconds = 0;  // of all that are like it: a guess, by which they are ordered
};

// Operations that are the same, of the same types, are one piece. In the order of the program, what
// no result needs left out. Bodies of loops and branches belong to their loop. A piece that cannot
// be printed says why in cost.not_timed.
std::vector<Piece> FindPieces(const ir::Graph& program, const PrintFunction& print);

}  // namespace penstock::profile
