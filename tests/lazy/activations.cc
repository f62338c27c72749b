#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {

Table ActivationRows() {
  const Table plain = {
      {"selu", [](Case& c) { return Ts{F::selu(c.x[0])}; }},
      {"celu", [](Case& c) { return Ts{F::celu(c.x[0])}; }},
      {"elu", [](Case& c) { return Ts{F::elu(c.x[0])}; }},
      {"gelu", [](Case& c) { return Ts{F::gelu(c.x[0])}; }},
      {"silu", [](Case& c) { return Ts{F::silu(c.x[0])}; }},
      {"mish", [](Case& c) { return Ts{F::mish(c.x[0])}; }},
      {"hardswish", [](Case& c) { return Ts{F::hardswish(c.x[0])}; }},
      {"hardsigmoid", [](Case& c) { return Ts{F::hardsigmoid(c.x[0])}; }},
      {"hardtanh", [](Case& c) { return Ts{F::hardtanh(c.x[0])}; }},
      {"softplus", [](Case& c) { return Ts{F::softplus(c.x[0])}; }},
      {"softsign", [](Case& c) { return Ts{F::softsign(c.x[0])}; }},
      {"logsigmoid", [](Case& c) { return Ts{F::logsigmoid(c.x[0])}; }},
      {"tanhshrink", [](Case& c) { return Ts{F::tanhshrink(c.x[0])}; }},
      {"softshrink", [](Case& c) { return Ts{F::softshrink(c.x[0])}; }},
      {"hardshrink", [](Case& c) { return Ts{F::hardshrink(c.x[0])}; }},
      {"relu6", [](Case& c) { return Ts{F::relu6(c.x[0])}; }},
      {"leaky_relu", [](Case& c) { return Ts{F::leaky_relu(c.x[0])}; }},
  };
  Table rows = plain;
  for (const auto& [name, program] : plain) {
    for (const char* ends : {"elu", "selu", "hardsigmoid", "hardtanh", "softplus", "softshrink",
                             "hardshrink", "relu6", "leaky_relu"}) {
      if (name == ends) rows.emplace_back(name + " at the ends", program);
    }
  }
  const Table others = {
      {"gelu tanh", [](Case& c) { return Ts{F::gelu(c.x[0], "tanh")}; }},
      {"gelu of large values", [](Case& c) { return Ts{F::gelu(c.x[0])}; }},
      {"leaky_relu with a slope", [](Case& c) { return Ts{F::leaky_relu(c.x[0], 0.3)}; }},
      {"elu with alpha", [](Case& c) { return Ts{F::elu(c.x[0], 0.5)}; }},
      {"celu with alpha", [](Case& c) { return Ts{F::celu(c.x[0], 0.5)}; }},
      {"hardtanh with limits", [](Case& c) { return Ts{F::hardtanh(c.x[0], -0.3, 0.6)}; }},
      {"softplus with beta", [](Case& c) { return Ts{F::softplus(c.x[0], 2.0, 1.5)}; }},
      {"softshrink with lambda", [](Case& c) { return Ts{F::softshrink(c.x[0], 0.8)}; }},
      {"threshold", [](Case& c) { return Ts{F::threshold(c.x[0], 0.1, -5.0)}; }},
      {"prelu", [](Case& c) { return Ts{F::prelu(c.x[0], c.x[1])}; }},
      {"prelu with one weight", [](Case& c) { return Ts{F::prelu(c.x[0], c.x[1])}; }},
      {"glu", [](Case& c) { return Ts{F::glu(c.x[0])}; }},
      {"glu over a dim", [](Case& c) { return Ts{F::glu(c.x[0], 0)}; }},
      {"softmin", [](Case& c) { return Ts{F::softmin(c.x[0], 1)}; }},
      {"normalize", [](Case& c) { return Ts{F::normalize(c.x[0])}; }},
      {"normalize with p 1", [](Case& c) { return Ts{F::normalize(c.x[0], 1, 0)}; }},
  };
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

}  // namespace penstock::tests::lazy_rows
