// Matrix products, Tensordot and Einsum.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/linalg_ops.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::session {

using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

// The shape that NumPy's broadcasting gives; nullopt if they do not fit.
std::optional<std::vector<int64_t>> CommonShape(absl::Span<const int64_t> a,
                                                absl::Span<const int64_t> b) {
  std::vector<int64_t> common(std::max(a.size(), b.size()), 1);
  for (absl::Span<const int64_t> dims : {a, b}) {
    const size_t skip = common.size() - dims.size();
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t& extent = common[skip + i];
      if (extent == 1) extent = dims[i];
      if (dims[i] != 1 && dims[i] != extent) return std::nullopt;
    }
  }
  return common;
}

// `x` with these leading axes before its last two.
Value StretchBatch(Value x, std::vector<int64_t> batch) {
  batch.insert(batch.end(), {x.shape().dim(-2), x.shape().dim(-1)});
  return internal::Stretch(x, Shape(batch));
}

Value MatrixProduct(Value a, Value b, bool transpose_a, bool transpose_b) {
  const auto wrong = [&](absl::string_view what) {
    return Reject(a, what, ", got ", a.type().ToString(), transpose_a ? " transposed" : "", " and ",
                  b.type().ToString(), transpose_b ? " transposed" : "");
  };
  if (a.rank() < 2 || b.rank() < 2) return wrong("expects matrices [..., m, k] and [..., k, n]");
  if (a.shape().dim(transpose_a ? -2 : -1) != b.shape().dim(transpose_b ? -1 : -2)) {
    return wrong("the inner sizes of the matrices differ");
  }
  const auto batch_of = [](const Value& x) {
    return x.shape().dims().subspan(0, static_cast<size_t>(x.rank() - 2));
  };
  ir::DotDimensions dimensions;
  if (b.rank() > 2) {
    const auto batch = CommonShape(batch_of(a), batch_of(b));
    if (!batch.has_value()) return wrong("the leading axes do not broadcast");
    if (batch->size() + 2 > base::kMaxRank) return wrong("the product has too many axes");
    a = StretchBatch(a, *batch), b = StretchBatch(b, *batch);
    for (size_t i = 0; i < batch->size(); ++i) {
      dimensions.lhs_batch.push_back(static_cast<int64_t>(i));
      dimensions.rhs_batch.push_back(static_cast<int64_t>(i));
    }
  }
  dimensions.lhs_contracting = {a.rank() - (transpose_a ? 2 : 1)};
  dimensions.rhs_contracting = {b.rank() - (transpose_b ? 1 : 2)};
  return ir::DotGeneral(a, b, dimensions);
}

// ---- Einsum ----

using Labels = std::vector<int>;  // letters; axes of "..." are above 255, the last one is 256

struct Term {
  Value value;
  Labels labels;
};

bool Contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Labels of one term of an equation: "a...b" for this rank. nullopt if it is malformed.
std::optional<Labels> ParseLabels(absl::string_view text, int64_t ellipsis) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      for (int64_t k = ellipsis; k > 0; --k) labels.push_back(static_cast<int>(255 + k));
      i += 2;
    } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
      labels.push_back(static_cast<unsigned char>(text[i]));
    } else {
      return std::nullopt;
    }
  }
  return labels;
}

int64_t CountLetters(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return c != '.' && c != ' '; });
}

Term SumOut(Term term, const Labels& kept) {
  ir::Axes axes;
  Labels left;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (Contains(kept, term.labels[i])) {
      left.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (axes.empty()) return term;
  return {ir::ReduceSum(term.value, axes), left};
}

// The product of two terms, summed over labels that are not in `kept`.
Term Contract(Term a, Term b, const Labels& kept) {
  Labels for_a = kept, for_b = kept;
  for_a.insert(for_a.end(), b.labels.begin(), b.labels.end());
  for_b.insert(for_b.end(), a.labels.begin(), a.labels.end());
  a = SumOut(a, for_a), b = SumOut(b, for_b);
  ir::DotDimensions dimensions;
  Labels batch, free;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const int label = a.labels[i];
    const auto other = std::find(b.labels.begin(), b.labels.end(), label);
    if (other == b.labels.end()) {
      free.push_back(label);
      continue;
    }
    const bool is_batch = Contains(kept, label);
    (is_batch ? dimensions.lhs_batch : dimensions.lhs_contracting)
        .push_back(static_cast<int64_t>(i));
    (is_batch ? dimensions.rhs_batch : dimensions.rhs_contracting)
        .push_back(other - b.labels.begin());
    if (is_batch) batch.push_back(label);
  }
  for (const int label : b.labels) {
    if (!Contains(a.labels, label)) free.push_back(label);
  }
  batch.insert(batch.end(), free.begin(), free.end());
  return {ir::DotGeneral(a.value, b.value, dimensions), batch};
}

// Terms of the inputs. Axes of "..." that are stretched are dropped where their extent is 1.
std::optional<std::vector<Term>> ParseInputs(In in, const std::vector<std::string>& texts) {
  std::vector<Term> terms;
  std::map<int, int64_t> extents;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool has_ellipsis = texts[i].find("...") != std::string::npos;
    const int64_t extra = in[i].rank() - CountLetters(texts[i]);
    const std::optional<Labels> labels = ParseLabels(texts[i], extra);
    if (!labels.has_value() || extra < 0 || (extra > 0 && !has_ellipsis)) {
      Reject(in[i], "the term \"", texts[i], "\" does not describe ", in[i].type().ToString());
      return std::nullopt;
    }
    for (size_t k = 0; k < labels->size(); ++k) {
      const int label = (*labels)[k];
      if (std::count(labels->begin(), labels->end(), label) > 1) {
        Reject(in[i], "a label occurs twice in the term \"", texts[i],
               "\"; take the diagonal before");
        return std::nullopt;
      }
      const int64_t extent = in[i].shape().dim(static_cast<int>(k));
      const auto [known, is_new] = extents.try_emplace(label, extent);
      if (!is_new && label > 255 && known->second == 1) known->second = extent;
      if (extent != known->second && !(label > 255 && extent == 1)) {
        Reject(in[i], "an axis of ", in[i].type().ToString(), " with the term \"", texts[i],
               "\" has ", extent, " elements, beside ", known->second, " of another input");
        return std::nullopt;
      }
    }
    terms.push_back({in[i], *labels});
  }
  for (Term& term : terms) {
    for (size_t k = term.labels.size(); k-- > 0;) {
      if (term.labels[k] <= 255 || extents[term.labels[k]] == 1) continue;
      if (term.value.shape().dim(static_cast<int>(k)) != 1) continue;
      term.value = ir::Squeeze(term.value, {static_cast<int64_t>(k)});
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(k));
    }
  }
  return terms;
}

// Labels of the result without "->": those of "...", then the letters that occur once.
Labels ImpliedOutput(const std::vector<Term>& terms) {
  std::map<int, int> letters;
  Labels out;
  for (const Term& term : terms) {
    for (const int label : term.labels) {
      if (label <= 255) {
        ++letters[label];
      } else if (!Contains(out, label)) {
        out.push_back(label);
      }
    }
  }
  std::sort(out.rbegin(), out.rend());
  for (const auto& [label, count] : letters) {
    if (count == 1) out.push_back(label);
  }
  return out;
}

Value EinsumOf(In in, const std::string& equation) {
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  const std::vector<std::string> texts = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || texts.size() != in.size()) {
    return Reject(in[0], "the equation \"", equation, "\" does not have a term for each of the ",
                  in.size(), " inputs");
  }
  const auto terms = ParseInputs(in, texts);
  if (!terms.has_value()) return Value();
  Labels out = ImpliedOutput(*terms);
  if (sides.size() == 2) {
    int64_t ellipsis = 0;
    for (const int label : out) ellipsis = std::max<int64_t>(ellipsis, label - 255);
    const std::optional<Labels> given = ParseLabels(sides[1], ellipsis);
    if (!given.has_value()) return Reject(in[0], "malformed equation \"", equation, "\"");
    out = *given;
  }
  Term all = (*terms)[0];
  for (size_t i = 1; i < terms->size(); ++i) {
    Labels kept = out;
    for (size_t k = i + 1; k < terms->size(); ++k) {
      kept.insert(kept.end(), (*terms)[k].labels.begin(), (*terms)[k].labels.end());
    }
    all = Contract(all, (*terms)[i], kept);
    if (!all.value.valid()) return Value();
  }
  all = SumOut(all, out);
  ir::Axes permutation;
  for (const int label : out) {
    const auto at = std::find(all.labels.begin(), all.labels.end(), label);
    if (at == all.labels.end() || std::count(out.begin(), out.end(), label) > 1) {
      return Reject(in[0], "the result's labels of \"", equation,
                    "\" must occur once there and in an input");
    }
    permutation.push_back(at - all.labels.begin());
  }
  return ir::Transpose(all.value, permutation);
}

// TensorFlow's Tensordot is its MatMul, which has no kernels for these.
bool HasNoProduct(const Value& x) {
  return x.dtype() == DType::kI8 || x.dtype() == DType::kI16 || x.dtype() == DType::kBool;
}
Value RejectProduct(const Value& x) {
  return Reject(x, "does not take ", base::DTypeName(x.dtype()), "; cast it to int32 or a float");
}

}  // namespace

Tensor MatMul(const Tensor& a, const Tensor& b, const MatMulOptions& options,
              SourceLocation where) {
  const bool ta = options.transpose_a, tb = options.transpose_b;
  Tensor product = AddOp("MatMul", {a, b}, options.name, where,
                         [ta, tb](In in) { return MatrixProduct(in[0], in[1], ta, tb); });
  if (product.valid() && a.shape().rank() == 2 && b.shape().rank() == 2) {
    product.SetShape({a.shape().dim(ta ? 1 : 0), b.shape().dim(tb ? 0 : 1)}, where);
  }
  return product;
}

Tensor linalg::Matvec(const Tensor& a, const Tensor& b, const MatvecOptions& options,
                      SourceLocation where) {
  return AddOp("Matvec", {a, b}, options.name, where,
               [transpose = options.transpose_a](In in) -> Value {
                 if (in[1].rank() < 1) {
                   return Reject(in[0], "expects a vector, got ", in[1].type().ToString());
                 }
                 const Value column = ir::ExpandDims(in[1], -1);
                 const Value product = MatrixProduct(in[0], column, transpose, false);
                 return product.valid() ? ir::Squeeze(product, {-1}) : product;
               });
}

Tensor Tensordot(const Tensor& a, const Tensor& b, int64_t axes, absl::string_view name,
                 SourceLocation where) {
  return AddOp("Tensordot", {a, b}, name, where, [axes](In in) -> Value {
    if (HasNoProduct(in[0])) return RejectProduct(in[0]);
    if (axes < 0 || axes > in[0].rank() || axes > in[1].rank()) {
      return Reject(in[0], "cannot contract ", axes, " axes of ", in[0].type().ToString(), " and ",
                    in[1].type().ToString());
    }
    ir::DotDimensions dimensions;
    for (int64_t i = 0; i < axes; ++i) {
      dimensions.lhs_contracting.push_back(in[0].rank() - axes + i);
      dimensions.rhs_contracting.push_back(i);
    }
    return ir::DotGeneral(in[0], in[1], dimensions);
  });
}

Tensor Tensordot(const Tensor& a, const Tensor& b, const std::vector<int64_t>& a_axes,
                 const std::vector<int64_t>& b_axes, absl::string_view name, SourceLocation where) {
  return AddOp("Tensordot", {a, b}, name, where, [a_axes, b_axes](In in) -> Value {
    if (HasNoProduct(in[0])) return RejectProduct(in[0]);
    const auto left = internal::AxesIn(in[0], a_axes), right = internal::AxesIn(in[1], b_axes);
    if (!left.has_value() || !right.has_value()) return Value();
    if (left->size() != right->size()) {
      return Reject(in[0], "expects as many axes of a as of b, got ", left->size(), " and ",
                    right->size());
    }
    return ir::DotGeneral(in[0], in[1], {.lhs_contracting = *left, .rhs_contracting = *right});
  });
}

Tensor Einsum(absl::string_view equation, const Tensors& inputs, absl::string_view name,
              SourceLocation where) {
  if (inputs.empty()) return FailOp({}, "Einsum", "expects at least one input", where);
  return AddOp("Einsum", inputs, name, where,
               [equation = std::string(equation)](In in) { return EinsumOf(in, equation); });
}

}  // namespace penstock::session
