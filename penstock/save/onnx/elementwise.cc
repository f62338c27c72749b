// Translations of elementwise operations. ONNX Runtime's kernels for CPUs take few types of
// integers: narrow ones are computed in int32, unsigned ones of 32 and 64 bits in int64, and
// converted back, which wraps around as the operation itself does.
#include <algorithm>
#include <numbers>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/rewrite.h"
#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {
namespace {

using ir::DType;
using Tensors = std::vector<Tensor>;

// The operands in the type in which they are computed.
Tensors WorkOperands(Translator& t, int first = 0) {
  Tensors operands;
  for (int i = first; i < static_cast<int>(t.node().operands.size()); ++i) {
    const DType dtype = t.operand_type(i).dtype;
    operands.push_back(t.Cast(t.Operand(i), dtype, WorkType(dtype)));
  }
  return operands;
}

void SetWorkResult(Translator& t, const Tensor& result) {
  const DType dtype = t.node().results[0].dtype;
  t.SetResult(t.Cast(result, WorkType(dtype), dtype));
}

Tensor Number(Translator& t, double value) {
  return t.Scalar(t.node().results[0].dtype, value, t.ResultShape());
}

Tensor Add(Translator& t, const Tensor& a, const Tensor& b) { return t.Elementwise("Add", {a, b}); }
Tensor Multiply(Translator& t, const Tensor& a, const Tensor& b) {
  return t.Elementwise("Mul", {a, b});
}
Tensor Divide(Translator& t, const Tensor& a, const Tensor& b) {
  return t.Elementwise("Div", {a, b});
}
Tensor Unary(Translator& t, const char* op, const Tensor& a) { return t.Elementwise(op, {a}); }
Tensor Where(Translator& t, const Tensor& condition, const Tensor& a, const Tensor& b) {
  return t.Elementwise("Where", {condition, a, b});
}

// A node of this name computes the operation.
struct SameOperation {
  absl::string_view ir;
  const char* onnx;
  const char* for_bool = nullptr;
};
constexpr SameOperation kSame[] = {
    {"stablehlo.negate", "Neg"},
    {"stablehlo.abs", "Abs"},
    {"stablehlo.sign", "Sign"},
    {"stablehlo.exponential", "Exp"},
    {"stablehlo.log", "Log"},
    {"stablehlo.sqrt", "Sqrt"},
    {"stablehlo.tanh", "Tanh"},
    {"stablehlo.logistic", "Sigmoid"},
    {"stablehlo.sine", "Sin"},
    {"stablehlo.cosine", "Cos"},
    {"stablehlo.floor", "Floor"},
    {"stablehlo.ceil", "Ceil"},
    {"stablehlo.round_nearest_even", "Round"},
    {"penstock.erf", "Erf"},
    {"penstock.tan", "Tan"},
    {"penstock.asin", "Asin"},
    {"penstock.acos", "Acos"},
    {"penstock.atan", "Atan"},
    {"penstock.sinh", "Sinh"},
    {"penstock.cosh", "Cosh"},
    {"penstock.asinh", "Asinh"},
    {"penstock.acosh", "Acosh"},
    {"penstock.atanh", "Atanh"},
    {"stablehlo.add", "Add", "Or"},
    {"stablehlo.subtract", "Sub"},
    {"stablehlo.multiply", "Mul", "And"},
    {"stablehlo.divide", "Div"},
    {"stablehlo.power", "Pow"},
    {"stablehlo.maximum", "Max", "Or"},
    {"stablehlo.minimum", "Min", "And"},
};

absl::Status LacksType(Translator& t) {
  return t.Unsupported(
      absl::StrCat("ONNX Runtime lacks it for ", base::DTypeName(t.operand_type(0).dtype)));
}

// Composites of this table are decomposed in float64, for which ONNX Runtime has few operations.
bool IsNotFloat64(const ir::Node& node) { return node.operands[0].dtype() != DType::kF64; }

absl::Status TranslateSame(Translator& t) {
  const absl::string_view name = ir::OpName(t.node());
  const DType dtype = t.operand_type(0).dtype;
  constexpr absl::string_view kOfSignedOnly[] = {"stablehlo.divide", "stablehlo.power",
                                                 "stablehlo.maximum", "stablehlo.minimum"};
  if (dtype == DType::kU64 &&
      std::count(std::begin(kOfSignedOnly), std::end(kOfSignedOnly), name)) {
    return LacksType(t);
  }
  for (const SameOperation& same : kSame) {
    if (same.ir != name) continue;
    if (dtype == DType::kBool && same.for_bool != nullptr) {
      t.SetResult(t.Elementwise(same.for_bool, {t.Operand(0), t.Operand(1)}));
    } else {
      SetWorkResult(t, t.Elementwise(same.onnx, WorkOperands(t)));
    }
    return absl::OkStatus();
  }
  return t.Unsupported("it has no translation");
}

absl::Status TranslateRemainder(Translator& t) {
  if (t.operand_type(0).dtype == DType::kU64) return LacksType(t);
  // As C's: the sign is that of the dividend.
  SetWorkResult(t, t.Elementwise("Mod", WorkOperands(t), {{"fmod", int64_t{1}}}));
  return absl::OkStatus();
}

// tanh(x / 2) (exp(x) + 1), which is accurate near 0.
absl::Status TranslateExpm1(Translator& t) {
  const Tensor& x = t.Operand(0);
  const Tensor half = Unary(t, "Tanh", Multiply(t, x, Number(t, 0.5)));
  t.SetResult(Multiply(t, half, Add(t, Unary(t, "Exp", x), Number(t, 1))));
  return absl::OkStatus();
}

// log(y) x / (y - 1) for y = 1 + x, in which the rounding of y cancels; x if y rounds to 1.
absl::Status TranslateLog1p(Translator& t) {
  const Tensor &x = t.Operand(0), one = Number(t, 1);
  const Tensor y = Add(t, x, one), log = Unary(t, "Log", y), exact = t.Elementwise("Sub", {y, one});
  const Tensor near =
      Where(t, t.Elementwise("Equal", {y, one}), x, Multiply(t, log, Divide(t, x, exact)));
  t.SetResult(Where(t, t.Elementwise("Less", {Unary(t, "Abs", x), one}), near, log));
  return absl::OkStatus();
}

absl::Status TranslateRsqrt(Translator& t) {
  t.SetResult(Divide(t, Number(t, 1), Unary(t, "Sqrt", t.Operand(0))));
  return absl::OkStatus();
}

absl::Status TranslateCbrt(Translator& t) {
  const Tensor& x = t.Operand(0);
  const Tensor root = t.Elementwise("Pow", {Unary(t, "Abs", x), Number(t, 1.0 / 3)});
  t.SetResult(Multiply(t, Unary(t, "Sign", x), root));
  return absl::OkStatus();
}

// Zeros count as positive.
absl::Status TranslateAtan2(Translator& t) {
  if (t.operand_type(0).dtype == DType::kF64) return LacksType(t);
  const Tensor &y = t.Operand(0), &x = t.Operand(1), zero = Number(t, 0);
  const Tensor at = Unary(t, "Atan", Divide(t, y, x));
  const Tensor y_negative = t.Elementwise("Less", {y, zero});
  const double pi = std::numbers::pi;
  const Tensor turn = Where(t, y_negative, Number(t, -pi), Number(t, pi));
  const Tensor left_or_right = Where(t, t.Elementwise("Less", {x, zero}), Add(t, at, turn), at);
  // On the line x = 0: half of the turn, or 0 at the origin.
  const Tensor on_line = Multiply(t, Unary(t, "Sign", y), Number(t, pi / 2));
  t.SetResult(Where(t, t.Elementwise("Equal", {x, zero}), on_line, left_or_right));
  return absl::OkStatus();
}

absl::Status TranslateNot(Translator& t) {
  if (t.operand_type(0).dtype != DType::kBool) return t.Unsupported("opset 17 has no bitwise not");
  t.SetResult(Unary(t, "Not", t.Operand(0)));
  return absl::OkStatus();
}

absl::Status Logical(Translator& t, const char* op) {
  if (t.operand_type(0).dtype != DType::kBool) {
    return t.Unsupported("opset 17 has no bitwise operations on integers");
  }
  t.SetResult(t.Elementwise(op, {t.Operand(0), t.Operand(1)}));
  return absl::OkStatus();
}
absl::Status TranslateAnd(Translator& t) { return Logical(t, "And"); }
absl::Status TranslateOr(Translator& t) { return Logical(t, "Or"); }
absl::Status TranslateXor(Translator& t) { return Logical(t, "Xor"); }

absl::Status TranslateIsFinite(Translator& t) {
  const Tensor& x = t.Operand(0);
  t.SetResult(Unary(t, "Not", t.Elementwise("Or", {Unary(t, "IsNaN", x), Unary(t, "IsInf", x)})));
  return absl::OkStatus();
}

absl::Status TranslateConvert(Translator& t) {
  t.SetResult(t.Cast(t.Operand(0), t.operand_type(0).dtype, t.node().results[0].dtype));
  return absl::OkStatus();
}

absl::Status TranslateIdentity(Translator& t) {
  for (int i = 0; i < static_cast<int>(t.node().operands.size()); ++i) {
    t.SetResult(Tensor(t.Operand(i)), i);
  }
  return absl::OkStatus();
}

absl::Status TranslateCompare(Translator& t) {
  const auto& direction = t.Attribute<std::string>("direction");
  if (t.operand_type(0).dtype == DType::kU64 && direction != "EQ" && direction != "NE") {
    return t.Unsupported("it orders uint64, which ONNX Runtime does not support");
  }
  const char* const op = direction == "LT"   ? "Less"
                         : direction == "LE" ? "LessOrEqual"
                         : direction == "GT" ? "Greater"
                         : direction == "GE" ? "GreaterOrEqual"
                                             : "Equal";
  const Tensor result = t.Elementwise(op, WorkOperands(t));
  t.SetResult(direction == "NE" ? Unary(t, "Not", result) : result);
  return absl::OkStatus();
}

absl::Status TranslateSelect(Translator& t) {
  const Tensors values = WorkOperands(t, 1);
  SetWorkResult(t, Where(t, t.Operand(0), values[0], values[1]));
  return absl::OkStatus();
}

}  // namespace

TranslationTable ElementwiseTranslations() {
  static const auto* const table = [] {
    auto* rows = new std::vector<Translation>{
        {"stablehlo.remainder", TranslateRemainder},
        {"stablehlo.exponential_minus_one", TranslateExpm1},
        {"stablehlo.log_plus_one", TranslateLog1p},
        {"stablehlo.rsqrt", TranslateRsqrt},
        {"stablehlo.cbrt", TranslateCbrt},
        {"stablehlo.atan2", TranslateAtan2},
        {"stablehlo.not", TranslateNot},
        {"stablehlo.and", TranslateAnd},
        {"stablehlo.or", TranslateOr},
        {"stablehlo.xor", TranslateXor},
        {"stablehlo.is_finite", TranslateIsFinite},
        {"stablehlo.convert", TranslateConvert},
        {"penstock.stop_gradient", TranslateIdentity},
        {"stablehlo.optimization_barrier", TranslateIdentity},
        {"stablehlo.compare", TranslateCompare},
        {"stablehlo.select", TranslateSelect},
    };
    for (const SameOperation& same : kSame) {
      const bool composite = absl::StartsWith(same.ir, "penstock.");
      rows->push_back({same.ir, TranslateSame, composite ? IsNotFloat64 : nullptr});
    }
    return rows;
  }();
  return *table;
}

}  // namespace penstock::save::onnx
