#include "penstock/lazy/record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/context.h"
#include "penstock/lazy/trace.h"
#include "penstock/lazy/view_kind.h"

namespace penstock::lazy {
namespace {

std::string InputsText(const Tensors& inputs) {
  std::string text;
  for (const Tensor& input : inputs) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", input.ToString());
  }
  return text;
}

// "matmul (train.cc:12): message; inputs: f32[2,3] on xla:0, ..."
absl::Status OperationError(absl::string_view name, const Tensors& inputs,
                            absl::string_view message, SourceLocation where,
                            absl::StatusCode code) {
  std::string text(name);
  if (where.file[0] != '\0') absl::StrAppend(&text, " (", where.file, ":", where.line, ")");
  absl::StrAppend(&text, ": ", message);
  if (!inputs.empty()) absl::StrAppend(&text, "; inputs: ", InputsText(inputs));
  return absl::Status(code, text);
}

// Recording of one operation: the trace of its inputs, and its errors.
class Operation {
 public:
  Operation(absl::string_view name, const Tensors& inputs, SourceLocation where)
      : name_(name), inputs_(inputs), where_(where), recorder_(Recorder::OfThread()) {}

  // Finds the trace; false after an error. An undefined input of a thread that has an error already
  // is the consequence of that error.
  bool Begin(const Device* device = nullptr) {
    if (device != nullptr && !device->valid()) return Fail("the device is not valid");
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].defined()) return Fail(absl::StrCat("input ", i + 1, " is undefined"));
    }
    if (device == nullptr && inputs_.empty()) return Fail("there are no inputs");
    const Device& on = device != nullptr ? *device : inputs_[0].impl()->device;
    for (const Tensor& input : inputs_) {
      const Device& other = input.impl()->device;
      if (other == on) continue;
      return Fail(absl::StrCat("expected all tensors to be on one device, but found ",
                               on.ToString(), " and ", other.ToString(),
                               other.context() == on.context() ? "" : " of another client",
                               "; move one with .to(device)"));
    }
    trace_ = &recorder_.TraceOf(on);
    trace_->BeginOperation();
    return true;
  }

  Trace& trace() { return *trace_; }
  bool grad_enabled() const { return recorder_.grad_enabled; }

  // Whether results have a history.
  bool RequiresGrad() const {
    if (!recorder_.grad_enabled) return false;
    for (const Tensor& input : inputs_) {
      if (input.impl()->requires_grad()) return true;
    }
    return false;
  }

  // The inputs' values; the first `without` are not made.
  ir::Values InputValues(size_t without = 0) {
    ir::Values values(without);
    for (size_t i = without; i < inputs_.size(); ++i) {
      TensorImpl& input = *inputs_[i].impl();
      values.push_back(recorder_.grad_enabled ? trace_->Differentiable(input)
                                              : trace_->Plain(input));
    }
    return values;
  }

  // Those of `results` that become tensors with a history get values of their own; the graph had
  // `first_new` nodes before they were built.
  void OwnValues(absl::Span<ir::Value> results, int first_new) {
    if (!RequiresGrad()) return;
    for (ir::Value& result : results) {
      if (result.valid() && base::IsFloat(result.dtype())) result = trace_->Own(result, first_new);
    }
  }

  // Calls `build` with the name and the line as origin of its nodes; false after an error.
  template <typename Build>
  bool Emit(const Build& build) {
    ir::Graph& graph = trace_->graph();
    const absl::Status built = base::CatchExceptions([&]() -> absl::Status {
      const ir::Scope scope(graph, name_, where_);
      build();
      return absl::OkStatus();
    });
    const absl::Status status = graph.TakeStatus();
    if (!status.ok()) return Fail(status.message(), status.code());
    return built.ok() || Fail(built.message(), built.code());
  }

  bool Fail(absl::string_view message, absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    if (recorder_.error().ok()) {
      recorder_.Fail(OperationError(name_, inputs_, WithoutOrigin(message), where_, code));
    }
    return false;
  }

 private:
  // The graph puts the origin, which is this operation, in front of its messages.
  absl::string_view WithoutOrigin(absl::string_view message) const {
    for (const std::string& origin :
         {absl::StrCat("layer \"", name_, "\" (", where_.file, ":", where_.line, "): "),
          absl::StrCat("layer \"", name_, "\": ")}) {
      if (message.substr(0, origin.size()) == origin) return message.substr(origin.size());
    }
    return message;
  }

  const absl::string_view name_;
  const Tensors& inputs_;
  const SourceLocation where_;
  Recorder& recorder_;
  Trace* trace_ = nullptr;
};

}  // namespace

Tensors RecordAll(absl::string_view name, const Tensors& inputs, SourceLocation where,
                  const std::function<ir::Values(const ir::Values& inputs)>& build) {
  Operation operation(name, inputs, where);
  if (!operation.Begin()) return {};
  ir::Values results;
  const auto emit = [&] {
    const ir::Values in = operation.InputValues();
    const int first_new = operation.trace().graph().num_nodes();
    results = build(in);
    operation.OwnValues(absl::MakeSpan(results), first_new);
  };
  if (!operation.Emit(emit)) return {};
  Tensors tensors;
  const bool history = operation.RequiresGrad();
  for (const ir::Value& result : results) {
    if (!result.valid()) {
      operation.Fail(absl::StrCat("result ", tensors.size(), " is not a value"));
      return {};
    }
    tensors.push_back(Tensor(operation.trace().MakeRoot(result, history, name)));
  }
  return tensors;
}

Tensor Record(absl::string_view name, const Tensors& inputs, SourceLocation where,
              const std::function<ir::Value(const ir::Values& inputs)>& build) {
  Tensors made = RecordAll(name, inputs, where,
                           [&](const ir::Values& in) -> ir::Values { return {build(in)}; });
  return made.empty() ? Tensor() : std::move(made[0]);
}

Tensor RecordOn(const Device& device, absl::string_view name, const Tensors& inputs,
                SourceLocation where,
                const std::function<ir::Value(ir::Graph& graph, const ir::Values& in)>& build) {
  Operation operation(name, inputs, where);
  if (!operation.Begin(&device)) return Tensor();
  ir::Value result;
  const auto emit = [&] {
    const ir::Values in = operation.InputValues();
    const int first_new = operation.trace().graph().num_nodes();
    result = build(operation.trace().graph(), in);
    operation.OwnValues(absl::MakeSpan(&result, 1), first_new);
  };
  if (!operation.Emit(emit)) return Tensor();
  if (!result.valid()) {
    operation.Fail("the result is not a value");
    return Tensor();
  }
  return Tensor(operation.trace().MakeRoot(result, operation.RequiresGrad(), name));
}

Tensor FailOp(absl::string_view name, const Tensors& inputs, absl::string_view message,
              SourceLocation where) {
  Operation(name, inputs, where).Fail(message);
  return Tensor();
}

// ---- Views ----

Tensor RecordView(absl::string_view name, const Tensor& x, SourceLocation where,
                  std::function<ir::Value(ir::Value x)> forward,
                  std::function<ir::Value(ir::Value x, ir::Value view)> update, bool detached) {
  return RecordView(name, x, where, OtherView{std::move(forward), std::move(update)}, detached);
}

Tensor RecordView(absl::string_view name, const Tensor& x, SourceLocation where, ViewKind kind,
                  bool detached) {
  const Tensors inputs{x};
  Operation operation(name, inputs, where);
  if (!operation.Begin()) return Tensor();
  x.impl()->MergeWithParent();
  auto view = std::make_shared<TensorImpl>();
  view->SetParent(x.impl());
  view->device = x.impl()->device;
  view->name = std::string(name);
  view->kind = std::move(kind);
  view->detached = detached || !operation.grad_enabled();
  view->dtype = x.impl()->dtype;
  ir::Value value;
  const auto emit = [&] {
    value = view->requires_grad() ? operation.trace().Differentiable(*view)
                                  : operation.trace().Plain(*view);
  };
  if (!operation.Emit(emit)) return Tensor();
  view->dtype = value.dtype();
  view->shape = value.shape();
  return Tensor(std::move(view));
}

// ---- In place ----

namespace {

// Whether the tensor's contents are gone, because the step that computed them failed.
bool IsLost(TensorImpl& impl) {
  const auto& data = impl.root().data;
  return data != nullptr && !data->lost.ok();
}

// Whether the tensor shares memory with one whose history it does not share.
bool IsDetachedView(const TensorImpl& impl) {
  for (const TensorImpl* at = &impl; at->is_view(); at = at->parent.get()) {
    if (at->detached) return true;
  }
  return false;
}

// Why a thread that records gradients cannot modify the tensor with these inputs; empty if it can.
absl::string_view WhyNotInPlace(const TensorImpl& impl, const Tensors& inputs) {
  if (impl.leaf_requires_grad) {
    return "a leaf Variable that requires grad is being used in an in-place operation; use "
           "no_grad, or a copy of it";
  }
  for (const TensorImpl* at = &impl; at->is_view() && !at->detached; at = at->parent.get()) {
    if (at->parent->leaf_requires_grad) {
      return "a view of a leaf Variable that requires grad is being used in an in-place operation; "
             "use no_grad, or a copy of the leaf";
    }
  }
  // Its contents belong to a tensor that has another history, or none: the gradient would be lost.
  const bool has_gradient = std::any_of(inputs.begin(), inputs.end(),
                                        [](const Tensor& x) { return x.impl()->requires_grad(); });
  if (has_gradient && IsDetachedView(impl)) {
    return "a value that requires grad is written into a tensor that shares memory by detach() or "
           "by a view made under no_grad, so its gradient would be lost; use clone() first, or "
           "no_grad";
  }
  return {};
}

}  // namespace

Tensor& RecordInPlace(absl::string_view name, Tensor& target, const Tensors& inputs,
                      SourceLocation where,
                      const std::function<ir::Value(const ir::Values& in)>& build,
                      bool overwrites) {
  Tensors all{target};
  all.insert(all.end(), inputs.begin(), inputs.end());
  Operation operation(name, all, where);
  if (!operation.Begin()) return target;
  const std::shared_ptr<TensorImpl>& impl = target.impl();
  if (operation.grad_enabled()) {
    if (const absl::string_view why = WhyNotInPlace(*impl, inputs); !why.empty()) {
      operation.Fail(why);
      return target;
    }
  }
  ir::Value value;
  const auto emit = [&] {
    const ir::Values in = operation.InputValues(overwrites ? 1 : 0);
    const int first_new = operation.trace().graph().num_nodes();
    value = build(in);
    const bool keeps_history = overwrites && operation.grad_enabled() && impl->requires_grad() &&
                               value.valid() && value.type() == impl->type() && !IsLost(*impl);
    if (keeps_history) {
      value = operation.trace().KeepHistory(operation.trace().Differentiable(*impl), value);
    }
    operation.OwnValues(absl::MakeSpan(&value, 1), first_new);
  };
  if (!operation.Emit(emit)) return target;
  if (!value.valid()) {
    operation.Fail("the result is not a value");
    return target;
  }
  if (!(value.type() == impl->type())) {
    operation.Fail(absl::StrCat("the result ", value.type().ToString(),
                                " does not fit into the tensor, which is ",
                                impl->type().ToString()));
    return target;
  }
  operation.Emit([&] {
    if (operation.grad_enabled()) {
      operation.trace().Assign(impl, value, operation.RequiresGrad());
    } else {
      operation.trace().AssignPlain(impl, value);
    }
  });
  return target;
}

void Succeed(const Tensor& next, const Tensor& before) {
  if (!next.defined() || !before.defined()) return;
  const TensorImpl& old = before.impl()->root();
  // Of several in one step, what the first of them had before it.
  next.impl()->root().predecessor = old.replaces != nullptr      ? old.replaces
                                    : old.predecessor != nullptr ? old.predecessor
                                                                 : old.data;
}

// ---- Values from the host ----

Tensor device_data(const Array& values, const Device& device) {
  if (!device.valid()) return FailOp("tensor", {}, "the device is not valid", {});
  absl::StatusOr<runtime::Buffer> buffer = device.context()->Put(values, device.index());
  if (!buffer.ok()) {
    FailThread(base::WithContext(buffer.status(), "tensor"));
    return Tensor();
  }
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = values.dtype();
  impl->shape = values.shape();
  impl->device = device;
  impl->data = std::make_shared<DeviceData>(DeviceData{*std::move(buffer), {}});
  return Tensor(std::move(impl));
}

Tensor scalar_tensor(double value, DType dtype, const Device& device) {
  absl::StatusOr<Array> scalar = Array::Scalar(value).Cast(dtype);
  if (!base::IsNumeric(dtype) || !scalar.ok()) {
    return FailOp("scalar_tensor", {},
                  absl::StrCat("there are no numbers of type ", base::DTypeName(dtype)), {});
  }
  return device_data(*scalar, device);
}

Tensor tensor(const Array& values, const Device& device, bool requires_grad) {
  Tensor made = device_data(values, device);
  if (requires_grad && made.defined()) made.requires_grad_();
  return made;
}

void FailThread(const absl::Status& error) { Recorder::OfThread().Fail(error); }

no_grad::no_grad(bool enabled) : outer_(Recorder::OfThread().grad_enabled) {
  if (enabled) Recorder::OfThread().grad_enabled = false;
}

no_grad::~no_grad() { Recorder::OfThread().grad_enabled = outer_; }

}  // namespace penstock::lazy
