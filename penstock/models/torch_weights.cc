#include "penstock/models/torch_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/models/by_name.h"
#include "penstock/models/torch_names.h"

namespace penstock::models {
namespace {

using base::Array;
using base::NamedArrays;
using internal::TorchVariable;

// Arrays by the names in a file.
using ArraysByName = absl::flat_hash_map<std::string, const Array*>;

std::vector<std::string> VariableNames(const nn::Network& network) {
  std::vector<std::string> names;
  for (const nn::VariableSpec& variable : network.variables()) names.push_back(variable.name);
  return names;
}

// All layouts; members of a family share one.
std::vector<const TorchLayout*> Layouts() {
  std::vector<const TorchLayout*> layouts;
  for (const ModelInfo& model : Models()) {
    for (const TorchLayout& layout : model.torch) {
      if (std::find(layouts.begin(), layouts.end(), &layout) == layouts.end()) {
        layouts.push_back(&layout);
      }
    }
  }
  return layouts;
}

// Names of the networks with this layout, or with any.
std::string NetworksWith(const TorchLayout* layout) {
  std::vector<std::string> names;
  for (const ModelInfo& model : Models()) {
    const bool has = std::any_of(model.torch.begin(), model.torch.end(), [&](const auto& one) {
      return layout == nullptr || &one == layout;
    });
    if (has) names.push_back(model.name);
  }
  return absl::StrJoin(names, ", ");
}

// Paths, with their '/', at which the network may have another network as a layer: "", "backbone/".
std::set<std::string> NestedPaths(const std::vector<std::string>& variables) {
  std::set<std::string> paths = {""};
  for (const std::string& name : variables) {
    const size_t variable = name.rfind('/');
    const size_t layer = variable == std::string::npos || variable == 0
                             ? std::string::npos
                             : name.rfind('/', variable - 1);
    for (size_t end = layer; end != std::string::npos;
         end = end == 0 ? std::string::npos : name.rfind('/', end - 1)) {
      paths.insert(name.substr(0, end + 1));
    }
  }
  return paths;
}

// The network that is the layer at `path`; nullptr if there is none.
const nn::Network* NetworkAt(const nn::Network& network, absl::string_view path) {
  if (path.empty()) return &network;
  const size_t slash = path.find('/');
  for (const nn::Network::Use& use : network.uses()) {
    if (!use.layer.valid() || use.name != path.substr(0, slash)) continue;
    const nn::Network* inner = use.layer.body().network();
    return inner == nullptr ? nullptr : NetworkAt(*inner, path.substr(slash + 1));
  }
  return nullptr;
}

bool HasLayer(const nn::Network& network, absl::string_view name) {
  return std::any_of(network.uses().begin(), network.uses().end(),
                     [&](const auto& use) { return use.name == name; });
}

// Prefixes of PyTorch's names in the file: "", "module.", "state_dict/".
std::set<std::string> FilePrefixes(const NamedArrays& arrays, absl::string_view first_name) {
  constexpr size_t kMaxPrefixes = 100;  // names of other layers end like the first one's
  std::set<std::string> prefixes = {""};
  for (const auto& [name, array] : arrays) {
    absl::string_view prefix = name;
    if (!absl::ConsumeSuffix(&prefix, first_name) || prefix.empty()) continue;
    if (prefix.back() == '.' || prefix.back() == '/') prefixes.emplace(prefix);
    if (prefixes.size() >= kMaxPrefixes) break;
  }
  return prefixes;
}

// One reading of a file's names: as the network's own, or by a layout.
struct Reading {
  const TorchLayout* layout = nullptr;  // nullptr: the network's own names
  std::string path = "";                // of the network that has the layout
  std::string file_prefix = "";
  std::vector<TorchVariable> variables = {};
  size_t found = 0;  // variables with an array of that name
  // Whether PyTorch's networks with these names compute what the network computes.
  bool same_computation = true;
};

size_t CountFound(const Reading& reading, const ArraysByName& arrays) {
  const auto in_file = [&](const TorchVariable& variable) {
    return !variable.torch_name.empty() &&
           arrays.contains(absl::StrCat(reading.file_prefix, variable.torch_name));
  };
  return static_cast<size_t>(
      std::count_if(reading.variables.begin(), reading.variables.end(), in_file));
}

bool HasRequiredLayer(const nn::Network& network, const Reading& reading) {
  if (reading.layout->required_layer == nullptr) return true;
  const nn::Network* part = NetworkAt(network, reading.path);
  return part == nullptr || HasLayer(*part, reading.layout->required_layer);
}

std::pair<size_t, bool> Rank(const Reading& reading) {
  return {reading.found, reading.same_computation};
}

// The reading with the most names. Among equals the network's own names, then a layout whose
// networks compute the same, then the first layout.
Reading BestReading(const nn::Network& network, const NamedArrays& arrays,
                    const ArraysByName& by_name) {
  const std::vector<std::string> names = VariableNames(network);
  Reading best;
  for (const std::string& name : names) best.variables.push_back({name, name});
  best.found = CountFound(best, by_name);
  if (best.found == names.size()) return best;
  for (const TorchLayout* layout : Layouts()) {
    for (const std::string& path : NestedPaths(names)) {
      Reading reading{.layout = layout, .path = path};
      reading.variables = internal::TorchVariablesOf(*layout, names, path);
      const auto first = std::find_if(reading.variables.begin(), reading.variables.end(),
                                      [](const auto& v) { return !v.torch_name.empty(); });
      if (first == reading.variables.end()) continue;
      reading.same_computation = HasRequiredLayer(network, reading);
      for (const std::string& prefix : FilePrefixes(arrays, first->torch_name)) {
        reading.file_prefix = prefix;
        reading.found = CountFound(reading, by_name);
        if (Rank(reading) > Rank(best)) best = reading;
      }
    }
  }
  return best;
}

absl::Status CheckSameComputation(const nn::Network& network, const Reading& reading) {
  if (reading.same_computation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the weights have the names of ", reading.layout->name,
                   ", whose networks compute differently from '", network.name(),
                   "' (padding, normalization, class token): it would give other outputs. Networks "
                   "that compute the same: ",
                   NetworksWith(reading.layout)));
}

// Extents of an axis of variables whose other axes fit: in the network, in the file.
using Extents = std::vector<std::pair<int64_t, int64_t>>;
struct Differences {
  Extents last_axes;
  Extents positions;  // the first axis, of position embeddings
};

std::string LikelyCause(const nn::Network& network, const MatchedWeights& matched,
                        const Differences& differences) {
  const Extents& last_axes = differences.last_axes;
  const bool only_shapes = matched.missing.empty() && matched.unused.empty();
  const bool only_last_axes =
      only_shapes && !last_axes.empty() && matched.mismatched.size() == last_axes.size();
  const bool equal = std::all_of(last_axes.begin(), last_axes.end(),
                                 [&](const auto& axes) { return axes == last_axes[0]; });
  if (only_last_axes && equal) {
    return absl::StrCat("the head of the file has ", last_axes[0].second,
                        " classes, that of the network ", last_axes[0].first,
                        ": keep a new head (skip_mismatch; --new-head)");
  }
  if (only_shapes && matched.mismatched.size() == 1 && differences.positions.size() == 1) {
    return absl::StrCat("the file has ", differences.positions[0].second,
                        " positions, the network ", differences.positions[0].first,
                        ": its images had another size (input_shape)");
  }
  if (matched.arrays.empty() && matched.mismatched.empty()) {
    return "the file holds the weights of another network: no name fits";
  }
  if (matched.missing.empty() && matched.mismatched.empty()) {
    return "the file holds the weights of a larger network, such as one with its top: load those "
           "that fit (by_name)";
  }
  if (matched.mismatched.empty() && matched.unused.empty()) {
    return "the file holds the weights of a part of the network, such as one without its top: load "
           "those that fit (by_name)";
  }
  if (matched.mismatched.size() * 2 > network.variables().size()) {
    return "the widths differ: the file holds the weights of another member of the family";
  }
  if (!matched.missing.empty() && !matched.unused.empty()) {
    return "the layers differ: the file holds the weights of another network, or of another member "
           "of the family; or the network has another head: load those that fit (by_name)";
  }
  return "";
}

void AppendLines(std::vector<std::string>& lines, absl::string_view title,
                 const std::vector<std::string>& items, size_t max_items) {
  if (items.empty()) return;
  lines.push_back(absl::StrCat(items.size(), " ", title, ":"));
  const size_t shown = items.size() <= max_items ? items.size() : max_items - 1;
  for (size_t i = 0; i < shown; ++i) lines.push_back("  " + items[i]);
  if (shown < items.size()) lines.push_back(absl::StrCat("  and ", items.size() - shown, " more"));
}

// Whether the shapes are equal but for this axis.
bool DifferOnlyIn(int axis, const base::Shape& a, base::Shape b) {
  if (a.rank() != b.rank() || a.rank() == 0) return false;
  b.set_dim(axis, a.dim(axis));
  return a == b;
}

// Looks up a variable; a mismatch that concerns a single axis is added to `differences`.
void MatchVariable(const TorchVariable& variable, const ir::TensorType& type,
                   absl::string_view file_name, const Array& in_file, MatchedWeights& matched,
                   Differences& differences) {
  const std::optional<Array> array = internal::FromTorchLayout(in_file, variable, type.shape);
  if (array.has_value() && array->shape() == type.shape) {
    matched.arrays.Append(variable.name, *array);
    return;
  }
  matched.mismatched.push_back(absl::StrCat(variable.name, " is ", type.ToString(), ", ", file_name,
                                            " in the file ", in_file.TypeString()));
  matched.others.Append(variable.name, array.value_or(in_file));
  if (!array.has_value()) return;
  if (DifferOnlyIn(-1, type.shape, array->shape())) {
    differences.last_axes.emplace_back(type.shape.dim(-1), array->dim(-1));
  } else if (variable.form.leading_axes > 0 && DifferOnlyIn(0, type.shape, array->shape())) {
    differences.positions.emplace_back(type.shape.dim(0), array->dim(0));
  }
}

void AddUnused(const NamedArrays& arrays, absl::string_view prefix,
               const absl::flat_hash_set<std::string>& used, MatchedWeights& matched) {
  for (const auto& [name, array] : arrays) {
    const bool ignored =
        !absl::StartsWith(name, prefix) || absl::EndsWith(name, "num_batches_tracked");
    if (ignored || used.contains(name)) continue;
    matched.unused.push_back(name);
    matched.others.Append(name, array);
  }
}

// PyTorch's arrays of these variables.
absl::StatusOr<NamedArrays> ArraysOf(const std::vector<TorchVariable>& variables,
                                     const NamedArrays& weights) {
  NamedArrays out;
  std::map<std::string, std::map<int, Array>> parts;  // of arrays that are not complete yet
  for (const TorchVariable& variable : variables) {
    PENSTOCK_ASSIGN_OR_RETURN(const Array array, weights.Get(variable.name));
    std::optional<Array> theirs = internal::ToTorchLayout(array, variable);
    if (theirs.has_value() && variable.form.parts > 1) {
      std::map<int, Array>& found = parts[variable.torch_name];
      found.insert_or_assign(variable.form.part, *theirs);
      if (static_cast<int>(found.size()) < variable.form.parts) continue;
      std::vector<Array> in_order;
      for (const auto& [part, one] : found) in_order.push_back(one);
      theirs = internal::JoinedParts(in_order);
    }
    if (!theirs.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the array of variable ", variable.name, " is ", array.TypeString()));
    }
    out.Append(variable.torch_name, *theirs);
  }
  return out;
}

}  // namespace

absl::StatusOr<MatchedWeights> MatchWeights(const nn::Network& network, const NamedArrays& arrays) {
  PENSTOCK_RETURN_IF_ERROR(network.status());
  ArraysByName by_name;
  for (const auto& [name, array] : arrays) by_name.emplace(name, &array);
  const Reading reading = BestReading(network, arrays, by_name);
  PENSTOCK_RETURN_IF_ERROR(CheckSameComputation(network, reading));
  MatchedWeights matched{.layout = reading.layout == nullptr ? "Keras" : reading.layout->name};
  absl::flat_hash_set<std::string> used;
  Differences differences;
  for (size_t i = 0; i < reading.variables.size(); ++i) {
    const TorchVariable& variable = reading.variables[i];
    const std::string file_name = absl::StrCat(reading.file_prefix, variable.torch_name);
    const auto at = variable.torch_name.empty() ? by_name.end() : by_name.find(file_name);
    if (at == by_name.end()) {
      const bool named = !variable.torch_name.empty() && variable.torch_name != variable.name;
      matched.missing.push_back(named ? absl::StrCat(variable.name, " (", file_name, ")")
                                      : variable.name);
      continue;
    }
    used.insert(file_name);
    MatchVariable(variable, network.variables()[i].type, file_name, *at->second, matched,
                  differences);
  }
  AddUnused(arrays, reading.file_prefix, used, matched);
  if (!matched.complete()) matched.likely_cause = LikelyCause(network, matched, differences);
  return matched;
}

std::string MatchedWeights::ToString() const {
  constexpr size_t kOfEach = 5;  // with titles and the first and last line at most twenty lines
  std::vector<std::string> lines = {
      absl::StrCat(arrays.size(), " of ", arrays.size() + missing.size() + mismatched.size(),
                   " variables fit the file, which has the names of ", layout)};
  AppendLines(lines, "variables are missing in the file", missing, kOfEach);
  AppendLines(lines, "arrays of the file have no variable", unused, kOfEach);
  AppendLines(lines, "variables have another shape", mismatched, kOfEach);
  if (!likely_cause.empty()) lines.push_back(absl::StrCat("likely cause: ", likely_cause));
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<NamedArrays> ToTorch(const nn::Network& network, const NamedArrays& weights,
                                    absl::string_view layout_name) {
  PENSTOCK_RETURN_IF_ERROR(network.status());
  for (const TorchLayout* layout : Layouts()) {
    if (!layout_name.empty() && layout_name != layout->name) continue;
    if (layout->required_layer != nullptr && !HasLayer(network, layout->required_layer)) continue;
    const auto variables = internal::TorchVariablesOf(*layout, VariableNames(network), "");
    const bool all = std::all_of(variables.begin(), variables.end(),
                                 [](const auto& v) { return !v.torch_name.empty(); });
    if (!all) continue;
    return ArraysOf(variables, weights);
  }
  return absl::UnimplementedError(
      absl::StrCat("PyTorch has no names for the layers of network '", network.name(), "'",
                   layout_name.empty() ? "" : absl::StrCat(" in the layout ", layout_name),
                   "; it has names for those of ", NetworksWith(nullptr)));
}

}  // namespace penstock::models
