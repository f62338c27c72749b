#include "penstock/lazy/autograd.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/backward.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy::autograd {
namespace {

// Why these outputs cannot be differentiated; empty if they can.
std::string WhyNotDifferentiable(const Tensors& outputs, const Tensors& cotangents) {
  if (outputs.empty()) return "there are no tensors to differentiate";
  if (!cotangents.empty() && cotangents.size() != outputs.size()) {
    return absl::StrCat("there are ", outputs.size(), " tensors and ", cotangents.size(),
                        " incoming gradients");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    if (!y.defined()) return "the tensor is undefined";
    if (!(y.impl()->device == outputs[0].impl()->device)) return "the tensors are on two devices";
    if (!y.requires_grad()) {
      return "the tensor does not require grad and does not have a grad_fn: it depends on no "
             "tensor "
             "with requires_grad, or was computed under no_grad";
    }
    const Tensor cotangent = cotangents.empty() ? Tensor() : cotangents[i];
    if (!cotangent.defined() && y.numel() != 1) {
      return "grad can be implicitly created only for scalar outputs; pass the incoming gradient";
    }
    if (cotangent.defined() && (!(cotangent.impl()->type() == y.impl()->type()) ||
                                !(cotangent.impl()->device == y.impl()->device))) {
      return absl::StrCat("the incoming gradient ", cotangent.ToString(), " is not ", y.ToString());
    }
  }
  return "";
}

// The gradients of the outputs; errors are those of the trace's graph.
std::vector<LeafGradient> Run(Trace& trace, const Tensors& outputs, const Tensors& cotangents,
                              const std::vector<std::shared_ptr<TensorImpl>>& targets, bool retain,
                              bool create_graph) {
  ir::Values ys, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ys.push_back(trace.Differentiable(*outputs[i].impl()));
    if (!ys.back().valid()) return {};
    if (cotangents.empty() || !cotangents[i].defined()) {
      seeds.push_back(ir::SplatLike(ys.back(), 1));
    } else {
      TensorImpl& given = *cotangents[i].impl();
      seeds.push_back(create_graph ? trace.Differentiable(given) : trace.Plain(given));
    }
    if (!seeds.back().valid()) return {};
  }
  for (const auto& target : targets) trace.Differentiable(*target);
  return Differentiate(trace, ys, seeds, targets, retain, create_graph);
}

// Calls `record` with the origin of the call; false after an error, which the thread keeps.
template <typename Function>
bool InTrace(absl::string_view name, const Tensors& outputs, SourceLocation where,
             const Function& record) {
  Trace& trace = Recorder::OfThread().TraceOf(outputs[0].impl()->device);
  const absl::Status built = base::CatchExceptions([&]() -> absl::Status {
    const ir::Scope scope(trace.graph(), name, where);
    record(trace);
    return absl::OkStatus();
  });
  absl::Status status = trace.graph().TakeStatus();
  status.Update(built);
  if (!status.ok()) FailOp(name, outputs, status.message(), where);
  return status.ok();
}

}  // namespace

void backward(const Tensors& tensors, const Tensors& grad_tensors, bool retain_graph,
              SourceLocation where) {
  if (const std::string why = WhyNotDifferentiable(tensors, grad_tensors); !why.empty()) {
    FailOp("backward", tensors, why, where);
    return;
  }
  InTrace("backward", tensors, where, [&](Trace& trace) {
    for (const auto& [leaf, gradient] :
         Run(trace, tensors, grad_tensors, {}, retain_graph, /*create_graph=*/false)) {
      const ir::Value plain = ir::StopGradient(gradient);
      if (leaf->grad == nullptr) {
        leaf->grad = trace.MakeRoot(plain, /*history=*/false, "grad");
      } else {
        trace.AssignPlain(leaf->grad, trace.Plain(*leaf->grad) + plain);
      }
    }
  });
}

Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options,
             SourceLocation where) {
  std::string why = WhyNotDifferentiable(outputs, options.grad_outputs);
  std::vector<std::shared_ptr<TensorImpl>> targets;  // each once
  for (const Tensor& input : inputs) {
    if (!input.requires_grad() && why.empty()) {
      why = absl::StrCat("the input ", input.ToString(), " does not require grad");
    }
    if (std::find(targets.begin(), targets.end(), input.impl()) == targets.end()) {
      targets.push_back(input.impl());
    }
  }
  if (!why.empty()) {
    FailOp("grad", outputs, why, where);
    return {};
  }
  Tensors made(inputs.size());
  const bool recorded = InTrace("grad", outputs, where, [&](Trace& trace) {
    const bool retain = options.retain_graph.value_or(options.create_graph);
    const std::vector<LeafGradient> gradients =
        Run(trace, outputs, options.grad_outputs, targets, retain, options.create_graph);
    if (!trace.graph().status().ok()) return;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto at = std::find_if(gradients.begin(), gradients.end(), [&](const auto& gradient) {
        return gradient.first == inputs[i].impl();
      });
      if (at != gradients.end()) {
        const ir::Value value = at->second;
        const bool history = options.create_graph && trace.segment()->Reached()[value.node_id()];
        // Another gradient, or an incoming one, may be the same value.
        const ir::Value own =
            history ? trace.Own(value, trace.graph().num_nodes()) : ir::StopGradient(value);
        made[i] = Tensor(trace.MakeRoot(own, history, "grad"));
      } else if (!options.allow_unused) {
        trace.graph().Fail(absl::InvalidArgumentError(
            absl::StrCat("the outputs do not depend on input ", i,
                         "; set allow_unused for an undefined gradient in this case")));
      }
    }
  });
  return recorded ? made : Tensors();
}

}  // namespace penstock::lazy::autograd
