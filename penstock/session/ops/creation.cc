// Constants that are made from a shape: fills, ranges, identity matrices, one-hot encodings.
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/known_integers.h"

namespace penstock::session {

using internal::AddShaped;
using internal::In;
using internal::Reject;
using internal::ShapedIn;
using ir::Value;

namespace {

Tensor FillLike(absl::string_view type, const Tensor& x, DType dtype, double value,
                absl::string_view name, SourceLocation where) {
  // Of a known shape it is a constant, as in TensorFlow: `x` need not be computed or fed.
  if (x.valid() && x.shape().IsFullyDefined()) {
    const auto scope = x.graph()->AsDefault();
    const DType of = dtype == DType::kInvalid ? x.dtype() : dtype;
    return AddShaped(
        {.type = type, .name = name, .where = where, .shape = x.shape().shape(), .dtype = of},
        [of, value](const ShapedIn& s) {
          return ir::Splat(s.graph, {of, s.shape}, value);
        });
  }
  return AddOp(type, {x}, name, where, [dtype, value](In in) {
    const DType of = dtype == DType::kInvalid ? in[0].dtype() : dtype;
    return ir::Splat(*in[0].graph(), {of, in[0].shape()}, value);
  });
}

// Says which of the numbers is none of the type; "" if all are.
std::string NotOfType(std::initializer_list<double> numbers, DType dtype) {
  for (const double number : numbers) {
    if (internal::FitsType(number, dtype)) continue;
    return absl::StrCat("the number ", number, " is not a value of type ", base::DTypeName(dtype));
  }
  return "";
}

// Number of steps from start to limit. As in TensorFlow it is computed in the type, in which the
// numbers are rounded: 2.1 / 0.3 is below 7 in float32, and above it in float64.
double CountSteps(double start, double limit, double delta, DType dtype) {
  if (!base::IsFloat(dtype) || dtype == DType::kF64) return std::ceil((limit - start) / delta);
  const auto rounded = [dtype](double number) {
    return Array::Scalar(number).Cast(dtype)->item<float>();
  };
  return std::ceil((rounded(limit) - rounded(start)) / rounded(delta));
}

// start + i * step.
Value Steps(ir::Graph& graph, int64_t count, DType dtype, double start, double step) {
  const Value index = ir::Iota(graph, {dtype, Shape({count})}, 0);
  return index * step + start;
}

}  // namespace

Tensor Fill(const ShapeArgument& dims, double value, DType dtype, absl::string_view name,
            SourceLocation where) {
  if (const std::string wrong = NotOfType({value}, dtype); !wrong.empty()) {
    return FailOp({}, "Fill", wrong, where);
  }
  return AddShaped({.type = "Fill", .name = name, .where = where, .shape = dims, .dtype = dtype},
                   [value, dtype](const ShapedIn& s) {
                     return ir::Splat(s.graph, {dtype, s.shape}, value);
                   });
}

Tensor Fill(const ShapeArgument& dims, const Tensor& value, absl::string_view name,
            SourceLocation where) {
  return AddShaped({.type = "Fill",
                    .name = name,
                    .where = where,
                    .inputs = {value},
                    .shape = dims,
                    .dtype = value.dtype()},
                   [](const ShapedIn& s) -> Value {
                     if (s.in[0].rank() != 0) {
                       return Reject(s.in[0], "expects a scalar, got ", s.in[0].type().ToString());
                     }
                     return internal::Stretch(s.in[0], s.shape);
                   });
}

Tensor Zeros(const ShapeArgument& shape, DType dtype, absl::string_view name,
             SourceLocation where) {
  return Fill(shape, 0, dtype, name.empty() ? "zeros" : name, where);
}

Tensor Ones(const ShapeArgument& shape, DType dtype, absl::string_view name, SourceLocation where) {
  return Fill(shape, 1, dtype, name.empty() ? "ones" : name, where);
}

Tensor ZerosLike(const Tensor& x, DType dtype, absl::string_view name, SourceLocation where) {
  return FillLike("ZerosLike", x, dtype, 0, name, where);
}

Tensor OnesLike(const Tensor& x, DType dtype, absl::string_view name, SourceLocation where) {
  return FillLike("OnesLike", x, dtype, 1, name, where);
}

Tensor Range(double limit, DType dtype, absl::string_view name, SourceLocation where) {
  return Range(0, limit, 1, dtype, name, where);
}

Tensor Range(double start, double limit, double delta, DType dtype, absl::string_view name,
             SourceLocation where) {
  if (const std::string wrong = NotOfType({start, limit, delta}, dtype); !wrong.empty()) {
    return FailOp({}, "Range", absl::StrCat(wrong, "; give it a dtype that has it"), where);
  }
  const double count = CountSteps(start, limit, delta, dtype);
  if (delta == 0 || !(count >= 0 && count <= 1e9)) {
    return FailOp({}, "Range",
                  absl::StrCat("cannot count from ", start, " to ", limit, " in steps of ", delta),
                  where);
  }
  const int64_t length = static_cast<int64_t>(count);
  return AddShaped(
      {.type = "Range", .name = name, .where = where, .shape = {length}, .dtype = dtype},
      [=](const ShapedIn& s) { return Steps(s.graph, length, dtype, start, delta); });
}

Tensor Range(const Tensor& limit, absl::string_view name, SourceLocation where) {
  const Tensor extent = Reshape(limit, {1}, "", where);
  // Range(GetItem(ShapeOf(x), {0})) has as many elements as x has rows, as in TensorFlow.
  if (const auto* const known = internal::KnownOf(limit)) internal::SetKnown(extent, *known);
  return AddShaped(
      {.type = "Range", .name = name, .where = where, .shape = extent, .dtype = limit.dtype()},
      [](const ShapedIn& s) {
        return ir::Iota(s.graph, {s.in.back().dtype(), s.shape}, 0);
      });
}

Tensor Linspace(double start, double stop, int64_t num, DType dtype, absl::string_view name,
                SourceLocation where) {
  if (num < 1 || !base::IsFloat(dtype)) {
    return FailOp({}, "LinSpace",
                  absl::StrCat("expects at least 1 number of a float type, got ", num, " of ",
                               base::DTypeName(dtype)),
                  where);
  }
  return AddShaped(
      {.type = "LinSpace", .name = name, .where = where, .shape = {num}, .dtype = dtype},
      [=](const ShapedIn& s) -> Value {
        const double step = num == 1 ? 0 : (stop - start) / static_cast<double>(num - 1);
        const Value steps = Steps(s.graph, num, dtype, start, step);
        if (num == 1) return steps;
        // The last number is exactly `stop`.
        const Value last = ir::Splat(s.graph, {dtype, {1}}, stop);
        return ir::Concatenate({ir::SliceAxis(steps, 0, 0, num - 1), last}, 0);
      });
}

Tensor Eye(int64_t num_rows, const EyeOptions& options, SourceLocation where) {
  const int64_t columns = options.num_columns < 0 ? num_rows : options.num_columns;
  std::vector<int64_t> dims(options.batch_shape.begin(), options.batch_shape.end());
  if (dims.size() + 2 > base::kMaxRank) {
    return FailOp({}, "Eye", "batch_shape has too many axes", where);
  }
  dims.insert(dims.end(), {num_rows, columns});
  return AddShaped({.type = "Eye",
                    .name = options.name,
                    .where = where,
                    .shape = Shape(dims),
                    .dtype = options.dtype},
                   [dtype = options.dtype](const ShapedIn& s) {
                     const int rank = s.shape.rank();
                     const Value row = ir::Iota(s.graph, {DType::kI32, s.shape}, rank - 2);
                     const Value column = ir::Iota(s.graph, {DType::kI32, s.shape}, rank - 1);
                     return ir::Convert(ir::Equal(row, column), dtype);
                   });
}

Tensor OneHot(const Tensor& indices, int64_t depth, const OneHotOptions& options,
              SourceLocation where) {
  const std::string wrong = NotOfType({options.on_value, options.off_value}, options.dtype);
  if (!wrong.empty()) return FailOp({indices}, "OneHot", wrong, where);
  return AddOp("OneHot", {indices}, options.name, where, [depth, options](In in) -> Value {
    const auto axis = internal::AxisIn(in[0], options.axis, in[0].rank() + 1);
    if (!axis.has_value()) return Value();
    const Value hot = ir::OneHot(in[0], depth, DType::kBool);
    if (!hot.valid()) return hot;
    ir::Axes permutation;
    for (int64_t i = 0; i < in[0].rank(); ++i) permutation.push_back(i);
    permutation.insert(permutation.begin() + *axis, in[0].rank());
    const auto number = [&](double value) {
      return ir::Splat(*in[0].graph(), {options.dtype, {}}, value);
    };
    return ir::Select(ir::Transpose(hot, permutation), number(options.on_value),
                      number(options.off_value));
  });
}

Tensor SequenceMask(const Tensor& lengths, int64_t maxlen, const SequenceMaskOptions& options,
                    SourceLocation where) {
  return AddOp(
      "SequenceMask", {lengths}, options.name, where,
      [maxlen, dtype = options.dtype](In in) -> Value {
        if (!base::IsInteger(in[0].dtype()) || maxlen < 0) {
          return Reject(in[0], "expects integer lengths and a maxlen of at least 0, got ",
                        in[0].type().ToString(), " and ", maxlen);
        }
        const Value length = internal::Widened(in[0]);
        const Value position = ir::Iota(*length.graph(), {length.dtype(), Shape({maxlen})}, 0);
        return ir::Convert(ir::Less(position, ir::ExpandDims(length, -1)), dtype);
      });
}

}  // namespace penstock::session
