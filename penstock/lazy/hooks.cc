#include "penstock/lazy/hooks.h"

#include "absl/strings/str_cat.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/grad_mode.h"
#include "penstock/lazy/tensor_hooks.h"
#include "penstock/lazy/tensor_impl.h"

namespace penstock::lazy {
namespace {

// A gradient as a tensor; with history if it is to be differentiated.
Tensor AsTensor(Trace& trace, ir::Value gradient, bool create_graph) {
  const bool history = create_graph && trace.segment()->Reached()[gradient.node_id()];
  const ir::Value own =
      history ? trace.Own(gradient, trace.graph().num_nodes()) : ir::StopGradient(gradient);
  return Tensor(trace.MakeRoot(own, history, "grad"));
}

void AddToGrad(Trace& trace, TensorImpl& tensor, ir::Value gradient) {
  const ir::Value plain = ir::StopGradient(gradient);
  if (tensor.grad == nullptr) {
    tensor.grad = trace.MakeRoot(plain, /*history=*/false, "grad");
  } else {
    trace.AssignPlain(tensor.grad, trace.Plain(*tensor.grad) + plain);
  }
}

// Hooks the value that a view had in the executed segment of its history, if it was used there.
void HookInOrigin(TensorImpl& view) {
  const std::shared_ptr<Segment>& origin = view.root().origin;
  if (origin == nullptr) return;
  const auto known = origin->views.find(&view);
  if (known == origin->views.end() || known->second.version != view.root().version) return;
  origin->hooked.push_back({known->second.value, view.hooks});
}

// The hooks of a tensor that requires a gradient, made if it has none yet; null after an error.
std::shared_ptr<TensorHooks> HooksOf(absl::string_view name, const Tensor& x,
                                     SourceLocation where) {
  if (!x.requires_grad()) {
    FailOp(name, {x}, "the tensor does not require a gradient, so no hook would be called", where);
    return nullptr;
  }
  TensorImpl& impl = *x.impl();
  const bool on_tensor = impl.leaf_requires_grad || impl.is_view();
  if (on_tensor) {
    const uint64_t version = impl.leaf_requires_grad ? 0 : impl.root().version;
    if (impl.hooks != nullptr && impl.hooks_version == version) return impl.hooks;
    impl.hooks = std::make_shared<TensorHooks>();
    impl.hooks_version = version;
    if (impl.leaf_requires_grad) return impl.hooks;
  }
  if (impl.is_view()) HookInOrigin(impl);
  // Of a tensor of an executed segment the gradient is known there.
  Trace& trace = Recorder::OfThread().TraceOf(impl.device);
  const bool closed = !impl.is_view() && impl.segment != trace.segment();
  if (closed && impl.origin == nullptr) {
    FailOp(name, {x}, "the tensor's history was freed by backward() or belongs to another thread",
           where);
    return nullptr;
  }
  Segment& segment = closed ? *impl.origin : *trace.segment();
  const ir::Value value = closed ? impl.origin_value : trace.Differentiable(impl);
  if (!value.valid()) {
    FailOp(name, {x}, trace.graph().TakeStatus().message(), where);
    return nullptr;
  }
  for (const Segment::Hooked& one : segment.hooked) {
    if (one.value == value) return one.hooks;
  }
  auto hooks = on_tensor ? impl.hooks : std::make_shared<TensorHooks>();
  segment.hooked.push_back({value, hooks});
  return hooks;
}

}  // namespace

ir::Value CallHooks(const TensorHooks& hooks, Trace& trace, ir::Value gradient, bool create_graph) {
  Recorder& recorder = Recorder::OfThread();
  const set_grad_enabled scope(create_graph);
  for (const auto& hook : hooks.list.hooks()) {
    const Tensor grad = AsTensor(trace, gradient, create_graph);
    const bool was_ok = recorder.error().ok();
    const Tensor replaced = hook(grad);
    if (was_ok && !recorder.error().ok()) {
      trace.graph().Fail(recorder.error());
      return ir::Value();
    }
    // An in-place operation on the gradient changes it, as in PyTorch.
    const Tensor& next = replaced.defined() ? replaced : grad;
    if (!(next.impl()->type() == grad.impl()->type()) ||
        !(next.impl()->device == grad.impl()->device)) {
      trace.graph().Fail(absl::InvalidArgumentError(
          absl::StrCat("a hook returned ", next.ToString(), " for the gradient ", grad.ToString(),
                       "; it must have its type, shape and device")));
      return ir::Value();
    }
    gradient = create_graph ? trace.Differentiable(*next.impl()) : trace.Plain(*next.impl());
    if (!gradient.valid()) return ir::Value();
  }
  if (const auto tensor = hooks.retains.lock()) AddToGrad(trace, *tensor, gradient);
  return gradient;
}

RemovableHandle Tensor::AddHook(std::function<Tensor(const Tensor& grad)> hook,
                                SourceLocation where) const {
  const auto hooks = HooksOf("register_hook", *this, where);
  return hooks == nullptr ? RemovableHandle() : hooks->list.Add(std::move(hook));
}

void Tensor::retain_grad(SourceLocation where) const {
  if (defined() && impl_->leaf_requires_grad) return;  // leaves have a grad anyway
  if (const auto hooks = HooksOf("retain_grad", *this, where)) hooks->retains = impl_;
}

}  // namespace penstock::lazy
