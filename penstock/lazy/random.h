// Random numbers, under PyTorch's names. Every device of a thread has a generator: a key on the
// device that every draw replaces by the next one, so that steps share a program. The numbers
// follow from the seed on every device; they are not PyTorch's (its generators differ).
#pragma once

#include "penstock/lazy/ops.h"

namespace penstock::lazy {

// Seeds this thread's generators: those of its devices, and that of initial values (nn/init.h).
void manual_seed(uint64_t seed);
// The state of a device's generator, for checkpoints (xm.get_rng_state, xm.set_rng_state): ui32[2].
Tensor get_rng_state(const Device& device);
void set_rng_state(const Tensor& state);

Tensor rand(const Sizes& size, const TensorOptions& options = {},
            SourceLocation where = SourceLocation::Current());  // uniform on [0, 1)
Tensor randn(const Sizes& size, const TensorOptions& options = {},
             SourceLocation where = SourceLocation::Current());  // standard normal
Tensor randint(int64_t low, int64_t high, const Sizes& size, const TensorOptions& options = {},
               SourceLocation where = SourceLocation::Current());  // int64, on [low, high)
Tensor randperm(int64_t n, const TensorOptions& options = {},
                SourceLocation where = SourceLocation::Current());  // int64
Tensor rand_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor randn_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor bernoulli(
    const Tensor& probabilities,
    SourceLocation where = SourceLocation::Current());  // 1 with each element's probability, else 0
// One index for each row of weights (of a matrix, or of a vector): shape [..., num_samples], drawn
// with replacement; without replacement only if `replacement` is false and num_samples is at most
// the number of categories.
Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement = false,
                   SourceLocation where = SourceLocation::Current());

namespace internal {
// Draws with a key of the device's generator: `draw(key)`.
Tensor RandomOp(absl::string_view name, const Device& device, const Tensors& inputs,
                SourceLocation where,
                const std::function<ir::Value(ir::Value key, const ir::Values& in)>& draw);
// A seed of this thread's generator of initial values.
uint64_t NextHostSeed();
// A seed for the generators of a loader's threads, of this thread's seed.
uint64_t NextLoaderSeed();
}  // namespace internal
}  // namespace penstock::lazy
