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

// What a scope does to the float inputs of an operation: converts them to its type, to float32, or
// to the widest type among them.
enum class Policy { kNarrow, kWide, kWidest, kNone };

// The lists of torch.cuda.amp, which torch_xla uses on GPUs, of the operations that exist here
// (aten/src/ATen/autocast_mode.h). binary_cross_entropy, which they forbid, is in float32 as in
// torch_xla's list for TPUs. addcdiv, addcmul, atan2, cat, index_put and stack, which take the
// widest type, do so everywhere.
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
                                         "prelu",
                                         "recurrent",
                                         "scaled_dot_product_attention"};
constexpr absl::string_view kWide[] = {
    "acos",
    "asin",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "cosh",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "cumprod",
    "cumsum",
    "erfinv",
    "exp",
    "expm1",
    "group_norm",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logsumexp",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "norm",
    "poisson_nll_loss",
    "pow",
    "prod",
    "reciprocal",
    "rsqrt",
    "sinh",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softplus",
    "sum",
    "tan",
    "triplet_margin_loss",
};
constexpr absl::string_view kWidest[] = {"bilinear",    "cross",       "dot",
                                         "grid_sample", "scatter_add", "tensordot"};

Policy PolicyOf(absl::string_view name) {
  const auto in = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  if (in(kNarrow)) return Policy::kNarrow;
  if (in(kWide)) return Policy::kWide;
  return in(kWidest) ? Policy::kWidest : Policy::kNone;
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

void CastAll(absl::string_view name, absl::Span<Tensor* const> tensors) {
  const DType narrow = amp::autocast_dtype();
  if (narrow == DType::kInvalid) return;
  const auto eligible = [](const Tensor& x) {
    return IsFloatTensor(x) && x.dtype() != DType::kF64;
  };
  DType dtype = narrow;
  switch (amp::PolicyOf(name)) {
    case amp::Policy::kNone:
      return;
    case amp::Policy::kNarrow:
      break;
    case amp::Policy::kWide:
      dtype = kFloat;
      break;
    case amp::Policy::kWidest:
      for (const Tensor* x : tensors) {
        if (eligible(*x)) dtype = PromoteTypes(dtype, x->dtype());
      }
  }
  for (Tensor* x : tensors) {
    if (eligible(*x)) *x = x->to(dtype);
  }
}

Tensor Cast(absl::string_view name, const Tensor& x) {
  Tensor cast = x;
  Tensor* const one[] = {&cast};
  CastAll(name, one);
  return cast;
}

}  // namespace internal
}  // namespace penstock::lazy
