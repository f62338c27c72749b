#include "penstock/lazy/random.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/ops/create.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy {
namespace {

using ir::Value;
using ir::Values;

// The generators of a thread. PyTorch's default seed.
struct Generators {
  uint64_t seed = 67280421310721u, host_draws = 0, loaders = 0;
  std::map<std::pair<const runtime::Client*, int>, Tensor> keys;
};

// PyTorch's generators are global to a process; here each replica of xmp::spawn is a thread.
Generators& GeneratorsOfThread() {
  thread_local Generators generators;
  return generators;
}

Tensor& KeyOf(const Device& device) {
  Generators& generators = GeneratorsOfThread();
  Tensor& key = generators.keys[{device.client().get(), device.index()}];
  if (!key.defined()) {
    const auto high = static_cast<uint32_t>(generators.seed >> 32),
               low = static_cast<uint32_t>(generators.seed);
    key = tensor(Array::Of<uint32_t>({2}, {high, low}), device);
  }
  return key;
}

Tensor Draw(absl::string_view name, const TensorOptions& options, SourceLocation where,
            const std::function<Value(Value key)>& draw) {
  const Device device = internal::DeviceOr(options.device, where);
  if (!device.valid()) return Tensor();
  Tensor x = internal::RandomOp(name, device, {}, where,
                                [&](Value key, const Values&) { return draw(key); });
  if (options.requires_grad && x.defined()) x.requires_grad_();
  return x;
}

}  // namespace

namespace internal {

Tensor RandomOp(absl::string_view name, const Device& device, const Tensors& inputs,
                SourceLocation where,
                const std::function<Value(Value key, const Values& in)>& draw) {
  if (!device.valid()) return FailOp(name, inputs, "the input is undefined", where);
  Tensor& key = KeyOf(device);
  Tensors keys;
  {
    const no_grad guard;
    keys = RecordAll("random_key", {key}, where,
                     [](const Values& in) { return ir::SplitKey(in[0], 2); });
  }
  if (keys.size() != 2) return Tensor();
  Succeed(keys[0], key);
  key = keys[0];
  Tensors all{keys[1]};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return Record(name, all, where,
                [&](const Values& in) { return draw(in[0], Values(in.begin() + 1, in.end())); });
}

uint64_t NextHostSeed() {
  Generators& generators = GeneratorsOfThread();
  return base::MixSeeds(generators.seed, generators.host_draws++);
}

uint64_t NextLoaderSeed() {
  Generators& generators = GeneratorsOfThread();
  return base::MixSeeds(~generators.seed, generators.loaders++);
}

}  // namespace internal

void manual_seed(uint64_t seed) {
  Generators& generators = GeneratorsOfThread();
  generators.seed = seed;
  generators.host_draws = generators.loaders = 0;
  generators.keys.clear();
}

Tensor get_rng_state(const Device& device) { return clone(KeyOf(device)); }
void set_rng_state(const Tensor& state) {
  if (!state.defined() || state.dtype() != DType::kU32 || !(state.sizes() == Shape{2})) {
    FailOp("set_rng_state", {state}, "expects a state that get_rng_state returned",
           SourceLocation());
    return;
  }
  const Tensor next = clone(state);
  if (!next.defined()) return;
  Tensor& key = KeyOf(state.device());
  Succeed(next, key);
  key = next;
}

Tensor rand(const Sizes& size, const TensorOptions& options, SourceLocation where) {
  return Draw("rand", options, where, [&](Value key) {
    return ir::RandomUniform(key, {internal::DTypeOr(options, kFloat), Shape(size.values())});
  });
}
Tensor randn(const Sizes& size, const TensorOptions& options, SourceLocation where) {
  return Draw("randn", options, where, [&](Value key) {
    return ir::RandomNormal(key, {internal::DTypeOr(options, kFloat), Shape(size.values())});
  });
}
Tensor randint(int64_t low, int64_t high, const Sizes& size, const TensorOptions& options,
               SourceLocation where) {
  if (low >= high) {
    return FailOp("randint", {}, absl::StrCat("low (", low, ") must be below high (", high, ")"),
                  where);
  }
  return Draw("randint", options, where, [&](Value key) {
    const Value drawn = ir::RandomInt(key, {kLong, Shape(size.values())}, low, high);
    return ir::Convert(drawn, internal::DTypeOr(options, kLong));
  });
}
Tensor randperm(int64_t n, const TensorOptions& options, SourceLocation where) {
  return Draw("randperm", options, where, [&](Value key) {
    const Value order = ir::ArgSort(ir::RandomBits(key, {DType::kU32, {n}}));
    return ir::Convert(order, internal::DTypeOr(options, kLong));
  });
}

Tensor rand_like(const Tensor& x, SourceLocation where) {
  return internal::RandomOp("rand_like", x.device(), {x}, where, [](Value key, const Values& in) {
    return ir::RandomUniform(key, in[0].type());
  });
}
Tensor randn_like(const Tensor& x, SourceLocation where) {
  return internal::RandomOp("randn_like", x.device(), {x}, where, [](Value key, const Values& in) {
    return ir::RandomNormal(key, in[0].type());
  });
}
Tensor bernoulli(const Tensor& probabilities, SourceLocation where) {
  return internal::RandomOp(
      "bernoulli", probabilities.device(), {probabilities}, where, [](Value key, const Values& in) {
        const Value u = ir::RandomUniform(key, {DType::kF32, in[0].shape()});
        return ir::Convert(ir::Less(u, ir::Convert(in[0], DType::kF32)), in[0].dtype());
      });
}

// The maximum of log(weight) plus Gumbel noise has the distribution of the weights (Gumbel-max
// trick); the k largest are k draws without replacement.
Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement,
                   SourceLocation where) {
  const bool valid = weights.defined() && weights.dim() >= 1 && weights.dim() <= 2 &&
                     num_samples > 0 && (replacement || num_samples <= weights.size(-1));
  if (!valid) {
    return FailOp("multinomial", {weights},
                  absl::StrCat("expects a vector or matrix of weights, and num_samples from 1 to "
                               "the number of categories without replacement; got ",
                               num_samples),
                  where);
  }
  return internal::RandomOp(
      "multinomial", weights.device(), {weights}, where, [&](Value key, const Values& in) {
        const auto gumbel = [&](const Shape& shape) {
          const Value u = ir::RandomUniform(key, {DType::kF32, shape}, 1e-20, 1);
          return -ir::Log(-ir::Log(u));
        };
        const Value log_weights = ir::Log(ir::Convert(in[0], DType::kF32));
        if (!replacement) {
          return ir::Convert(ir::TopK(log_weights + gumbel(in[0].shape()), num_samples).indices,
                             DType::kI64);
        }
        std::vector<int64_t> shape(in[0].shape().begin(), in[0].shape().end());
        shape.insert(shape.end() - 1, num_samples);
        return ir::ArgMax(ir::ExpandDims(log_weights, -2) + gumbel(Shape(shape)), -1, DType::kI64);
      });
}

}  // namespace penstock::lazy
