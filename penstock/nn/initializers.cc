#include "penstock/nn/initializers.h"

#include <cmath>
#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/random.h"

namespace penstock::nn {
namespace {

using base::Array;
using base::DType;
using base::Random;
using base::Shape;

enum class Kind {
  kConstant,
  kUniform,
  kNormal,
  kTruncatedNormal,
  kUniformScaled,
  kTruncatedScaled
};
enum class Fan { kNone, kIn, kAverage };

// `number` is the constant, the limit of the uniform range, the standard deviation, or the scale of
// the variance (scale / fan).
struct Row {
  const char* name;
  Kind kind;
  double number;
  Fan fan;
};

constexpr Row kTable[] = {
    {"zeros", Kind::kConstant, 0, Fan::kNone},
    {"ones", Kind::kConstant, 1, Fan::kNone},
    {"random_uniform", Kind::kUniform, 0.05, Fan::kNone},
    {"random_normal", Kind::kNormal, 0.05, Fan::kNone},
    {"truncated_normal", Kind::kTruncatedNormal, 0.05, Fan::kNone},
    {"glorot_uniform", Kind::kUniformScaled, 1, Fan::kAverage},
    {"glorot_normal", Kind::kTruncatedScaled, 1, Fan::kAverage},
    {"he_uniform", Kind::kUniformScaled, 2, Fan::kIn},
    {"he_normal", Kind::kTruncatedScaled, 2, Fan::kIn},
    {"lecun_uniform", Kind::kUniformScaled, 1, Fan::kIn},
    {"lecun_normal", Kind::kTruncatedScaled, 1, Fan::kIn},
};

double FanOf(Fan fan, const Shape& shape) {
  double in = 1, out = 1;
  if (shape.rank() == 1) {
    in = out = static_cast<double>(shape.dim(0));
  } else if (shape.rank() >= 2) {
    double field = 1;
    for (int i = 0; i < shape.rank() - 2; ++i) field *= static_cast<double>(shape.dim(i));
    in = field * static_cast<double>(shape.dim(-2));
    out = field * static_cast<double>(shape.dim(-1));
  }
  return fan == Fan::kIn ? in : (in + out) / 2;
}

// Box and Muller's method: two uniform numbers give a normal one. The sine is not used, so that one
// element takes one call.
double Normal(Random& random) {
  const double u = 1.0 - random.Uniform();  // (0, 1]
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * random.Uniform());
}

double TruncatedNormal(Random& random) {
  for (;;) {
    if (const double z = Normal(random); std::abs(z) <= 2.0) return z;
  }
}

// The standard deviation of a normal distribution cut at two of its standard deviations.
constexpr double kTruncatedStddev = 0.87962566103423978;

std::function<double(Random&)> Sampler(const Row& row, const Shape& shape) {
  const double number = row.number;
  switch (row.kind) {
    case Kind::kConstant:
      return [number](Random&) { return number; };
    case Kind::kUniform:
      return [number](Random& r) { return number * (2 * r.Uniform() - 1); };
    case Kind::kNormal:
      return [number](Random& r) { return number * Normal(r); };
    case Kind::kTruncatedNormal:
      return [number](Random& r) { return number * TruncatedNormal(r); };
    case Kind::kUniformScaled: {
      const double limit = std::sqrt(3 * number / std::max(1.0, FanOf(row.fan, shape)));
      return [limit](Random& r) { return limit * (2 * r.Uniform() - 1); };
    }
    case Kind::kTruncatedScaled: {
      const double stddev =
          std::sqrt(number / std::max(1.0, FanOf(row.fan, shape))) / kTruncatedStddev;
      return [stddev](Random& r) { return stddev * TruncatedNormal(r); };
    }
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Array> InitialValue(absl::string_view initializer, const ir::TensorType& type,
                                   uint64_t seed) {
  Row constant{"constant", Kind::kConstant, 0, Fan::kNone};
  const Row* row = nullptr;
  for (const Row& candidate : kTable) {
    if (initializer == candidate.name) row = &candidate;
  }
  absl::string_view argument = initializer;
  if (absl::ConsumePrefix(&argument, "constant(") && absl::ConsumeSuffix(&argument, ")") &&
      absl::SimpleAtod(argument, &constant.number)) {
    row = &constant;
  }
  if (row == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("there is no initializer '", initializer,
                                                   "'; there are ",
                                                   absl::StrJoin(InitializerNames(), ", ")));
  }
  if (!base::IsNumeric(type.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a variable cannot be ", base::DTypeName(type.dtype)));
  }
  const auto sample = Sampler(*row, type.shape);
  Random random(seed);
  Array out = Array::Uninitialized(type.dtype, type.shape);
  base::VisitNumeric(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* p = out.mutable_data<T>();
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        p[i] = static_cast<T>(sample(random));
      } else {
        p[i] = static_cast<T>(static_cast<float>(sample(random)));
      }
    }
  });
  return out;
}

std::vector<std::string> InitializerNames() {
  std::vector<std::string> names;
  for (const Row& row : kTable) names.push_back(row.name);
  names.emplace_back("constant(NUMBER)");
  return names;
}

}  // namespace penstock::nn
