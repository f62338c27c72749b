// Lowering of the loops of scan_loop.h to ir::Scan. Internal to room session.
#pragma once

#include "penstock/session/body.h"
#include "penstock/session/lowering.h"

namespace penstock::session {

// The body's arguments: the index of the row, the states, a row of each x. Its results: the states,
// then a row of each y.
struct LoweredScan {
  const Body* body = nullptr;
  size_t num_states = 0, num_xs = 0;
  bool reverse = false;
};
// The last states, then the stacks of ys. `in`: the initial states, the xs, then what is captured.
// Variables that the body assigns are states, too.
ir::Values LowerScan(Lowering& lowering, const ir::Values& in, const LoweredScan& scan);

}  // namespace penstock::session
