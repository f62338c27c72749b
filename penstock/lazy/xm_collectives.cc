#include "penstock/lazy/xm_collectives.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/context.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy::xm {
namespace {

// Values reduced over the replicas of their graph, and scaled.
using ReduceFunction = ir::Values (*)(const ir::Values& xs);

ir::Values ReduceBools(const ir::Values& xs, ir::Reducer reducer) {
  ir::Values numbers, out;
  for (const ir::Value& x : xs) numbers.push_back(ir::Convert(x, DType::kI32));
  for (const ir::Value& x : ir::AllReduce(numbers, reducer)) {
    out.push_back(ir::Convert(x, DType::kBool));
  }
  return out;
}

ir::Values ReduceProducts(const ir::Values& xs) {
  ir::Values out;
  for (const ir::Value& x : xs) {
    out.push_back(ir::ReduceProduct(ir::AllGather(ir::ExpandDims(x, 0), 0), {0}));
  }
  return out;
}

constexpr struct {
  absl::string_view name;
  bool of_bool;  // takes bool, and only bool
  ReduceFunction reduce;
} kReductions[] = {
    {REDUCE_SUM, false, [](const ir::Values& xs) { return ir::AllReduce(xs); }},
    {REDUCE_MUL, false, ReduceProducts},
    {REDUCE_MIN, false, [](const ir::Values& xs) { return ir::AllReduce(xs, ir::Reducer::kMin); }},
    {REDUCE_MAX, false, [](const ir::Values& xs) { return ir::AllReduce(xs, ir::Reducer::kMax); }},
    {REDUCE_AND, true, [](const ir::Values& xs) { return ReduceBools(xs, ir::Reducer::kMin); }},
    {REDUCE_OR, true, [](const ir::Values& xs) { return ReduceBools(xs, ir::Reducer::kMax); }},
};

// The reductions as new tensors, undefined after an error.
Tensors Reduced(absl::string_view reduce_type, const Tensors& inputs, double scale,
                SourceLocation where) {
  constexpr absl::string_view kName = "xm.all_reduce";
  const auto fail = [&](auto&&... message) {
    return Tensors(inputs.size(), FailOp(kName, inputs, absl::StrCat(message...), where));
  };
  const auto* const reduction =
      std::find_if(std::begin(kReductions), std::end(kReductions),
                   [&](const auto& known) { return known.name == reduce_type; });
  if (reduction == std::end(kReductions)) {
    return fail("unknown reduce_type '", reduce_type, "'; known are sum, mul, and, or, min, max");
  }
  for (const Tensor& input : inputs) {
    if (!input.defined() || (input.dtype() == DType::kBool) == reduction->of_bool) continue;
    return fail("reduce_type '", reduce_type, "' is for ", reduction->of_bool ? "bool" : "numbers",
                ", got ", input.ToString());
  }
  Tensors reduced = RecordAll(kName, inputs, where, [&](const ir::Values& in) {
    ir::Values out = reduction->reduce(in);
    for (ir::Value& value : out) {
      if (scale != 1) value = value * scale;
    }
    return out;
  });
  reduced.resize(inputs.size());  // empty after an error
  return reduced;
}

// A collective of one tensor whose number of parts must be the world size.
Tensor WithCount(absl::string_view name, const Tensor& input, int count, SourceLocation where,
                 const std::function<ir::Value(const ir::Values& in)>& build) {
  if (count == xrt_world_size()) return Record(name, {input}, where, build);
  return FailOp(name, {input},
                absl::StrCat("the count is ", count, ", but must be the number of replicas, ",
                             xrt_world_size()),
                where);
}

}  // namespace

int xrt_world_size(int defval) {
  return CurrentReplica() == nullptr ? defval : CurrentReplica()->replicas->size();
}

int get_ordinal(int defval) {
  return CurrentReplica() == nullptr ? defval : CurrentReplica()->ordinal;
}

int get_local_ordinal(int defval) { return get_ordinal(defval); }

bool is_master_ordinal(bool) { return get_ordinal() == 0; }

Tensor all_reduce(absl::string_view reduce_type, const Tensor& input, double scale,
                  SourceLocation where) {
  return Reduced(reduce_type, Tensors{input}, scale, where)[0];
}

void all_reduce(absl::string_view reduce_type, const Tensors& inputs, double scale,
                SourceLocation where) {
  if (inputs.empty()) return;
  const no_grad guard;
  const Tensors reduced = Reduced(reduce_type, inputs, scale, where);
  if (!reduced[0].defined()) return;  // an error of the thread
  for (size_t i = 0; i < reduced.size(); ++i) Tensor(inputs[i]).copy_(reduced[i], where);
}

Tensor all_gather(const Tensor& value, int64_t dim, SourceLocation where) {
  return Record("xm.all_gather", {value}, where,
                [&](const ir::Values& in) { return ir::AllGather(in[0], dim); });
}

Tensor reduce_scatter(absl::string_view reduce_type, const Tensor& input, double scale,
                      int64_t scatter_dim, int shard_count, SourceLocation where) {
  constexpr absl::string_view kName = "xm.reduce_scatter";
  if (reduce_type != REDUCE_SUM) {
    return FailOp(kName, {input},
                  absl::StrCat("reduce_type must be 'sum', got '", reduce_type, "'"), where);
  }
  return WithCount(kName, input, shard_count, where, [&](const ir::Values& in) {
    const ir::Value sum = ir::ReduceScatter(in[0], scatter_dim);
    return scale == 1 ? sum : sum * scale;
  });
}

Tensor all_to_all(const Tensor& value, int64_t split_dimension, int64_t concat_dimension,
                  int split_count, SourceLocation where) {
  return WithCount("xm.all_to_all", value, split_count, where, [&](const ir::Values& in) {
    return ir::AllToAll(in[0], split_dimension, concat_dimension);
  });
}

Tensor collective_permute(const Tensor& value,
                          const std::vector<std::pair<int64_t, int64_t>>& pairs,
                          SourceLocation where) {
  return Record("xm.collective_permute", {value}, where,
                [&](const ir::Values& in) { return ir::CollectivePermute(in[0], pairs); });
}

void collective_broadcast(const Tensors& tensors, int root_ordinal, SourceLocation where) {
  constexpr absl::string_view kName = "xm.collective_broadcast";
  if (root_ordinal < 0 || root_ordinal >= xrt_world_size()) {
    FailOp(kName, tensors,
           absl::StrCat("root_ordinal is ", root_ordinal, " of ", xrt_world_size(), " replicas"),
           where);
    return;
  }
  if (tensors.empty() || xrt_world_size() == 1) return;
  const no_grad guard;
  // The sum over replicas of the root's values and zeros.
  const Tensors sent = RecordAll(kName, tensors, where, [&](const ir::Values& in) {
    ir::Values masked;
    for (const ir::Value& x : in) {
      const ir::Value id = ir::ReplicaId(*x.graph());
      const ir::Value number = x.dtype() == DType::kBool ? ir::Convert(x, DType::kI32) : x;
      masked.push_back(ir::Select(ir::Equal(id, ir::SplatLike(id, root_ordinal)), number,
                                  ir::SplatLike(number, 0)));
    }
    ir::Values sums = ir::AllReduce(masked);
    for (size_t i = 0; i < in.size(); ++i) sums[i] = ir::Convert(sums[i], in[i].dtype());
    return sums;
  });
  for (size_t i = 0; i < sent.size(); ++i) Tensor(tensors[i]).copy_(sent[i], where);
}

namespace internal {

std::string LineOf(SourceLocation where) {
  const absl::string_view file = where.file;
  return absl::StrCat(file.substr(file.rfind('/') + 1), ":", where.line);
}

absl::StatusOr<std::vector<std::any>> Exchange(absl::string_view function, absl::string_view tag,
                                               std::any payload, SourceLocation where) {
  const ReplicaContext* self = CurrentReplica();
  if (self == nullptr) return std::vector<std::any>{std::move(payload)};
  const MeetingPoint point = {.key = absl::StrCat(function, ":", tag), .describe = [&] {
                                return absl::StrCat(function, " '", tag, "' (", LineOf(where), ")");
                              }};
  return self->replicas->Exchange(self->ordinal, point, std::move(payload));
}

absl::Status OtherType(absl::string_view tag, size_t ordinal, SourceLocation where) {
  return absl::InvalidArgumentError(absl::StrCat("mesh_reduce '", tag, "' (", LineOf(where),
                                                 "): the data of ordinal ", ordinal,
                                                 " has another type than this ordinal's"));
}

}  // namespace internal

absl::StatusOr<std::vector<std::string>> rendezvous(absl::string_view tag, std::string payload,
                                                    SourceLocation where) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const std::vector<std::any> payloads,
      internal::Exchange("rendezvous", tag, std::any(std::move(payload)), where));
  std::vector<std::string> texts;
  for (const std::any& any : payloads) texts.push_back(std::any_cast<const std::string&>(any));
  return texts;
}

absl::Status wait_device_ops(const std::vector<Device>& devices) {
  std::vector<Device> all = devices;
  if (all.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(Device device, xla_device());
    all.push_back(std::move(device));
  }
  absl::Status first;
  for (const Device& device : all) {
    if (!device.valid()) return absl::InvalidArgumentError("wait_device_ops: a device is invalid");
    first.Update(device.context()->Synchronize(device.index()));
  }
  return first;
}

}  // namespace penstock::lazy::xm
