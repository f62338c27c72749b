// Embedding look-ups, top k, dropout.
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"

namespace penstock::session::nn {

using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

// Row numbers in the concatenated tables, for ids that are distributed by "mod".
Value ModPlaces(const Value& ids, const std::vector<int64_t>& rows) {
  std::vector<int64_t> starts;
  int64_t start = 0;
  for (const int64_t count : rows) {
    starts.push_back(start);
    start += count;
  }
  const int64_t tables = static_cast<int64_t>(rows.size());
  const Value wide = ir::Convert(ids, DType::kI64);
  const Value count = internal::ScalarLike(wide, static_cast<double>(tables));
  const Value offsets =
      ir::Constant(*ids.graph(), Array::Of<int64_t>(Shape({tables}), absl::MakeConstSpan(starts)));
  return ir::Take(offsets, ir::Remainder(wide, count), 0) + ir::Divide(wide, count);
}

Value ClipRows(Value rows, int64_t first_axis, double max_norm) {
  ir::Axes axes;
  for (int64_t i = first_axis; i < rows.rank(); ++i) axes.push_back(i);
  if (axes.empty()) return rows;
  const Value sum = ir::ReduceSum(ir::Square(rows), axes, true);
  const Value positive = ir::Greater(sum, ir::SplatLike(sum, 0));
  const Value safe = ir::Select(positive, sum, ir::SplatLike(sum, 1));
  const Value norm = ir::Select(positive, ir::Sqrt(safe), sum);
  return rows * max_norm / ir::Maximum(norm, internal::ScalarLike(norm, max_norm));
}

}  // namespace

Tensor EmbeddingLookup(const Tensors& params, const Tensor& ids,
                       const EmbeddingLookupOptions& options, SourceLocation where) {
  const bool mod = options.partition_strategy == "mod";
  if (params.empty() || (!mod && options.partition_strategy != "div")) {
    return FailOp({ids}, "EmbeddingLookup",
                  absl::StrCat("expects at least one tensor and partition_strategy \"mod\" or "
                               "\"div\", got ",
                               params.size(), " and \"", options.partition_strategy, "\""),
                  where);
  }
  Tensors inputs{ids};
  inputs.insert(inputs.end(), params.begin(), params.end());
  return AddOp("EmbeddingLookup", inputs, options.name.empty() ? "embedding_lookup" : options.name,
               where, [mod, max_norm = options.max_norm](In in) -> Value {
                 const Values tables(in.begin() + 1, in.end());
                 if (!base::IsInteger(in[0].dtype()) || tables[0].rank() < 1) {
                   return Reject(in[0], "expects integer ids and tables of rows, got ",
                                 in[0].type().ToString(), " and ", tables[0].type().ToString());
                 }
                 std::vector<int64_t> rows;
                 for (const Value& table : tables) rows.push_back(table.shape().dim(0));
                 const Value table = tables.size() == 1 ? tables[0] : ir::Concatenate(tables, 0);
                 const Value place = tables.size() > 1 && mod ? ModPlaces(in[0], rows) : in[0];
                 const Value found = ir::Take(table, place, 0);
                 if (!found.valid() || !max_norm.has_value()) return found;
                 return ClipRows(found, in[0].rank(), *max_norm);
               });
}

Tensor EmbeddingLookup(const Tensor& params, const Tensor& ids,
                       const EmbeddingLookupOptions& options, SourceLocation where) {
  return EmbeddingLookup(Tensors{params}, ids, options, where);
}

TopKResult TopK(const Tensor& input, int64_t k, bool, absl::string_view name,
                SourceLocation where) {
  const Tensors both = AddOps("TopKV2", {input}, name, where, [k](In in) -> Values {
    if (in[0].rank() < 1 || k < 0 || k > in[0].shape().dim(-1)) {
      Reject(in[0], "the last axis of ", in[0].type().ToString(), " does not have ", k,
             " elements");
      return Values(2);
    }
    const ir::TopKResult r = ir::TopK(in[0], k);
    return {r.values, r.indices};
  });
  return both.size() == 2 ? TopKResult{both[0], both[1]} : TopKResult();
}

Tensor InTopK(const Tensor& predictions, const Tensor& targets, int64_t k, absl::string_view name,
              SourceLocation where) {
  return AddOp("InTopKV2", {predictions, targets}, name, where, [k](In in) -> Value {
    const Value x = in[0], y = internal::Widened(in[1]);
    if (x.rank() != 2 || y.shape() != Shape({x.shape().dim(0)}) || !base::IsInteger(y.dtype())) {
      return Reject(x, "expects predictions [batch, classes] and integer targets [batch], got ",
                    x.type().ToString(), " and ", in[1].type().ToString());
    }
    const Value own = ir::TakeAlongAxis(x, ir::ExpandDims(y, 1), 1);
    if (!own.valid()) return own;
    const Value better = ir::ReduceSum(ir::Convert(ir::Greater(x, own), DType::kI32), {1});
    const Value few = ir::Less(better, internal::ScalarLike(better, static_cast<double>(k)));
    const Value classes = internal::ScalarLike(y, static_cast<double>(x.shape().dim(1)));
    const Value known =
        ir::And(ir::GreaterEqual(y, internal::ScalarLike(y, 0)), ir::Less(y, classes));
    // TensorFlow looks at all predictions unless k are larger; a NaN or infinity decides.
    const Value finite = ir::ReduceAnd(ir::IsFinite(x), {1});
    return ir::And(few, ir::And(known, finite));
  });
}

Tensor Dropout(const Tensor& x, const std::optional<Operand>& keep_prob,
               const DropoutOptions& options, SourceLocation where) {
  if (!x.valid()) return internal::InvalidInput("Dropout", where);
  const bool is_rate = options.rate.has_value();
  if (is_rate == keep_prob.has_value()) {
    return FailOp({x}, "Dropout", "expects either keep_prob or rate", where);
  }
  const Operand amount = is_rate ? *options.rate : *keep_prob;
  if (amount.is_number()) {
    const double keep = is_rate ? 1 - amount.number() : amount.number();
    if (!(keep > 0 && keep <= 1)) {
      return FailOp(
          {x}, "Dropout",
          absl::StrCat("keep_prob is in (0, 1], and rate in [0, 1); got ", amount.number()), where);
    }
  }
  if (!base::IsFloat(x.dtype())) {
    return FailOp({x}, "Dropout", absl::StrCat("expects floats, got ", base::DTypeName(x.dtype())),
                  where);
  }
  Tensors inputs{x};
  if (!amount.is_number()) inputs.push_back(amount.tensor());
  const auto lower = [amount, is_rate, noise = options.noise_shape](In in, Value key) -> Value {
    const Value& v = in[0];
    // A number is of a wider type than 16-bit floats, in which 0.999 may be 1 and drop nothing.
    const DType dtype = base::BitWidth(v.dtype()) < 32 ? DType::kF32 : v.dtype();
    const Value given =
        amount.is_number() ? ir::Splat(*v.graph(), {dtype, {}}, amount.number()) : in[1];
    if (!given.valid() || given.rank() != 0) {
      return Reject(v, "keep_prob and rate are scalars");
    }
    const Value rate = is_rate ? ir::Convert(given, dtype) : 1.0 - ir::Convert(given, dtype);
    Shape shape = noise == Shape({-1}) ? v.shape() : noise;
    for (int i = 0; i < shape.rank() && shape.rank() == v.rank(); ++i) {
      if (shape.dim(i) == -1) shape.set_dim(i, v.shape().dim(i));
    }
    const Value keep = ir::GreaterEqual(ir::RandomUniform(key, {dtype, shape}), rate);
    const Value scaled = v / ir::Convert(1.0 - rate, v.dtype());
    return ir::Select(internal::Stretch(keep, v.shape()), scaled, internal::ScalarLike(v, 0));
  };
  return internal::AddRandom("Dropout", inputs, options.name.empty() ? "dropout" : options.name,
                             where, options.seed, {{x.dtype(), x.shape()}}, lower);
}

}  // namespace penstock::session::nn
