// Handwritten programs for tests of the runtime, independent of room ir.
#pragma once

#include <string>
#include <vector>

#include "penstock/ir/stablehlo.h"

namespace penstock::runtime {

using ir::TensorType;

struct TestProgram {
  std::string name = "test";
  std::vector<TensorType> parameters = {}, results = {};
  // Lines of StableHLO; parameters are %p0, %p1, ...
  std::vector<std::string> body = {};
  // Values that the program returns.
  std::vector<std::string> returns = {};
  std::vector<int> alias = {};
  int num_replicas = 1;
};

// The program as ir prints it. Line `i` of the body comes from layer "layer<i>" and line 10 + i of
// model.cc; parameters are named "p0", results "r0".
ir::Program Print(const TestProgram& program);

// "tensor<4x2xf32>"
std::string MlirType(const TensorType& type);

}  // namespace penstock::runtime
