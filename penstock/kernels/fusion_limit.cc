#include "penstock/kernels/fusion_limit.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;
using ir::Node;
using ir::Rewriter;
using ir::Values;

// Whether XLA:CPU recomputes the node in each of its consumers.
bool IsFused(const Node& node) {
  const absl::string_view name = ir::OpName(node);
  return ir::IsElementwise(node) || name == "stablehlo.broadcast_in_dim" ||
         name == "stablehlo.reshape" || name == "stablehlo.transpose";
}

// Tensors in memory, as sorted node ids, that a fused computation reads. Truncated to
// kMaxFusedReads + 1.
using Reads = std::vector<int>;

Reads Union(const Reads& a, const Reads& b) {
  Reads both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  both.resize(std::min<size_t>(both.size(), kMaxFusedReads + 1));
  return both;
}

// For each node: whether its result is to be stored in memory.
std::vector<bool> FindInMemory(const Rewriter& r) {
  const ir::Graph& graph = r.from();
  std::vector<bool> kept(graph.num_nodes());
  std::vector<Reads> reads(graph.num_nodes());
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!r.IsNeeded(id) || node.results.empty()) continue;
    if (!IsFused(node)) {
      if (node.results[0].shape.rank() > 0) reads[id] = {id};
      continue;
    }
    for (const ir::Value& operand : node.operands) {
      reads[id] = Union(reads[id], reads[operand.node_id()]);
    }
    kept[id] =
        ir::IsElementwise(node) && reads[id].size() > kMaxFusedReads && r.Users(id, 0).size() > 1;
    if (kept[id]) reads[id] = {id};
  }
  return kept;
}

ffi::Error InMemory(ffi::AnyBuffer value, ffi::Result<ffi::AnyBuffer> same) {
  if (value.untyped_data() != same->untyped_data()) {
    std::memcpy(same->untyped_data(), value.untyped_data(), value.size_bytes());
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kInMemoryHandler, InMemory,
                       ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

}  // namespace

std::vector<runtime::Kernel> InMemoryKernels() {
  return {{kInMemoryTarget, reinterpret_cast<void*>(kInMemoryHandler)}};
}

std::unique_ptr<ir::Graph> LimitFusion(const ir::Graph& graph) {
  const std::unique_ptr<ir::Graph> plain =
      ir::HasComposites(graph) ? ir::Decompose(graph) : nullptr;
  absl::flat_hash_map<const ir::Graph*, std::vector<bool>> kept;  // each body is a separate graph
  return ir::Rewrite(plain ? *plain : graph, [&](Rewriter& r, int id) -> Values {
    const auto [of_graph, is_new] = kept.try_emplace(&r.from());
    if (is_new) of_graph->second = FindInMemory(r);
    if (!of_graph->second[id]) return {};
    const Node& node = r.from().node(id);
    const Values value = r.to().Emit(*node.op, r.Operands(node), node.attributes);
    if (value.empty()) return {};
    return ir::CustomCall(r.to(), kInMemoryTarget, value, node.results, {}, /*in_place=*/true);
  });
}

}  // namespace penstock::kernels
