// Linear algebra: Cholesky decomposition and triangular solve. Leading axes are a batch.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

Value Turned(Value x) {
  Axes order(x.rank());
  for (int i = 0; i < x.rank(); ++i) order[i] = i;
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return Transpose(x, order);
}

// x with zeros on the other side of the diagonal, and the diagonal multiplied by `diagonal`.
Value Triangle(Value x, bool lower, double diagonal = 1) {
  const TensorType type{DType::kI32, {x.shape().dim(-2), x.shape().dim(-1)}};
  const Value row = Iota(*x.graph(), type, 0), column = Iota(*x.graph(), type, 1);
  const Value inside = lower ? Greater(row, column) : Less(row, column);
  const Value zero = SplatLike(x, 0);
  const Value on_it = diagonal == 0 ? zero : diagonal == 1 ? x : x * diagonal;
  return Select(inside, x, Select(Equal(row, column), on_it, zero));
}

bool IsSquare(const TensorType& type) {
  return type.shape.rank() >= 2 && type.shape.dim(-1) == type.shape.dim(-2) &&
         (type.dtype == DType::kF32 || type.dtype == DType::kF64);
}

InferResult InferCholesky(const Node& node) {
  const TensorType& type = node.operands[0].type();
  if (IsSquare(type)) return std::vector<TensorType>{type};
  return OpError(node, absl::StrCat("expects square matrices of floats, got ", type.ToString()));
}

// I. Murray: Differentiation of the Cholesky decomposition, 2016, equation (8).
Values CholeskyGradient(const GradientArgs& g) {
  const Value l = g.result();
  const Value p = Triangle(MatMul(Turned(l), g.cotangent()), true, 0.5);
  const Value left = TriangularSolve(l, p, {.transpose = true});
  const Value s = TriangularSolve(l, left, {.left_side = false});
  return {(s + Turned(s)) * 0.5};
}

// The elements above the diagonal are unspecified.
const OpDef kCholesky = {
    .name = "stablehlo.cholesky",
    .infer = InferCholesky,
    .print =
        [](Printer& printer, const Node& node) {
          printer.Line(node, absl::StrCat("\"stablehlo.cholesky\"(", printer.Names(node.operands),
                                          ") {lower = true} : ", FunctionType(node)));
        },
    .expensive = true};

const OpDef kLowerCholesky = {.name = "penstock.cholesky",
                              .infer = InferCholesky,
                              .gradient = CholeskyGradient,
                              .decompose = [](Graph&, const Node&, const Values& in) -> Values {
                                return {Triangle(EmitOne(kCholesky, {in[0]}), true)};
                              },
                              .expensive = true};

TriangularSolveOptions OptionsOf(const Node& node) {
  return {.left_side = node.attributes.Get<bool>("left_side"),
          .lower = node.attributes.Get<bool>("lower"),
          .transpose = node.attributes.Get<bool>("transpose"),
          .unit_diagonal = node.attributes.Get<bool>("unit_diagonal")};
}

InferResult InferSolve(const Node& node) {
  const TensorType &a = node.operands[0].type(), &b = node.operands[1].type();
  bool fits = IsSquare(a) && a.dtype == b.dtype && a.shape.rank() == b.shape.rank();
  for (int i = 0; fits && i < a.shape.rank() - 2; ++i) fits = a.shape.dim(i) == b.shape.dim(i);
  fits = fits && a.shape.dim(-1) == b.shape.dim(OptionsOf(node).left_side ? -2 : -1);
  if (fits) return std::vector<TensorType>{b};
  return OpError(
      node, absl::StrCat("expects square matrices and others of as many ",
                         OptionsOf(node).left_side ? "rows" : "columns", ", got ", TypesOf(node)));
}

Values SolveGradient(const GradientArgs& g) {
  const TriangularSolveOptions options = OptionsOf(g.node);
  TriangularSolveOptions turned = options;
  turned.transpose = !options.transpose;
  const Value of_b = TriangularSolve(g.operand(0), g.cotangent(), turned);
  if (!g.wants(0)) return {Value(), of_b};
  // Gradient of op(a): left -b' x^T, right -x^T b'; transposed back if op transposes.
  const Value x = g.result();
  const Value used = options.left_side ? MatMul(of_b, Turned(x)) : MatMul(Turned(x), of_b);
  const Value of_a = -(options.transpose ? Turned(used) : used);
  return {Triangle(of_a, options.lower, options.unit_diagonal ? 0 : 1), of_b};
}

const OpDef kTriangularSolve = {
    .name = "stablehlo.triangular_solve",
    .infer = InferSolve,
    .gradient = SolveGradient,
    .print =
        [](Printer& printer, const Node& node) {
          const TriangularSolveOptions options = OptionsOf(node);
          const auto truth = [](bool b) { return b ? "true" : "false"; };
          printer.Line(node,
                       absl::StrCat("\"stablehlo.triangular_solve\"(", printer.Names(node.operands),
                                    ") {left_side = ", truth(options.left_side), ", lower = ",
                                    truth(options.lower), ", transpose_a = #stablehlo<transpose ",
                                    options.transpose ? "TRANSPOSE" : "NO_TRANSPOSE",
                                    ">, unit_diagonal = ", truth(options.unit_diagonal),
                                    "} : ", FunctionType(node)));
        },
    .expensive = true};

}  // namespace

Value Cholesky(Value a) {
  if (!a.valid()) return a;
  // A matrix that is not square is rejected by the operation.
  return EmitOne(kLowerCholesky, {IsSquare(a.type()) ? (a + Turned(a)) * 0.5 : a});
}

Value TriangularSolve(Value a, Value b, const TriangularSolveOptions& options) {
  return EmitOne(kTriangularSolve, {a, b},
                 {{"left_side", options.left_side},
                  {"lower", options.lower},
                  {"transpose", options.transpose},
                  {"unit_diagonal", options.unit_diagonal}});
}

OpList LinalgOps() {
  static constexpr const OpDef* kOps[] = {&kCholesky, &kLowerCholesky, &kTriangularSolve};
  return kOps;
}

}  // namespace penstock::ir
