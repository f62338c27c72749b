// The tables of translations, one for each family of operations. To add an operation: a function
// and its row in the file of its family, and a case in testing/onnx_cases.cc. Internal to the ONNX
// exporter.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/save/onnx/translator.h"

namespace penstock::save::onnx {

struct Translation {
  absl::string_view operation;  // ir::OpName: "stablehlo.tanh"
  absl::Status (*translate)(Translator& t);
  // For composites: whether this node has a translation; otherwise its decomposition is translated.
  // nullptr: every node.
  bool (*accepts)(const ir::Node& node) = nullptr;
};

using TranslationTable = absl::Span<const Translation>;
TranslationTable ElementwiseTranslations();  // elementwise.cc
TranslationTable ShapeTranslations();        // shape.cc
TranslationTable ProductTranslations();      // products.cc
TranslationTable WindowTranslations();       // windows.cc
TranslationTable OrderTranslations();        // order.cc
TranslationTable ControlFlowTranslations();  // control_flow.cc

// The translation of a node, or null.
const Translation* FindTranslation(const ir::Node& node);

}  // namespace penstock::save::onnx
