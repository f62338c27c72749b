#include "penstock/ir/stablehlo.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/dynamic_batch.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/rewrite.h"

namespace penstock::ir {
namespace {

constexpr size_t kLargeValues = 8;

// An MLIR symbol: letters, digits, '_'.
std::string Symbol(const std::string& name) {
  std::string out = name.empty() ? "program" : name;
  if (std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, 1, '_');
  for (char& c : out) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return out;
}

absl::StatusOr<std::vector<int>> Aliases(const Graph& graph, const PrintOptions& options) {
  std::vector<int> alias(graph.parameters().size(), -1);
  std::vector<bool> taken(graph.results().size());
  for (const auto& [parameter, result] : options.donate) {
    if (parameter < 0 || parameter >= static_cast<int>(alias.size()) || result < 0 ||
        result >= static_cast<int>(taken.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", parameter, " cannot be donated to result ", result,
                       ": there are ", alias.size(), " parameters and ", taken.size(), " results"));
    }
    const TensorType& from = graph.parameters()[parameter].type();
    const TensorType& to = graph.results()[result].type();
    // XLA accepts a mismatch silently on some platforms, so it is rejected here.
    if (!(from == to)) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", graph.parameter_names()[parameter], "' is ", from.ToString(),
                       " and cannot be donated to result ", result, ", which is ", to.ToString()));
    }
    if (alias[parameter] >= 0 || taken[result]) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", parameter, " or result ", result, " is donated twice"));
    }
    alias[parameter] = result;
    taken[result] = true;
  }
  return alias;
}

struct PrecisionRow {
  const char* name;
  MatmulPrecision precision;
  const char* stablehlo;
};

constexpr PrecisionRow kPrecisions[] = {
    {"default", MatmulPrecision::kDefault, ""},
    {"high", MatmulPrecision::kHigh, "HIGH"},
    {"highest", MatmulPrecision::kHighest, "HIGHEST"},
};

}  // namespace

absl::StatusOr<MatmulPrecision> MatmulPrecisionFromName(absl::string_view name) {
  std::string known;
  for (const PrecisionRow& row : kPrecisions) {
    if (name == row.name) return row.precision;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown matmul precision '", name, "'; available: ", known));
}

absl::string_view Printer::precision() const {
  for (const PrecisionRow& row : kPrecisions) {
    if (row.precision == precision_) return row.stablehlo;
  }
  return "";
}

namespace {

// The parameter of the batch size, or -1.
int ParameterOfBatch(const Graph& graph) {
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Shape& shape = graph.parameters()[i].shape();
    if (shape.rank() > 0 && shape.dim(0) == -1) return static_cast<int>(i);
  }
  return -1;
}

// `dynamic`: the graph has a symbolic batch size (dynamic_batch.h).
absl::StatusOr<Program> Print(const Graph& graph, const PrintOptions& options, bool dynamic) {
  Program program;
  program.name = graph.name();
  program.num_replicas = graph.num_replicas();
  PENSTOCK_ASSIGN_OR_RETURN(program.alias, Aliases(graph, options));
  Printer printer(options, graph.num_replicas(), dynamic);
  printer.PlainLine(absl::StrCat(
      "module @", Symbol(graph.name()),
      " attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = ", graph.num_replicas(),
      " : i32", dynamic ? ", jax.uses_shape_polymorphism = true" : "", "} {"));
  printer.Indent(1);
  printer.PlainLine("func.func public @main(");
  printer.Indent(2);
  std::vector<std::string> names;
  if (options.platform_parameter) {
    printer.PlainLine(absl::StrCat("%platform: tensor<i32> {jax.global_constant = ",
                                   "\"_platform_index\"}", graph.parameters().empty() ? "" : ","));
  }
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const TensorType& type = graph.parameters()[i].type();
    program.parameters.push_back(type);
    program.parameter_names.push_back(graph.parameter_names()[i]);
    names.push_back(absl::StrCat("%arg", i));
    const std::string donated =
        program.alias[i] < 0 ? ""
                             : absl::StrCat(" {tf.aliasing_output = ", program.alias[i], " : i32}");
    const bool last = i + 1 == graph.parameters().size();
    const std::string place =
        options.locations ? absl::StrCat(" loc(", MlirString(graph.parameter_names()[i]), ")") : "";
    printer.PlainLine(
        absl::StrCat(names.back(), ": ", MlirType(type), donated, place, last ? "" : ","));
  }
  std::vector<std::string> result_types;
  for (size_t i = 0; i < graph.results().size(); ++i) {
    program.results.push_back(graph.results()[i].type());
    program.result_names.push_back(graph.result_names()[i]);
    result_types.push_back(MlirType(graph.results()[i].type()));
  }
  printer.Indent(-2);
  printer.PlainLine(absl::StrCat(") -> (", absl::StrJoin(result_types, ", "), ") {"));
  printer.Indent(1);
  if (dynamic) {
    const int source = ParameterOfBatch(graph);
    if (source < 0) {
      return absl::InvalidArgumentError("no parameter has the batch size as its outermost extent");
    }
    printer.DefineBatch(names[source], graph.parameters()[source].type());
  }
  printer.Body(graph, names, "return");
  PENSTOCK_RETURN_IF_ERROR(printer.status());
  printer.Indent(-1);
  printer.PlainLine("}");
  printer.Indent(-1);
  printer.PlainLine("}");
  program.text = printer.TakeText();
  program.line_origins = printer.TakeOrigins();
  program.large_values = printer.large_values().Largest(kLargeValues);
  return program;
}

}  // namespace

absl::StatusOr<Program> PrintStableHlo(const Graph& graph, const PrintOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  if (HasComposites(graph)) return Print(*Decompose(graph), options, /*dynamic=*/false);
  return Print(graph, options, /*dynamic=*/false);
}

absl::StatusOr<Program> PrintStableHlo(const SymbolicBatch& batch, const PrintOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, WithDynamicBatch(batch));
  return Print(*graph, options, /*dynamic=*/true);
}

std::string TextWithoutLocations(const Program& program) {
  constexpr absl::string_view kLocation = " loc(";
  const absl::string_view text = program.text;
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  int open = 0;  // open parentheses of the location being skipped
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quoted && open == 0 && absl::StartsWith(text.substr(i), kLocation)) {
      open = 1;
      i += kLocation.size() - 1;
      continue;
    }
    if (open == 0) out += c;
    if (quoted && c == '\\' && i + 1 < text.size()) {
      ++i;
      if (open == 0) out += text[i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (open > 0 && !quoted) {
      open += (c == '(') - (c == ')');
    }
  }
  return out;
}

}  // namespace penstock::ir
