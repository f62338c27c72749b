// The operations that every program has: placeholders, constants, and those that only order others.
// Names and defaults are TensorFlow's.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "penstock/session/graph.h"

namespace penstock::session {

// A tensor that is fed: its value comes with each Run. Extents of -1 may differ from Run to Run;
// the default shape is any, and so is {}, TensorFlow's None: a scalar, TensorFlow's [], has the
// shape Shape(). The name, if empty, is "Placeholder".
Tensor Placeholder(DType dtype, const PartialShape& shape = {}, absl::string_view name = "",
                   SourceLocation where = SourceLocation::Current());
// `input`, unless it is fed.
Tensor PlaceholderWithDefault(const Tensor& input, const PartialShape& shape,
                              absl::string_view name = "",
                              SourceLocation where = SourceLocation::Current());

// A constant of the default graph. As in Python, a number with a fraction is a float32 and an
// integer is an int32; tf.constant's other arguments are those of Array.
Tensor Constant(const Array& value, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Constant(double value, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Constant(int value, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensor Constant(bool value, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// A number of this type: Constant(0.5, DType::kBF16). Fractions are truncated for integers.
Tensor Constant(double value, DType dtype, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// A float32 vector: Constant({0.1, 0.2}).
Tensor Constant(std::initializer_list<double> values, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());

Tensor Identity(const Tensor& input, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
Tensors IdentityN(const Tensors& inputs, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// The input; no gradient flows through it (tf.stop_gradient).
Tensor StopGradient(const Tensor& input, absl::string_view name = "",
                    SourceLocation where = SourceLocation::Current());

// Nothing; for its control dependencies.
Operation NoOp(absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// An operation that runs all of these (tf.group).
Operation Group(const Operations& inputs, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// The tensors, each available only after all of them and `control_inputs` are computed (tf.tuple).
Tensors Tuple(const Tensors& tensors, absl::string_view name = "",
              const Operations& control_inputs = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
