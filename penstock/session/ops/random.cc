// Random numbers.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/random_ops.h"

namespace penstock::session {

using internal::AddRandom;
using internal::AddShaped;
using internal::In;
using internal::Reject;
using internal::ShapedIn;
using ir::Value;

namespace {

// A draw of numbers for a key.
using Draw = std::function<Value(Value key, const ir::TensorType& type)>;

Tensor AddDraw(absl::string_view type, const ShapeArgument& shape, DType dtype,
               std::optional<uint64_t> seed, absl::string_view name, SourceLocation where,
               Draw draw) {
  return AddShaped({.type = type,
                    .name = name,
                    .where = where,
                    .shape = shape,
                    .dtype = dtype,
                    .is_random = true,
                    .seed = seed},
                   [draw = std::move(draw), dtype](const ShapedIn& s) {
                     return draw(s.key, {dtype, s.shape});
                   });
}

// The same for a seed that is a tensor.
Tensor AddStatelessDraw(absl::string_view type, const ShapeArgument& shape, const Tensor& seed,
                        DType dtype, absl::string_view name, SourceLocation where, Draw draw) {
  return AddShaped({.type = type,
                    .name = name,
                    .where = where,
                    .inputs = {seed},
                    .shape = shape,
                    .dtype = dtype},
                   [draw = std::move(draw), dtype](const ShapedIn& s) -> Value {
                     if (s.in[0].shape() != Shape({2}) || !base::IsInteger(s.in[0].dtype())) {
                       return Reject(s.in[0], "a seed is two integers, got ",
                                     s.in[0].type().ToString());
                     }
                     return draw(ir::Convert(s.in[0], DType::kU32), {dtype, s.shape});
                   });
}

std::string UniformProblem(double low, const std::optional<double>& high, DType dtype) {
  if (base::IsFloat(dtype)) return "";
  if (!base::IsInteger(dtype)) {
    return absl::StrCat("draws numbers, not ", base::DTypeName(dtype));
  }
  if (!high.has_value()) return "needs maxval for an integer type";
  if (!internal::FitsType(low, dtype) || !internal::FitsType(*high, dtype) || !(*high > low)) {
    return absl::StrCat("expects integers minval < maxval, got ", low, " and ", *high);
  }
  return "";
}

Draw UniformDraw(double low, double high, DType dtype) {
  return [=](Value key, const ir::TensorType& type) {
    if (base::IsFloat(dtype)) return ir::RandomUniform(key, type, low, high);
    return ir::RandomInt(key, type, static_cast<int64_t>(low), static_cast<int64_t>(high));
  };
}

Tensor NotFloat(absl::string_view type, DType dtype, SourceLocation where) {
  return FailOp({}, type, absl::StrCat("draws floats, not ", base::DTypeName(dtype)), where);
}

// Index of the largest of logits with Gumbel noise, for each sample.
Value DrawClasses(Value logits, Value key, int64_t num_samples, DType dtype) {
  if (logits.rank() != 2 || !base::IsFloat(logits.dtype())) {
    return Reject(logits, "expects float logits [batch, classes], got ", logits.type().ToString());
  }
  const int64_t batch = logits.shape().dim(0), classes = logits.shape().dim(1);
  const ir::TensorType type{DType::kF32, Shape({batch, num_samples, classes})};
  // Above 0, so that the logarithms are finite.
  const Value uniform = ir::RandomUniform(key, type, 1e-37, 1);
  const Value noise = -ir::Log(-ir::Log(uniform));
  const Value wide = ir::ExpandDims(ir::Convert(logits, DType::kF32), 1);
  return ir::ArgMax(wide + noise, 2, dtype);
}

}  // namespace

Tensor RandomUniform(const ShapeArgument& shape, double minval, std::optional<double> maxval,
                     const RandomOptions& options, SourceLocation where) {
  const std::string problem = UniformProblem(minval, maxval, options.dtype);
  if (!problem.empty()) return FailOp({}, "RandomUniform", problem, where);
  return AddDraw("RandomUniform", shape, options.dtype, options.seed,
                 options.name.empty() ? "random_uniform" : options.name, where,
                 UniformDraw(minval, maxval.value_or(1), options.dtype));
}

Tensor RandomNormal(const ShapeArgument& shape, double mean, double stddev,
                    const RandomOptions& options, SourceLocation where) {
  if (!base::IsFloat(options.dtype)) return NotFloat("RandomNormal", options.dtype, where);
  return AddDraw("RandomStandardNormal", shape, options.dtype, options.seed,
                 options.name.empty() ? "random_normal" : options.name, where,
                 [=](Value key, const ir::TensorType& type) {
                   return ir::RandomNormal(key, type, mean, stddev);
                 });
}

Tensor TruncatedNormal(const ShapeArgument& shape, double mean, double stddev,
                       const RandomOptions& options, SourceLocation where) {
  if (!base::IsFloat(options.dtype)) return NotFloat("TruncatedNormal", options.dtype, where);
  return AddDraw("TruncatedNormal", shape, options.dtype, options.seed,
                 options.name.empty() ? "truncated_normal" : options.name, where,
                 [=](Value key, const ir::TensorType& type) {
                   return ir::RandomTruncatedNormal(key, type, mean, stddev);
                 });
}

Tensor RandomShuffle(const Tensor& value, std::optional<uint64_t> seed, absl::string_view name,
                     SourceLocation where) {
  if (!value.valid()) return internal::InvalidInput("RandomShuffle", where);
  return AddRandom("RandomShuffle", {value}, name, where, seed, {{value.dtype(), value.shape()}},
                   [](In in, Value key) -> Value {
                     if (in[0].rank() < 1) return in[0];
                     const Shape rows({in[0].shape().dim(0)});
                     if (rows.dim(0) < 2) return in[0];
                     const Value order = ir::ArgSort(ir::RandomBits(key, {DType::kU32, rows}));
                     return ir::Take(in[0], order, 0);
                   });
}

Tensor RandomCrop(const Tensor& value, const std::vector<int64_t>& size,
                  std::optional<uint64_t> seed, absl::string_view name, SourceLocation where) {
  if (!value.valid()) return internal::InvalidInput("RandomCrop", where);
  if (size.size() > base::kMaxRank ||
      std::any_of(size.begin(), size.end(), [](int64_t s) { return s < 0; })) {
    return FailOp({value}, "RandomCrop", "expects a size of at least 0 for each axis", where);
  }
  return AddRandom("RandomCrop", {value}, name.empty() ? "random_crop" : name, where, seed,
                   {{value.dtype(), Shape(size)}}, [size](In in, Value key) -> Value {
                     const Value& x = in[0];
                     bool fits = static_cast<int>(size.size()) == x.rank();
                     for (size_t i = 0; fits && i < size.size(); ++i) {
                       fits = size[i] <= x.shape().dim(static_cast<int>(i));
                     }
                     if (!fits) {
                       return Reject(x, "the value ", x.type().ToString(),
                                     " has to be at least as large as the crop ",
                                     Shape(size).ToString());
                     }
                     ir::Values begin;
                     for (size_t i = 0; i < size.size(); ++i) {
                       const int64_t places = x.shape().dim(static_cast<int>(i)) - size[i] + 1;
                       begin.push_back(ir::RandomInt(ir::FoldIn(key, static_cast<uint32_t>(i)),
                                                     {DType::kI32, {}}, 0, places));
                     }
                     return size.empty() ? x : ir::DynamicSlice(x, begin, size);
                   });
}

Tensor Multinomial(const Tensor& logits, int64_t num_samples, const MultinomialOptions& options,
                   SourceLocation where) {
  if (!logits.valid()) return internal::InvalidInput("Multinomial", where);
  if (num_samples < 0) return FailOp({logits}, "Multinomial", "num_samples is negative", where);
  const PartialShape& shape = logits.shape();
  const int64_t batch = shape.has_rank() && shape.rank() == 2 ? shape.dim(0) : -1;
  return AddRandom("Multinomial", {logits}, options.name.empty() ? "multinomial" : options.name,
                   where, options.seed,
                   {{options.output_dtype, PartialShape({batch, num_samples})}},
                   [num_samples, dtype = options.output_dtype](In in, Value key) {
                     return DrawClasses(in[0], key, num_samples, dtype);
                   });
}

Tensor random::Categorical(const Tensor& logits, int64_t num_samples,
                           const MultinomialOptions& options, SourceLocation where) {
  return Multinomial(logits, num_samples, options, where);
}

Tensor StatelessRandomUniform(const ShapeArgument& shape, const Tensor& seed, double minval,
                              std::optional<double> maxval, const StatelessRandomOptions& options,
                              SourceLocation where) {
  const std::string problem = UniformProblem(minval, maxval, options.dtype);
  if (!problem.empty()) return FailOp({seed}, "StatelessRandomUniform", problem, where);
  return AddStatelessDraw("StatelessRandomUniform", shape, seed, options.dtype, options.name, where,
                          UniformDraw(minval, maxval.value_or(1), options.dtype));
}

Tensor StatelessRandomNormal(const ShapeArgument& shape, const Tensor& seed, double mean,
                             double stddev, const StatelessRandomOptions& options,
                             SourceLocation where) {
  return AddStatelessDraw("StatelessRandomNormal", shape, seed, options.dtype, options.name, where,
                          [=](Value key, const ir::TensorType& type) {
                            return ir::RandomNormal(key, type, mean, stddev);
                          });
}

Tensor StatelessTruncatedNormal(const ShapeArgument& shape, const Tensor& seed, double mean,
                                double stddev, const StatelessRandomOptions& options,
                                SourceLocation where) {
  return AddStatelessDraw("StatelessTruncatedNormal", shape, seed, options.dtype, options.name,
                          where, [=](Value key, const ir::TensorType& type) {
                            return ir::RandomTruncatedNormal(key, type, mean, stddev);
                          });
}

}  // namespace penstock::session
