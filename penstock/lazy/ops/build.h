// What the functions of ops/*.cc share: checked dims, type promotion, views. Internal to room lazy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/operand.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::internal {

// ---- Dims ----
// `dim` counted from the front. False, and an error of the operation, if it is not a dim of x.
// `extra`: the number of dims more that are valid (1 for unsqueeze). A scalar has dims 0 and -1.
bool ResolveDim(absl::string_view name, const Tensor& x, int64_t& dim, SourceLocation where,
                int extra = 0);
// The same for a list; an empty one becomes all dims. Duplicates are errors.
bool ResolveDims(absl::string_view name, const Tensor& x, const Sizes& given, ir::Axes& dims,
                 SourceLocation where);

// ---- Types ----
// torch.result_type: tensors of one dim or more decide, then scalar tensors, then numbers, each
// only if of a higher kind (bool, integer, float).
DType ResultType(absl::Span<const Operand> operands);
DType PromoteTypes(DType a, DType b);
// Whether an in-place operation may put results of type `from` into a tensor of type `to`
// (torch.can_cast): not floats into integers, nor numbers into bools.
bool CanCast(DType from, DType to);
// Why a number cannot be a factor of tensors of this type, as PyTorch's alpha and value: a fraction
// of integers. Empty: it can be. `argument`: its name.
std::string WhyNoFactor(absl::string_view argument, const Scalar& factor, DType dtype);
// The type itself if it is a float, else float32.
DType FloatType(DType dtype);
bool IsFloatTensor(const Tensor& x);
// False, and an error of the operation, if x is a tensor of another kind.
bool RequireFloat(absl::string_view name, const Tensor& x, SourceLocation where);

// An elementwise operation of operands that are converted to `dtype` first (a number becomes a
// scalar value).
Tensor Promoted(absl::string_view name, absl::Span<const Operand> operands, DType dtype,
                const std::function<ir::Value(const ir::Values&)>& build);
// The in-place form of a function: puts `result`, computed by it from `target`, into `target`. An
// error if its type or shape do not fit. Returns target.
Tensor& PutResult(absl::string_view name, Tensor& target, const Tensor& result,
                  SourceLocation where);
// One operand, converted to float.
Tensor FloatOp(absl::string_view name, const Tensor& x, SourceLocation where,
               ir::Value (*build)(ir::Value));

// ---- Values ----
// A value with all elements equal to a number. An integer that a type of integers does not hold
// wraps around, as in PyTorch.
ir::Value ScalarValue(ir::Graph& graph, DType dtype, const Scalar& number, const Shape& shape = {});
inline int64_t Extent(ir::Value x, int64_t axis) { return x.shape().dim(static_cast<int>(axis)); }
// A scalar as a vector of one element.
ir::Value AtLeastVector(ir::Value x);
// x in f32 unless it is f32 or f64 already.
ir::Value Widened(ir::Value x);
// A nonnegative index for one that may count from the end of an axis of this extent.
ir::Value WrapIndex(ir::Value index, int64_t extent);

// Whether an autocast scope is open on this thread, and the tensors in its type for this operation
// (amp.h); the tensors themselves otherwise.
Tensor Cast(absl::string_view name, const Tensor& x);
void CastAll(absl::string_view name, absl::Span<Tensor* const> tensors);

}  // namespace penstock::lazy::internal
