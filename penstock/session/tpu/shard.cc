#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/session/lowering.h"
#include "penstock/session/tpu.h"
#include "penstock/session/tpu/shard_region.h"

namespace penstock::session::tpu {
namespace {

using ir::Value;
using ir::Values;

// RAII: nodes created meanwhile belong to the region.
class InRegion {
 public:
  InRegion(Graph* graph, ShardState& state, const ShardRegion& region)
      : shards_(graph, region.num_shards), state_(state) {
    state_.current = &region;
  }
  ~InRegion() { state_.current = nullptr; }

 private:
  ShardsScope shards_;
  ShardState& state_;
};

// Entry `i` of an option that has one entry for all, or one for each, or none.
template <typename T>
T EntryOf(const std::vector<T>& list, size_t i, T value) {
  if (list.empty()) return value;
  return list[list.size() == 1 ? 0 : i];
}

absl::Status CheckCount(size_t given, size_t expected, absl::string_view option,
                        absl::string_view of) {
  if (given <= 1 || given == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " has ", given, " entries for ", expected,
                                                 " ", of, "; give one for all, or one for each"));
}

// Shape with extent `axis` divided or multiplied; unknown extents stay unknown.
PartialShape WithExtent(const PartialShape& shape, int axis, int64_t extent) {
  std::vector<int64_t> dims(shape.shape().begin(), shape.shape().end());
  dims[axis] = extent;
  return PartialShape(Shape(dims));
}

// A shard's slice of `input`. Invalid after an error, which the graph has then.
Tensor SliceInput(Graph& graph, const Tensor& input, const ShardRegion& region, int axis) {
  const PartialShape& shape = input.shape();
  PartialShape slice;
  if (region.num_shards == 1) {
    slice = shape;
  } else if (shape.has_rank()) {
    const bool is_unknown = axis >= 0 && axis < shape.rank() && shape.dim(axis) < 0;
    if (!is_unknown && !HasRowsForShards(shape.shape(), axis, region.num_shards)) {
      graph.Fail(NotDivisibleError(input.name(), shape.shape(), axis, region.num_shards), "Shard",
                 region.where);
      return Tensor();
    }
    slice = WithExtent(shape, axis, is_unknown ? -1 : shape.dim(axis) / region.num_shards);
  }
  const auto lower = [name = input.name(), axis, shards = region.num_shards](
                         Lowering& lowering, const Values& in) -> Values {
    const Value& x = in[0];
    if (!x.valid()) return {};
    if (shards == 1) return {x};
    if (!HasRowsForShards(x.shape(), axis, shards)) {
      lowering.Fail(NotDivisibleError(name, x.shape(), axis, shards));
      return {};
    }
    const int64_t size = x.shape().dim(axis) / shards;
    const Value replica = ir::Convert(lowering.replica_id(), base::DType::kI32);
    Values begin(x.rank(), ir::SplatLike(replica, 0));
    begin[axis] = replica * static_cast<double>(size);
    std::vector<int64_t> sizes(x.shape().begin(), x.shape().end());
    sizes[axis] = size;
    return {ir::DynamicSlice(x, begin, sizes)};
  };
  Node* node = graph.AddNode({.type = "TPUReplicatedInput",
                              .outputs = {{{input.dtype(), slice}}},
                              .extra = std::make_shared<ShardInput>(axis)},
                             {input}, lower, region.where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

// The value of shard 0, on every replica.
Value FromFirst(Lowering& lowering, Value x) {
  const base::DType dtype = x.dtype();
  if (dtype == base::DType::kBool) x = ir::Convert(x, base::DType::kI32);
  const Value id = lowering.replica_id();
  const Value first = ir::Equal(id, ir::SplatLike(id, 0));
  return ir::Convert(ir::AllReduce(ir::Select(first, x, ir::SplatLike(x, 0))), dtype);
}

// The values of all shards along `axis`. Bools travel as bytes.
Value FromAll(Value x, int axis) {
  const base::DType dtype = x.dtype();
  if (dtype == base::DType::kBool) x = ir::Convert(x, base::DType::kU8);
  return ir::Convert(ir::AllGather(x, axis), dtype);
}

// An output of Shard. It is outside the region, and joins the shards' values if `all`.
Tensor JoinOutput(Graph& graph, const Tensor& output, const ShardRegion& region, bool all,
                  int axis) {
  const PartialShape& shape = output.shape();
  PartialShape joined = shape;
  if (all && region.num_shards > 1 && shape.has_rank()) {
    if (shape.rank() == 0) {
      return FailOp(
          {output}, "Shard",
          absl::StrCat("output '", output.name(), "' is a scalar, which ", region.num_shards,
                       " shards cannot be concatenated of; reshape it to {1}, or set "
                       "outputs_from_all_shards = {false} to get that of shard 0"),
          region.where);
    }
    if (axis < 0 || axis >= shape.rank()) {
      return FailOp({output}, "Shard",
                    absl::StrCat("output '", output.name(), "' of shape ", shape.ToString(),
                                 " has no axis ", axis, " to concatenate shards along"),
                    region.where);
    }
    const int64_t extent = shape.dim(axis);
    joined = WithExtent(shape, axis, extent < 0 ? -1 : extent * region.num_shards);
  }
  const auto lower = [name = output.name(), all, axis, shards = region.num_shards](
                         Lowering& lowering, const Values& in) -> Values {
    const Value& x = in[0];
    if (!x.valid()) return {};
    if (shards == 1) return {x};
    if (!all) return {FromFirst(lowering, x)};
    if (axis < x.rank()) return {FromAll(x, axis)};
    lowering.Fail(absl::InvalidArgumentError(absl::StrCat("output '", name, "' of tpu::Shard is ",
                                                          x.type().ToString(), " and has no axis ",
                                                          axis, " to concatenate shards along")));
    return {};
  };
  Node* node =
      graph.AddNode({.type = "TPUReplicatedOutput", .outputs = {{{output.dtype(), joined}}}},
                    {output}, lower, region.where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

// What a computation returned, by kind.
struct Outputs {
  Tensors tensors;
  Operations operations;
};
absl::StatusOr<Outputs> Resolve(const Graph& graph, const Fetches& fetches) {
  Outputs out;
  for (const Fetch& fetch : fetches) {
    if (fetch.tensor().valid()) {
      out.tensors.push_back(fetch.tensor());
    } else if (fetch.operation().valid()) {
      out.operations.push_back(fetch.operation());
    } else if (fetch.name().empty()) {
      return absl::InvalidArgumentError("the computation returned an invalid tensor or operation");
    } else if (absl::StrContains(fetch.name(), ":")) {
      PENSTOCK_ASSIGN_OR_RETURN(out.tensors.emplace_back(), graph.GetTensorByName(fetch.name()));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(out.operations.emplace_back(),
                                graph.GetOperationByName(fetch.name()));
    }
  }
  return out;
}

absl::Status CheckArguments(const ShardState& state, const Computation& computation,
                            const Tensors& inputs, int num_shards, const ShardOptions& options) {
  if (computation == nullptr) return absl::InvalidArgumentError("the computation is empty");
  if (num_shards < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards is ", num_shards, "; it must be at least 1"));
  }
  if (state.current != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is within the computation of another tpu::Shard or tpu::Rewrite (",
                     state.current->where.file, ":", state.current->where.line,
                     "); computations cannot be nested"));
  }
  if (num_shards > 1 && state.number_of_shards.value_or(num_shards) != num_shards) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_shards is ", num_shards, ", but SetNumberOfShards said ", *state.number_of_shards));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is invalid"));
    }
  }
  return CheckCount(options.input_shard_axes.size(), inputs.size(), "input_shard_axes", "inputs");
}

// A tensor to run if the computation has operations only: the number of shards.
Tensor RunOperations(Graph& graph, const ShardRegion& region) {
  const auto lower = [shards = region.num_shards](Lowering& lowering, const Values&) -> Values {
    return {ir::Constant(lowering.graph(), Array::Scalar<int32_t>(shards))};
  };
  Node* node = graph.AddNode(
      {.type = "TPUReplicatedOutput", .outputs = {{{base::DType::kI32, PartialShape(Shape{})}}}},
      {}, lower, region.where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

// Builds the region and returns its outputs.
Tensors BuildRegion(Graph& graph, ShardState& state, const ShardRegion& region,
                    const Computation& computation, const Tensors& inputs,
                    const ShardOptions& options) {
  const InRegion in_region(&graph, state, region);
  Tensors slices;
  for (size_t i = 0; i < inputs.size(); ++i) {
    slices.push_back(SliceInput(graph, inputs[i], region, EntryOf(options.input_shard_axes, i, 0)));
    if (!slices.back().valid()) return {};
  }
  const absl::StatusOr<Outputs> outputs =
      base::CatchExceptions([&] { return Resolve(graph, computation(slices)); });
  absl::Status error = outputs.status();
  const auto check = [&](size_t count, absl::string_view option) {
    if (error.ok()) error = CheckCount(count, outputs->tensors.size(), option, "outputs");
  };
  check(options.outputs_from_all_shards.size(), "outputs_from_all_shards");
  check(options.output_shard_axes.size(), "output_shard_axes");
  if (!error.ok()) {
    graph.Fail(error, "Shard", region.where);
    return {};
  }
  const ControlDependencies after(outputs->operations);
  Tensors joined;
  for (size_t i = 0; i < outputs->tensors.size(); ++i) {
    joined.push_back(JoinOutput(graph, outputs->tensors[i], region,
                                EntryOf(options.outputs_from_all_shards, i, true),
                                EntryOf(options.output_shard_axes, i, 0)));
  }
  if (joined.empty()) joined.push_back(RunOperations(graph, region));
  return joined;
}

}  // namespace

Tensors Shard(const Computation& computation, const Tensors& inputs, int num_shards,
              const ShardOptions& options, SourceLocation where) {
  Graph* graph = Graph::Default();
  if (graph == nullptr) return {};
  ShardState& state = graph->Extension<ShardState>();
  const absl::Status checked = CheckArguments(state, computation, inputs, num_shards, options);
  if (!checked.ok()) {
    graph->Fail(checked, "Shard", where);
    return {};
  }
  const ShardRegion& region = *state.regions.emplace_back(
      std::make_unique<ShardRegion>(ShardRegion{.num_shards = num_shards, .where = where}));
  if (options.name.empty()) {
    return BuildRegion(*graph, state, region, computation, inputs, options);
  }
  const NameScope scope(options.name);
  return BuildRegion(*graph, state, region, computation, inputs, options);
}

Tensors BatchParallel(const Computation& computation, const Tensors& inputs, int num_shards,
                      SourceLocation where) {
  return Shard(computation, inputs, num_shards, {}, where);
}

Tensors Rewrite(const Computation& computation, const Tensors& inputs, absl::string_view name,
                SourceLocation where) {
  return Shard(computation, inputs, 1, {.name = std::string(name)}, where);
}

}  // namespace penstock::session::tpu
