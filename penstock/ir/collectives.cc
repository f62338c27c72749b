// What replicas do together.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/reducer.h"

namespace penstock::ir {
namespace {

const OpDef kReplicaId = {
    .name = "stablehlo.replica_id",
    .infer = [](const Node&) -> InferResult {
      return std::vector<TensorType>{{DType::kU32, {}}};
    },
    .zero_gradient = true,
    .print =
        [](Printer& printer, const Node& node) {
          printer.Line(node, absl::StrCat("stablehlo.replica_id : ", MlirType(node.results[0])));
        }};

const OpDef kAllReduce = {
    .name = "stablehlo.all_reduce",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& type = node.operands[0].type();
      if (!base::IsNumeric(type.dtype) || type.dtype == DType::kBool) {
        return OpError(node, absl::StrCat("wants numbers, got ", type.ToString()));
      }
      return std::vector<TensorType>{type};
    },
    .gradient = [](const GradientArgs& g) -> Values {
      const auto kind = static_cast<ReduceKind>(g.node.attributes.Get<int64_t>("kind"));
      if (kind != ReduceKind::kSum) {
        g.operand(0).graph()->Fail(OpError(g.node, "only a sum over replicas has a gradient"));
        return {Value()};
      }
      return {AllReduce(g.cotangent())};
    },
    .print =
        [](Printer& printer, const Node& node) {
          const auto kind = static_cast<ReduceKind>(node.attributes.Get<int64_t>("kind"));
          const int replicas = printer.num_replicas();
          std::vector<int64_t> group(replicas);
          std::iota(group.begin(), group.end(), 0);
          printer.OpenLine(node, absl::StrCat("\"stablehlo.all_reduce\"(",
                                              printer.Names(node.operands), ") ({"));
          printer.ReducerRegion(StableHloOf(kind), node.results[0].dtype);
          printer.CloseLine(absl::StrCat("}) {replica_groups = dense<[", MlirList(group),
                                         "]> : tensor<1x", replicas,
                                         "xi64>} : ", FunctionType(node)));
        }};

ReduceKind KindOf(Reducer reducer) {
  return reducer == Reducer::kSum   ? ReduceKind::kSum
         : reducer == Reducer::kMax ? ReduceKind::kMax
                                    : ReduceKind::kMin;
}

}  // namespace

Value ReplicaId(Graph& graph) {
  if (graph.num_replicas() == 1) return Splat(graph, {DType::kU32, {}}, 0);
  const Values results = graph.Emit(kReplicaId, {});
  return results.empty() ? Value() : results[0];
}

Value AllReduce(Value x, Reducer reducer) {
  if (!x.valid() || x.graph()->num_replicas() == 1) return x;
  return EmitOne(kAllReduce, {x}, {{"kind", static_cast<int64_t>(KindOf(reducer))}});
}

// All values of one element type travel as one vector: a collective costs its latency once, and
// all_reduce of several operands is not read by every plugin.
Values AllReduce(const Values& xs, Reducer reducer) {
  for (const Value& x : xs) {
    if (!x.valid()) return Values(xs.size());
  }
  if (xs.empty() || xs[0].graph()->num_replicas() == 1) return xs;
  Values out(xs.size());
  std::vector<bool> done(xs.size());
  for (size_t first = 0; first < xs.size(); ++first) {
    if (done[first]) continue;
    std::vector<size_t> together;
    Values flat;
    for (size_t i = first; i < xs.size(); ++i) {
      if (xs[i].dtype() != xs[first].dtype()) continue;
      done[i] = true;
      together.push_back(i);
      flat.push_back(Reshape(xs[i], {xs[i].shape().num_elements()}));
    }
    const Value sum = AllReduce(Concatenate(flat, 0), reducer);
    if (!sum.valid()) return Values(xs.size());
    int64_t begin = 0;
    for (size_t i : together) {
      const int64_t count = xs[i].shape().num_elements();
      out[i] = Reshape(SliceAxis(sum, 0, begin, begin + count), xs[i].shape());
      begin += count;
    }
  }
  return out;
}

OpList CollectiveOps() {
  static constexpr const OpDef* kOps[] = {&kReplicaId, &kAllReduce};
  return kOps;
}

}  // namespace penstock::ir
