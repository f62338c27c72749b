// ONNX models among the formats of weights: `penstock inspect` shows their tensors, inputs and
// outputs. Penstock does not read them; WriteOnnx (onnx.h) writes them.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Contents model, Inspect(fs, "digits.onnx"));   // save.h
//
// An ONNX file has no signature, so the name decides, together with the first byte.
#pragma once

#include "penstock/save/format.h"

namespace penstock::save {

Format OnnxFormat();

}  // namespace penstock::save
