// Collectives: communication between replicas.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

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

// "replica_groups = ...": one group with all replicas.
std::string OneGroup(const Printer& printer) {
  const int replicas = printer.num_replicas();
  std::vector<int64_t> group(replicas);
  std::iota(group.begin(), group.end(), 0);
  return absl::StrCat("replica_groups = dense<[", MlirList(group), "]> : tensor<1x", replicas,
                      "xi64>");
}

const OpDef kAllReduce = {
    .name = "stablehlo.all_reduce",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& type = node.operands[0].type();
      if (!base::IsNumeric(type.dtype) || type.dtype == DType::kBool) {
        return OpError(node, absl::StrCat("expects numbers, got ", type.ToString()));
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
          printer.OpenLine(node, absl::StrCat("\"stablehlo.all_reduce\"(",
                                              printer.Names(node.operands), ") ({"));
          printer.ReducerRegion(StableHloOf(kind), node.results[0].dtype);
          printer.CloseLine(absl::StrCat("}) {", OneGroup(printer), "} : ", FunctionType(node)));
        }};

int64_t IntOf(const Node& node, absl::string_view name) {
  return node.attributes.Get<int64_t>(name);
}

// The type with axis `axis` multiplied by `times`, or divided by -times.
InferResult Longer(const Node& node, int64_t axis, int64_t times) {
  TensorType type = node.operands[0].type();
  type.shape.set_dim(static_cast<int>(axis), type.shape.dim(static_cast<int>(axis)) * times);
  return std::vector<TensorType>{type};
}
InferResult Shorter(const Node& node, int64_t axis, int64_t times) {
  TensorType type = node.operands[0].type();
  const int64_t extent = type.shape.dim(static_cast<int>(axis));
  if (extent % times != 0) {
    return OpError(node, absl::StrCat("axis ", axis, " of ", type.ToString(),
                                      " does not divide among ", times, " replicas"));
  }
  type.shape.set_dim(static_cast<int>(axis), extent / times);
  return std::vector<TensorType>{type};
}
int64_t Replicas(const Node& node) { return node.operands[0].graph()->num_replicas(); }

const OpDef kAllGather = {
    .name = "stablehlo.all_gather",
    .infer = [](const Node& node) { return Longer(node, IntOf(node, "axis"), Replicas(node)); },
    .gradient = [](const GradientArgs& g) -> Values {
      return {ReduceScatter(g.cotangent(), IntOf(g.node, "axis"))};
    },
    .print =
        [](Printer& printer, const Node& node) {
          printer.Line(node, absl::StrCat("\"stablehlo.all_gather\"(", printer.Names(node.operands),
                                          ") {all_gather_dim = ", IntOf(node, "axis"), " : i64, ",
                                          OneGroup(printer), "} : ", FunctionType(node)));
        }};

const OpDef kReduceScatter = {
    .name = "stablehlo.reduce_scatter",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& type = node.operands[0].type();
      if (!base::IsNumeric(type.dtype) || type.dtype == DType::kBool) {
        return OpError(node, absl::StrCat("expects numbers, got ", type.ToString()));
      }
      return Shorter(node, IntOf(node, "axis"), Replicas(node));
    },
    .gradient = [](const GradientArgs& g) -> Values {
      return {AllGather(g.cotangent(), IntOf(g.node, "axis"))};
    },
    .print =
        [](Printer& printer, const Node& node) {
          printer.OpenLine(node, absl::StrCat("\"stablehlo.reduce_scatter\"(",
                                              printer.Names(node.operands), ") ({"));
          printer.ReducerRegion("stablehlo.add", node.results[0].dtype);
          printer.CloseLine(absl::StrCat("}) {", OneGroup(printer), ", scatter_dimension = ",
                                         IntOf(node, "axis"), " : i64} : ", FunctionType(node)));
        }};

const OpDef kAllToAll = {
    .name = "stablehlo.all_to_all",
    .infer = [](const Node& node) -> InferResult {
      const int64_t split = IntOf(node, "split"), concat = IntOf(node, "concat");
      PENSTOCK_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                                Shorter(node, split, Replicas(node)));
      const int at = static_cast<int>(concat);
      types[0].shape.set_dim(at, types[0].shape.dim(at) * Replicas(node));
      return types;
    },
    .gradient = [](const GradientArgs& g) -> Values {
      return {AllToAll(g.cotangent(), IntOf(g.node, "concat"), IntOf(g.node, "split"))};
    },
    .print =
        [](Printer& printer, const Node& node) {
          printer.Line(node,
                       absl::StrCat("\"stablehlo.all_to_all\"(", printer.Names(node.operands),
                                    ") {concat_dimension = ", IntOf(node, "concat"), " : i64, ",
                                    OneGroup(printer), ", split_count = ", printer.num_replicas(),
                                    " : i64, split_dimension = ", IntOf(node, "split"),
                                    " : i64} : ", FunctionType(node)));
        }};

// Attribute "pairs": source, target, source, target...
const OpDef kCollectivePermute = {
    .name = "stablehlo.collective_permute",
    .infer = [](const Node& node) -> InferResult {
      const auto& pairs = node.attributes.Get<std::vector<int64_t>>("pairs");
      for (size_t i = 0; i < pairs.size(); ++i) {
        bool twice = false;
        for (size_t k = i % 2; k < i; k += 2) twice = twice || pairs[k] == pairs[i];
        if (pairs[i] >= 0 && pairs[i] < Replicas(node) && !twice) continue;
        return OpError(node, absl::StrCat("each of ", Replicas(node),
                                          " replicas sends and receives at "
                                          "most once; sources and targets are ",
                                          MlirList(pairs)));
      }
      return std::vector<TensorType>{node.operands[0].type()};
    },
    .gradient = [](const GradientArgs& g) -> Values {
      std::vector<int64_t> back = g.node.attributes.Get<std::vector<int64_t>>("pairs");
      for (size_t i = 0; i < back.size(); i += 2) std::swap(back[i], back[i + 1]);
      return {EmitOne(*g.node.op, {g.cotangent()}, {{"pairs", back}})};
    },
    .print =
        [](Printer& printer, const Node& node) {
          const auto& pairs = node.attributes.Get<std::vector<int64_t>>("pairs");
          std::vector<std::string> lists;
          for (size_t i = 0; i < pairs.size(); i += 2) {
            lists.push_back(MlirList({pairs[i], pairs[i + 1]}));
          }
          printer.Line(
              node, absl::StrCat("\"stablehlo.collective_permute\"(", printer.Names(node.operands),
                                 ") {source_target_pairs = dense<[", absl::StrJoin(lists, ", "),
                                 "]> : tensor<", lists.size(), "x2xi64>} : ", FunctionType(node)));
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

// All values of one element type are transferred as one vector: a collective has a fixed latency,
// and not every plugin reads an all_reduce with several operands.
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

Value AllGather(Value x, int64_t axis) {
  if (!x.valid() || !NormalizeAxis(x, axis, "all_gather")) return Value();
  return x.graph()->num_replicas() == 1 ? x : EmitOne(kAllGather, {x}, {{"axis", axis}});
}

Value ReduceScatter(Value x, int64_t axis) {
  if (!x.valid() || !NormalizeAxis(x, axis, "reduce_scatter")) return Value();
  return x.graph()->num_replicas() == 1 ? x : EmitOne(kReduceScatter, {x}, {{"axis", axis}});
}

Value AllToAll(Value x, int64_t split_axis, int64_t concat_axis) {
  if (!x.valid() || !NormalizeAxis(x, split_axis, "all_to_all") ||
      !NormalizeAxis(x, concat_axis, "all_to_all")) {
    return Value();
  }
  if (x.graph()->num_replicas() == 1) return x;
  return EmitOne(kAllToAll, {x}, {{"concat", concat_axis}, {"split", split_axis}});
}

Value CollectivePermute(Value x, const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  if (!x.valid()) return x;
  if (pairs.empty()) return SplatLike(x, 0);
  std::vector<int64_t> flat;
  for (const auto& [source, target] : pairs) {
    flat.push_back(source);
    flat.push_back(target);
  }
  return EmitOne(kCollectivePermute, {x}, {{"pairs", flat}});
}

OpList CollectiveOps() {
  static constexpr const OpDef* kOps[] = {&kReplicaId,     &kAllReduce, &kAllGather,
                                          &kReduceScatter, &kAllToAll,  &kCollectivePermute};
  return kOps;
}

}  // namespace penstock::ir
