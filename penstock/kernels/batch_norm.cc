#include "penstock/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/kernels/batch_norm_loops.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/scratch.h"
#include "penstock/kernels/typed_call.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;

// ---- A kernel call ----

struct Problem {
  int64_t examples = 0, rows_of_example = 1, features = 0;
  float epsilon = 0;
  bool relu = false;
  const float* mask = nullptr;  // nullptr: all ones

  float weight(int64_t example) const { return mask == nullptr ? 1 : mask[example]; }
  // Number of rows of a block within one example.
  template <typename T>
  int64_t block_rows() const {
    return std::clamp<int64_t>(kBlockBytes / (features * static_cast<int64_t>(sizeof(T))), 1,
                               rows_of_example);
  }
  // Number of elements that contribute to a feature's statistics.
  double count() const {
    double weights = 0;
    for (int64_t i = 0; i < examples; ++i) weights += weight(i);
    return std::max(weights, 1.0) * static_cast<double>(rows_of_example);
  }
  int64_t pieces(const ffi::ThreadPool& pool) const { return std::min(examples, MaxPieces(pool)); }

  // Calls visit(example, first element, rows) for each block of a piece.
  template <typename T, typename Visit>
  void ForEachBlock(Rows piece, const Visit& visit) const {
    const int64_t step = block_rows<T>();
    for (int64_t example = piece.begin; example < piece.end; ++example) {
      for (int64_t r = 0; r < rows_of_example; r += step) {
        visit(example, (example * rows_of_example + r) * features,
              std::min(step, rows_of_example - r));
      }
    }
  }
};

// y = x * a + b, from the statistics. The coefficients are identical in forward and backward, so
// that relu masks the same elements.
struct Coefficients {
  Coefficients(const Problem& problem, const float* scale, const float* offset, const float* mean,
               const float* variance)
      : a(problem.features), b(problem.features) {
    for (int64_t f = 0; f < problem.features; ++f) {
      a[f] = scale[f] / std::sqrt(variance[f] + problem.epsilon);
      b[f] = offset[f] - mean[f] * a[f];
    }
  }
  std::vector<float> a, b;
};

// Mean and sum of squared deviations of weighted numbers, combined from parts (Chan, Golub,
// LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979).
struct Statistics {
  explicit Statistics(int64_t features) : mean(features), squares(features) {}

  void Add(double other_weight, int64_t f, double other_mean, double other_squares) {
    const double total = weight + other_weight, delta = other_mean - mean[f];
    mean[f] += delta * other_weight / total;
    squares[f] += other_squares + delta * delta * weight * other_weight / total;
  }

  double weight = 0;
  std::vector<double> mean, squares;
};

template <typename T>
Statistics StatisticsOf(const Problem& problem, const T* x, Rows piece) {
  Statistics out(problem.features);
  std::vector<float> sum(problem.features), squares(problem.features);
  problem.ForEachBlock<T>(piece, [&](int64_t example, int64_t first, int64_t rows) {
    const double weight = problem.weight(example);
    if (weight == 0) return;
    Dispatch<Moments>(
        MomentsArgs<T>{{x + first, rows, problem.features}, sum.data(), squares.data()});
    const double n = static_cast<double>(rows);
    for (int64_t f = 0; f < problem.features; ++f) {
      out.Add(weight * n, f, sum[f] / n, weight * squares[f]);
    }
    out.weight += weight * n;
  });
  return out;
}

template <typename T>
absl::Status RunMoments(ffi::ThreadPool& pool, const Problem& problem, const T* x, float* mean,
                        float* variance) {
  const int64_t pieces = problem.pieces(pool), features = problem.features;
  std::vector<Statistics> parts(pieces, Statistics(0));
  PENSTOCK_RETURN_IF_ERROR(ForEachPiece(pool, pieces, [&](int64_t i) {
    parts[i] = StatisticsOf(problem, x, RowsOf(problem.examples, pieces, i));
    return absl::OkStatus();
  }));
  Statistics all(features);
  for (const Statistics& part : parts) {
    if (part.weight == 0) continue;
    for (int64_t f = 0; f < features; ++f) all.Add(part.weight, f, part.mean[f], part.squares[f]);
    all.weight += part.weight;
  }
  for (int64_t f = 0; f < features; ++f) {
    mean[f] = static_cast<float>(all.mean[f]);
    variance[f] = static_cast<float>(all.squares[f] / problem.count());
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status RunAffine(ffi::ThreadPool& pool, const Problem& problem, const Coefficients& c,
                       const T* x, const T* other, T* y) {
  const int64_t pieces = problem.pieces(pool), features = problem.features;
  return ForEachPiece(pool, pieces, [&](int64_t i) {
    const Rows piece = RowsOf(problem.examples, pieces, i);
    const int64_t first = piece.begin * problem.rows_of_example * features;
    Dispatch<Affine>(AffineArgs<T>{{x + first, piece.size() * problem.rows_of_example, features},
                                   c.a.data(),
                                   c.b.data(),
                                   other == nullptr ? nullptr : other + first,
                                   problem.relu,
                                   y + first});
    return absl::OkStatus();
  });
}

template <typename T>
struct Backward {
  const T* x;
  const float *scale, *offset, *mean, *variance;
  const T* cotangent;
  T* of_x;
  float *of_scale, *of_offset;
};

template <typename T>
absl::Status RunBackward(ffi::ThreadPool& pool, const Problem& problem, const Backward<T>& in) {
  const int64_t pieces = problem.pieces(pool), features = problem.features;
  const Coefficients c(problem, in.scale, in.offset, in.mean, in.variance);
  // Partial sums of each piece: of d, then of d * (x - mean).
  std::vector<std::vector<double>> parts(pieces);
  PENSTOCK_RETURN_IF_ERROR(ForEachPiece(pool, pieces, [&](int64_t i) {
    std::vector<double> sums(2 * features);
    std::vector<float> of_block(2 * features);
    problem.ForEachBlock<T>(RowsOf(problem.examples, pieces, i),
                            [&](int64_t, int64_t first, int64_t rows) {
                              Dispatch<Sums>(SumsArgs<T>{{in.x + first, rows, features},
                                                         in.cotangent + first,
                                                         c.a.data(),
                                                         c.b.data(),
                                                         in.mean,
                                                         problem.relu,
                                                         of_block.data(),
                                                         of_block.data() + features});
                              for (int64_t f = 0; f < 2 * features; ++f) sums[f] += of_block[f];
                            });
    parts[i] = std::move(sums);
    return absl::OkStatus();
  }));
  std::vector<float> p(features), q(features), zero(features);
  const double count = problem.count();
  for (int64_t f = 0; f < features; ++f) {
    double of_offset = 0, of_centered = 0;
    for (const std::vector<double>& part : parts) {
      of_offset += part[f];
      of_centered += part[features + f];
    }
    const double inverse = 1 / std::sqrt(static_cast<double>(in.variance[f]) + problem.epsilon);
    in.of_offset[f] = static_cast<float>(of_offset);
    in.of_scale[f] = static_cast<float>(of_centered * inverse);
    // a * (d - of_offset / count - (x - mean) * inverse^2 * of_centered / count)
    const double a = in.scale[f] * inverse;
    p[f] = static_cast<float>(-a * inverse * inverse * of_centered / count);
    q[f] = static_cast<float>(-a * of_offset / count);
  }
  return ForEachPiece(pool, pieces, [&](int64_t i) {
    const Rows piece = RowsOf(problem.examples, pieces, i);
    std::vector<float> weighed_p(features), weighed_q(features);
    for (int64_t example = piece.begin; example < piece.end; ++example) {
      const float weight = problem.weight(example);
      const bool whole = weight == 1;
      for (int64_t f = 0; f < features && !whole; ++f) {
        weighed_p[f] = p[f] * weight;
        weighed_q[f] = q[f] * weight;
      }
      const int64_t first = example * problem.rows_of_example * features;
      Dispatch<Gradient>(GradientArgs<T>{{in.x + first, problem.rows_of_example, features},
                                         in.cotangent + first,
                                         c.a.data(),
                                         c.b.data(),
                                         in.mean,
                                         whole ? p.data() : weighed_p.data(),
                                         whole ? q.data() : weighed_q.data(),
                                         problem.relu,
                                         in.of_x + first});
    }
    return absl::OkStatus();
  });
}

// ---- FFI handlers ----

Problem ProblemOf(const ffi::AnyBuffer& x, double epsilon, bool relu, const ffi::AnyBuffer* mask) {
  const auto dims = x.dimensions();
  Problem problem{.examples = dims[0],
                  .features = dims[dims.size() - 1],
                  .epsilon = static_cast<float>(epsilon),
                  .relu = relu};
  for (size_t i = 1; i + 1 < dims.size(); ++i) problem.rows_of_example *= dims[i];
  if (mask != nullptr) problem.mask = static_cast<const float*>(mask->untyped_data());
  return problem;
}

float* FloatsOf(const ffi::AnyBuffer& buffer) { return static_cast<float*>(buffer.untyped_data()); }

ffi::Error MomentsCall(ffi::ThreadPool& pool, const ffi::AnyBuffer& x, const ffi::AnyBuffer* mask,
                       const ffi::AnyBuffer& mean, const ffi::AnyBuffer& variance) {
  return Typed(x, [&](auto zero) {
    using T = decltype(zero);
    return RunMoments<T>(pool, ProblemOf(x, 0, false, mask),
                         static_cast<const T*>(x.untyped_data()), FloatsOf(mean),
                         FloatsOf(variance));
  });
}

// y = (x - mean) / sqrt(variance + epsilon) * scale + offset + other, `other` is optional.
ffi::Error AffineCall(ffi::ThreadPool& pool, const ffi::AnyBuffer& x, const ffi::AnyBuffer& scale,
                      const ffi::AnyBuffer& offset, const ffi::AnyBuffer& mean,
                      const ffi::AnyBuffer& variance, const ffi::AnyBuffer* other,
                      const ffi::AnyBuffer& y, double epsilon, bool relu) {
  return Typed(x, [&](auto zero) {
    using T = decltype(zero);
    const Problem problem = ProblemOf(x, epsilon, relu, nullptr);
    const Coefficients c(problem, FloatsOf(scale), FloatsOf(offset), FloatsOf(mean),
                         FloatsOf(variance));
    return RunAffine<T>(pool, problem, c, static_cast<const T*>(x.untyped_data()),
                        other == nullptr ? nullptr : static_cast<const T*>(other->untyped_data()),
                        static_cast<T*>(y.untyped_data()));
  });
}

ffi::Error Forward(ffi::ThreadPool pool, const ffi::AnyBuffer& x, const ffi::AnyBuffer& scale,
                   const ffi::AnyBuffer& offset, const ffi::AnyBuffer* mask,
                   const ffi::AnyBuffer& y, const ffi::AnyBuffer& mean,
                   const ffi::AnyBuffer& variance, double epsilon, bool relu) {
  ffi::Error error = MomentsCall(pool, x, mask, mean, variance);
  if (error.failure()) return error;
  return AffineCall(pool, x, scale, offset, mean, variance, nullptr, y, epsilon, relu);
}

ffi::Error BackwardCall(ffi::ThreadPool pool, const ffi::AnyBuffer& x, const ffi::AnyBuffer& scale,
                        const ffi::AnyBuffer& offset, const ffi::AnyBuffer& mean,
                        const ffi::AnyBuffer& variance, const ffi::AnyBuffer& cotangent,
                        const ffi::AnyBuffer* mask, const ffi::AnyBuffer& of_x,
                        const ffi::AnyBuffer& of_scale, const ffi::AnyBuffer& of_offset,
                        double epsilon, bool relu) {
  return Typed(x, [&](auto zero) {
    using T = decltype(zero);
    return RunBackward<T>(
        pool, ProblemOf(x, epsilon, relu, mask),
        Backward<T>{static_cast<const T*>(x.untyped_data()), FloatsOf(scale), FloatsOf(offset),
                    FloatsOf(mean), FloatsOf(variance),
                    static_cast<const T*>(cotangent.untyped_data()),
                    static_cast<T*>(of_x.untyped_data()), FloatsOf(of_scale), FloatsOf(of_offset)});
  });
}

using Buffer = ffi::AnyBuffer;
using Out = ffi::Result<Buffer>;

constexpr auto kPlainMoments = [](ffi::ThreadPool pool, Buffer x, Out mean, Out variance) {
  return MomentsCall(pool, x, nullptr, *mean, *variance);
};
constexpr auto kMaskedMoments = [](ffi::ThreadPool pool, Buffer x, Buffer mask, Out mean,
                                   Out variance) {
  return MomentsCall(pool, x, &mask, *mean, *variance);
};
constexpr auto kAddRelu = [](ffi::ThreadPool pool, Buffer x, Buffer scale, Buffer offset,
                             Buffer mean, Buffer variance, Buffer other, Out y, double epsilon) {
  return AffineCall(pool, x, scale, offset, mean, variance, &other, *y, epsilon, /*relu=*/true);
};
constexpr auto kPlainForward = [](ffi::ThreadPool pool, Buffer x, Buffer scale, Buffer offset,
                                  Out y, Out mean, Out variance, double epsilon, bool relu) {
  return Forward(pool, x, scale, offset, nullptr, *y, *mean, *variance, epsilon, relu);
};
constexpr auto kMaskedForward = [](ffi::ThreadPool pool, Buffer x, Buffer scale, Buffer offset,
                                   Buffer mask, Out y, Out mean, Out variance, double epsilon,
                                   bool relu) {
  return Forward(pool, x, scale, offset, &mask, *y, *mean, *variance, epsilon, relu);
};
constexpr auto kPlainBackward = [](ffi::ThreadPool pool, Buffer x, Buffer scale, Buffer offset,
                                   Buffer mean, Buffer variance, Buffer cotangent, Out of_x,
                                   Out of_scale, Out of_offset, double epsilon, bool relu) {
  return BackwardCall(pool, x, scale, offset, mean, variance, cotangent, nullptr, *of_x, *of_scale,
                      *of_offset, epsilon, relu);
};
constexpr auto kMaskedBackward = [](ffi::ThreadPool pool, Buffer x, Buffer scale, Buffer offset,
                                    Buffer mean, Buffer variance, Buffer cotangent, Buffer mask,
                                    Out of_x, Out of_scale, Out of_offset, double epsilon,
                                    bool relu) {
  return BackwardCall(pool, x, scale, offset, mean, variance, cotangent, &mask, *of_x, *of_scale,
                      *of_offset, epsilon, relu);
};

// FFI binding with these numbers of buffers.
template <int kArguments, int kResults>
auto Binding() {
  if constexpr (kResults > 0) {
    return Binding<kArguments, kResults - 1>().template Ret<Buffer>();
  } else if constexpr (kArguments > 0) {
    return Binding<kArguments - 1, 0>().template Arg<Buffer>();
  } else {
    return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>();
  }
}

template <int kArguments>
auto Whole() {
  return Binding<kArguments, 3>().template Attr<double>("epsilon").template Attr<bool>("relu");
}

XLA_FFI_DEFINE_HANDLER(kForwardHandler, kPlainForward, Whole<3>());
XLA_FFI_DEFINE_HANDLER(kMaskedForwardHandler, kMaskedForward, Whole<4>());
XLA_FFI_DEFINE_HANDLER(kMomentsHandler, kPlainMoments, (Binding<1, 2>()));
XLA_FFI_DEFINE_HANDLER(kMaskedMomentsHandler, kMaskedMoments, (Binding<2, 2>()));
XLA_FFI_DEFINE_HANDLER(kAddReluHandler, kAddRelu, (Binding<6, 1>().Attr<double>("epsilon")));
XLA_FFI_DEFINE_HANDLER(kBackwardHandler, kPlainBackward, Whole<6>());
XLA_FFI_DEFINE_HANDLER(kMaskedBackwardHandler, kMaskedBackward, Whole<7>());

}  // namespace

std::vector<runtime::Kernel> BatchNormKernels() {
  return {{kBatchNormTarget, reinterpret_cast<void*>(kForwardHandler)},
          {kMaskedBatchNormTarget, reinterpret_cast<void*>(kMaskedForwardHandler)},
          {kMomentsTarget, reinterpret_cast<void*>(kMomentsHandler)},
          {kMaskedMomentsTarget, reinterpret_cast<void*>(kMaskedMomentsHandler)},
          {kBatchNormAddReluTarget, reinterpret_cast<void*>(kAddReluHandler)},
          {kBatchNormGradientTarget, reinterpret_cast<void*>(kBackwardHandler)},
          {kMaskedBatchNormGradientTarget, reinterpret_cast<void*>(kMaskedBackwardHandler)}};
}

std::vector<KernelCost> BatchNormCosts() {
  // Elementwise operations for each element of x. Moments: the sum, then the sum of (x - mean)^2; a
  // mask multiplies both terms. Normalization: (x - mean) rstd scale + offset. Gradient: (x - mean)
  // rstd, two sums, and scale rstd (dy - sum / n - xhat sum / n). relu: a comparison, and its
  // gradient computes y again.
  constexpr double kMoments = 4, kMask = 2, kNormalize = 4, kRelu = 1, kAdd = 1, kGradient = 9,
                   kReluGradient = 3;
  static constexpr auto kForward = [](const KernelCall& call, double mask) {
    const bool relu = call.attributes.find("relu = true") != std::string::npos;
    return call.Elements(0) * (kMoments + mask + kNormalize + (relu ? kRelu : 0));
  };
  static constexpr auto kBackward = [](const KernelCall& call, double mask) {
    const bool relu = call.attributes.find("relu = true") != std::string::npos;
    return call.Elements(0) * (kGradient + mask + (relu ? kReluGradient : 0));
  };
  return {{kBatchNormTarget, 1, [](const KernelCall& call) { return kForward(call, 0); }},
          {kMaskedBatchNormTarget, 1, [](const KernelCall& call) { return kForward(call, kMask); }},
          {kMomentsTarget, 1, [](const KernelCall& call) { return call.Elements(0) * kMoments; }},
          {kMaskedMomentsTarget, 1,
           [](const KernelCall& call) { return call.Elements(0) * (kMoments + kMask); }},
          {kBatchNormAddReluTarget, 1,
           [](const KernelCall& call) { return call.Elements(0) * (kNormalize + kAdd + kRelu); }},
          {kBatchNormGradientTarget, 1, [](const KernelCall& call) { return kBackward(call, 0); }},
          {kMaskedBatchNormGradientTarget, 1,
           [](const KernelCall& call) { return kBackward(call, kMask); }}};
}

}  // namespace penstock::kernels
