// New tensors.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/ops/create.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy {
namespace internal {

Device DeviceOr(const Device& device, SourceLocation where) {
  if (device.valid()) return device;
  absl::StatusOr<Device> current = xm::xla_device();
  if (current.ok()) return *std::move(current);
  FailOp("xla_device", {}, current.status().message(), where);
  return Device();
}

Tensor Create(absl::string_view name, const TensorOptions& options, SourceLocation where,
              const std::function<ir::Value(ir::Graph& graph)>& build) {
  const Device device = DeviceOr(options.device, where);
  if (!device.valid()) return Tensor();
  Tensor x = RecordOn(device, name, {}, where,
                      [&](ir::Graph& graph, const ir::Values&) { return build(graph); });
  if (!x.defined()) return x;
  if (options.requires_grad) x.requires_grad_();
  return x;
}

DType DTypeOr(const TensorOptions& options, DType dtype) {
  return options.dtype == DType::kInvalid ? dtype : options.dtype;
}

}  // namespace internal

namespace {

using internal::Create;
using internal::DTypeOr;
using ir::Value;

bool ValidSizes(absl::string_view name, const Sizes& size, SourceLocation where) {
  bool valid = size.size() <= size_t{base::kMaxRank};
  for (int64_t extent : size) valid = valid && extent >= 0;
  if (!valid) {
    FailOp(name, {},
           absl::StrCat("size ", size.ToString(), " must have at most ", base::kMaxRank,
                        " dims, none negative"),
           where);
  }
  return valid;
}

Tensor Filled(absl::string_view name, const Sizes& size, const Scalar& value, DType dtype,
              const TensorOptions& options, SourceLocation where) {
  if (!ValidSizes(name, size, where)) return Tensor();
  return Create(name, options, where, [&](ir::Graph& graph) {
    return internal::ScalarValue(graph, DTypeOr(options, dtype), value, Shape(size.values()));
  });
}

Tensor FilledLike(absl::string_view name, const Tensor& x, const Scalar& value,
                  SourceLocation where) {
  if (!x.defined()) return FailOp(name, {x}, "the input is undefined", where);
  return Create(name, {.dtype = x.dtype(), .device = x.device()}, where, [&](ir::Graph& graph) {
    return internal::ScalarValue(graph, x.dtype(), value, x.sizes());
  });
}

}  // namespace

Tensor zeros(const Sizes& size, const TensorOptions& options, SourceLocation where) {
  return Filled("zeros", size, 0, kFloat, options, where);
}
Tensor ones(const Sizes& size, const TensorOptions& options, SourceLocation where) {
  return Filled("ones", size, 1, kFloat, options, where);
}
Tensor empty(const Sizes& size, const TensorOptions& options, SourceLocation where) {
  return Filled("empty", size, 0, kFloat, options, where);
}
Tensor full(const Sizes& size, Scalar value, const TensorOptions& options, SourceLocation where) {
  const DType dtype = value.kind() == Scalar::Kind::kFloat ? kFloat
                      : value.kind() == Scalar::Kind::kInt ? kLong
                                                           : kBool;
  return Filled("full", size, value, dtype, options, where);
}

Tensor eye(int64_t n, const TensorOptions& options, SourceLocation where) {
  return eye(n, n, options, where);
}
Tensor eye(int64_t n, int64_t m, const TensorOptions& options, SourceLocation where) {
  if (!ValidSizes("eye", {n, m}, where)) return Tensor();
  return Create("eye", options, where, [&](ir::Graph& graph) {
    const ir::TensorType type{DType::kI32, {n, m}};
    return ir::Convert(ir::Equal(ir::Iota(graph, type, 0), ir::Iota(graph, type, 1)),
                       DTypeOr(options, kFloat));
  });
}

Tensor arange(Scalar end, const TensorOptions& options, SourceLocation where) {
  return arange(0, end, 1, options, where);
}
Tensor arange(Scalar start, Scalar end, const TensorOptions& options, SourceLocation where) {
  return arange(start, end, 1, options, where);
}
Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options,
              SourceLocation where) {
  const double count = std::ceil((end.value() - start.value()) / step.value());
  if (step.value() == 0 || !(count >= 0) || count > 1e12) {
    return FailOp("arange", {},
                  absl::StrCat("cannot count from ", start.value(), " to ", end.value(),
                               " in steps of ", step.value()),
                  where);
  }
  bool is_float = false;
  for (const Scalar& s : {start, end, step}) is_float |= s.kind() == Scalar::Kind::kFloat;
  const DType dtype = DTypeOr(options, is_float ? kFloat : kLong);
  return Create("arange", options, where, [&](ir::Graph& graph) {
    const Value i = ir::Iota(graph, {dtype, {static_cast<int64_t>(count)}}, 0);
    const Value scaled = step.value() == 1 ? i : i * step.value();
    return start.value() == 0 ? scaled : scaled + start.value();
  });
}

Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options,
                SourceLocation where) {
  if (!ValidSizes("linspace", steps, where)) return Tensor();
  return Create("linspace", options, where, [&](ir::Graph& graph) {
    const Value i = ir::Iota(graph, {DTypeOr(options, kFloat), {steps}}, 0);
    if (steps < 2) return i + start;
    // From both ends, as PyTorch does, so that the last element is `end` exactly.
    const double step = (end - start) / static_cast<double>(steps - 1);
    const double last = static_cast<double>(steps - 1);
    const Value first_half = ir::Less(i, ir::SplatLike(i, static_cast<double>(steps / 2)));
    return ir::Select(first_half, i * step + start, end - (last - i) * step);
  });
}

Tensor zeros_like(const Tensor& x, SourceLocation where) {
  return FilledLike("zeros_like", x, 0, where);
}
Tensor ones_like(const Tensor& x, SourceLocation where) {
  return FilledLike("ones_like", x, 1, where);
}
Tensor empty_like(const Tensor& x, SourceLocation where) {
  return FilledLike("empty_like", x, 0, where);
}
Tensor full_like(const Tensor& x, Scalar value, SourceLocation where) {
  return FilledLike("full_like", x, value, where);
}

}  // namespace penstock::lazy
