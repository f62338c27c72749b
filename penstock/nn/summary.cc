// Keras's summary table (keras/src/utils/summary_utils.py): the same columns, widths, words.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "penstock/base/with_commas.h"
#include "penstock/nn/network.h"
#include "penstock/nn/text_table.h"

namespace penstock::nn {
namespace {

using base::WithCommas;
using internal::ShapeText;
using internal::TextTable;

// A layer with several outputs has a list of shapes, as in Keras.
std::string ShapesText(const std::vector<TensorType>& types) {
  if (types.size() == 1) return ShapeText(types[0].shape);
  std::vector<std::string> shapes;
  for (const TensorType& type : types) shapes.push_back(ShapeText(type.shape));
  return absl::StrCat("[", absl::StrJoin(shapes, ", "), "]");
}

std::string SizeText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; size >= 1024 && unit < 5; ++unit) size /= 1024;
  return absl::StrFormat("%.2f %s", size, kUnits[unit]);
}

struct WeightCount {
  int64_t parameters = 0, bytes = 0;
};
WeightCount CountOf(const std::vector<VariableSpec>& variables, bool trainable, bool other) {
  WeightCount count;
  for (const VariableSpec& v : variables) {
    if (v.trainable ? !trainable : !other) continue;
    const int64_t n = v.type.shape.num_elements();
    count.parameters += n;
    count.bytes += n * base::ByteWidth(v.type.dtype);
  }
  return count;
}

std::string TotalLine(absl::string_view what, const WeightCount& count) {
  return absl::StrFormat(" %s params: %s (%s)\n", what, WithCommas(count.parameters),
                         SizeText(count.bytes));
}

// Number of parameters of the layer at `path`, including the layers in it.
int64_t ParametersUnder(const Network& outermost, const std::string& path) {
  int64_t count = 0;
  for (const int i : outermost.VariablesUnder(path)) {
    count += outermost.variables()[i].type.shape.num_elements();
  }
  return count;
}

// The layers of `network`, each once, at its last use as in Keras.
std::vector<int> UniqueLayers(const Network& network) {
  std::vector<int> unique;
  const auto& uses = network.uses();
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].layer.valid()) {
      if (!network.sequential()) unique.push_back(static_cast<int>(i));
      continue;
    }
    const auto same = [&](int j) {
      return uses[j].layer.valid() && uses[j].layer == uses[i].layer;
    };
    const auto before = std::find_if(unique.begin(), unique.end(), same);
    if (before == unique.end()) unique.push_back(static_cast<int>(i));
  }
  return unique;
}

// Whether the layers form a plain chain, so that the column of connections is omitted.
bool IsChain(const Network& network) {
  const auto& uses = network.uses();
  std::set<const void*> layers;
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto& from = uses[i].inputs;
    if (i == 0 ? !from.empty() : from.size() != 1 || from[0].use != static_cast<int>(i) - 1) {
      return false;
    }
    if (uses[i].layer.valid() && !layers.insert(uses[i].layer.id()).second) return false;
  }
  return true;
}

// Connections as "conv[0][0], relu[1][0]": layer, index of its call, index of its output.
std::string Connections(const Network& network, const Layer& layer) {
  const auto& uses = network.uses();
  const auto call = [&](int use) {
    int number = 0;
    for (int i = 0; i < use; ++i) {
      number +=
          uses[i].layer.valid() && uses[use].layer.valid() && uses[i].layer == uses[use].layer;
    }
    return number;
  };
  std::vector<std::string> from;
  for (const auto& use : uses) {
    if (!use.layer.valid() || !layer.valid() || !(use.layer == layer)) continue;
    for (const auto& input : use.inputs) {
      from.push_back(
          absl::StrCat(uses[input.use].name, "[", call(input.use), "][", input.output, "]"));
    }
  }
  return from.empty() ? "-" : absl::StrJoin(from, ", ");
}

struct Lister {
  const Network& outermost;
  const SummaryOptions& options;
  bool chain;
  TextTable& table;

  // Lists the layers of `network`; `prefix` is the path of its variables, "" for the outermost.
  void List(const Network& network, const std::string& prefix, int depth) {
    const std::string indent =
        depth == 0 ? "" : absl::StrCat(std::string(3 * static_cast<size_t>(depth), ' '), "└ ");
    for (const int i : UniqueLayers(network)) {
      const Network::Use& use = network.uses()[i];
      const Network::Use* last = &use;
      for (const auto& other : network.uses()) {
        if (use.layer.valid() && other.layer.valid() && other.layer == use.layer) last = &other;
      }
      const std::string path = prefix.empty() ? use.name : absl::StrCat(prefix, "/", use.name);
      const int64_t parameters = ParametersUnder(outermost, path);
      const std::string class_name =
          use.layer.valid() ? std::string(use.layer.class_name()) : "InputLayer";
      std::vector<std::string> row = {absl::StrCat(indent, use.name, " (", class_name, ")"),
                                      ShapesText(last->types), WithCommas(parameters)};
      if (!chain) row.push_back(depth == 0 ? Connections(network, use.layer) : "-");
      if (options.show_trainable) {
        row.push_back(parameters == 0 ? "-" : outermost.Trains(use.layer) ? "Y" : "N");
      }
      table.rows.push_back(std::move(row));
      const Network* inside = use.layer.valid() ? use.layer.body().network() : nullptr;
      if (options.expand_nested && inside != nullptr) List(*inside, path, depth + 1);
    }
  }
};

// Keras's columns: the end of each as a fraction of the line.
TextTable EmptyTable(const SummaryOptions& options, bool chain) {
  using Align = TextTable::Align;
  TextTable table;
  table.width = chain ? 88 : 108;
  table.columns = {
      {"Layer (type)", Align::kLeft}, {"Output Shape", Align::kLeft}, {"Param #", Align::kRight}};
  std::vector<double> ends = {0.45, 0.80, 1.0};
  if (!chain) {
    table.columns.push_back({"Connected to", Align::kLeft});
    ends = {0.3, 0.56, 0.74, 1.0};
  }
  if (options.show_trainable) {
    table.width += 12;
    table.columns.push_back({"Trainable", Align::kCenter});
    for (double& end : ends) end *= 0.90;
    ends.push_back(1.0);
  }
  if (options.line_length > 0) table.width = options.line_length;
  int at = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    table.columns[i].width = static_cast<int>(ends[i] * table.width) - at;
    at += table.columns[i].width;
  }
  return table;
}

}  // namespace

std::string Network::Summary(const SummaryOptions& options) const {
  if (!status_.ok()) return absl::StrCat("Model: \"", name_, "\" (", status_.message(), ")\n");
  const bool chain = IsChain(*this);
  TextTable table = EmptyTable(options, chain);
  Lister{*this, options, chain, table}.List(*this, "", 0);
  WeightCount total = CountOf(variables_, true, true);
  total.parameters += options.optimizer_parameters;
  total.bytes += options.optimizer_bytes;
  std::string out =
      absl::StrCat("Model: \"", name_, "\"\n", table.Print(), TotalLine("Total", total),
                   TotalLine("Trainable", CountOf(variables_, true, false)),
                   TotalLine("Non-trainable", CountOf(variables_, false, true)));
  if (options.optimizer_parameters > 0) {
    absl::StrAppend(
        &out, TotalLine("Optimizer", {options.optimizer_parameters, options.optimizer_bytes}));
  }
  return out;
}

}  // namespace penstock::nn
