#include "penstock/ir/printer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"

namespace penstock::ir {

std::string MlirType(const TensorType& type) {
  std::string out = "tensor<";
  for (int64_t d : type.shape) absl::StrAppend(&out, d, "x");
  return absl::StrCat(out, base::DTypeStableHlo(type.dtype), ">");
}

std::string FunctionType(const Node& node) {
  const auto type_of = [](std::string* out, const auto& x) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Value>) {
      absl::StrAppend(out, MlirType(x.type()));
    } else {
      absl::StrAppend(out, MlirType(x));
    }
  };
  const std::string results = absl::StrJoin(node.results, ", ", type_of);
  return absl::StrCat("(", absl::StrJoin(node.operands, ", ", type_of), ") -> ",
                      node.results.size() == 1 ? results : absl::StrCat("(", results, ")"));
}

std::string MlirList(absl::Span<const int64_t> numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

std::string MlirArray(absl::Span<const int64_t> numbers) {
  if (numbers.empty()) return "array<i64>";
  return absl::StrCat("array<i64: ", absl::StrJoin(numbers, ", "), ">");
}

namespace {

// A literal that reads back as the same bits. Floats that are not finite are written as their bits.
template <typename T>
std::string Literal(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return absl::StrCat(value);
  } else {
    if (std::isfinite(static_cast<double>(value))) {
      return absl::StrFormat(sizeof(T) == 8 ? "%.16e" : "%.8e", static_cast<double>(value));
    }
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return absl::StrFormat("0x%0*X", static_cast<int>(2 * sizeof(T)), bits);
  }
}

bool AllElementsEqual(const Array& array) {
  const int64_t width = base::ByteWidth(array.dtype());
  const char* bytes = static_cast<const char*>(array.raw());
  for (int64_t i = 1; i < array.num_elements(); ++i) {
    if (std::memcmp(bytes, bytes + i * width, width) != 0) return false;
  }
  return true;
}

}  // namespace

std::string MlirDense(const Array& array) {
  if (array.num_elements() == 0) return "dense<>";
  if (AllElementsEqual(array)) {
    return base::VisitNumeric(array.dtype(), [&](auto zero) {
      return absl::StrCat("dense<", Literal(*array.data<decltype(zero)>()), ">");
    });
  }
  const absl::string_view bytes(static_cast<const char*>(array.raw()), array.num_bytes());
  return absl::StrCat("dense<\"0x", absl::AsciiStrToUpper(absl::BytesToHexString(bytes)), "\">");
}

std::string Printer::FreshName() { return absl::StrCat("%", next_name_++); }

const Printer::Frame& Printer::FrameOf(const Graph* graph) const {
  for (size_t i = frames_.size(); i-- > 0;) {
    if (frames_[i].graph == graph) return frames_[i];
  }
  PENSTOCK_CHECK(false);
  return frames_.back();
}

std::string Printer::Name(const Value& value) const {
  const Frame& frame = FrameOf(value.graph());
  const std::string& name = frame.names.at(value.node_id());
  const auto before = frame.before.find(value.node_id());
  if (before != frame.before.end()) return absl::StrCat(name, "#", before->second + value.result());
  return value.node().results.size() == 1 ? name : absl::StrCat(name, "#", value.result());
}

std::string Printer::Names(absl::Span<const Value> values) const {
  return absl::StrJoin(values, ", ",
                       [&](std::string* out, const Value& v) { out->append(Name(v)); });
}

void Printer::Write(const std::string& text, const Origin& origin, bool with_location) {
  absl::StrAppend(&text_, std::string(2 * indent_, ' '), text);
  if (with_location && locations_) {
    // A name, the user's line, or both: loc("layer"("train.cc":12:0)).
    const std::string file = origin.file.empty() ? ""
                                                 : absl::StrCat("\"", absl::CEscape(origin.file),
                                                                "\":", origin.line, ":0");
    const std::string scope =
        origin.scope.empty() ? "" : absl::StrCat("\"", absl::CEscape(origin.scope), "\"");
    if (!scope.empty()) {
      absl::StrAppend(&text_, " loc(", scope, file.empty() ? "" : "(" + file + ")", ")");
    } else if (!file.empty()) {
      absl::StrAppend(&text_, " loc(", file, ")");
    }
  }
  text_ += '\n';
  line_origins_.push_back(origin);
}

namespace {

const Origin& OriginOf(const Graph& graph, const Node& node) {
  return graph.origins()[node.origin];
}

}  // namespace

std::string Printer::Define(const Node& node, int before) {
  Frame& frame = frames_.back();
  const std::string name = FreshName();
  frame.names[frame.current] = name;
  const size_t count = node.results.size() + before;
  if (before > 0) frame.before[frame.current] = before;
  return absl::StrCat(name, count == 1 ? "" : absl::StrCat(":", count), " = ");
}

void Printer::Line(const Node& node, const std::string& text) {
  Write(Define(node) + text, OriginOf(*frames_.back().graph, node), true);
}

void Printer::OpenLine(const Node& node, const std::string& opening) {
  Write(Define(node) + opening, OriginOf(*frames_.back().graph, node), false);
}

void Printer::OpenLineAfter(const Node& node, int before, const std::string& opening) {
  Write(Define(node, before) + opening, OriginOf(*frames_.back().graph, node), false);
}

void Printer::CloseLine(const Node& node, const std::string& closing) {
  Write(closing, OriginOf(*frames_.back().graph, node), true);
}

void Printer::PlainLine(const std::string& text) { Write(text, Origin(), false); }

std::string Printer::Scalar(DType dtype, double value, const Node& node) {
  const std::string literal = base::VisitNumeric(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      return Literal(static_cast<T>(value));
    } else {
      return Literal(
          T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value)));
    }
  });
  const std::string name = FreshName();
  Write(absl::StrCat(name, " = stablehlo.constant dense<", literal, "> : ", MlirType({dtype, {}})),
        OriginOf(*frames_.back().graph, node), true);
  return name;
}

void Printer::Body(const Graph& graph, absl::Span<const std::string> parameters,
                   absl::string_view ending, absl::string_view first_type) {
  std::vector<bool> needed(graph.num_nodes());
  for (const Value& result : graph.results()) needed[result.node_id()] = true;
  for (int id = graph.num_nodes(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value& operand : graph.node(id).operands) needed[operand.node_id()] = true;
  }
  frames_.push_back({.graph = &graph});
  for (size_t i = 0; i < parameters.size(); ++i) {
    frames_.back().names[graph.parameters()[i].node_id()] = parameters[i];
  }
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!needed[id] || node.op->print == nullptr) continue;
    frames_.back().current = id;
    node.op->print(*this, node);
  }
  std::vector<std::string> types;
  if (!first_type.empty()) types.emplace_back(first_type);
  for (const Value& v : graph.results()) types.push_back(MlirType(v.type()));
  PlainLine(absl::StrCat(ending, " ", Names(graph.results()), types.empty() ? "" : " : ",
                         absl::StrJoin(types, ", ")));
  frames_.pop_back();
}

void PrintElementwise(Printer& printer, const Node& node) {
  printer.Line(node, absl::StrCat(node.op->name, " ", printer.Names(node.operands), " : ",
                                  MlirType(node.results[0])));
}

void PrintConverting(Printer& printer, const Node& node) {
  printer.Line(node, absl::StrCat(node.op->name, " ", printer.Names(node.operands), " : ",
                                  FunctionType(node)));
}

}  // namespace penstock::ir
