// Lowering of Cond and WhileLoop to ir::Cond, ir::While and ir::For. Internal to room session.
#pragma once

#include <cstdint>

#include "penstock/session/body.h"
#include "penstock/session/lowering.h"

namespace penstock::session {

// The results of the branch that is taken. Variables that either branch assigns are results of both.
ir::Values LowerCond(Lowering& lowering, ir::Value pred, const Body& yes, const Body& no);

struct LoopBodies {
  const Body* condition = nullptr;
  const Body* body = nullptr;
  int64_t maximum_iterations = -1;  // -1: no limit
};
// The last values of the loop variables. Variables that the body assigns are part of the loop's
// state. With a limit, and if the program contains gradients, the loop is a differentiable one that
// always has that number of iterations, of which those after the end change nothing.
ir::Values LowerWhile(Lowering& lowering, const ir::Values& init, const LoopBodies& loop);

}  // namespace penstock::session
