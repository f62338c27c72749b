#include "penstock/ir/printer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/dynamic_forms.h"
#include "penstock/ir/op_def.h"

namespace penstock::ir {

std::string MlirType(const TensorType& type, absl::string_view element) {
  std::string out = "tensor<";
  for (int64_t d : type.shape) {
    if (d == -1) {
      out += "?x";
    } else if (d < 0) {
      absl::StrAppend(&out, "?*", -d, "x");
    } else {
      absl::StrAppend(&out, d, "x");
    }
  }
  return absl::StrCat(out, element.empty() ? base::DTypeStableHlo(type.dtype) : element, ">");
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

// A literal that parses to the same bits. Non-finite floats are written as bits.
template <typename T>
std::string Literal(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return absl::StrCat(value);
  } else {
    if (std::isfinite(static_cast<double>(value))) {
      return absl::StrFormat("%.*e", sizeof(T) == 8 ? 16 : 8, static_cast<double>(value));
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

std::string MlirString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool plain = absl::ascii_isprint(static_cast<unsigned char>(c)) && c != '"' && c != '\\';
    absl::StrAppend(
        &out, plain ? std::string(1, c) : absl::StrFormat("\\%02X", static_cast<unsigned char>(c)));
  }
  return out + "\"";
}

std::string MlirAttribute(const Attribute& attribute) {
  struct Visitor {
    std::string operator()(bool v) const { return Literal(v); }
    std::string operator()(int64_t v) const { return absl::StrCat(v, " : i64"); }
    std::string operator()(double v) const { return absl::StrCat(Literal(v), " : f64"); }
    std::string operator()(const std::string& v) const { return MlirString(v); }
    std::string operator()(DType v) const { return MlirString(base::DTypeStableHlo(v)); }
    std::string operator()(const std::vector<int64_t>& v) const { return MlirArray(v); }
    std::string operator()(const Array& v) const {
      return absl::StrCat(MlirDense(v), " : ", MlirType({v.dtype(), v.shape()}));
    }
  };
  return std::visit(Visitor(), attribute);
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
  return FrameOf(value.graph()).names.at(value.node_id())[value.result()];
}

std::string Printer::Names(absl::Span<const Value> values) const {
  return absl::StrJoin(values, ", ",
                       [&](std::string* out, const Value& v) { out->append(Name(v)); });
}

const Origin& Printer::CurrentOrigin() const {
  static const Origin kNowhere;
  if (frames_.empty() || frames_.back().current < 0) return kNowhere;
  const Graph& graph = *frames_.back().graph;
  return graph.origins()[graph.node(frames_.back().current).origin];
}

namespace {

// Takes the multiples of the batch size out of the types of a line. Returns its comment, if it
// needs one.
std::string TakeMultiples(std::string& line) {
  constexpr char kTensor[] = "tensor<";
  if (!absl::StrContains(line, "?*")) return "";
  std::string out, comment(kMultiplesComment);
  size_t copied = 0;
  for (size_t at = line.find(kTensor); at != std::string::npos; at = line.find(kTensor, at)) {
    at += sizeof(kTensor) - 1;
    for (; at < line.size() && line[at] != '>'; ++at) {
      if (line[at] != '?') continue;
      int64_t multiple = 1;
      absl::StrAppend(&out, line.substr(copied, at + 1 - copied));
      copied = at + 1;
      if (copied < line.size() && line[copied] == '*') {
        const size_t end = line.find('x', copied);
        PENSTOCK_CHECK(absl::SimpleAtoi(line.substr(copied + 1, end - copied - 1), &multiple));
        copied = end;
      }
      absl::StrAppend(&comment, " ", multiple);
    }
  }
  line = out + line.substr(copied);
  return comment;
}

}  // namespace

void Printer::Write(const std::string& given, bool with_location) {
  const Origin& origin = CurrentOrigin();
  std::string text = given;
  const std::string comment = dynamic_ ? TakeMultiples(text) : "";
  absl::StrAppend(&text_, std::string(2 * indent_, ' '), text);
  if (with_location && locations_ && !(origin.scope.empty() && origin.file.empty())) {
    // A name, the user's source line, or both: loc("layer"("train.cc":12:0)).
    std::string place;
    if (!origin.file.empty()) place = absl::StrCat(MlirString(origin.file), ":", origin.line, ":0");
    if (!origin.scope.empty()) {
      place = absl::StrCat(MlirString(origin.scope), place.empty() ? "" : "(" + place + ")");
    }
    absl::StrAppend(&text_, " loc(", place, ")");
  }
  absl::StrAppend(&text_, comment, "\n");
  line_origins_.push_back(origin);
}

std::string Printer::Define(const Node& node) {
  const std::string name = FreshName();
  if (node.results.size() == 1) {
    NameResults({name});
    return absl::StrCat(name, " = ");
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < node.results.size(); ++i) names.push_back(absl::StrCat(name, "#", i));
  NameResults(std::move(names));
  return absl::StrCat(name, ":", node.results.size(), " = ");
}

void Printer::Line(const Node& node, const std::string& text) { Write(Define(node) + text, true); }

void Printer::OpenLine(const Node& node, const std::string& opening) {
  Write(Define(node) + opening, false);
}

void Printer::CloseLine(const std::string& closing) { Write(closing, true); }

void Printer::PlainLine(const std::string& text) { Write(text, false); }

Array NearestScalar(DType dtype, double value) { return *Array::Scalar(value).Cast(dtype); }

std::string Printer::Splat(const TensorType& type, double value) {
  if (IsDynamic(type.shape)) {
    const TensorType scalar{type.dtype, {}};
    const std::string number = Splat(scalar, value), broadcast = FreshName();
    const std::string text = BroadcastText(*this, number, scalar, {}, type);
    Write(absl::StrCat(broadcast, " = ", text), true);
    return broadcast;
  }
  const std::string name = FreshName();
  Write(absl::StrCat(name, " = stablehlo.constant ", MlirDense(NearestScalar(type.dtype, value)),
                     " : ", MlirType(type)),
        true);
  return name;
}

void Printer::ReducerRegion(absl::string_view operation, DType dtype) {
  const std::string scalar = MlirType({dtype, {}});
  const std::string a = FreshName(), b = FreshName(), combined = FreshName();
  Indent(1);
  PlainLine(absl::StrCat("^bb0(", a, ": ", scalar, ", ", b, ": ", scalar, "):"));
  PlainLine(absl::StrCat(combined, " = ", operation, " ", a, ", ", b, " : ", scalar));
  PlainLine(absl::StrCat("stablehlo.return ", combined, " : ", scalar));
  Indent(-1);
}

void Printer::DefineBatch(const std::string& value, const TensorType& type) {
  const std::string scalar = FreshName();
  batch_ = FreshName();
  Write(absl::StrCat(scalar, " = stablehlo.get_dimension_size ", value, ", dim = 0 : (",
                     MlirType(type), ") -> tensor<i32>"),
        false);
  Write(absl::StrCat(batch_, " = stablehlo.reshape ", scalar, " : (tensor<i32>) -> tensor<1xi32>"),
        false);
}

std::string Printer::Extents(absl::Span<const int64_t> extents) {
  const std::string key = MlirList(extents);
  if (const auto known = extents_.find(key); known != extents_.end()) return known->second;
  std::vector<std::string> parts, types;
  const auto add = [&](const std::string& text, int64_t count) {
    types.push_back(MlirType({DType::kI32, {count}}));
    parts.push_back(FreshName());
    Write(absl::StrCat(parts.back(), " = ", text, " : ", types.back()), false);
  };
  for (size_t i = 0; i < extents.size();) {
    size_t end = i;
    while (end < extents.size() && extents[end] >= 0) ++end;
    if (end > i) {
      add(absl::StrCat("stablehlo.constant dense<", MlirList(extents.subspan(i, end - i)), ">"),
          static_cast<int64_t>(end - i));
      i = end;
    } else if (extents[i] == -1) {
      parts.push_back(batch_);
      types.push_back("tensor<1xi32>");
      ++i;
    } else {
      const std::string factor = Splat({DType::kI32, {1}}, static_cast<double>(-extents[i]));
      add(absl::StrCat("stablehlo.multiply ", batch_, ", ", factor), 1);
      ++i;
    }
  }
  std::string name = parts.size() == 1 ? parts[0] : FreshName();
  if (parts.size() != 1) {
    Write(absl::StrCat(name, " = stablehlo.concatenate ", absl::StrJoin(parts, ", "),
                       ", dim = 0 : (", absl::StrJoin(types, ", "), ") -> ",
                       MlirType({DType::kI32, {static_cast<int64_t>(extents.size())}})),
          false);
  }
  // Values of a region are not visible after it.
  constexpr int kMainBody = 2;
  if (indent_ == kMainBody) extents_[key] = name;
  return name;
}

void Printer::Fail(const Node& node, absl::string_view message) {
  if (!status_.ok()) return;
  status_ = OpError(node, message);
  const std::string where = CurrentOrigin().ToString();
  if (!where.empty()) status_ = base::WithContext(status_, where);
}

bool Printer::IsUsed(int result) const {
  return frames_.back().used[frames_.back().current][result];
}

void Printer::NameResults(std::vector<std::string> names) {
  frames_.back().names[frames_.back().current] = std::move(names);
}

std::vector<std::string> Printer::Nodes(const Graph& graph,
                                        absl::Span<const std::string> parameters) {
  Frame frame{.graph = &graph};
  std::vector<bool> needed(graph.num_nodes());
  for (int id = 0; id < graph.num_nodes(); ++id) {
    frame.used.emplace_back(graph.node(id).results.size());
  }
  const auto use = [&](const Value& v) {
    needed[v.node_id()] = true;
    frame.used[v.node_id()][v.result()] = true;
  };
  for (const Value& result : graph.results()) use(result);
  for (int id = graph.num_nodes(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value& operand : graph.node(id).operands) use(operand);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    frame.names[graph.parameters()[i].node_id()] = {parameters[i]};
  }
  frames_.push_back(std::move(frame));
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!needed[id] || node.op->print == nullptr) continue;
    frames_.back().current = id;
    if (!dynamic_) large_values_.Add(node, CurrentOrigin());  // else sizes are not known
    node.op->print(*this, node);
  }
  std::vector<std::string> names;
  for (const Value& result : graph.results()) names.push_back(Name(result));
  frames_.pop_back();
  return names;
}

void Printer::Body(const Graph& graph, absl::Span<const std::string> parameters,
                   absl::string_view ending) {
  const std::vector<std::string> names = Nodes(graph, parameters);
  std::vector<std::string> types;
  for (const Value& v : graph.results()) types.push_back(MlirType(v.type()));
  PlainLine(absl::StrCat(ending, names.empty() ? "" : " ", absl::StrJoin(names, ", "),
                         names.empty() ? "" : " : ", absl::StrJoin(types, ", ")));
}

void PrintWith(Printer& printer, const Node& node, absl::string_view parameters) {
  printer.Line(node, absl::StrCat(node.op->name, " ", printer.Names(node.operands), parameters,
                                  " : ", FunctionType(node)));
}

void PrintElementwise(Printer& printer, const Node& node) {
  printer.Line(node, absl::StrCat(node.op->name, " ", printer.Names(node.operands), " : ",
                                  MlirType(node.results[0])));
}

void PrintConverting(Printer& printer, const Node& node) { PrintWith(printer, node, ""); }

}  // namespace penstock::ir
