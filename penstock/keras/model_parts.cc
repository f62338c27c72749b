// Models by their parts: subclasses, layers by name, weights that fit in part.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/torch_file.h"
#include "penstock/save/save.h"

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

// A TensorFlow checkpoint has two names of a variable: the second one if no array has the first one
// of a variable of the network.
void UseNamesOf(const nn::Network& network, save::Weights& weights) {
  std::set<std::string> names;
  for (const nn::VariableSpec& variable : network.variables()) names.insert(variable.name);
  for (const auto& [name, array] : weights.arrays) {
    if (names.contains(network.VariableName(name))) return;
  }
  save::UseVariableNames(weights);
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
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays all, trainer->Weights());
  WeightsReport report;
  std::set<std::string> used;
  for (const auto& [name, array] : weights) {
    // A shared layer's variable may be saved under another path.
    const std::string variable = network_.VariableName(name);
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
  for (const nn::VariableSpec& variable : network_.variables()) {
    if (used.count(variable.name) == 0)
      report.skipped.push_back({variable.name, "no array of that name"});
  }
  if (!options.by_name && (!report.unused.empty() || used.size() != network_.variables().size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights are not those of this model; by_name loads those that have the same names: ",
        report.ToString()));
  }
  PENSTOCK_RETURN_IF_ERROR(trainer->SetWeights(all));
  return report;
}

absl::StatusOr<WeightsReport> Model::LoadWeights(absl::string_view uri,
                                                 const PartialWeightsOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights file, save::ReadWeights(*io::FileSystem::Default(), uri));
  UseNamesOf(network_, file);
  const bool partial = options.by_name || options.skip_mismatch;
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(UseTorchNames(network_, partial, file), uri));
  absl::StatusOr<WeightsReport> report = SetWeights(file.arrays, options);
  if (!report.ok()) return base::WithContext(report.status(), uri);
  return report;
}

}  // namespace penstock::keras
