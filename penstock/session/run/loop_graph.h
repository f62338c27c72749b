// The program of Session::RunLoop: a loop on the device over the program of a single Run.
//
//   for (i = 0; i < steps; ++i) state, fetches = step(state, feeds, random counts + i, batches[i])
//
// `steps` is an argument, the last one, so a stack of batches that is not full needs no other
// program. The fetches are those of the last iteration.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"

namespace penstock::session {

// What a parameter of a step is in the loop.
struct LoopParameter {
  enum Kind {
    kInvariant,  // the same in each iteration: a feed, a variable that no operation assigns
    kState,      // replaced by a result of the step
    kRandom,     // seeds and counts of random operations, ui32[n, 2]: the counts increase by 1
    kBatch,      // a stack, of which each iteration gets one element
  };
  Kind kind = kInvariant;
  int result = -1;  // of kState: the step's result that replaces it
};

// The loop over `step`, whose parameters are described by `parameters`. Its parameters: those of
// the step, where kBatch ones have one more axis in front, of extent `depth`; then the number of
// steps (i32, at least 1 and at most `depth` if there are stacks). Its results: those of the step.
absl::StatusOr<std::unique_ptr<ir::Graph>> LoopGraph(const ir::Graph& step,
                                                     absl::Span<const LoopParameter> parameters,
                                                     int64_t depth);

// Extent of the stacks for a loop of `steps` steps whose batches have `bytes` bytes each, at most
// `steps`: what was read ahead, the stacks of this execution and of the next one take at most half
// of the free memory. At least 1.
int64_t LoopDepthThatFits(int64_t steps, int64_t bytes, int64_t free_bytes);

}  // namespace penstock::session
