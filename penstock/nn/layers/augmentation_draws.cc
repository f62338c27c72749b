#include "penstock/nn/layers/augmentation_draws.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/nn/layers/resize.h"

namespace penstock::nn::internal {

Value Draw(Value key, int64_t batch, int rank, const Range& range) {
  std::vector<int64_t> dims(rank, 1);
  dims[0] = batch;
  return ir::RandomUniform(key, {DType::kF32, Shape(dims)}, range.low, range.high);
}

Value Chance(Value key, int64_t batch, const Range& probability) {
  const Value below = Draw(ir::FoldIn(key, 0u), batch, 4, probability);
  return ir::Less(Draw(ir::FoldIn(key, 1u), batch, 4, {0, 1}), below);
}

bool Within(CallContext& ctx, const char* name, const Range& range, double low, double high) {
  if (range.low >= low && range.low <= range.high && range.high <= high) return true;
  ctx.Fail(absl::StrCat(name, " is a range within [", low, ", ", high, "], got [", range.low, ", ",
                        range.high, "]"));
  return false;
}

Value InRange(Value x, const Range& value_range, DType dtype) {
  const double low = std::min(value_range.low, value_range.high),
               high = std::max(value_range.low, value_range.high);
  return ToPixels(ir::Clamp(ir::SplatLike(x, low), x, ir::SplatLike(x, high)), dtype);
}

}  // namespace penstock::nn::internal
