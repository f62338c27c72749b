// Embeddings of bags of indices.
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

// Empty: the arguments are valid.
std::string WrongBags(const Tensor& x, const Tensor& weight, const Tensor& offsets,
                      const EmbeddingBagOptions& options) {
  if (!x.defined() || !weight.defined()) return "an input is undefined";
  if (!base::IsInteger(x.dtype()) || x.dim() < 1 || x.dim() > 2) {
    return "expects integers [B, n], or a vector with offsets";
  }
  if (weight.dim() != 2 || weight.size(0) == 0 || !base::IsFloat(weight.dtype())) {
    return "expects a weight [rows, D] of floats";
  }
  if ((x.dim() == 1) != offsets.defined()) return "a vector has offsets, bags [B, n] have none";
  if (offsets.defined() && (offsets.dim() != 1 || !base::IsInteger(offsets.dtype()) ||
                            offsets.size(0) < (options.include_last_offset ? 1 : 0))) {
    return "expects a vector of integers as offsets";
  }
  if (options.mode != "mean" && options.mode != "sum" && options.mode != "max") {
    return absl::StrCat("mode must be \"mean\", \"sum\" or \"max\", got \"", options.mode, "\"");
  }
  const Tensor& factors = options.per_sample_weights;
  if (factors.defined() && (options.mode != "sum" || factors.sizes() != x.sizes())) {
    return "per_sample_weights must have the shape of the indices, and need mode sum";
  }
  const int64_t rows = weight.size(0);
  if (options.padding_idx && (*options.padding_idx < -rows || *options.padding_idx >= rows)) {
    return absl::StrCat("padding_idx ", *options.padding_idx, " is not within ", rows, " rows");
  }
  return "";
}

// Bool [B, n]: whether an element of the vector is in a bag.
Value Members(Value x, Value offsets, bool include_last) {
  const int64_t n = x.shape().dim(0), all = offsets.shape().dim(0), bags = all - include_last;
  const Value at = ir::Iota(*x.graph(), {DType::kI64, {1, n}}, 1);
  const Value begin = ir::Reshape(ir::Convert(offsets, DType::kI64), {all, 1});
  Value end;
  if (include_last) {
    end = ir::SliceAxis(begin, 0, 1, all);
  } else {
    end = ir::Pad(ir::SliceAxis(begin, 0, all > 0 ? 1 : 0, all), static_cast<double>(n),
                  {{0, all > 0 ? 1 : 0, 0}, {}});
  }
  return ir::And(ir::GreaterEqual(at, ir::SliceAxis(begin, 0, 0, bags)), ir::Less(at, end));
}

}  // namespace

Tensor embedding_bag(const Tensor& x, const Tensor& weight, const Tensor& offsets,
                     const EmbeddingBagOptions& options, SourceLocation where) {
  constexpr char kName[] = "embedding_bag";
  Tensors inputs{x, weight};
  if (offsets.defined()) inputs.push_back(offsets);
  if (options.per_sample_weights.defined()) inputs.push_back(options.per_sample_weights);
  const std::string wrong = WrongBags(x, weight, offsets, options);
  if (!wrong.empty()) return FailOp(kName, inputs, wrong, where);
  return Record(kName, inputs, where, [&](const Values& in) {
    const Value index = in[0], rows = in[1];
    Value taken = ir::Take(rows, index, 0);  // [n, D] or [B, n, D]
    // Which rows count, [B, n].
    Value counts = index.rank() == 2 ? ir::Splat(*index.graph(), {DType::kBool, index.shape()}, 1)
                                     : Members(index, in[2], options.include_last_offset);
    if (options.padding_idx) {
      const int64_t padding =
          *options.padding_idx + (*options.padding_idx < 0 ? rows.shape().dim(0) : 0);
      counts = ir::And(counts, ir::Compare(index, SplatLike(index, static_cast<double>(padding)),
                                           ir::Comparison::kNe));
    }
    if (!counts.valid() || !taken.valid()) return Value();
    if (options.mode == "max") {
      const Value each = ir::ExpandDims(counts, 2);
      const Value least =
          ir::Splat(*rows.graph(), {rows.dtype(), {}}, -std::numeric_limits<double>::infinity());
      const Value largest = ir::ReduceMax(ir::Select(each, taken, least), {1});
      const Value any = ir::ReduceOr(counts, {1}, true);
      return ir::Select(any, largest, SplatLike(largest, 0));
    }
    Value factors = ir::Convert(counts, rows.dtype());
    if (options.per_sample_weights.defined()) {
      factors = factors * ir::Convert(in.back(), rows.dtype());
    }
    const ir::DotDimensions on =
        index.rank() == 2 ? ir::DotDimensions{.lhs_contracting = {1},
                                              .rhs_contracting = {1},
                                              .lhs_batch = {0},
                                              .rhs_batch = {0}}
                          : ir::DotDimensions{.lhs_contracting = {1}, .rhs_contracting = {0}};
    const Value sum = ir::DotGeneral(factors, taken, on);
    if (options.mode == "sum") return sum;
    const Value number = ir::ReduceSum(factors, {1}, true);
    return sum / ir::Maximum(number, SplatLike(number, 1));
  });
}

}  // namespace penstock::lazy::nn::functional
