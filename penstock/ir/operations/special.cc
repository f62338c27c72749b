// Elementwise functions that StableHLO has not always had, as composites: error functions, inverse
// trigonometric and hyperbolic functions. Each is accurate where the obvious formula is not. 16-bit
// floats are computed in float32.
#include <initializer_list>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace {

using G = const GradientArgs&;

constexpr double kLog2 = 0.69314718055994530942;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

InferResult InferFloat(const Node& node) {
  const TensorType& type = node.operands[0].type();
  if (base::IsFloat(type.dtype)) return std::vector<TensorType>{type};
  return OpError(node, absl::StrCat("expects floats, got ", type.ToString()));
}

template <Value (*kFunction)(Value)>
Values DecomposeUnary(Graph&, const Node&, const Values& in) {
  const DType dtype = in[0].dtype();
  if (base::ByteWidth(dtype) >= 4) return {kFunction(in[0])};
  return {Convert(kFunction(Convert(in[0], DType::kF32)), dtype)};
}

using Slope = Value (*)(Value x, Value y);

// Derivative as a formula of x and the result y; computed in float32 at least, like the function.
template <Slope kSlope>
Values GradientBySlope(G g) {
  const Value x = g.operand(0);
  if (base::ByteWidth(x.dtype()) >= 4) return {g.cotangent() * kSlope(x, g.result())};
  const auto wide = [](Value value) { return Convert(value, DType::kF32); };
  return {Convert(wide(g.cotangent()) * kSlope(wide(x), wide(g.result())), x.dtype())};
}

#define PENSTOCK_SPECIAL_(constant, function, formula, ...)                     \
  Value SlopeOf##function([[maybe_unused]] Value x, [[maybe_unused]] Value y) { \
    return __VA_ARGS__;                                                         \
  }                                                                             \
  const OpDef constant = {.name = "penstock." formula,                          \
                          .infer = InferFloat,                                  \
                          .gradient = GradientBySlope<SlopeOf##function>,       \
                          .decompose = DecomposeUnary<Make##function>};         \
  }                                                                             \
  Value function(Value x) { return EmitOne(constant, {x}); }                    \
  namespace {

// ---- Error functions ----

Value Polynomial(Value x, std::initializer_list<double> coefficients) {
  Value sum;
  for (double c : coefficients) sum = sum.valid() ? sum * x + c : SplatLike(x, c);
  return sum;
}

Value Below(Value x, double limit) { return Less(x, SplatLike(x, limit)); }

// f64, |x| <= 1 (Moshier: Cephes, ndtr.c).
Value ErfNearZero(Value x) {
  const Value z = x * x;
  return x *
         Polynomial(z, {9.60497373987051638749, 90.0260197203842689217, 2232.00534594684319226,
                        7003.32514112805075473, 55592.3013010394962768}) /
         Polynomial(z, {1, 33.5617141647503099647, 521.357949780152679795, 4594.32382970980127987,
                        22629.0000613890934246, 49267.3942608635921086});
}

// |x| >= 1: exp(-x^2) times a rational function. For x < 0, erfc(-x).
Value ErfcOfAbs(Value x) {
  const Value a = Abs(x), falling = Exp(-(x * x));
  if (x.dtype() == DType::kF64) {  // Cephes, ndtr.c
    // Beyond 27 the exponential is 0; the quotients must only stay finite.
    const Value z = Minimum(a, SplatLike(a, 30));
    const Value near =
        Polynomial(z, {2.46196981473530512524e-10, 0.564189564831068821977, 7.46321056442269912687,
                       48.6371970985681366614, 196.520832956077098242, 526.445194995477358631,
                       934.528527171957607540, 1027.55188689515710272, 557.535335369399327526}) /
        Polynomial(z, {1, 13.2281951154744992508, 86.7072140885989742329, 354.937778887819891062,
                       975.708501743205489753, 1823.90916687909736289, 2246.33760818710981792,
                       1656.66309194161350182, 557.535340817727675546});
    const Value far =
        Polynomial(z, {0.564189583547755073984, 1.27536670759978104416, 5.01905042251180477414,
                       6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670}) /
        Polynomial(z, {1, 2.26052863220117276590, 9.39603524938001434673, 12.0489539808096656605,
                       17.0814450747565897222, 9.60896809063285878198, 3.36907645100081516050});
    return falling * Select(Below(z, 8), near, far);
  }
  // Cephes, ndtrf.c: in 1 / x.
  const Value q = 1.0 / a, y = q * q;
  const Value near =
      Polynomial(y, {2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1,
                     -5.824733027278666e-1, 6.210004621745983e-1, -4.944515323274145e-1,
                     3.404879937665872e-1, -2.741127028184656e-1, 5.638259427386472e-1});
  const Value far =
      Polynomial(y, {-1.047766399936249e+1, 1.297719955372516e+1, -7.495518717768503e+0,
                     2.921019019210786e+0, -1.015265279202700e+0, 4.218463358204948e-1,
                     -2.820767439740514e-1, 5.641895067754075e-1});
  return falling * q * Select(Below(a, 2), near, far);
}

// For x < 0: 2 - erfc(-x).
Value ErfcFarFromZero(Value x) {
  const Value y = ErfcOfAbs(x);
  return Select(Below(x, 0), 2.0 - y, y);
}

Value MakeErf(Value x) {
  if (x.dtype() == DType::kF64) {
    return Select(Below(Abs(x), 1), ErfNearZero(x), 1.0 - ErfcFarFromZero(x));
  }
  // A rational function of x^2 (Eigen's, as in XLA), up to where the result rounds to 1.
  const double edge = 3.7439211627767994;
  const Value one = SplatLike(x, 1), limit = SplatLike(x, edge);
  const Value c = Clamp(-limit, x, limit), z = c * c;
  const Value quotient =
      c *
      Polynomial(z, {2.2905065861350646e-4, 3.4082910107109506e-3, 5.0955695062380861e-2,
                     1.8520832239976145e-1, 1.128379143519084}) /
      Polynomial(z, {-1.1791602954361697e-7, 2.3547966471313185e-5, 1.0179625278914885e-3,
                     1.4070470171167667e-2, 1.1098505178285362e-1, 4.9746925110067538e-1, 1});
  return Clamp(-one, quotient, one);
}

Value MakeErfc(Value x) {
  const Value near = 1.0 - (x.dtype() == DType::kF64 ? ErfNearZero(x) : MakeErf(x));
  return Select(Below(Abs(x), 1), near, ErfcFarFromZero(x));
}

// M. Giles: Approximating the erfinv function, 2010; single and double precision.
Value MakeErfInv(Value x) {
  Value result;
  if (x.dtype() == DType::kF64) {
    const Value w = -Log((1.0 - x) * (1.0 + x)), root = Sqrt(w);
    const Value center = Polynomial(
        w - 3.125,
        {-3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,
         1.115787767802518096e-17,   -1.333171662854620906e-16,  2.0972767875968561637e-17,
         6.6376381343583238325e-15,  -4.0545662729752068639e-14, -8.1519341976054721522e-14,
         2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
         1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08,
         4.2347877827932403518e-07,  -1.3654692000834678645e-06, -1.3882523362786468719e-05,
         0.0001867342080340571352,   -0.00074070253416626697512, -0.0060336708714301490533,
         0.24015818242558961693,     1.6536545626831027356});
    const Value tail = Polynomial(
        root - 3.25,
        {2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
         1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
         2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
         6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
         0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
         -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
         3.0838856104922207635});
    const Value end = Polynomial(
        root - 5.0,
        {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
         -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
         2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
         -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
         7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
         1.0103004648645343977, 4.8499064014085844221});
    result = Select(Below(w, 6.25), center, Select(Below(w, 16), tail, end)) * x;
  } else {
    const Value w = -Log1p(-(x * x));
    const Value center = Polynomial(
        w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                  -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
    const Value tail = Polynomial(
        Sqrt(w) - 3.0, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                        0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
    result = Select(Below(w, 5), center, tail) * x;
  }
  const Value infinite = SplatLike(x, std::numeric_limits<double>::infinity());
  return Select(Equal(Abs(x), SplatLike(x, 1)), x * infinite, result);
}

PENSTOCK_SPECIAL_(kErf, Erf, "erf", kTwoOverSqrtPi* Exp(-(x* x)))
PENSTOCK_SPECIAL_(kErfc, Erfc, "erfc", -kTwoOverSqrtPi* Exp(-(x* x)))
PENSTOCK_SPECIAL_(kErfInv, ErfInv, "erf_inv", Exp(y* y) / kTwoOverSqrtPi)

// ---- Inverse trigonometric functions ----

// sqrt(1 - x^2); NaN where |x| > 1.
Value Cathetus(Value x) { return Sqrt((1.0 - x) * (1.0 + x)); }

Value MakeTan(Value x) { return Sin(x) / Cos(x); }
Value MakeAsin(Value x) { return Atan2(x, Cathetus(x)); }
Value MakeAcos(Value x) { return Atan2(Cathetus(x), x); }
Value MakeAtan(Value x) { return Atan2(x, SplatLike(x, 1)); }

PENSTOCK_SPECIAL_(kTan, Tan, "tan", 1.0 + y * y)
PENSTOCK_SPECIAL_(kAsin, Asin, "asin", 1.0 / Cathetus(x))
PENSTOCK_SPECIAL_(kAcos, Acos, "acos", -1.0 / Cathetus(x))
PENSTOCK_SPECIAL_(kAtan, Atan, "atan", 1.0 / (1.0 + x * x))

// ---- Hyperbolic functions ----

// Near 0, the two exponentials of sinh would cancel; for large x, exp(x) overflows before its half.
Value MakeSinh(Value x) {
  const Value e = Expm1(x), near = 0.5 * (e + e / (e + 1.0));
  const Value h = Exp(0.5 * Abs(x)), far = 0.5 * h * h - 0.5 / h / h;
  return Select(Below(Abs(x), 1), near, Select(Below(x, 0), -far, far));
}

Value MakeCosh(Value x) {
  const Value h = Exp(0.5 * Abs(x));
  return 0.5 * h * h + 0.5 / h / h;
}

// Where x^2 + 1 rounds to x^2 and does not overflow yet.
constexpr double kHuge = 1e9;

Value MakeAsinh(Value x) {
  const Value a = Abs(x), z = a * a;
  const Value y = Select(Below(a, kHuge), Log1p(a + z / (1.0 + Sqrt(z + 1.0))), Log(a) + kLog2);
  return Select(Below(x, 0), -y, y);
}

// NaN below 1. A single root of the product would not be NaN: the product of both factors is
// positive below -1, where cancellation makes the logarithm infinite.
Value MakeAcosh(Value x) {
  const Value t = x - 1.0;
  return Select(Below(x, kHuge), Log1p(t + Sqrt(t) * Sqrt(x + 1.0)), Log(x) + kLog2);
}

Value MakeAtanh(Value x) { return 0.5 * (Log1p(x) - Log1p(-x)); }

PENSTOCK_SPECIAL_(kSinh, Sinh, "sinh", Cosh(x))
PENSTOCK_SPECIAL_(kCosh, Cosh, "cosh", Sinh(x))
PENSTOCK_SPECIAL_(kAsinh, Asinh, "asinh", Rsqrt(x* x + 1.0))
PENSTOCK_SPECIAL_(kAcosh, Acosh, "acosh", Rsqrt((x - 1.0) * (x + 1.0)))
PENSTOCK_SPECIAL_(kAtanh, Atanh, "atanh", 1.0 / ((1.0 - x) * (1.0 + x)))

#undef PENSTOCK_SPECIAL_

// ---- log(exp(a) + exp(b)) ----

// 0 where both are the same, even infinite.
Value DifferenceOf(Value a, Value b) { return Select(Equal(a, b), SplatLike(a, 0), a - b); }

const OpDef kLogAddExp = {
    .name = "penstock.log_add_exp",
    .infer = [](const Node& node) -> InferResult {
      const TensorType &a = node.operands[0].type(), &b = node.operands[1].type();
      if (a == b && base::IsFloat(a.dtype)) return std::vector<TensorType>{a};
      return OpError(node, absl::StrCat("expects floats of one type, got ", TypesOf(node)));
    },
    .gradient = [](G g) -> Values {
      const Value d = DifferenceOf(g.operand(0), g.operand(1));
      return {g.cotangent() * Sigmoid(d), g.cotangent() * Sigmoid(-d)};
    },
    .decompose = [](Graph&, const Node&, const Values& in) -> Values {
      return {Maximum(in[0], in[1]) + Log1p(Exp(-Abs(DifferenceOf(in[0], in[1]))))};
    }};

}  // namespace

Value LogAddExp(Value a, Value b) { return EmitBroadcast(kLogAddExp, {a, b}); }

OpList SpecialOps() {
  static constexpr const OpDef* kOps[] = {&kErf,   &kErfc,  &kErfInv,   &kTan,  &kAsin,
                                          &kAcos,  &kAtan,  &kSinh,     &kCosh, &kAsinh,
                                          &kAcosh, &kAtanh, &kLogAddExp};
  return kOps;
}

}  // namespace penstock::ir
