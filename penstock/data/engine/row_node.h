// RowNode: runs FusedKernels on groups of rows, with several groups in flight. Two uses:
//   Batch, PaddedBatch, Window: a group is a batch; its rows are computed into the batch's own
//     memory, in parallel.
//   Elsewhere (Filter and Scan among them): a group is as many rows as take about a millisecond,
//     and its rows are passed on, except those that failed or are filtered out.
#pragma once

#include <cstdint>
#include <memory>

#include "penstock/data/engine/fused_kernels.h"
#include "penstock/data/stage.h"

namespace penstock::data {

std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options);
// As above, with these kernels in place of the context's.
std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options,
                                  std::shared_ptr<const FusedKernels> kernels);

}  // namespace penstock::data
