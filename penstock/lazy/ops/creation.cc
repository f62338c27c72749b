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

// The number of elements of arange; -1 if the step does not lead from start to end, or if there are
// too many. Integers are counted as such: large ones are no doubles.
int64_t CountOf(const Scalar& start, const Scalar& end, const Scalar& step, bool is_float) {
  constexpr int64_t kMost = 1000000000000;
  if (is_float) {
    const double count = std::ceil((end.value() - start.value()) / step.value());
    const bool valid = step.value() != 0 && count >= 0 && count <= static_cast<double>(kMost);
    return valid ? static_cast<int64_t>(count) : -1;
  }
  const int64_t from = start.integer(), to = end.integer(), by = step.integer();
  if (by == 0 || (by > 0 ? to < from : to > from)) return -1;
  // Of two int64 the difference may need 64 bits without the sign.
  const uint64_t low = static_cast<uint64_t>(by > 0 ? from : to),
                 high = static_cast<uint64_t>(by > 0 ? to : from);
  const uint64_t distance = high - low,
                 stride = by > 0 ? static_cast<uint64_t>(by) : 0 - static_cast<uint64_t>(by);
  const uint64_t count = distance / stride + (distance % stride != 0 ? 1 : 0);
  return count <= uint64_t{kMost} ? static_cast<int64_t>(count) : -1;
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
  bool is_float = false;
  for (const Scalar& s : {start, end, step}) is_float |= s.kind() == Scalar::Kind::kFloat;
  const int64_t count = CountOf(start, end, step, is_float);
  if (count < 0) {
    return FailOp("arange", {},
                  absl::StrCat("cannot count from ", start.value(), " to ", end.value(),
                               " in steps of ", step.value()),
                  where);
  }
  const DType dtype = DTypeOr(options, is_float ? kFloat : kLong);
  return Create("arange", options, where, [&](ir::Graph& graph) {
    const auto number = [&](const Scalar& s) { return internal::ScalarValue(graph, dtype, s); };
    const Value i = ir::Iota(graph, {dtype, {count}}, 0);
    const Value scaled = step.value() == 1 ? i : i * number(step);
    return start.value() == 0 ? scaled : scaled + number(start);
  });
}

Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options,
                SourceLocation where) {
  if (!ValidSizes("linspace", steps, where)) return Tensor();
  const DType dtype = DTypeOr(options, kFloat);
  const bool is_float = base::IsFloat(dtype);
  // As in PyTorch, integers are the whole parts of numbers between the ends' whole parts.
  const double first = is_float ? start : std::trunc(start),
               last = is_float ? end : std::trunc(end);
  return Create("linspace", options, where, [&](ir::Graph& graph) {
    const Value i = ir::Iota(graph, {is_float ? dtype : DType::kF64, {steps}}, 0);
    if (steps < 2) return ir::Convert(i + first, dtype);
    // From both ends, as PyTorch does, so that the last element is `end` exactly.
    const auto intervals = static_cast<double>(steps - 1);
    const double step = (last - first) / intervals;
    const Value first_half = ir::Less(i, ir::SplatLike(i, static_cast<double>(steps / 2)));
    return ir::Convert(ir::Select(first_half, i * step + first, last - (intervals - i) * step),
                       dtype);
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
