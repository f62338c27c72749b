#include "penstock/nn/activations.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::nn {
namespace {

using ir::Value;

struct Row {
  const char* name;
  Value (*apply)(Value x);
};

constexpr Row kTable[] = {
    {"linear", [](Value x) { return x; }},
    {"relu", [](Value x) { return ir::Relu(x); }},
    {"softmax", [](Value x) { return ir::Softmax(x, -1); }},
    {"log_softmax", [](Value x) { return ir::LogSoftmax(x, -1); }},
    {"sigmoid", [](Value x) { return ir::Sigmoid(x); }},
    {"tanh", [](Value x) { return ir::Tanh(x); }},
    {"softplus", [](Value x) { return ir::Softplus(x); }},
    {"silu", [](Value x) { return x * ir::Sigmoid(x); }},
    {"exponential", [](Value x) { return ir::Exp(x); }},
    {"relu6", [](Value x) { return ir::Minimum(ir::Relu(x), ir::SplatLike(x, 6)); }},
};

}  // namespace

Value Activate(absl::string_view activation, Value x) {
  if (!x.valid() || activation.empty()) return x;
  for (const Row& row : kTable) {
    if (activation == row.name) return row.apply(x);
  }
  x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat("there is no activation '", activation,
                                                          "'; there are ",
                                                          absl::StrJoin(ActivationNames(), ", "))));
  return Value();
}

std::vector<std::string> ActivationNames() {
  std::vector<std::string> names;
  for (const Row& row : kTable) names.push_back(row.name);
  return names;
}

}  // namespace penstock::nn
