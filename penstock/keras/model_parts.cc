// Models by their parts: subclasses, layers by name, weights that fit in part.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/weights_file.h"
#include "penstock/nn/names.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;

nn::Symbol FailedSymbol(const absl::Status& status) {
  nn::Symbol::Node node;
  node.types = {status};
  return nn::Symbol(std::make_shared<nn::Symbol::Node>(std::move(node)));
}

// Whether a variable of this type takes the array's values, as train::Trainer::SetWeights does.
bool SameKind(base::DType variable, base::DType array) {
  return variable == array || (base::IsFloat(variable) && base::IsFloat(array));
}

bool MatchesAny(const std::vector<std::string>& patterns, absl::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return nn::MatchesPathOrParent(pattern, name);
  });
}

// The names of a network's variables that match one of the patterns.
absl::StatusOr<std::vector<std::string>> MatchingVariables(
    const nn::Network& network, const std::vector<std::string>& patterns) {
  if (patterns.empty()) {
    return absl::InvalidArgumentError("`only` is empty, so no variable would be loaded");
  }
  std::vector<std::string> all, matching;
  for (const nn::VariableSpec& variable : network.variables()) {
    all.push_back(variable.name);
    if (MatchesAny(patterns, variable.name)) matching.push_back(variable.name);
  }
  for (const std::string& pattern : patterns) {
    if (pattern == "*" || std::any_of(matching.begin(), matching.end(), [&](const auto& name) {
          return nn::MatchesPathOrParent(pattern, name);
        })) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("no variable of the model matches '", pattern,
                                                   "' in `only`; the most similar are ",
                                                   nn::SimilarNames(pattern, all)));
  }
  return matching;
}

}  // namespace

ModelLayer::ModelLayer(absl::Status error) : status_(std::move(error)) {
  outputs_ = {FailedSymbol(status_)};
}

ModelLayer::ModelLayer(const nn::Network& network, absl::string_view name) : name_(name) {
  absl::StatusOr<std::vector<nn::Symbol>> outputs = network.SymbolsOf(name);
  if (!outputs.ok()) {
    *this = ModelLayer(outputs.status());
    return;
  }
  outputs_ = *std::move(outputs);
  layer_ = outputs_[0].node()->layer;
}

nn::Symbol ModelLayer::output() const {
  if (outputs_.size() == 1) return outputs_[0];
  return FailedSymbol(absl::InvalidArgumentError(absl::StrCat(
      "layer '", name_, "' has ", outputs_.size(), " outputs: outputs() returns them all")));
}

ModelLayer ModelLayer::GetLayer(absl::string_view name) const {
  if (!status_.ok()) return ModelLayer(status_);
  const nn::Network* network = layer_.valid() ? layer_.body().network() : nullptr;
  if (network != nullptr) return ModelLayer(*network, name);
  return ModelLayer(absl::InvalidArgumentError(
      absl::StrCat("layer '", name_, "' is no model; it has no layer '", name, "'")));
}

Model::Model()
    : network_(absl::FailedPreconditionError(
          "the model has no layers yet: the constructor of a subclass calls Build last")) {}

SymbolsArg Model::Call(const std::vector<nn::Symbol>&) {
  return FailedSymbol(absl::UnimplementedError(
      "Build was called on a model that does not override Call, its forward pass"));
}

void Model::Build(const SymbolsArg& inputs, std::string name) {
  SymbolsArg outputs;
  const absl::Status called = base::CatchExceptions([&] {
    outputs = Call(inputs.Get());
    return absl::OkStatus();
  });
  network_ = called.ok() ? nn::Network(inputs.Get(), outputs.Get(), std::move(name))
                         : nn::Network(base::WithContext(called, absl::StrCat("Call of ", name)));
  trainer_ = nullptr;
}

std::string WeightsReport::ToString() const {
  std::string text = absl::StrCat(loaded.size(), " of ", loaded.size() + skipped.size(),
                                  " variables loaded; ", unused.size(), " arrays unused");
  for (const Skipped& one : skipped)
    absl::StrAppend(&text, "\nskipped ", one.name, ": ", one.reason);
  for (const std::string& name : unused) absl::StrAppend(&text, "\nunused ", name);
  return text;
}

absl::StatusOr<WeightsReport> Model::SetWeights(const NamedArrays& weights,
                                                const PartialWeightsOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> variables,
                            MatchingVariables(network_, options.only));
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays all, trainer->Weights());
  WeightsReport report;
  std::set<std::string> used;
  for (const auto& [name, array] : weights) {
    // A shared layer's variable may be saved under another path.
    const std::string variable = network_.VariableName(name);
    if (!MatchesAny(options.only, variable)) continue;
    const Array* current = all.Find(variable);
    if (current == nullptr) {
      report.unused.push_back(name);
      continue;
    }
    const bool is_first = used.insert(variable).second;
    if (current->shape() == array.shape() && SameKind(current->dtype(), array.dtype())) {
      all.Set(variable, array);
      if (is_first) report.loaded.push_back(variable);
      continue;
    }
    std::string reason =
        absl::StrCat("the model has ", current->TypeString(), ", the weights ", array.TypeString());
    if (!options.skip_mismatch) {
      return absl::InvalidArgumentError(absl::StrCat("variable '", variable, "': ", reason,
                                                     "; skip_mismatch keeps the model's value"));
    }
    report.skipped.push_back({variable, std::move(reason)});
  }
  for (const std::string& variable : variables) {
    if (used.count(variable) == 0) report.skipped.push_back({variable, "no array of that name"});
  }
  if (!options.by_name && (!report.unused.empty() || used.size() != variables.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights are not those of this model; by_name loads those that have the same names: ",
        report.ToString()));
  }
  PENSTOCK_RETURN_IF_ERROR(trainer->SetWeights(all));
  return report;
}

absl::Status Model::LoadWeights(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, ReadWeightsFor(network_, uri, {}));
  return base::WithContext(SetWeights(weights), io::DisplayName(uri));
}

absl::StatusOr<WeightsReport> Model::LoadWeights(absl::string_view uri,
                                                 const PartialWeightsOptions& options) {
  const bool partial =
      options.by_name || options.skip_mismatch || options.only != PartialWeightsOptions().only;
  PENSTOCK_ASSIGN_OR_RETURN(
      const NamedArrays weights,
      ReadWeightsFor(network_, uri, {.by_name = options.by_name, .partial = partial}));
  absl::StatusOr<WeightsReport> report = SetWeights(weights, options);
  if (!report.ok()) return base::WithContext(report.status(), io::DisplayName(uri));
  return report;
}

}  // namespace penstock::keras
