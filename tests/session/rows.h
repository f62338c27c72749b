// Rows of the comparison with TensorFlow: session's form of each row of the Python files.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/functional_ops.h"
#include "penstock/session/ops/image_ops.h"
#include "penstock/session/ops/linalg_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/ops/signal_ops.h"

namespace penstock::tests {

namespace tf = session;
using base::DType;

// Outputs of the row for its inputs.
using BuildRow = tf::Tensors (*)(const tf::Tensors& x);
using RowTable = std::map<std::string, BuildRow>;

inline tf::Tensors Both(const std::pair<tf::Tensor, tf::Tensor>& two) {
  return {two.first, two.second};
}

inline tf::Tensors Parts(const tf::signal::Complex& x) { return {x.real, x.imag}; }

// One family each, like the Python file of the same name.
RowTable ElementwiseRows();
RowTable ReductionRows();
RowTable ProductRows();
RowTable ArrayRows();
RowTable IndexingRows();
RowTable NnRows();
RowTable SpatialRows();
RowTable ImageRows();
RowTable FunctionalRows();

}  // namespace penstock::tests
