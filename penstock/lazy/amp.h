// torch.cuda.amp / torch_xla.amp: operations in a 16-bit type where it is safe.
//
//   {
//     const amp::autocast autocast("bfloat16");
//     loss = F::cross_entropy(model(x), y);
//   }
//   loss.backward();
//
// Inside the scope, products, convolutions, recurrent layers and attention convert their float
// inputs to the type; softmax, losses, norms, exp, log, pow, tan and their like, sums, and layer
// and group normalization convert 16-bit inputs to float32. Other operations take what they get.
// The lists are those of torch.cuda.amp, which torch_xla uses on GPUs; in its list for TPUs, relu
// computes in the type and batch_norm in float32 (here its statistics do, always). Parameters stay
// float32 and get float32 gradients. The scope belongs to this thread.
#pragma once

#include "absl/strings/string_view.h"

#include "penstock/base/dtype.h"

namespace penstock::lazy::amp {

class autocast {
 public:
  // dtype: "bfloat16" or "float16"; anything else is an error of the thread's trace.
  explicit autocast(absl::string_view dtype = "bfloat16", bool enabled = true);
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  base::DType outer_;
};

// The type of the innermost scope; kInvalid outside.
base::DType autocast_dtype();

}  // namespace penstock::lazy::amp
