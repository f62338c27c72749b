#include "penstock/base/status.h"

#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Value;
using ir::Values;

template <Value (*kFunction)(Value)>
Values OfOne(const Call& c) {
  return {kFunction(c.x[0])};
}

template <Value (*kFunction)(Value, Value)>
Values OfTwo(const Call& c) {
  return {kFunction(c.x[0], c.x[1])};
}

// Binary operators: on two values, or on a value and a number on either side.
template <typename Operator>
Values WithNumber(const Call& c, Operator apply) {
  const std::string form = c.Text("form");
  const double number = c.Number("number");
  if (form == "values") return {apply(c.x[0], c.x[1])};
  return {form == "left" ? apply(number, c.x[0]) : apply(c.x[0], number)};
}

ir::Comparison ComparisonOf(const std::string& name) {
  static const std::map<std::string, ir::Comparison> kNames = {
      {"eq", ir::Comparison::kEq}, {"ne", ir::Comparison::kNe}, {"lt", ir::Comparison::kLt},
      {"le", ir::Comparison::kLe}, {"gt", ir::Comparison::kGt}, {"ge", ir::Comparison::kGe}};
  return kNames.at(name);
}

OperationTable OneOperand() {
  return {
      {"Negate", OfOne<ir::Negate>},
      {"Abs", OfOne<ir::Abs>},
      {"Sign", OfOne<ir::Sign>},
      {"Exp", OfOne<ir::Exp>},
      {"Expm1", OfOne<ir::Expm1>},
      {"Log", OfOne<ir::Log>},
      {"Log1p", OfOne<ir::Log1p>},
      {"Sqrt", OfOne<ir::Sqrt>},
      {"Cbrt", OfOne<ir::Cbrt>},
      {"Rsqrt", OfOne<ir::Rsqrt>},
      {"Sigmoid", OfOne<ir::Sigmoid>},
      {"Sin", OfOne<ir::Sin>},
      {"Cos", OfOne<ir::Cos>},
      {"Tan", OfOne<ir::Tan>},
      {"Asin", OfOne<ir::Asin>},
      {"Acos", OfOne<ir::Acos>},
      {"Atan", OfOne<ir::Atan>},
      {"Sinh", OfOne<ir::Sinh>},
      {"Cosh", OfOne<ir::Cosh>},
      {"Tanh", OfOne<ir::Tanh>},
      {"Asinh", OfOne<ir::Asinh>},
      {"Acosh", OfOne<ir::Acosh>},
      {"Atanh", OfOne<ir::Atanh>},
      {"Erf", OfOne<ir::Erf>},
      {"Erfc", OfOne<ir::Erfc>},
      {"ErfInv", OfOne<ir::ErfInv>},
      {"Floor", OfOne<ir::Floor>},
      {"Ceil", OfOne<ir::Ceil>},
      {"Round", OfOne<ir::Round>},
      {"Square", OfOne<ir::Square>},
      {"Not", OfOne<ir::Not>},
      {"IsFinite", OfOne<ir::IsFinite>},
      {"IsNan", OfOne<ir::IsNan>},
      {"PopulationCount", OfOne<ir::PopulationCount>},
      {"StopGradient", OfOne<ir::StopGradient>},
      {"Relu", OfOne<ir::Relu>},
      {"Softplus", OfOne<ir::Softplus>},
      {"LogSigmoid", OfOne<ir::LogSigmoid>},
      {"Gelu", [](const Call& c) -> Values { return {ir::Gelu(c.x[0], c.Flag("approximate"))}; }},
      {"Convert", [](const Call& c) -> Values { return {ir::Convert(c.x[0], c.Type("to"))}; }},
      {"BitcastConvert",
       [](const Call& c) -> Values { return {ir::BitcastConvert(c.x[0], c.Type("to"))}; }},
      {"ReducePrecision",
       [](const Call& c) -> Values {
         return {ir::ReducePrecision(c.x[0], static_cast<int>(c.Int("exponent")),
                                     static_cast<int>(c.Int("mantissa")))};
       }},
  };
}

OperationTable TwoOperands() {
  return {
      {"Add", OfTwo<ir::Add>},
      {"Subtract", OfTwo<ir::Subtract>},
      {"Multiply", OfTwo<ir::Multiply>},
      {"Divide", OfTwo<ir::Divide>},
      {"Remainder", OfTwo<ir::Remainder>},
      {"Power", OfTwo<ir::Power>},
      {"Maximum", OfTwo<ir::Maximum>},
      {"Minimum", OfTwo<ir::Minimum>},
      {"Atan2", OfTwo<ir::Atan2>},
      {"LogAddExp", OfTwo<ir::LogAddExp>},
      {"And", OfTwo<ir::And>},
      {"Or", OfTwo<ir::Or>},
      {"Xor", OfTwo<ir::Xor>},
      {"ShiftLeft", OfTwo<ir::ShiftLeft>},
      {"ShiftRightLogical", OfTwo<ir::ShiftRightLogical>},
      {"ShiftRightArithmetic", OfTwo<ir::ShiftRightArithmetic>},
      {"Compare",
       [](const Call& c) -> Values {
         return {ir::Compare(c.x[0], c.x[1], ComparisonOf(c.Text("how")))};
       }},
      {"Equal", OfTwo<ir::Equal>},
      {"Less", OfTwo<ir::Less>},
      {"LessEqual", OfTwo<ir::LessEqual>},
      {"Greater", OfTwo<ir::Greater>},
      {"GreaterEqual", OfTwo<ir::GreaterEqual>},
      {"operator+",
       [](const Call& c) { return WithNumber(c, [](auto a, auto b) { return Value(a + b); }); }},
      {"operator-",
       [](const Call& c) {
         if (c.Text("form") == "negate") return Values{-c.x[0]};
         return WithNumber(c, [](auto a, auto b) { return Value(a - b); });
       }},
      {"operator*",
       [](const Call& c) { return WithNumber(c, [](auto a, auto b) { return Value(a * b); }); }},
      {"operator/",
       [](const Call& c) { return WithNumber(c, [](auto a, auto b) { return Value(a / b); }); }},
      {"Select", [](const Call& c) -> Values { return {ir::Select(c.x[0], c.x[1], c.x[2])}; }},
      {"Clamp", [](const Call& c) -> Values { return {ir::Clamp(c.x[0], c.x[1], c.x[2])}; }},
  };
}

OperationTable Constants() {
  return {
      {"Constant", [](const Call& c) -> Values { return {ir::Constant(c.graph, c.arrays[0])}; }},
      {"Splat",
       [](const Call& c) -> Values {
         return {ir::Splat(c.graph, c.TypeAndShape(), c.Number("value"))};
       }},
      {"SplatLike",
       [](const Call& c) -> Values { return {ir::SplatLike(c.x[0], c.Number("value"))}; }},
      {"Iota",
       [](const Call& c) -> Values {
         return {ir::Iota(c.graph, c.TypeAndShape(), c.Int("axis"))};
       }},
  };
}

}  // namespace

OperationTable ElementwiseCalls() {
  OperationTable all = OneOperand();
  all.merge(TwoOperands());
  all.merge(Constants());
  return all;
}

}  // namespace penstock::tests
