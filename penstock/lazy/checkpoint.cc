#include "penstock/lazy/checkpoint.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy::utils::checkpoint {
namespace {

using ir::Value;
using ir::Values;

// The inputs of the nodes from `first` on that `outputs` depend on: values of earlier nodes, and
// those that must stay outside of a region: parameters, and the identities of leaves.
Values InputsOf(const Segment& segment, const Values& outputs, int first) {
  absl::flat_hash_set<int> outside;
  for (const Segment::Identity& identity : segment.identities) {
    outside.insert(identity.value.node_id());
  }
  Values inputs, waiting = outputs;
  absl::flat_hash_set<std::pair<int, int>> seen;
  while (!waiting.empty()) {
    const Value value = waiting.back();
    waiting.pop_back();
    if (!seen.insert({value.node_id(), value.result()}).second) continue;
    const ir::Node& node = segment.graph.node(value.node_id());
    if (value.node_id() < first || outside.contains(value.node_id()) ||
        ir::OpName(node) == "parameter") {
      inputs.push_back(value);
    } else {
      waiting.insert(waiting.end(), node.operands.begin(), node.operands.end());
    }
  }
  std::sort(inputs.begin(), inputs.end(), [](const Value& a, const Value& b) {
    return std::pair(a.node_id(), a.result()) < std::pair(b.node_id(), b.result());
  });
  return inputs;
}

// The outputs, which are values of the segment, computed by a region that is rematerialized; empty
// after an error of the graph.
Values Rematerialized(Segment& segment, const Values& outputs, int first) {
  const Values inputs = InputsOf(segment, outputs, first);
  return ir::Rematerialize(inputs, [&](ir::Graph& region, const Values& in) {
    return region.Inline(segment.graph, inputs, in, outputs);
  });
}

struct Place {
  uint64_t segment;
  int nodes;
};

// Replaces those of `outputs` that are new in the trace and have a history.
void Rematerialize(Trace& trace, const Place& before, Tensors& outputs) {
  if (trace.segment()->serial != before.segment) return;
  std::vector<size_t> places;
  Values values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    if (!y.requires_grad() || !(y.device() == trace.device())) continue;
    const Value value = trace.Differentiable(*y.impl());
    if (!value.valid() || value.node_id() < before.nodes || y.impl()->leaf_requires_grad) continue;
    places.push_back(i);
    values.push_back(value);
  }
  if (values.empty()) return;
  const absl::Status built = base::CatchExceptions([&]() -> absl::Status {
    const ir::Scope scope(trace.graph(), "checkpoint", SourceLocation());
    const int first_new = trace.graph().num_nodes();
    const Values made = Rematerialized(*trace.segment(), values, before.nodes);
    for (size_t i = 0; i < made.size(); ++i) {
      const Value own = trace.Own(made[i], first_new);
      if (own.valid()) outputs[places[i]] = Tensor(trace.MakeRoot(own, true, "checkpoint"));
    }
    return absl::OkStatus();
  });
  absl::Status status = trace.graph().TakeStatus();
  status.Update(built);
  if (!status.ok()) FailThread(status);
}

}  // namespace

namespace internal {

Tensors Checkpoint(const Tensors& args, const std::function<Tensors()>& run) {
  Recorder& recorder = Recorder::OfThread();
  if (!recorder.grad_enabled) return run();
  for (const Tensor& x : args) {
    if (x.defined()) recorder.TraceOf(x.device());  // there may be none yet
  }
  std::map<const Trace*, Place> before;
  for (Trace* trace : recorder.traces()) {
    trace->BeginOperation();
    before[trace] = {trace->segment()->serial, trace->graph().num_nodes()};
  }
  Tensors outputs = run();
  for (Trace* trace : recorder.traces()) {
    const auto place = before.find(trace);
    if (place != before.end()) Rematerialize(*trace, place->second, outputs);
  }
  return outputs;
}

}  // namespace internal

Tensor checkpoint_sequential(const nn::Sequential& modules, int64_t segments, Tensor input) {
  const auto count = static_cast<int64_t>(modules->size());
  if (segments <= 0 || segments > std::max<int64_t>(count, 1)) {
    return FailOp("checkpoint_sequential", {input},
                  absl::StrCat("segments is ", segments, " for ", count, " modules"),
                  SourceLocation());
  }
  const auto run = [&](int64_t begin, int64_t end, Tensor x) {
    for (int64_t i = begin; i < end; ++i) x = modules[static_cast<size_t>(i)](x);
    return x;
  };
  const int64_t length = count / segments;
  int64_t begin = 0;
  for (int64_t i = 0; i + 1 < segments; ++i, begin += length) {
    input = checkpoint([&](const Tensor& x) { return run(begin, begin + length, x); }, input);
  }
  return run(begin, count, input);
}

}  // namespace penstock::lazy::utils::checkpoint
