#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/keras/keras.h"

#include "tests/parity/kinds.h"

namespace penstock::tests {
namespace {

// `layers`, each [name, class, options, names of its inputs]. `shared`: all layers by name,
// including those of nested networks.
absl::StatusOr<nn::Network> BuildNetwork(const nlohmann::ordered_json& layers, base::DType dtype,
                                         const std::string& network_name,
                                         std::map<std::string, nn::Layer>& shared) {
  std::map<std::string, nn::Symbol> made;
  nn::Symbol input, output;
  for (const auto& layer : layers) {
    const std::string name = layer[0], class_name = layer[1];
    const auto& options = layer[2];
    if (class_name == "Input") {
      input = made[name] = nn::Input(
          {.shape = options["shape"].get<std::vector<int64_t>>(), .dtype = dtype, .name = name});
      continue;
    }
    std::vector<nn::Symbol> inputs;
    for (const auto& of : layer[3]) inputs.push_back(made.at(of));
    nn::Layer called;
    if (class_name == "Again") {
      called = shared.at(options["layer"]);
    } else if (class_name == "Model") {
      PENSTOCK_ASSIGN_OR_RETURN(const nn::Network network,
                                BuildNetwork(options["layers"], base::DType::kF32, name, shared));
      called = shared[name] = nn::Nested(network);
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(called, nn::LayerFromConfig(class_name, name, options));
      shared[name] = called;
    }
    output = made[name] = called(inputs);
  }
  nn::Network network({input}, {output}, network_name);
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

// Keras's name of a variable, without the models that contain its layer.
std::string KerasName(const Row& row, const std::string& prefix, absl::string_view name) {
  while (!row.Has(absl::StrCat(prefix, name)) && absl::StrContains(name, '/')) {
    name = name.substr(name.find('/') + 1);
  }
  return std::string(name);
}

// Appends the differences of `logs` from the row's tensors under `prefix`.
void CompareLogs(const Row& row, const std::string& prefix, const keras::Logs& logs,
                 std::string* differences) {
  for (const auto& [name, want] : row.Under(prefix)) {
    const std::string what = prefix + name;
    const auto* found = logs.Find(name);
    if (found == nullptr) {
      absl::StrAppend(differences, what, " is missing\n");
      continue;
    }
    const auto got = base::Array::Scalar<float>(static_cast<float>(*found));
    const std::string text = Difference(what, got, want, row.tolerance());
    if (!text.empty()) absl::StrAppend(differences, text, "\n");
  }
}

}  // namespace

absl::StatusOr<std::string> CheckTraining(const Row& row) {
  PENSTOCK_ASSIGN_OR_RETURN(const base::DType dtype,
                            base::DTypeFromName(row.spec["input_dtype"].get<std::string>()));
  std::map<std::string, nn::Layer> shared;
  PENSTOCK_ASSIGN_OR_RETURN(nn::Network network,
                            BuildNetwork(row.spec["layers"], dtype, "model", shared));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer,
                            nn::Optimizer::FromJson(row.spec["optimizer"]));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Loss loss, nn::Loss::FromJson(row.spec["loss"]));
  keras::Model model(std::move(network));
  keras::CompileOptions compile{.optimizer = optimizer, .loss = loss};
  for (const auto& metric : row.spec["metrics"]) {
    compile.metrics.emplace_back(metric.get<std::string>());
  }
  PENSTOCK_RETURN_IF_ERROR(model.Compile(compile));
  base::NamedArrays first;
  for (const nn::VariableSpec& variable : model.network().variables()) {
    first.Append(variable.name, row.Get("weight/" + KerasName(row, "weight/", variable.name)));
  }
  if (first.size() != row.Under("weight/").size()) {
    return absl::FailedPreconditionError(absl::StrCat("Penstock's variables are ", first.ToString(),
                                                      "; Keras has ",
                                                      row.Under("weight/").ToString()));
  }
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(first));
  const base::Array &x = row.Get("x"), &y = row.Get("y");
  const int64_t batch = row.spec["batch"];
  keras::FitOptions fit{.batch_size = batch, .epochs = 1, .verbose = 0, .shuffle = false};
  for (const auto& [number, weight] : row.spec["class_weight"].items()) {
    fit.class_weight[std::stoll(number)] = weight;
  }
  if (row.Has("sample_weight")) fit.sample_weight = row.Get("sample_weight");
  PENSTOCK_ASSIGN_OR_RETURN(const keras::History history, model.Fit(x, y, fit));

  std::string differences;
  CompareLogs(row, "history/", history.epochs.at(0), &differences);
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays weights, model.GetWeights());
  for (const auto& [name, got] : weights) {
    const base::Array& want = row.Get("new/" + KerasName(row, "new/", name));
    const std::string text = Difference(name, got, want, row.tolerance());
    if (!text.empty()) absl::StrAppend(&differences, text, "\n");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array predictions, model.Predict(x, batch));
  const std::string text =
      Difference("predictions", predictions, row.Get("predictions"), row.tolerance());
  if (!text.empty()) absl::StrAppend(&differences, text, "\n");
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs evaluated,
                            model.Evaluate(x, y, {.batch_size = batch}));
  CompareLogs(row, "evaluated/", evaluated, &differences);
  return differences;
}

}  // namespace penstock::tests
