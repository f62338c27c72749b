// Movements of elements that several translations need. Internal to the ONNX exporter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/save/onnx/translator.h"

namespace penstock::save::onnx {

std::string ReshapeTo(ModelBuilder& model, const std::string& name, const Shape& to);

// Pads, or crops where a number is negative, each axis with `value`, the name of a scalar.
std::string PadEdges(ModelBuilder& model, std::string name, const std::vector<int64_t>& low,
                     const std::vector<int64_t>& high, const std::string& value);

// Inserts `holes` elements between neighbors along an axis whose extent is a number; changes
// `shape` accordingly.
std::string InsertHoles(ModelBuilder& model, std::string name, Shape& shape, size_t axis,
                        int64_t holes, const std::string& value);

}  // namespace penstock::save::onnx
