#include "penstock/lazy/ops/build.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::lazy {

std::string Sizes::ToString() const { return absl::StrCat("(", absl::StrJoin(values_, ", "), ")"); }

namespace internal {

bool ResolveDim(absl::string_view name, const Tensor& x, int64_t& dim, SourceLocation where,
                int extra) {
  if (!x.defined()) {
    FailOp(name, {x}, "the input is undefined", where);
    return false;
  }
  const int64_t rank = std::max<int64_t>(x.dim() + extra, 1);
  if (dim < -rank || dim >= rank) {
    FailOp(name, {x},
           absl::StrCat("dim ", dim, " is out of range; valid dims are ", -rank, " to ", rank - 1),
           where);
    return false;
  }
  if (dim < 0) dim += rank;
  return true;
}

bool ResolveDims(absl::string_view name, const Tensor& x, const Sizes& given, ir::Axes& dims,
                 SourceLocation where) {
  dims.clear();
  if (given.empty()) {
    if (!x.defined()) FailOp(name, {x}, "the input is undefined", where);
    for (int64_t i = 0; i < x.dim(); ++i) dims.push_back(i);
    return x.defined();
  }
  for (int64_t dim : given) {
    if (!ResolveDim(name, x, dim, where)) return false;
    if (x.dim() == 0) continue;  // dim 0 of a scalar
    if (std::find(dims.begin(), dims.end(), dim) != dims.end()) {
      FailOp(name, {x}, absl::StrCat("dim ", dim, " appears more than once"), where);
      return false;
    }
    dims.push_back(dim);
  }
  std::sort(dims.begin(), dims.end());
  return true;
}

namespace {

enum Kind { kBoolKind, kIntKind, kFloatKind };

Kind KindOf(DType dtype) {
  if (base::IsFloat(dtype)) return kFloatKind;
  return dtype == DType::kBool ? kBoolKind : kIntKind;
}

Kind KindOf(const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::kBool:
      return kBoolKind;
    case Scalar::Kind::kInt:
      return kIntKind;
    case Scalar::Kind::kFloat:
      break;
  }
  return kFloatKind;
}

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b || b == DType::kInvalid) return a;
  if (a == DType::kInvalid) return b;
  if (KindOf(a) != KindOf(b)) return KindOf(a) > KindOf(b) ? a : b;
  if (base::IsFloat(a)) {
    if (base::BitWidth(a) == base::BitWidth(b)) return DType::kF32;  // float16 and bfloat16
    return base::BitWidth(a) > base::BitWidth(b) ? a : b;
  }
  if (base::IsSigned(a) == base::IsSigned(b)) return base::BitWidth(a) > base::BitWidth(b) ? a : b;
  const DType is_signed = base::IsSigned(a) ? a : b, is_unsigned = base::IsSigned(a) ? b : a;
  if (base::BitWidth(is_signed) > base::BitWidth(is_unsigned)) return is_signed;
  switch (base::BitWidth(is_unsigned)) {
    case 8:
      return DType::kI16;
    case 16:
      return DType::kI32;
    default:
      return DType::kI64;
  }
}

DType ResultType(absl::Span<const Operand> operands) {
  DType tensors = DType::kInvalid, scalars = DType::kInvalid, numbers = DType::kInvalid;
  for (const Operand& operand : operands) {
    if (operand.is_scalar()) {
      const Kind kind = KindOf(operand.scalar());
      numbers = PromoteTypes(numbers, kind == kFloatKind ? DType::kF32
                                      : kind == kIntKind ? DType::kI64
                                                         : DType::kBool);
    } else if (operand.tensor().defined()) {
      DType& at = operand.tensor().dim() > 0 ? tensors : scalars;
      at = PromoteTypes(at, operand.tensor().dtype());
    }
  }
  DType result = tensors;
  for (DType lower : {scalars, numbers}) {
    if (lower == DType::kInvalid) continue;
    if (result == DType::kInvalid || KindOf(lower) > KindOf(result)) result = lower;
  }
  return result;
}

bool CanCast(DType from, DType to) { return KindOf(from) <= KindOf(to); }

std::string WhyNoFactor(absl::string_view argument, const Scalar& factor, DType dtype) {
  if (dtype == DType::kInvalid || base::IsFloat(dtype) || factor.value() == 1 ||
      factor.kind() != Scalar::Kind::kFloat) {
    return "";
  }
  return absl::StrCat(argument, " is ", factor.value(), ", which is not a number of type ",
                      base::DTypeName(dtype));
}

Tensor& PutResult(absl::string_view name, Tensor& target, const Tensor& result,
                  SourceLocation where) {
  if (!target.defined() || !result.defined()) {
    if (!target.defined()) FailOp(name, {target}, "the tensor is undefined", where);
    return target;  // an undefined result has recorded its error
  }
  if (!CanCast(result.dtype(), target.dtype())) {
    FailOp(name, {target},
           absl::StrCat("the result's type ", base::DTypeName(result.dtype()),
                        " can't be cast to the tensor's, ", base::DTypeName(target.dtype()),
                        "; use to() or the function that is not in place"),
           where);
  } else if (result.sizes() != target.sizes()) {
    FailOp(name, {target},
           absl::StrCat("the result's shape ", result.sizes().ToString(),
                        " is not the tensor's: in-place operations cannot broadcast the tensor"),
           where);
  } else {
    target.copy_(result, where);
  }
  return target;
}

DType FloatType(DType dtype) { return base::IsFloat(dtype) ? dtype : DType::kF32; }
bool IsFloatTensor(const Tensor& x) { return x.defined() && base::IsFloat(x.dtype()); }
bool RequireFloat(absl::string_view name, const Tensor& x, SourceLocation where) {
  if (!x.defined() || base::IsFloat(x.dtype())) return true;
  FailOp(name, {x}, "expects floats; convert with to(kFloat)", where);
  return false;
}

Tensor Promoted(absl::string_view name, absl::Span<const Operand> operands, DType dtype,
                const std::function<ir::Value(const ir::Values&)>& build) {
  Tensors tensors;
  SourceLocation where;
  for (const Operand& operand : operands) {
    if (!operand.is_scalar()) tensors.push_back(operand.tensor());
    if (where.line == 0) where = operand.where();
  }
  if (tensors.empty()) {
    return FailOp(name, {}, "at least one argument must be a tensor; use tensor() or full()",
                  where);
  }
  const std::vector<Operand> all(operands.begin(), operands.end());
  return Record(name, tensors, where, [&](const ir::Values& in) {
    ir::Values values;
    size_t next = 0;
    for (const Operand& operand : all) {
      values.push_back(operand.is_scalar() ? ScalarValue(*in[0].graph(), dtype, operand.scalar())
                                           : ir::Convert(in[next++], dtype));
    }
    return build(values);
  });
}

Tensor FloatOp(absl::string_view name, const Tensor& x, SourceLocation where,
               ir::Value (*build)(ir::Value)) {
  return Record(name, {x}, where, [&](const ir::Values& in) {
    return build(ir::Convert(in[0], FloatType(in[0].dtype())));
  });
}

ir::Value ScalarValue(ir::Graph& graph, DType dtype, const Scalar& number, const Shape& shape) {
  constexpr int64_t kExact = int64_t{1} << 53;  // larger ones are not all doubles
  const int64_t integer = number.integer();
  Array wrapped;
  bool is_double = true;
  if (number.kind() == Scalar::Kind::kInt && base::IsInteger(dtype)) {
    base::VisitNumeric(dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) {
        const T value = static_cast<T>(integer);
        wrapped = Array::Scalar<T>(value);
        is_double =
            static_cast<int64_t>(value) == integer && -kExact <= integer && integer <= kExact;
      }
    });
  }
  if (is_double) return ir::Splat(graph, {dtype, shape}, number.value());
  return ir::BroadcastTo(ir::Constant(graph, wrapped), shape);
}

ir::Value AtLeastVector(ir::Value x) { return x.rank() == 0 ? ir::Reshape(x, {1}) : x; }
ir::Value Widened(ir::Value x) {
  return x.dtype() == DType::kF64 ? x : ir::Convert(x, DType::kF32);
}

ir::Value WrapIndex(ir::Value index, int64_t extent) {
  if (!base::IsSigned(index.dtype())) return index;
  const ir::Value zero = ir::SplatLike(index, 0);
  return ir::Select(ir::Less(index, zero), index + static_cast<double>(extent), index);
}

}  // namespace internal
}  // namespace penstock::lazy
