#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

using Unary = T (*)(const T&, base::SourceLocation);

Program Call(Unary function) {
  return [function](Case& c) { return Ts{function(c.x[0], base::SourceLocation::Current())}; };
}

using Binary = T (*)(const lazy::Operand&, const lazy::Operand&);
Program OfTwo(Binary function) {
  return [function](Case& c) { return Ts{function(c.x[0], c.x[1])}; };
}
Program Sum() {
  return [](Case& c) { return Ts{torch::add(c.x[0], c.x[1])}; };
}

const std::pair<const char*, Unary> kUnary[] = {
    {"abs", torch::abs},         {"neg", torch::neg},
    {"sign", torch::sign},       {"square", torch::square},
    {"exp", torch::exp},         {"expm1", torch::expm1},
    {"log", torch::log},         {"log1p", torch::log1p},
    {"log2", torch::log2},       {"log10", torch::log10},
    {"sqrt", torch::sqrt},       {"rsqrt", torch::rsqrt},
    {"sin", torch::sin},         {"reciprocal", torch::reciprocal},
    {"cos", torch::cos},         {"tan", torch::tan},
    {"asin", torch::asin},       {"acos", torch::acos},
    {"atan", torch::atan},       {"sinh", torch::sinh},
    {"cosh", torch::cosh},       {"tanh", torch::tanh},
    {"sigmoid", torch::sigmoid}, {"erf", torch::erf},
    {"erfc", torch::erfc},       {"relu", torch::relu},
    {"floor", torch::floor},     {"ceil", torch::ceil},
    {"round", torch::round},     {"trunc", torch::trunc},
};

}  // namespace

Table ElementwiseRows() {
  Table rows;
  for (const auto& [name, function] : kUnary) {
    rows.emplace_back(name, Call(function));
    for (const char* of :
         {"exp", "log", "sqrt", "tanh", "sigmoid", "abs", "neg", "sign", "square", "floor"}) {
      if (std::string(of) == name)
        rows.emplace_back(std::string(name) + " of integers", Call(function));
    }
  }
  const Table others = {
      {"isnan", Call(torch::isnan)},
      {"isinf", Call(torch::isinf)},
      {"isfinite", Call(torch::isfinite)},
      {"isfinite of integers", Call(torch::isfinite)},
      {"logical_not", Call(torch::logical_not)},
      {"bitwise_not", Call(torch::bitwise_not)},
      {"bitwise_not of bools", [](Case& c) { return Ts{~c.x[0]}; }},
      {"nan_to_num", [](Case& c) { return Ts{torch::nan_to_num(c.x[0])}; }},
      {"nan_to_num with values", [](Case& c) { return Ts{torch::nan_to_num(c.x[0], 7, 8, -9)}; }},
      {"relu at zero", Call(torch::relu)},
      {"abs at zero", Call(torch::abs)},
      {"to bfloat16", [](Case& c) { return Ts{c.x[0].to(torch::kBFloat16)}; }},
      {"to int64", [](Case& c) { return Ts{torch::to(c.x[0], torch::kLong)}; }},
      {"to bool", [](Case& c) { return Ts{c.x[0].to(torch::kBool)}; }},
      {"clone", Call(torch::clone)},
      {"detach", [](Case& c) { return Ts{torch::detach(c.x[0]) * c.x[0]}; }},
      {"contiguous", Call(torch::contiguous)},

      {"add", Sum()},
      {"add with alpha", [](Case& c) { return Ts{torch::add(c.x[0], c.x[1], 2.5)}; }},
      {"add of a number", [](Case& c) { return Ts{c.x[0] + 2}; }},
      {"add of integers and a float", [](Case& c) { return Ts{c.x[0] + 1.5}; }},
      {"add of integers and an integer", [](Case& c) { return Ts{c.x[0].add(1)}; }},
      {"add of int32 and int64", Sum()},
      {"add of uint8 and int8", Sum()},
      {"add of float32 and int64", Sum()},
      {"add of float32 and float16", Sum()},
      {"add of bfloat16 and float16", Sum()},
      {"add of bfloat16 and float32", Sum()},
      {"add of float16 and a float32 scalar", Sum()},
      {"add of integers and a float scalar", Sum()},
      {"add of float64", Sum()},
      {"add of bools", Sum()},
      {"add of a bool and a number", [](Case& c) { return Ts{c.x[0] + 1}; }},
      {"sub", [](Case& c) { return Ts{c.x[0] - c.x[1]}; }},
      {"sub from a number", [](Case& c) { return Ts{1 - c.x[0]}; }},
      {"sub with alpha", [](Case& c) { return Ts{c.x[0].sub(c.x[1], 0.5)}; }},
      {"mul", OfTwo(torch::mul)},
      {"mul of bools", OfTwo(torch::mul)},
      {"mul of a number", [](Case& c) { return Ts{3 * c.x[0]}; }},
      {"mul of bfloat16 and a number", [](Case& c) { return Ts{c.x[0] * 1.1}; }},
      {"div", [](Case& c) { return Ts{c.x[0] / c.x[1]}; }},
      {"div of integers", [](Case& c) { return Ts{c.x[0].div(c.x[1])}; }},
      {"div of a number", [](Case& c) { return Ts{2 / c.x[0]}; }},
      {"div floor", [](Case& c) { return Ts{torch::div(c.x[0], c.x[1], "floor")}; }},
      {"div trunc", [](Case& c) { return Ts{torch::div(c.x[0], c.x[1], "trunc")}; }},
      {"div floor of integers", [](Case& c) { return Ts{c.x[0].div(c.x[1], "floor")}; }},
      {"div trunc of integers", [](Case& c) { return Ts{torch::div(c.x[0], c.x[1], "trunc")}; }},
      {"floor_divide", OfTwo(torch::floor_divide)},
      {"remainder", OfTwo(torch::remainder)},
      {"remainder of integers", [](Case& c) { return Ts{c.x[0] % c.x[1]}; }},
      {"remainder by a number", [](Case& c) { return Ts{c.x[0] % 1.5}; }},
      {"fmod", OfTwo(torch::fmod)},
      {"pow", OfTwo(torch::pow)},
      {"pow square", [](Case& c) { return Ts{c.x[0].pow(2)}; }},
      {"pow cube", [](Case& c) { return Ts{c.x[0].pow(3)}; }},
      {"pow half", [](Case& c) { return Ts{c.x[0].pow(0.5)}; }},
      {"pow minus half", [](Case& c) { return Ts{torch::pow(c.x[0], -0.5)}; }},
      {"pow zero", [](Case& c) { return Ts{torch::pow(c.x[0], 0)}; }},
      {"pow fraction", [](Case& c) { return Ts{torch::pow(c.x[0], 1.7)}; }},
      {"pow of a number", [](Case& c) { return Ts{torch::pow(2.0, c.x[0])}; }},
      {"pow of integers", [](Case& c) { return Ts{torch::pow(c.x[0], 2)}; }},
      {"atan2", OfTwo(torch::atan2)},
      {"maximum", OfTwo(torch::maximum)},
      {"maximum at ties", OfTwo(torch::maximum)},
      {"minimum", OfTwo(torch::minimum)},
      {"logaddexp", OfTwo(torch::logaddexp)},
      {"logical_and", OfTwo(torch::logical_and)},
      {"logical_or", OfTwo(torch::logical_or)},
      {"logical_xor", OfTwo(torch::logical_xor)},
      {"bitwise_and", [](Case& c) { return Ts{c.x[0] & c.x[1]}; }},
      {"bitwise_or", [](Case& c) { return Ts{c.x[0] | c.x[1]}; }},
      {"bitwise_xor", OfTwo(torch::bitwise_xor)},
      {"eq", OfTwo(torch::eq)},
      {"eq of a number", [](Case& c) { return Ts{torch::eq(c.x[0], 1)}; }},
      {"ne", OfTwo(torch::ne)},
      {"lt", [](Case& c) { return Ts{c.x[0] < c.x[1]}; }},
      {"lt of integers and a float", [](Case& c) { return Ts{c.x[0] < 1.5}; }},
      {"le", [](Case& c) { return Ts{c.x[0] <= c.x[1]}; }},
      {"gt", [](Case& c) { return Ts{c.x[0] > 0}; }},
      {"ge", [](Case& c) { return Ts{c.x[0] >= c.x[1]}; }},
      {"allclose", [](Case& c) { return Ts{torch::allclose(c.x[0], c.x[0] + 1e-7)}; }},
      {"where", [](Case& c) { return Ts{torch::where(c.x[0], c.x[1], c.x[2])}; }},
      {"where with a number", [](Case& c) { return Ts{torch::where(c.x[0], c.x[1], 0.5)}; }},
      {"masked_fill", [](Case& c) { return Ts{c.x[0].masked_fill(c.x[1], -1e4)}; }},
      {"clamp", [](Case& c) { return Ts{torch::clamp(c.x[0], -0.5, 0.5)}; }},
      {"clamp at the limits", [](Case& c) { return Ts{c.x[0].clamp(-0.5, 0.5)}; }},
      {"clamp of integers", [](Case& c) { return Ts{torch::clamp(c.x[0], -2, 2)}; }},
      {"clip", [](Case& c) { return Ts{torch::clip(c.x[0], {}, 0.3)}; }},
      {"clamp_min", [](Case& c) { return Ts{torch::clamp_min(c.x[0], 0.1)}; }},
      {"clamp_max", [](Case& c) { return Ts{torch::clamp_max(c.x[0], 0.1)}; }},
      {"lerp", [](Case& c) { return Ts{torch::lerp(c.x[0], c.x[1], 0.3)}; }},
      {"lerp with tensors", [](Case& c) { return Ts{torch::lerp(c.x[0], c.x[1], c.x[2])}; }},
      {"lerp near the end", [](Case& c) { return Ts{torch::lerp(c.x[0], c.x[1], 1.0)}; }},
      {"lerp with tensors near both ends",
       [](Case& c) { return Ts{torch::lerp(c.x[0], c.x[1], c.x[2])}; }},
      {"addcmul", [](Case& c) { return Ts{torch::addcmul(c.x[0], c.x[1], c.x[2], 0.5)}; }},
      {"addcdiv", [](Case& c) { return Ts{torch::addcdiv(c.x[0], c.x[1], c.x[2], 0.5)}; }},
      {"erfinv", Call(torch::erfinv)},
      {"exp2", Call(torch::exp2)},
      {"asinh", Call(torch::asinh)},
      {"acosh", Call(torch::acosh)},
      {"atanh", Call(torch::atanh)},
      {"frac", Call(torch::frac)},
      {"exp2 of integers", [](Case& c) { return Ts{torch::exp2(c.x[0])}; }},
      {"logit", [](Case& c) { return Ts{torch::logit(c.x[0])}; }},
      {"logit with eps", [](Case& c) { return Ts{c.x[0].logit(0.2)}; }},
      {"fmax", OfTwo(torch::fmax)},
      {"fmin", OfTwo(torch::fmin)},
      {"fmax of integers", [](Case& c) { return Ts{torch::fmax(c.x[0], c.x[1])}; }},
      {"hypot", OfTwo(torch::hypot)},
      {"hypot of large numbers", [](Case& c) { return Ts{torch::hypot(c.x[0], c.x[1])}; }},
      {"isclose", [](Case& c) { return Ts{torch::isclose(c.x[0], c.x[1])}; }},
      {"isclose with nan", [](Case& c) { return Ts{c.x[0].isclose(c.x[1], 1e-5, 1e-8, true)}; }},
      {"isclose of large integers",
       [](Case& c) { return Ts{torch::isclose(c.x[0], c.x[1], 0, 0)}; }},
      {"isin", [](Case& c) { return Ts{torch::isin(c.x[0], c.x[1])}; }},
  };
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

}  // namespace penstock::tests::lazy_rows
