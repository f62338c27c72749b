// RowNode: computes rows with a RowChain, several groups of rows at a time on the pool. Two uses:
//   Batch, PaddedBatch, Window: a group is a batch; its rows are computed into the batch's own
//     memory, in parallel.
//   Elsewhere (Filter and Scan among them): a group is as many rows as take about a millisecond;
//     its rows are passed on, but for those that failed or are filtered out.
#pragma once

#include <cstdint>
#include <memory>

#include "penstock/data/row_chain.h"
#include "penstock/data/stage.h"

namespace penstock::data {

std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options);
// With a chain of the stage's own in place of the context's.
std::unique_ptr<Node> MakeRowNode(const NodeContext& context, std::unique_ptr<Node> input,
                                  RowNodeOptions options, std::shared_ptr<const RowChain> chain);

}  // namespace penstock::data
