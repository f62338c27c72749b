#include "penstock/lazy/amp.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace amp {
namespace {

// The type of this thread's innermost scope.
base::DType& TypeOfThread() {
  thread_local base::DType dtype = base::DType::kInvalid;
  return dtype;
}

enum class Policy { kNarrow, kWide, kNone };

// PyTorch's lists (aten/src/ATen/autocast_mode.cpp), of the operations that exist here.
constexpr absl::string_view kNarrow[] = {"linear",
                                         "matmul",
                                         "mm",
                                         "bmm",
                                         "mv",
                                         "addmm",
                                         "baddbmm",
                                         "einsum",
                                         "conv1d",
                                         "conv2d",
                                         "conv3d",
                                         "conv_transpose1d",
                                         "conv_transpose2d",
                                         "scaled_dot_product_attention"};
constexpr absl::string_view kWide[] = {"exp",
                                       "expm1",
                                       "log",
                                       "log1p",
                                       "log2",
                                       "log10",
                                       "pow",
                                       "reciprocal",
                                       "rsqrt",
                                       "sum",
                                       "prod",
                                       "cumsum",
                                       "cumprod",
                                       "norm",
                                       "softmax",
                                       "log_softmax",
                                       "layer_norm",
                                       "group_norm",
                                       "cross_entropy",
                                       "nll_loss",
                                       "mse_loss",
                                       "l1_loss",
                                       "smooth_l1_loss",
                                       "huber_loss",
                                       "soft_margin_loss",
                                       "hinge_embedding_loss",
                                       "cosine_embedding_loss",
                                       "triplet_margin_loss",
                                       "kl_div",
                                       "cosine_similarity",
                                       "binary_cross_entropy_with_logits"};

Policy PolicyOf(absl::string_view name) {
  const auto in = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  return in(kNarrow) ? Policy::kNarrow : in(kWide) ? Policy::kWide : Policy::kNone;
}

}  // namespace

autocast::autocast(absl::string_view dtype, bool enabled) : outer_(TypeOfThread()) {
  if (!enabled) {
    TypeOfThread() = base::DType::kInvalid;
  } else if (dtype == "bfloat16") {
    TypeOfThread() = kBFloat16;
  } else if (dtype == "float16") {
    TypeOfThread() = kHalf;
  } else {
    FailOp("autocast", {},
           absl::StrCat("dtype must be \"bfloat16\" or \"float16\", got \"", dtype, "\""),
           SourceLocation());
  }
}
autocast::~autocast() { TypeOfThread() = outer_; }
base::DType autocast_dtype() { return TypeOfThread(); }

}  // namespace amp

namespace internal {

Tensor Cast(absl::string_view name, const Tensor& x) {
  const DType narrow = amp::autocast_dtype();
  if (narrow == DType::kInvalid || !IsFloatTensor(x) || x.dtype() == DType::kF64) return x;
  switch (amp::PolicyOf(name)) {
    case amp::Policy::kNarrow:
      return x.to(narrow);
    case amp::Policy::kWide:
      return x.to(kFloat);
    case amp::Policy::kNone:
      break;
  }
  return x;
}

void CastAll(absl::string_view name, absl::Span<Tensor* const> tensors) {
  if (amp::autocast_dtype() == DType::kInvalid) return;
  for (Tensor* x : tensors) *x = Cast(name, *x);
}

}  // namespace internal
}  // namespace penstock::lazy
