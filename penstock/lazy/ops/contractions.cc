// Products of vectors, matrices and batches of matrices; einsum.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using ir::Value;
using ir::Values;

// Sizes of the leading axes after broadcasting.
std::vector<int64_t> BroadcastBatch(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank()) - 2;
  std::vector<int64_t> batch(rank, 1);
  for (const Shape* s : {&a, &b}) {
    const int offset = rank - (s->rank() - 2);
    for (int i = 0; i + 2 < s->rank(); ++i) {
      if (s->dim(i) != 1) batch[offset + i] = s->dim(i);  // also 0
    }
  }
  return batch;
}

Value WithBatch(Value x, std::vector<int64_t> batch) {
  batch.push_back(x.shape().dim(-2));
  batch.push_back(x.shape().dim(-1));
  return ir::BroadcastTo(x, Shape(batch));
}

Value MatMulValue(Value a, Value b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = ir::ExpandDims(a, 0);
  if (column) b = ir::ExpandDims(b, 1);
  if (b.rank() > 2 || a.rank() < b.rank()) {
    const std::vector<int64_t> batch = BroadcastBatch(a.shape(), b.shape());
    a = WithBatch(a, batch);
    b = WithBatch(b, batch);
  }
  Value y = ir::MatMul(a, b);
  if (!y.valid()) return y;
  if (column) y = ir::Squeeze(y, {-1});
  if (row) y = ir::Squeeze(y, {column ? -1 : -2});
  return y;
}

// Checks the types and ranks of a product.
bool Multipliable(absl::string_view name, const Tensor& a, const Tensor& b, SourceLocation where) {
  if (!a.defined() || !b.defined()) return true;  // Record says so
  if (a.dtype() != b.dtype()) {
    FailOp(name, {a, b}, "the operands must have one dtype; convert one with to(dtype)", where);
    return false;
  }
  if (a.dim() == 0 || b.dim() == 0) {
    FailOp(name, {a, b}, "the operands must have one dim or more; use mul() for scalars", where);
    return false;
  }
  const int64_t rows = b.size(b.dim() == 1 ? 0 : -2);
  if (a.size(-1) != rows) {
    FailOp(name, {a, b},
           absl::StrCat("the last size of the first operand (", a.size(-1),
                        ") must equal the rows of the second (", rows, ")"),
           where);
    return false;
  }
  return true;
}

Tensor Product(absl::string_view name, Tensor a, Tensor b, SourceLocation where) {
  Tensor* const both[] = {&a, &b};
  internal::CastAll(name, both);
  if (!Multipliable(name, a, b, where)) return Tensor();
  return Record(name, {a, b}, where, [](const Values& in) { return MatMulValue(in[0], in[1]); });
}

bool HasRanks(absl::string_view name, const Tensor& a, int64_t rank_a, const Tensor& b,
              int64_t rank_b, SourceLocation where) {
  if (!a.defined() || !b.defined() || (a.dim() == rank_a && b.dim() == rank_b)) return true;
  FailOp(name, {a, b},
         absl::StrCat("expects tensors of ", rank_a, " and ", rank_b,
                      " dims; matmul() takes other ranks"),
         where);
  return false;
}

// beta * x + alpha * (a b). A beta of 0 ignores x, even NaN.
Tensor AddProduct(absl::string_view name, Tensor x, Tensor a, Tensor b, double beta, double alpha,
                  int64_t rank, SourceLocation where) {
  Tensor* const all[] = {&x, &a, &b};
  internal::CastAll(name, all);
  if (!HasRanks(name, a, rank, b, rank, where) || !Multipliable(name, a, b, where)) return Tensor();
  return Record(name, {x, a, b}, where, [&](const Values& in) {
    Value y = ir::MatMul(in[1], in[2]);
    if (alpha != 1) y = y * alpha;
    if (beta == 0) return y;
    return ir::Convert(beta == 1 ? in[0] : in[0] * beta, y.dtype()) + y;
  });
}

// ---- einsum ----

// An operand with a letter for each axis.
struct Labeled {
  Value value;
  std::string labels;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Sums over the axes that nothing else needs.
Labeled SumUnused(Labeled x, const std::string& needed) {
  ir::Axes axes;
  std::string kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (Has(needed, x.labels[i])) {
      kept += x.labels[i];
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (axes.empty()) return x;
  return {ir::ReduceSum(x.value, axes), kept};
}

Labeled Contract(Labeled a, Labeled b, const std::string& later) {
  a = SumUnused(a, later + b.labels);
  b = SumUnused(b, later + a.labels);
  ir::DotDimensions dims;
  std::string batch, free;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    const size_t j = b.labels.find(a.labels[i]);
    if (j == std::string::npos) {
      free += a.labels[i];
    } else if (Has(later, a.labels[i])) {
      dims.lhs_batch.push_back(static_cast<int64_t>(i));
      dims.rhs_batch.push_back(static_cast<int64_t>(j));
      batch += a.labels[i];
    } else {
      dims.lhs_contracting.push_back(static_cast<int64_t>(i));
      dims.rhs_contracting.push_back(static_cast<int64_t>(j));
    }
  }
  for (char label : b.labels) {
    if (!Has(a.labels, label)) free += label;
  }
  return {ir::DotGeneral(a.value, b.value, dims), batch + free};
}

// The equation with letters for the dots: operands' labels and the result's.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

std::string WithoutSpaces(absl::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != ' ') out += c;
  }
  return out;
}

// Replaces "..." by digits, the last `count` of "01234567".
std::string ReplaceDots(const std::string& labels, int64_t count) {
  const size_t at = labels.find("...");
  if (at == std::string::npos) return labels;
  return labels.substr(0, at) + std::string("01234567").substr(8 - static_cast<size_t>(count)) +
         labels.substr(at + 3);
}

// Empty message: the equation fits the operands.
std::string ParseEquation(absl::string_view text, const Tensors& operands, Equation& out) {
  const std::string equation = WithoutSpaces(text);
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  const std::vector<std::string> inputs = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || inputs.size() != operands.size()) {
    return absl::StrCat("the equation \"", text, "\" has ", inputs.size(), " operands, ",
                        operands.size(), " were passed");
  }
  std::string seen, once;
  int64_t dots = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool has_dots = inputs[i].find("...") != std::string::npos;
    const int64_t named = static_cast<int64_t>(inputs[i].size()) - (has_dots ? 3 : 0);
    const int64_t rest = operands[i].dim() - named;
    if (rest < 0 || (rest > 0 && !has_dots)) {
      return absl::StrCat("\"", inputs[i], "\" does not match operand ", i, ", which has ",
                          operands[i].dim(), " dims");
    }
    if (has_dots) dots = std::max(dots, rest);
    const std::string labels = ReplaceDots(inputs[i], has_dots ? rest : 0);
    for (size_t k = 0; k < labels.size(); ++k) {
      if (labels.find(labels[k], k + 1) != std::string::npos) {
        return absl::StrCat("\"", inputs[i], "\" repeats an index; use diagonal() first");
      }
    }
    out.inputs.push_back(labels);
    seen += labels;
  }
  if (sides.size() == 2) {
    out.output = ReplaceDots(sides[1], dots);
  } else {
    for (char c : seen) {
      if (std::count(seen.begin(), seen.end(), c) == 1 || (c >= '0' && c <= '9')) {
        if (!Has(once, c)) once += c;
      }
    }
    std::sort(once.begin(), once.end());
    out.output = once;
  }
  for (char c : out.output) {
    if (!Has(seen, c))
      return absl::StrCat("no operand has the result's index '", std::string(1, c), "'");
  }
  return "";
}

// Removes the axes of extent 1 that others broadcast.
void SqueezeBroadcast(Labeled& x, const std::map<char, int64_t>& extents) {
  for (size_t k = x.labels.size(); k-- > 0;) {
    if (x.value.shape().dim(static_cast<int>(k)) != 1 || extents.at(x.labels[k]) == 1) continue;
    x.value = ir::Squeeze(x.value, {static_cast<int64_t>(k)});
    x.labels.erase(k, 1);
  }
}

Value Einsum(const Equation& equation, const Values& in) {
  std::vector<Labeled> operands;
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < in.size(); ++i) {
    operands.push_back({in[i], equation.inputs[i]});
    for (int k = 0; k < in[i].rank(); ++k) {
      int64_t& extent =
          extents.try_emplace(operands[i].labels[static_cast<size_t>(k)], 1).first->second;
      if (in[i].shape().dim(k) != 1) extent = in[i].shape().dim(k);
    }
  }
  for (Labeled& x : operands) SqueezeBroadcast(x, extents);
  Labeled result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string later = equation.output;
    for (size_t k = i + 1; k < operands.size(); ++k) later += operands[k].labels;
    result = Contract(result, operands[i], later);
    if (!result.value.valid()) return Value();
  }
  result = SumUnused(result, equation.output);
  ir::Axes permutation;
  for (char label : equation.output) {
    permutation.push_back(static_cast<int64_t>(result.labels.find(label)));
  }
  return ir::Transpose(result.value, permutation);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, SourceLocation where) {
  return Product("matmul", a, b, where);
}
Tensor mm(const Tensor& a, const Tensor& b, SourceLocation where) {
  return HasRanks("mm", a, 2, b, 2, where) ? Product("mm", a, b, where) : Tensor();
}
Tensor bmm(const Tensor& a, const Tensor& b, SourceLocation where) {
  return HasRanks("bmm", a, 3, b, 3, where) ? Product("bmm", a, b, where) : Tensor();
}
Tensor mv(const Tensor& a, const Tensor& b, SourceLocation where) {
  return HasRanks("mv", a, 2, b, 1, where) ? Product("mv", a, b, where) : Tensor();
}
Tensor dot(const Tensor& a, const Tensor& b, SourceLocation where) {
  return HasRanks("dot", a, 1, b, 1, where) ? Product("dot", a, b, where) : Tensor();
}
Tensor outer(const Tensor& a, const Tensor& b, SourceLocation where) {
  if (!HasRanks("outer", a, 1, b, 1, where)) return Tensor();
  return mul(Operand(unsqueeze(a, 1, where), where), Operand(b, where));
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha,
             SourceLocation where) {
  return AddProduct("addmm", x, a, b, beta, alpha, 2, where);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha,
               SourceLocation where) {
  return AddProduct("baddbmm", x, a, b, beta, alpha, 3, where);
}

Tensor einsum(absl::string_view equation, const Tensors& operands, SourceLocation where) {
  Tensors inputs = operands;
  std::vector<Tensor*> all;
  for (Tensor& x : inputs) {
    all.push_back(&x);
    if (!x.defined()) return FailOp("einsum", operands, "an operand is undefined", where);
  }
  if (inputs.empty()) return FailOp("einsum", {}, "there are no operands", where);
  internal::CastAll("einsum", all);
  Equation parsed;
  const std::string wrong = ParseEquation(equation, inputs, parsed);
  if (!wrong.empty()) return FailOp("einsum", inputs, wrong, where);
  return Record("einsum", inputs, where, [&](const Values& in) { return Einsum(parsed, in); });
}

}  // namespace penstock::lazy
