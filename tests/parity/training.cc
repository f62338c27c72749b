#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/keras/keras.h"

#include "tests/parity/kinds.h"

namespace penstock::tests {
namespace {

// The row's layers, each [name, class, options, names of its inputs].
absl::StatusOr<nn::Network> BuildNetwork(const Row& row) {
  std::map<std::string, nn::Symbol> made;
  nn::Symbol input, output;
  for (const auto& layer : row.spec["layers"]) {
    const std::string name = layer[0], class_name = layer[1];
    if (class_name == "Input") {
      PENSTOCK_ASSIGN_OR_RETURN(const base::DType dtype,
                                base::DTypeFromName(row.spec["input_dtype"].get<std::string>()));
      input = made[name] =
          nn::Input({.shape = layer[2]["shape"].get<std::vector<int64_t>>(), .dtype = dtype});
      continue;
    }
    std::vector<nn::Symbol> inputs;
    for (const auto& of : layer[3]) inputs.push_back(made.at(of));
    PENSTOCK_ASSIGN_OR_RETURN(const nn::Layer made_layer,
                              nn::LayerFromConfig(class_name, name, layer[2]));
    output = made[name] = made_layer(inputs);
  }
  nn::Network network({input}, {output});
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

// Appends what differs between `logs` and the row's tensors under `prefix`.
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
    const std::string text = Difference(what, got, want, kTolerance);
    if (!text.empty()) absl::StrAppend(differences, text, "\n");
  }
}

}  // namespace

absl::StatusOr<std::string> CheckTraining(const Row& row) {
  PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, BuildNetwork(row));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer,
                            nn::Optimizer::FromJson(row.spec["optimizer"]));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Loss loss, nn::Loss::FromJson(row.spec["loss"]));
  keras::Model model(std::move(network));
  keras::CompileOptions compile{.optimizer = optimizer, .loss = loss};
  for (const auto& metric : row.spec["metrics"]) {
    compile.metrics.emplace_back(metric.get<std::string>());
  }
  PENSTOCK_RETURN_IF_ERROR(model.Compile(compile));
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(row.Under("weight/")));
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
  for (const auto& [name, want] : row.Under("new/")) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array got, weights.Get(name));
    const std::string text = Difference(name, got, want, kTolerance);
    if (!text.empty()) absl::StrAppend(&differences, text, "\n");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array predictions, model.Predict(x, batch));
  const std::string text =
      Difference("predictions", predictions, row.Get("predictions"), kTolerance);
  if (!text.empty()) absl::StrAppend(&differences, text, "\n");
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs evaluated,
                            model.Evaluate(x, y, {.batch_size = batch}));
  CompareLogs(row, "evaluated/", evaluated, &differences);
  return differences;
}

}  // namespace penstock::tests
