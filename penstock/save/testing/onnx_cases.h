// Small programs that together need every translation of the ONNX exporter: its unit test exports
// them, and tests/interop/onnx_test.cc compares what ONNX Runtime computes with what they compute.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/ir/graph.h"
#include "penstock/ir/ops.h"

namespace penstock::save::testing {

struct OnnxCase {
  std::string name;
  // Inputs "x0", "x1"...; axis 0, if it is -1, is the batch.
  std::vector<ir::TensorType> inputs;
  std::function<ir::Values(const ir::Values& x)> build;
  // Range of the inputs' elements.
  double low = -2, high = 2;
};

std::vector<OnnxCase> OnnxCases();

// The program of a case for a batch size; results are "y0", "y1"...
std::unique_ptr<ir::Graph> GraphOf(const OnnxCase& one, int64_t batch);

}  // namespace penstock::save::testing
