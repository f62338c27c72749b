// Normalization.
#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::Value;
using ir::Values;
using lazy::internal::Widened;

// [1, features, 1, ...] for x [N, features, ...].
Shape ChannelShape(const Value& x) {
  std::vector<int64_t> shape(x.rank(), 1);
  if (x.rank() > 1) shape[1] = x.shape().dim(1);
  return Shape(shape);
}

// Inputs of which some are not defined; `At` is invalid for those.
struct OptionalInputs {
  Tensors tensors;
  std::vector<int> places;
  explicit OptionalInputs(const Tensors& all) {
    for (const Tensor& x : all) {
      places.push_back(x.defined() ? static_cast<int>(tensors.size()) : -1);
      if (x.defined()) tensors.push_back(x);
    }
  }
  Value At(const Values& in, size_t i) const { return places[i] < 0 ? Value() : in[places[i]]; }
};

bool CheckFeatures(absl::string_view name, const Tensor& x, const Tensors& vectors, int64_t size,
                   SourceLocation where) {
  for (const Tensor& v : vectors) {
    if (!v.defined() || (v.dim() == 1 && v.size(0) == size)) continue;
    FailOp(name, {x, v},
           absl::StrCat("expects vectors of ", size, " elements, one for each channel of x"),
           where);
    return false;
  }
  return true;
}

// x * scale + shift with the running statistics: two operations per element.
Value BatchNormInference(Value x, Value mean, Value variance, Value weight, Value bias,
                         double eps) {
  Value scale = ir::Rsqrt(variance + eps);
  if (weight.valid()) scale = scale * weight;
  Value shift = -mean * scale;
  if (bias.valid()) shift = shift + bias;
  const Shape broadcast = ChannelShape(x);
  const Value y = Widened(x) * ir::Reshape(scale, broadcast) + ir::Reshape(shift, broadcast);
  return ir::Convert(y, x.dtype());
}

Value ToWide(Value v, Value like) { return v.valid() ? ir::Convert(v, Widened(like).dtype()) : v; }

// (x - mean) / sqrt(variance + eps) over `axes`, in float32; not converted back.
Value Standardized(Value x, const ir::Axes& axes, double eps) {
  const Value wide = Widened(x), mean = ir::ReduceMean(wide, axes, true);
  const Value centered = wide - mean;
  const Value variance = ir::ReduceMean(ir::Square(centered), axes, true);
  return centered * ir::Rsqrt(variance + eps);
}

// y * weight + bias, with vectors reshaped to `shape`, in x's type.
Value ScaledAndShifted(Value y, Value weight, Value bias, const Shape& shape, DType dtype) {
  if (!y.valid()) return y;
  if (weight.valid()) y = y * ir::Reshape(ir::Convert(weight, y.dtype()), shape);
  if (bias.valid()) y = y + ir::Reshape(ir::Convert(bias, y.dtype()), shape);
  return ir::Convert(y, dtype);
}

// Distance of 1 to the next number of a float type.
double EpsilonOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

void UpdateRunning(Tensor running, const Tensor& batch, double momentum, double factor,
                   SourceLocation where) {
  if (!running.defined()) return;
  const Tensor updated = Record("batch_norm", {running, batch}, where, [&](const Values& in) {
    const Value now = factor == 1 ? in[1] : in[1] * factor;
    return in[0] * (1 - momentum) + ir::Convert(now, in[0].dtype()) * momentum;
  });
  running.copy_(updated, where);
}

Tensor BatchNormTraining(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                         const BatchNormOptions& options, SourceLocation where) {
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  if (count <= 1) {
    return FailOp("batch_norm", {x}, "expects more than one value per channel in training mode",
                  where);
  }
  const OptionalInputs inputs({x, options.weight, options.bias});
  const Tensors results = RecordAll("batch_norm", inputs.tensors, where, [&](const Values& in) {
    const Value scale = inputs.At(in, 1), offset = inputs.At(in, 2);
    const ir::BatchNormResult r =
        ir::BatchNormTraining(in[0], ToWide(scale, in[0]), ToWide(offset, in[0]), Value(),
                              {.axis = 1, .epsilon = options.eps});
    return Values{r.y, r.mean, r.variance};
  });
  if (results.size() != 3 || !results[0].defined()) return Tensor();
  const no_grad guard;
  UpdateRunning(running_mean, results[1], options.momentum, 1, where);
  UpdateRunning(running_var, results[2], options.momentum, count / (count - 1), where);
  return results[0];
}

}  // namespace

Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var,
                  const BatchNormOptions& options, SourceLocation where) {
  if (!x.defined() || x.dim() < 2) {
    return FailOp("batch_norm", {x}, "expects [N, C] or [N, C, ...]", where);
  }
  if (!CheckFeatures("batch_norm", x, {running_mean, running_var, options.weight, options.bias},
                     x.size(1), where)) {
    return Tensor();
  }
  if (options.training) return BatchNormTraining(x, running_mean, running_var, options, where);
  if (!running_mean.defined() || !running_var.defined()) {
    return FailOp("batch_norm", {x}, "expects running_mean and running_var unless training", where);
  }
  const OptionalInputs inputs({x, running_mean, running_var, options.weight, options.bias});
  return Record("batch_norm", inputs.tensors, where, [&](const Values& in) {
    return BatchNormInference(in[0], ToWide(in[1], in[0]), ToWide(in[2], in[0]),
                              ToWide(inputs.At(in, 3), in[0]), ToWide(inputs.At(in, 4), in[0]),
                              options.eps);
  });
}

Tensor layer_norm(const Tensor& given, const Sizes& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps, SourceLocation where) {
  const Tensor x = lazy::internal::Cast("layer_norm", given);
  const auto count = static_cast<int64_t>(normalized_shape.size());
  bool fits = x.defined() && count > 0 && count <= x.dim();
  for (int64_t i = 0; fits && i < count; ++i) fits = x.size(i - count) == normalized_shape[i];
  // A list that does not fit may be too long for a Shape.
  const Shape shape = fits ? Shape(normalized_shape.values()) : Shape();
  for (const Tensor* v : {&weight, &bias}) fits = fits && (!v->defined() || v->sizes() == shape);
  if (!fits) {
    return FailOp("layer_norm", {x, weight, bias},
                  absl::StrCat("expects x whose last dims are ", normalized_shape.ToString(),
                               ", and weight and bias of the normalized shape"),
                  where);
  }
  const OptionalInputs inputs({x, weight, bias});
  return Record("layer_norm", inputs.tensors, where, [&](const Values& in) {
    ir::Axes axes;
    for (int64_t i = in[0].rank() - count; i < in[0].rank(); ++i) axes.push_back(i);
    return ScaledAndShifted(Standardized(in[0], axes, eps), inputs.At(in, 1), inputs.At(in, 2),
                            shape, in[0].dtype());
  });
}

Tensor rms_norm(const Tensor& x, const Sizes& normalized_shape, const Tensor& weight,
                std::optional<double> eps, SourceLocation where) {
  constexpr char kName[] = "rms_norm";
  Tensors inputs{x};
  if (weight.defined()) inputs.push_back(weight);
  const auto count = static_cast<int64_t>(normalized_shape.size());
  bool fits = x.defined() && base::IsFloat(x.dtype()) && count > 0 && count <= x.dim();
  for (int64_t i = 0; fits && i < count; ++i) fits = x.size(i - count) == normalized_shape[i];
  fits = fits && (!weight.defined() || weight.sizes() == Shape(normalized_shape.values()));
  if (!fits) {
    return FailOp(kName, inputs,
                  absl::StrCat("expects floats whose last dims are ", normalized_shape.ToString(),
                               ", and a weight of this shape"),
                  where);
  }
  return Record(kName, inputs, where, [&](const Values& in) {
    ir::Axes axes;
    for (int64_t i = in[0].rank() - count; i < in[0].rank(); ++i) axes.push_back(i);
    const Value wide = Widened(in[0]);
    const double least = eps.value_or(EpsilonOf(in[0].dtype()));
    Value y = wide * ir::Rsqrt(ir::ReduceMean(ir::Square(wide), axes, true) + least);
    if (in.size() > 1) y = y * ir::Convert(in[1], y.dtype());
    return ir::Convert(y, in[0].dtype());
  });
}

Tensor group_norm(const Tensor& given, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps, SourceLocation where) {
  const Tensor x = lazy::internal::Cast("group_norm", given);
  if (!x.defined() || x.dim() < 2 || num_groups <= 0 || x.size(1) % num_groups != 0) {
    return FailOp("group_norm", {x},
                  absl::StrCat("expects [N, C, ...] with channels that num_groups (", num_groups,
                               ") divides"),
                  where);
  }
  if (!CheckFeatures("group_norm", x, {weight, bias}, x.size(1), where)) return Tensor();
  const OptionalInputs inputs({x, weight, bias});
  return Record("group_norm", inputs.tensors, where, [&](const Values& in) {
    const Shape& shape = in[0].shape();
    const Value groups = ir::Reshape(in[0], {shape.dim(0), num_groups, -1});
    const Value y = ir::Reshape(Standardized(groups, {2}, eps), shape);
    return ScaledAndShifted(y, inputs.At(in, 1), inputs.At(in, 2), ChannelShape(in[0]),
                            in[0].dtype());
  });
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     SourceLocation where) {
  if (!x.defined() || x.dim() < 3) {
    return FailOp("instance_norm", {x}, "expects [N, C, ...] with one spatial dim or more", where);
  }
  if (!CheckFeatures("instance_norm", x, {weight, bias}, x.size(1), where)) return Tensor();
  const OptionalInputs inputs({x, weight, bias});
  return Record("instance_norm", inputs.tensors, where, [&](const Values& in) {
    ir::Axes axes;
    for (int64_t i = 2; i < in[0].rank(); ++i) axes.push_back(i);
    return ScaledAndShifted(Standardized(in[0], axes, eps), inputs.At(in, 1), inputs.At(in, 2),
                            ChannelShape(in[0]), in[0].dtype());
  });
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k,
                           SourceLocation where) {
  if (!x.defined() || x.dim() < 3 || size <= 0) {
    return FailOp("local_response_norm", {x}, "expects [N, C, ...] and a size above 0", where);
  }
  return Record("local_response_norm", {x}, where, [&](const Values& in) {
    const auto rank = static_cast<size_t>(in[0].rank());
    ir::WindowOptions window{.size = std::vector<int64_t>(rank, 1),
                             .strides = std::vector<int64_t>(rank, 1),
                             .padding = {rank, {0, 0}}};
    window.size[1] = size;
    window.padding[1] = {size / 2, (size - 1) / 2};
    const Value sums = ir::ReduceWindow(ir::Square(in[0]), ir::WindowReducer::kSum, window);
    const Value base = sums / static_cast<double>(size) * alpha + k;
    return in[0] / ir::Power(base, ir::SplatLike(base, beta));
  });
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps, SourceLocation where) {
  const Tensor size = clamp_min(norm(x, p, dim, /*keepdim=*/true, where), eps, where);
  return div(Operand(x, where), Operand(size, where));
}

}  // namespace penstock::lazy::nn::functional
