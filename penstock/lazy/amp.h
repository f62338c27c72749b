// torch.cuda.amp / torch_xla.amp: operations in a 16-bit type where it is safe.
//
//   {
//     const amp::autocast autocast("bfloat16");
//     loss = F::cross_entropy(model(x), y);
//   }
//   loss.backward();
//
// Inside the scope, products and convolutions convert their float inputs to the type; softmax,
// losses, norms, exp, log, pow, sums and layer and group normalization convert 16-bit inputs to
// float32. Other operations take what they get (PyTorch's autocast lists). Parameters stay float32
// and get float32 gradients. The scope belongs to this thread.
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
