#include "penstock/lazy/tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/autograd.h"
#include "penstock/lazy/context.h"
#include "penstock/lazy/operand.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy {

// ---- Device ----

Device::Device(std::shared_ptr<runtime::Client> client, int index)
    : context_(Context::Of(std::move(client))), index_(index) {}

const std::shared_ptr<runtime::Client>& Device::client() const {
  static const std::shared_ptr<runtime::Client> kNone;
  return valid() ? context_->client() : kNone;
}

std::string Device::ToString() const {
  return valid() ? absl::StrCat("xla:", index_) : "an invalid device";
}

// ---- TensorImpl ----

void ReleaseInLoop(std::shared_ptr<void> owned) {
  if (owned == nullptr) return;
  thread_local std::vector<std::shared_ptr<void>>* outer = nullptr;  // of a call under way
  if (outer != nullptr) {
    outer->push_back(std::move(owned));
    return;
  }
  std::vector<std::shared_ptr<void>> waiting;
  outer = &waiting;
  owned.reset();
  while (!waiting.empty()) {
    owned = std::move(waiting.back());
    waiting.pop_back();
    owned.reset();
  }
  outer = nullptr;
}

TensorImpl::~TensorImpl() {
  ReleaseInLoop(std::move(parent));
  ReleaseInLoop(std::move(grad));
  ReleaseInLoop(std::move(origin));
}

void TensorImpl::SetParent(std::shared_ptr<TensorImpl> of) {
  view_root_ = &of->root();
  parent = std::move(of);
}

void TensorImpl::MergeWithParent() {
  // A leaf has gradients of its own, and what is detached has another history. Hooks are called
  // with the gradient of their view in later steps, too.
  const bool needed = !is_view() || !parent->is_view() || parent.use_count() > 1 ||
                      parent->leaf_requires_grad || parent->hooks != nullptr ||
                      (parent->detached && !detached);
  if (needed) return;
  std::optional<ViewKind> merged = Merged(parent->kind, kind);
  if (!merged.has_value()) return;
  kind = *std::move(merged);
  const std::shared_ptr<TensorImpl> former = std::move(parent);
  parent = former->parent;
}

bool TensorImpl::requires_grad() const {
  const TensorImpl* at = this;
  for (; !at->leaf_requires_grad && at->is_view(); at = at->parent.get()) {
    if (at->detached || !base::IsFloat(at->dtype)) return false;
  }
  return at->leaf_requires_grad || at->history;
}

// ---- Type and place ----

std::string Describe(const TensorImpl& impl) {
  return absl::StrCat(impl.type().ToString(), " on ", impl.device.ToString());
}

DType Tensor::dtype() const { return defined() ? impl_->dtype : DType::kInvalid; }

const Shape& Tensor::sizes() const {
  static const Shape kScalar;
  return defined() ? impl_->shape : kScalar;
}

int64_t Tensor::size(int64_t dim) const {
  const int64_t rank = sizes().rank(), axis = dim < 0 ? dim + rank : dim;
  if (!defined() || axis < 0 || axis >= rank) {
    FailOp("size", {*this}, absl::StrCat("there is no dimension ", dim), {});
    return 0;
  }
  return sizes().dim(static_cast<int>(axis));
}

int64_t Tensor::dim() const { return sizes().rank(); }
int64_t Tensor::numel() const { return defined() ? sizes().num_elements() : 0; }
int64_t Tensor::element_size() const {
  return defined() ? (base::BitWidth(impl_->dtype) + 7) / 8 : 0;
}
bool Tensor::is_floating_point() const { return defined() && base::IsFloat(impl_->dtype); }
Device Tensor::device() const { return defined() ? impl_->device : Device(); }
std::string Tensor::ToString() const { return defined() ? Describe(*impl_) : "undefined"; }

// ---- Values ----

absl::StatusOr<Array> Tensor::cpu() const {
  Recorder& recorder = Recorder::OfThread();
  PENSTOCK_RETURN_IF_ERROR(recorder.TakeError());
  if (!defined()) return absl::InvalidArgumentError("the value of an undefined tensor was read");
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceData> contents,
                            recorder.TraceOf(impl_->device).Materialize(impl_));
  PENSTOCK_RETURN_IF_ERROR(contents->lost);
  return impl_->device.context()->Get(contents->buffer);
}

absl::Status Tensor::NotOneElement() const {
  return absl::InvalidArgumentError(
      absl::StrCat("item() requires a tensor with one element; it has ", numel()));
}

Tensor Tensor::to(const Device& device, SourceLocation where) const {
  if (!defined() || !device.valid()) {
    return FailOp("to", {*this}, "the tensor or the device is not valid", where);
  }
  if (device == impl_->device) return *this;
  if (Recorder::OfThread().grad_enabled && impl_->requires_grad() && !impl_->is_leaf()) {
    return FailOp("to", {*this}, "there are no gradients across devices; use detach()", where);
  }
  const absl::StatusOr<Array> values = cpu();
  if (!values.ok()) {
    FailThread(values.status());
    return Tensor();
  }
  return tensor(*values, device, impl_->leaf_requires_grad);
}

Tensor Tensor::to(DType dtype, SourceLocation where) const {
  if (defined() && dtype == impl_->dtype) return *this;
  return Record("to", {*this}, where,
                [dtype](const ir::Values& in) { return ir::Convert(in[0], dtype); });
}

// ---- Autograd ----

bool Tensor::requires_grad() const { return defined() && impl_->requires_grad(); }
bool Tensor::is_leaf() const { return !defined() || impl_->is_leaf(); }

Tensor& Tensor::requires_grad_(bool requires_grad) {
  const auto fail = [&](absl::string_view message) -> Tensor& {
    FailOp("requires_grad_", {*this}, message, {});
    return *this;
  };
  if (!defined()) return fail("the tensor is undefined");
  if (!impl_->is_leaf()) {
    return requires_grad ? *this
                         : fail(
                               "only leaf tensors can change it; use detach() for a tensor without "
                               "gradient");
  }
  if (requires_grad && !base::IsFloat(impl_->dtype)) {
    return fail("only tensors of floating point type can require gradients");
  }
  impl_->leaf_requires_grad = requires_grad;
  return *this;
}

Tensor Tensor::grad() const { return defined() ? Tensor(impl_->grad) : Tensor(); }

void Tensor::set_grad(const Tensor& grad) {
  if (!defined()) {
    FailOp("set_grad", {*this}, "the tensor is undefined", {});
  } else if (grad.defined() &&
             (!(grad.impl()->type() == impl_->type()) || !(grad.impl()->device == impl_->device))) {
    FailOp("set_grad", {*this, grad}, "the gradient has another type, shape or device", {});
  } else {
    impl_->grad = grad.impl();
  }
}

Tensor Tensor::detach() const {
  // A tensor that is detached in each step must not become a chain of as many views.
  Tensor of = *this;
  while (of.defined() && of.impl_->detached && of.impl_->whole) of = Tensor(of.impl_->parent);
  const Tensor made = RecordView(
      "detach", of, {}, [](ir::Value x) { return x; },
      [](ir::Value, ir::Value updated) { return updated; }, /*detached=*/true);
  if (made.defined()) made.impl_->whole = true;
  return made;
}

Tensor& Tensor::detach_() {
  if (!defined()) {
    FailOp("detach_", {*this}, "the tensor is undefined", {});
  } else if (impl_->is_view() && impl_->detached) {
    impl_->leaf_requires_grad = false;
  } else if (impl_->is_view()) {
    FailOp("detach_", {*this}, "views cannot be detached in place; use detach()", {});
  } else {
    Recorder::OfThread().TraceOf(impl_->device).Detach(*impl_);
  }
  return *this;
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, SourceLocation where) const {
  autograd::backward({*this}, {gradient}, retain_graph, where);
}

// ---- In place ----

Tensor& Tensor::copy_(const Tensor& source, SourceLocation where) {
  if (defined() && source.defined() && !(source.impl()->device == impl_->device)) {
    return copy_(source.to(impl_->device, where), where);
  }
  return RecordInPlace(
      "copy_", *this, {source}, where,
      [type = dtype(), shape = sizes()](const ir::Values& in) {
        return ir::BroadcastTo(ir::Convert(in[1], type), shape);
      },
      /*overwrites=*/true);
}

Tensor& Tensor::fill_(Scalar value) {
  if (!defined()) {
    FailOp("fill_", {*this}, "the tensor is undefined", {});
    return *this;
  }
  return copy_(RecordOn(device(), "fill_", {}, {},
                        [&](ir::Graph& graph, const ir::Values&) {
                          return internal::ScalarValue(graph, dtype(), value);
                        }),
               {});
}

Tensor& Tensor::zero_() { return fill_(0); }

namespace {

using internal::CanCast;

// An in-place operation of two operands: computed in their common type, which must fit into the
// target's.
Tensor& InPlaceArithmetic(absl::string_view name, Tensor& target, const Operand& other,
                          SourceLocation where, bool divides, const Scalar& alpha,
                          ir::Value (*compute)(ir::Value, ir::Value)) {
  const Operand operands[] = {target, other};
  DType dtype = internal::ResultType(operands);
  if (divides) dtype = internal::FloatType(dtype);
  const auto fail = [&](const std::string& message) -> Tensor& {
    FailOp(name, other.is_scalar() ? Tensors{target} : Tensors{target, other.tensor()}, message,
           where);
    return target;
  };
  const bool defined = target.defined() && (other.is_scalar() || other.tensor().defined());
  if (defined && !CanCast(dtype, target.dtype())) {
    return fail(absl::StrCat("the result's type ", base::DTypeName(dtype),
                             " can't be cast to the tensor's, ", base::DTypeName(target.dtype()),
                             "; use to() or the function that is not in place"));
  }
  if (const std::string wrong = internal::WhyNoFactor("alpha", alpha, dtype);
      defined && !wrong.empty()) {
    return fail(wrong);
  }
  return RecordInPlace(name, target, other.is_scalar() ? Tensors{} : Tensors{other.tensor()}, where,
                       [&](const ir::Values& in) {
                         ir::Graph& graph = *in[0].graph();
                         ir::Value y = other.is_scalar()
                                           ? internal::ScalarValue(graph, dtype, other.scalar())
                                           : ir::Convert(in[1], dtype);
                         if (alpha.value() != 1 && dtype != DType::kBool) {
                           y = y * internal::ScalarValue(graph, dtype, alpha);
                         }
                         return ir::Convert(compute(ir::Convert(in[0], dtype), y), in[0].dtype());
                       });
}

ir::Value Sum(ir::Value x, ir::Value y) {
  return x.dtype() == DType::kBool ? ir::Or(x, y) : ir::Add(x, y);
}
ir::Value Product(ir::Value x, ir::Value y) {
  return x.dtype() == DType::kBool ? ir::And(x, y) : ir::Multiply(x, y);
}

}  // namespace

Tensor& Tensor::add_(const Tensor& other, Scalar alpha, SourceLocation where) {
  return InPlaceArithmetic("add_", *this, other, where, false, alpha, Sum);
}

Tensor& Tensor::sub_(const Tensor& other, Scalar alpha, SourceLocation where) {
  return InPlaceArithmetic("sub_", *this, other, where, false, alpha, ir::Subtract);
}

Tensor& Tensor::mul_(const Tensor& other, SourceLocation where) {
  return InPlaceArithmetic("mul_", *this, other, where, false, 1, Product);
}

Tensor& Tensor::div_(const Tensor& other, SourceLocation where) {
  return InPlaceArithmetic("div_", *this, other, where, true, 1, ir::Divide);
}

Tensor& Tensor::mul_(Scalar factor, SourceLocation where) {
  return InPlaceArithmetic("mul_", *this, factor, where, false, 1, Product);
}

Tensor& Tensor::add_(Scalar value, SourceLocation where) {
  return InPlaceArithmetic("add_", *this, value, where, false, 1, Sum);
}

}  // namespace penstock::lazy
