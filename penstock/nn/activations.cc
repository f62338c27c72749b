#include "penstock/nn/activations.h"

#include <cmath>
#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using ir::SplatLike;
using ir::Value;

struct Argument {
  const char* key = nullptr;
  double value = 0;  // default; kRequired: none
  bool flag = false;
};
constexpr double kRequired = std::numeric_limits<double>::infinity();

struct ActivationRow {
  const char* name;
  const char* alias;
  // `a`: values of the arguments, in order.
  Value (*apply)(Value x, const double* a);
  Argument arguments[2] = {};
};

Value Where(Value x, bool above, double limit, Value yes, Value no) {
  const Value at = SplatLike(x, limit);
  return ir::Select(above ? ir::Greater(x, at) : ir::Less(x, at), yes, no);
}

Value Clip(Value x, double low, double high) {
  return ir::Clamp(SplatLike(x, low), x, SplatLike(x, high));
}

// Derivative alpha exp(x) for x < 0; exp is not evaluated above 0, where it could overflow.
Value Elu(Value x, double alpha) {
  const Value below = ir::Expm1(Where(x, true, 0, SplatLike(x, 0), x));
  return Where(x, true, 0, x, below * alpha);
}

// Relu6(x + 3) / 6, composed so that the gradients at the ends are 0, as in JAX.
Value HardSigmoid(Value x) { return ir::Minimum(ir::Relu(x + 3.0), SplatLike(x, 6)) / 6.0; }

Value Glu(Value x, int64_t axis) {
  const int64_t rank = x.rank(), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank || x.shape().dim(static_cast<int>(at)) % 2 != 0) {
    x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "glu expects an axis of even extent, got axis ", axis, " of ", x.type().ToString())));
    return Value();
  }
  const ir::Values halves = ir::Split(x, 2, at);
  return halves[0] * ir::Sigmoid(halves[1]);
}

// Projection onto the simplex: max(x - tau, 0), with the tau that makes the sum 1 (Martins and
// Astudillo: From softmax to sparsemax, 2016). tau follows from the k largest elements, those that
// are larger than (the sum of themselves and all larger ones - 1) / their number.
Value Sparsemax(Value x, int64_t axis) {
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  const Value wide = base::BitWidth(x.dtype()) < 32 ? ir::Convert(x, base::DType::kF32) : x;
  const Value sorted = ir::Sort(wide, axis, /*descending=*/true);
  if (!sorted.valid()) return sorted;
  const Value zero = SplatLike(wide, 0);
  const Value rank = ir::Iota(*x.graph(), wide.type(), at) + 1.0;
  const Value support = ir::Greater(sorted * rank + 1.0, ir::CumSum(sorted, at));
  const auto over_support = [&](Value of) {
    return ir::ReduceSum(ir::Select(support, of, zero), {at}, true);
  };
  const Value tau = (over_support(sorted) - 1.0) / over_support(SplatLike(wide, 1));
  return ir::Convert(ir::Maximum(wide - tau, zero), x.dtype());
}

constexpr Argument kAxis = {"axis", -1};

constexpr ActivationRow kActivations[] = {
    {"linear", "", [](Value x, const double*) { return x; }},
    {"relu", "", [](Value x, const double*) { return ir::Relu(x); }},
    {"relu6", "", [](Value x, const double*) { return ir::Minimum(ir::Relu(x), SplatLike(x, 6)); }},
    {"leaky_relu",
     "",
     [](Value x, const double* a) { return Where(x, false, 0, x * a[0], x); },
     {{"negative_slope", 0.2}}},
    {"elu", "", [](Value x, const double* a) { return Elu(x, a[0]); }, {{"alpha", 1}}},
    // Klambauer et al.: Self-normalizing neural networks, 2017.
    {"selu", "",
     [](Value x, const double*) { return Elu(x, 1.6732632423543772848) * 1.0507009873554804935; }},
    {"celu",
     "",
     [](Value x, const double* a) {
       const Value zero = SplatLike(x, 0);
       return ir::Maximum(x, zero) + ir::Expm1(ir::Minimum(x, zero) / a[0]) * a[0];
     },
     {{"alpha", 1}}},
    {"gelu",
     "",
     [](Value x, const double* a) { return ir::Gelu(x, a[0] != 0); },
     {{"approximate", 0, true}}},
    {"silu", "swish", [](Value x, const double*) { return x * ir::Sigmoid(x); }},
    {"mish", "", [](Value x, const double*) { return x * ir::Tanh(ir::Softplus(x)); }},
    {"softplus", "", [](Value x, const double*) { return ir::Softplus(x); }},
    {"softsign", "", [](Value x, const double*) { return x / (ir::Abs(x) + 1.0); }},
    {"squareplus",
     "",
     [](Value x, const double* a) { return (x + ir::Sqrt(ir::Square(x) + a[0])) / 2.0; },
     {{"b", 4}}},
    {"sparse_plus", "",
     [](Value x, const double*) {
       const Value middle = ir::Square(x + 1.0) / 4.0;
       return Where(x, false, 1, Where(x, true, -1, middle, SplatLike(x, 0)), x);
     }},
    {"sigmoid", "", [](Value x, const double*) { return ir::Sigmoid(x); }},
    {"log_sigmoid", "", [](Value x, const double*) { return -ir::Softplus(-x); }},
    {"hard_sigmoid", "", [](Value x, const double*) { return HardSigmoid(x); }},
    {"hard_silu", "hard_swish", [](Value x, const double*) { return x * HardSigmoid(x); }},
    {"sparse_sigmoid", "", [](Value x, const double*) { return Clip(x + 1.0, 0, 2) * 0.5; }},
    {"tanh", "", [](Value x, const double*) { return ir::Tanh(x); }},
    // Not Clip: at -1 and 1 the gradient is 1.
    {"hard_tanh", "",
     [](Value x, const double*) { return Where(ir::Abs(x), true, 1, ir::Sign(x), x); }},
    {"tanh_shrink", "", [](Value x, const double*) { return x - ir::Tanh(x); }},
    {"hard_shrink",
     "",
     [](Value x, const double* a) { return Where(ir::Abs(x), true, a[0], x, SplatLike(x, 0)); },
     {{"threshold", 0.5}}},
    {"soft_shrink",
     "",
     [](Value x, const double* a) {
       const Value low = Where(x, false, -a[0], x + a[0], SplatLike(x, 0));
       return Where(x, true, a[0], x - a[0], low);
     },
     {{"threshold", 0.5}}},
    {"threshold",
     "",
     [](Value x, const double* a) { return Where(x, true, a[0], x, SplatLike(x, a[1])); },
     {{"threshold", kRequired}, {"default_value", kRequired}}},
    {"exponential", "", [](Value x, const double*) { return ir::Exp(x); }},
    {"softmax",
     "",
     [](Value x, const double* a) { return ir::Softmax(x, static_cast<int64_t>(a[0])); },
     {kAxis}},
    {"log_softmax",
     "",
     [](Value x, const double* a) { return ir::LogSoftmax(x, static_cast<int64_t>(a[0])); },
     {kAxis}},
    {"sparsemax",
     "",
     [](Value x, const double* a) { return Sparsemax(x, static_cast<int64_t>(a[0])); },
     {kAxis}},
    {"glu",
     "",
     [](Value x, const double* a) { return Glu(x, static_cast<int64_t>(a[0])); },
     {kAxis}},
};

const ActivationRow* Find(absl::string_view name) {
  for (const ActivationRow& row : kActivations) {
    if (SameName(name, row.name) || SameName(name, row.alias)) return &row;
  }
  return nullptr;
}

absl::StatusOr<Value> ApplyActivation(absl::string_view activation, Value x) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedCall call, ParseNamedCall(activation));
  const ActivationRow* row = Find(call.name);
  if (row == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown activation '", activation,
                     "'; available: ", absl::StrJoin(ActivationNames(), ", ")));
  }
  CallArguments arguments(call);
  double values[2];
  for (int i = 0; i < 2 && row->arguments[i].key != nullptr; ++i) {
    const Argument& argument = row->arguments[i];
    values[i] = argument.value;
    if (!argument.flag) {
      arguments(argument.key, values[i]);
      continue;
    }
    std::string word = argument.value != 0 ? "true" : "false";
    arguments(argument.key, word);
    values[i] = SameName(word, "true") ? 1 : 0;
    if (values[i] == 0 && !SameName(word, "false")) {
      return absl::InvalidArgumentError(
          absl::StrCat(row->name, "'s ", argument.key, " is '", word, "'; it takes true or false"));
    }
  }
  PENSTOCK_RETURN_IF_ERROR(arguments.Finish());
  for (int i = 0; i < 2 && row->arguments[i].key != nullptr; ++i) {
    if (values[i] == kRequired) {
      return absl::InvalidArgumentError(
          absl::StrCat(row->name, " needs its ", row->arguments[i].key));
    }
  }
  return row->apply(x, values);
}

}  // namespace

Value Activate(absl::string_view activation, Value x) {
  if (!x.valid() || activation.empty()) return x;
  const absl::StatusOr<Value> y = ApplyActivation(activation, x);
  if (y.ok()) return *y;
  x.graph()->Fail(y.status());
  return Value();
}

std::vector<std::string> ActivationNames() {
  std::vector<std::string> names;
  for (const ActivationRow& row : kActivations) names.push_back(row.name);
  return names;
}

}  // namespace penstock::nn
