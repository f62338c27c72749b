#include "penstock/nn/initializers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/numeric_cast.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using base::Array;
using base::DType;
using base::Random;
using base::Shape;

// Returns an array's elements one after the other, in row-major order.
using Sampler = std::function<double(Random&)>;

// Box-Muller transform: two uniform numbers give a normal one. The sine is not used, so that each
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

// Standard deviation of a normal distribution truncated at two standard deviations.
constexpr double kTruncatedStddev = 0.87962566103423978;

absl::StatusOr<Sampler> Zeros(const NamedCall& call, const Shape&) {
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call).Finish());
  return [](Random&) { return 0.0; };
}

absl::StatusOr<Sampler> Ones(const NamedCall& call, const Shape&) {
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call).Finish());
  return [](Random&) { return 1.0; };
}

absl::StatusOr<Sampler> Constant(const NamedCall& call, const Shape&) {
  double value = 0;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("value", value).Finish());
  return [value](Random&) { return value; };
}

absl::StatusOr<Sampler> RandomUniform(const NamedCall& call, const Shape&) {
  double low = -0.05, high = 0.05;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("minval", low)("maxval", high).Finish());
  return [low, high](Random& r) { return low + (high - low) * r.Uniform(); };
}

template <double (*kDraw)(Random&)>
absl::StatusOr<Sampler> RandomNormal(const NamedCall& call, const Shape&) {
  double mean = 0, stddev = 0.05;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("mean", mean)("stddev", stddev).Finish());
  return [mean, stddev](Random& r) { return mean + stddev * kDraw(r); };
}

struct Fans {
  double in = 1, out = 1;
};

Fans FansOf(const Shape& shape) {
  if (shape.rank() == 0) return {};
  const auto last = static_cast<double>(shape.dim(-1));
  if (shape.rank() == 1) return {last, last};
  double field = 1;
  for (int i = 0; i < shape.rank() - 2; ++i) field *= static_cast<double>(shape.dim(i));
  return {field * static_cast<double>(shape.dim(-2)), field * last};
}

absl::StatusOr<double> Extent(const Shape& shape, const std::vector<int64_t>& axes) {
  double extent = 1;
  for (int64_t axis : axes) {
    if (axis < -shape.rank() || axis >= shape.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no axis ", axis, " in a variable of ", shape.rank(), " axes"));
    }
    extent *= static_cast<double>(shape.dim(static_cast<int>(axis)));
  }
  return extent;
}

struct Scaling {
  double scale = 1;
  std::string mode = "fan_in";
  std::string distribution = "truncated_normal";
  std::vector<int64_t> input_axes = {}, output_axes = {};
};

absl::StatusOr<Sampler> Scaled(const Scaling& scaling, const Shape& shape) {
  Fans fans = FansOf(shape);
  if (!scaling.input_axes.empty() && !scaling.output_axes.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(fans.in, Extent(shape, scaling.input_axes));
    PENSTOCK_ASSIGN_OR_RETURN(fans.out, Extent(shape, scaling.output_axes));
  }
  double fan = fans.in;
  if (scaling.mode == "fan_out") {
    fan = fans.out;
  } else if (scaling.mode == "fan_avg") {
    fan = (fans.in + fans.out) / 2;
  } else if (scaling.mode != "fan_in") {
    return absl::InvalidArgumentError(
        absl::StrCat("mode must be fan_in, fan_out or fan_avg, got '", scaling.mode, "'"));
  }
  if (!(scaling.scale > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("scale must be above 0, got ", scaling.scale));
  }
  const double variance = scaling.scale / std::max(1.0, fan);
  if (scaling.distribution == "uniform") {
    const double limit = std::sqrt(3 * variance);
    return [limit](Random& r) { return limit * (2 * r.Uniform() - 1); };
  }
  if (scaling.distribution == "untruncated_normal") {
    const double stddev = std::sqrt(variance);
    return [stddev](Random& r) { return stddev * Normal(r); };
  }
  if (scaling.distribution == "truncated_normal" || scaling.distribution == "normal") {
    const double stddev = std::sqrt(variance) / kTruncatedStddev;
    return [stddev](Random& r) { return stddev * TruncatedNormal(r); };
  }
  return absl::InvalidArgumentError(
      absl::StrCat("distribution must be uniform, truncated_normal or untruncated_normal, got '",
                   scaling.distribution, "'"));
}

absl::StatusOr<Sampler> VarianceScaling(const NamedCall& call, const Shape& shape) {
  Scaling s;
  PENSTOCK_RETURN_IF_ERROR(
      CallArguments(call)("scale", s.scale)("mode", s.mode)("distribution", s.distribution)(
          "input_axes", s.input_axes)("output_axes", s.output_axes)
          .Finish());
  return Scaled(s, shape);
}

absl::StatusOr<Sampler> NamedScaling(const NamedCall& call, const Shape& shape, Scaling s) {
  PENSTOCK_RETURN_IF_ERROR(
      CallArguments(call)("input_axes", s.input_axes)("output_axes", s.output_axes).Finish());
  return Scaled(s, shape);
}
absl::StatusOr<Sampler> GlorotUniform(const NamedCall& call, const Shape& shape) {
  return NamedScaling(call, shape, {.scale = 1, .mode = "fan_avg", .distribution = "uniform"});
}
absl::StatusOr<Sampler> GlorotNormal(const NamedCall& call, const Shape& shape) {
  return NamedScaling(call, shape, {.scale = 1, .mode = "fan_avg"});
}
absl::StatusOr<Sampler> HeUniform(const NamedCall& call, const Shape& shape) {
  return NamedScaling(call, shape, {.scale = 2, .distribution = "uniform"});
}
absl::StatusOr<Sampler> HeNormal(const NamedCall& call, const Shape& shape) {
  return NamedScaling(call, shape, {.scale = 2});
}
absl::StatusOr<Sampler> LecunUniform(const NamedCall& call, const Shape& shape) {
  return NamedScaling(call, shape, {.scale = 1, .distribution = "uniform"});
}
absl::StatusOr<Sampler> LecunNormal(const NamedCall& call, const Shape& shape) {
  return NamedScaling(call, shape, {.scale = 1});
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  // Four accumulators, so that an addition need not wait for the previous one.
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// `count` orthogonal unit vectors of `length` elements, uniformly distributed: normal random
// vectors orthogonalized by Gram-Schmidt, which gives the factor Q of the QR decomposition whose R
// has a positive diagonal. Their condition number is about `length`, so double is accurate enough
// for float32.
std::vector<std::vector<double>> OrthogonalVectors(size_t count, size_t length, Random& random) {
  std::vector<std::vector<double>> vectors(count, std::vector<double>(length));
  for (auto& vector : vectors) {
    for (double& v : vector) v = Normal(random);
  }
  for (size_t i = 0; i < count; ++i) {
    const double norm = std::sqrt(Dot(vectors[i], vectors[i]));
    for (double& v : vectors[i]) v /= norm;
    for (size_t j = i + 1; j < count; ++j) {
      const double along = Dot(vectors[i], vectors[j]);
      for (size_t k = 0; k < length; ++k) vectors[j][k] -= along * vectors[i][k];
    }
  }
  return vectors;
}

absl::StatusOr<Sampler> Orthogonal(const NamedCall& call, const Shape& shape) {
  double gain = 1;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("gain", gain).Finish());
  if (shape.rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("it takes a variable of two axes and more, got ", shape.ToString()));
  }
  // The variable as a matrix whose columns are those of the last axis.
  const auto columns = static_cast<size_t>(shape.dim(-1));
  const size_t rows = columns == 0 ? 0 : static_cast<size_t>(shape.num_elements()) / columns;
  std::vector<std::vector<double>> vectors;
  return [=, next = size_t{0}](Random& random) mutable {
    if (vectors.empty()) {
      vectors = OrthogonalVectors(std::min(rows, columns), std::max(rows, columns), random);
    }
    const size_t row = next / columns, column = next % columns;
    ++next;
    return gain * (rows < columns ? vectors[row][column] : vectors[column][row]);
  };
}

absl::StatusOr<Sampler> Identity(const NamedCall& call, const Shape& shape) {
  double gain = 1;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("gain", gain).Finish());
  if (shape.rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("it takes a matrix, got ", shape.ToString()));
  }
  return [gain, columns = shape.dim(1), next = int64_t{0}](Random&) mutable {
    const bool diagonal = next / columns == next % columns;
    ++next;
    return diagonal ? gain : 0;
  };
}

struct InitializerRow {
  const char* name;
  absl::StatusOr<Sampler> (*make)(const NamedCall& call, const Shape& shape);
  bool has_fans = false;
};

constexpr InitializerRow kInitializers[] = {
    {"zeros", Zeros},
    {"ones", Ones},
    {"constant", Constant},
    {"random_uniform", RandomUniform},
    {"random_normal", RandomNormal<Normal>},
    {"truncated_normal", RandomNormal<TruncatedNormal>},
    {"variance_scaling", VarianceScaling, true},
    {"glorot_uniform", GlorotUniform, true},
    {"glorot_normal", GlorotNormal, true},
    {"he_uniform", HeUniform, true},
    {"he_normal", HeNormal, true},
    {"lecun_uniform", LecunUniform, true},
    {"lecun_normal", LecunNormal, true},
    {"orthogonal", Orthogonal},
    {"identity", Identity},
};

// Aliases of Keras in addition to class names.
constexpr std::pair<const char*, const char*> kAliases[] = {
    {"zero", "zeros"},
    {"one", "ones"},
    {"uniform", "random_uniform"},
    {"normal", "random_normal"},
    {"orthogonal_initializer", "orthogonal"},
    {"identity_initializer", "identity"},
};

constexpr char kUnitForgetGate[] = "unit_forget_gate:";

absl::StatusOr<Sampler> MakeSampler(absl::string_view initializer, const Shape& shape);

absl::StatusOr<Sampler> UnitForgetGate(absl::string_view others, const Shape& shape) {
  if (shape.rank() != 1 || shape.dim(0) % 4 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit_forget_bias expects a bias of four gates, got ", shape.ToString()));
  }
  const int64_t units = shape.dim(0) / 4;
  PENSTOCK_ASSIGN_OR_RETURN(const Sampler first, MakeSampler(others, Shape({units})));
  PENSTOCK_ASSIGN_OR_RETURN(const Sampler last, MakeSampler(others, Shape({2 * units})));
  return [=, next = int64_t{0}](Random& random) mutable {
    const int64_t gate = next++ / units;
    return gate == 0 ? first(random) : gate == 1 ? 1.0 : last(random);
  };
}

absl::StatusOr<Sampler> MakeSampler(absl::string_view initializer, const Shape& shape) {
  if (absl::ConsumePrefix(&initializer, kUnitForgetGate)) return UnitForgetGate(initializer, shape);
  PENSTOCK_ASSIGN_OR_RETURN(NamedCall call, ParseNamedCall(initializer));
  for (const auto& [alias, name] : kAliases) {
    if (SameName(call.name, alias)) call.name = name;
  }
  for (const InitializerRow& row : kInitializers) {
    if (!SameName(call.name, row.name)) continue;
    absl::StatusOr<Sampler> sampler = row.make(call, shape);
    if (!sampler.ok()) {
      return base::WithContext(sampler.status(), absl::StrCat("initializer ", row.name));
    }
    return sampler;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown initializer '", call.name,
                   "'; available: ", absl::StrJoin(InitializerNames(), ", ")));
}

}  // namespace

absl::StatusOr<Array> InitialValue(absl::string_view initializer, const ir::TensorType& type,
                                   uint64_t seed) {
  if (!base::IsNumeric(type.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a variable cannot be ", base::DTypeName(type.dtype)));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Sampler sample, MakeSampler(initializer, type.shape));
  Random random(seed);
  Array out = Array::Uninitialized(type.dtype, type.shape);
  base::VisitNumeric(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* p = out.mutable_data<T>();
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        p[i] = base::NumericCast<T>(sample(random));
      } else {
        p[i] = static_cast<T>(static_cast<float>(sample(random)));
      }
    }
  });
  return out;
}

std::string WithFans(absl::string_view initializer, int64_t input_axes, int64_t output_axes) {
  const absl::StatusOr<NamedCall> call = ParseNamedCall(initializer);
  std::string same(initializer);
  if (!call.ok()) return same;  // InitialValue reports the error
  const bool has_fans = std::any_of(
      std::begin(kInitializers), std::end(kInitializers),
      [&](const InitializerRow& row) { return row.has_fans && SameName(call->name, row.name); });
  std::vector<std::string> arguments;
  for (const NamedCall::Argument& a : call->arguments) {
    if (a.key == "input_axes" || a.key == "output_axes") return same;
    arguments.push_back(a.key.empty() ? a.value : absl::StrCat(a.key, "=", a.value));
  }
  if (!has_fans) return same;
  std::vector<int64_t> axes(input_axes + output_axes);
  std::iota(axes.begin(), axes.end(), 0);
  const absl::Span<const int64_t> all(axes);
  arguments.push_back(
      absl::StrCat("input_axes=[", absl::StrJoin(all.first(input_axes), ", "), "]"));
  arguments.push_back(
      absl::StrCat("output_axes=[", absl::StrJoin(all.subspan(input_axes), ", "), "]"));
  return absl::StrCat(call->name, "(", absl::StrJoin(arguments, ", "), ")");
}

std::string WithUnitForgetGate(absl::string_view initializer) {
  return absl::StrCat(kUnitForgetGate, initializer);
}

std::vector<std::string> InitializerNames() {
  std::vector<std::string> names;
  for (const InitializerRow& row : kInitializers) names.emplace_back(row.name);
  return names;
}

}  // namespace penstock::nn
