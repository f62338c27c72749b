// Room keras: a front end with Keras's API. Sequential and functional models, Compile, Fit,
// Evaluate, Predict, Save, Load. It is a thin layer over rooms nn and train.
//
//   using namespace penstock;                            // in a program, not in a header
//   keras::Model model = keras::Sequential({
//       keras::Input({.shape = {28, 28, 1}}),
//       keras::Conv2D({.filters = 32, .kernel_size = 3, .activation = "relu"}),
//       keras::Flatten(),
//       keras::Dense({.units = 10, .activation = "softmax"})});
//   absl::Status status = model.Compile({.optimizer = "adam",
//                                        .loss = "sparse_categorical_crossentropy",
//                                        .metrics = {"accuracy"}});
//   absl::StatusOr<keras::History> history =
//       model.Fit(train_set, {.epochs = 5, .validation_data = &test_set});
//
// Errors of building a model (for example a layer whose input has the wrong shape) are deferred to
// Compile, which returns the first one with the layer, the shapes and the line of your program.
//
// Difference from Keras: the batches of a dataset have named columns; CompileOptions.columns
// determines which are the inputs and the labels if that is ambiguous.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/keras/arguments.h"
#include "penstock/keras/categorical.h"
#include "penstock/keras/export.h"
#include "penstock/keras/names.h"
#include "penstock/keras/pretrained.h"
#include "penstock/keras/serving_model.h"
#include "penstock/keras/text.h"
#include "penstock/keras/timeseries.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"
#include "penstock/nn/plot.h"
#include "penstock/runtime/client.h"
#include "penstock/train/class_weights.h"
#include "penstock/train/trainer.h"

namespace penstock::keras {

// Adapts a layer to a dataset before training (layer.adapt in Keras; Normalization,
// Discretization), using `column` of every element. The name can be omitted if there is only one
// column. The dataset must be finite. The layer must not be part of a model yet.
//
//   nn::Layer normalize = keras::Normalization();
//   PENSTOCK_RETURN_IF_ERROR(keras::Adapt(normalize, train_set, "image"));
absl::Status Adapt(const nn::Layer& layer, const data::Dataset& dataset,
                   absl::string_view column = "");

// Weights of the classes for FitOptions::class_weight with which every class counts the same:
// n / (k * count) for n examples of k classes, as scikit-learn's "balanced". Reads `column`, class
// indices or one-hot labels, of every element; the name can be omitted if there is only one column.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto weights, keras::BalancedClassWeights(train_set, "label"));
absl::StatusOr<std::map<int64_t, double>> BalancedClassWeights(const data::Dataset& dataset,
                                                               absl::string_view column = "");
using train::BalancedClassWeights;

struct CompileOptions {
  OptimizerArg optimizer = "adam";
  // With several outputs: LossesArg::ByName{{"class", "sparse_categorical_crossentropy"},
  // {"box", "mse"}}, or a list in their order.
  LossesArg loss = "sparse_categorical_crossentropy";
  // Weight of each output's loss in the sum, by the output's name; default 1.
  std::map<std::string, double> loss_weights = {};
  // Metrics of every output.
  std::vector<MetricArg> metrics = {};
  // Metrics of every output in which each example counts by its weight.
  std::vector<MetricArg> weighted_metrics = {};
  // Metrics of single outputs, by the output's name.
  std::map<std::string, std::vector<MetricArg>> output_metrics = {};
  // A custom training step instead of the losses (train/objective.h). It is not saved with the
  // model.
  std::optional<train::CustomStep> train_step = {};
  // Mixes the examples of each training batch and their labels, on the device: one of these is
  // drawn for each batch (nn/batch_augmentation.h). The loss must have labels that are classes.
  // Metrics of training count the label with the larger share, so an accuracy of training is lower
  // than usual; validation is not mixed.
  //
  //   .batch_augmentation = {keras::MixUp({.alpha = 0.2}), keras::CutMix()}
  std::vector<nn::BatchAugmentation> batch_augmentation = {};
  train::Columns columns = {};
  // The devices to run on. Default: those that PENSTOCK_DEVICE names, or else the CPU.
  std::shared_ptr<runtime::Client> client = nullptr;
  int replicas = 1;   // 0: all devices
  uint64_t seed = 0;  // of initial weights, dropout and augmentation
  // Number of training steps per device execution (one host round trip each); Keras's "auto" is
  // train::kAutoSteps.
  int64_t steps_per_execution = 1;
  // Dtype policy of layers without a dtype of their own: "float32", "mixed_bfloat16",
  // "mixed_float16"... (nn/policy.h; in Keras keras.config.set_dtype_policy). Default: the
  // network's. Under "mixed_float16" the optimizer becomes a LossScaleOptimizer, as in Keras.
  nn::DTypePolicy dtype_policy = "";
  // Precision of float32 products on TPUs and GPUs: MatmulPrecision::kDefault, kHigh, kHighest, or
  // "default", "high", "highest".
  MatmulPrecisionArg matmul_precision = MatmulPrecision::kDefault;
  // Which layers are rematerialized by the backward pass instead of stored, besides those that say
  // so themselves (nn::Layer::SetRemat): keras.RematScope. {.mode = RematMode::kActivations} stores
  // the results of products and convolutions.
  nn::RematOptions remat = {};
  // A model that is already compiled keeps its weights, as in Keras, for fine-tuning with another
  // optimizer or other frozen layers; the optimizer's state is reset. False: the weights are
  // initialized again, by `seed`.
  bool keep_weights = true;
};

// A layer of a model, found by its name (Model::GetLayer). If the name is unknown, status() is an
// error, which a model made of its symbols reports as well.
class ModelLayer {
 public:
  ModelLayer(const nn::Network& network, absl::string_view name);
  const absl::Status& status() const { return status_; }
  // The layer, which can be called again; not valid() for an input and after an error.
  const nn::Layer& layer() const { return layer_; }
  // output(): the output of its first call if there is only one. outputs(): all of them.
  nn::Symbol output() const;
  const std::vector<nn::Symbol>& outputs() const { return outputs_; }
  // If this layer is itself a model (AsLayer): a layer of that model.
  ModelLayer GetLayer(absl::string_view name) const;

 private:
  explicit ModelLayer(absl::Status error);
  std::string name_;
  absl::Status status_;
  nn::Layer layer_;
  std::vector<nn::Symbol> outputs_;
};

// Options of LoadWeights and SetWeights for weights that do not match the model exactly.
struct PartialWeightsOptions {
  // Matches by name: variables without an array keep their values, and arrays without a variable
  // are ignored. False: the sets of names must be equal.
  bool by_name = false;
  // Skips arrays whose shape differs from the variable's. False: they are errors.
  bool skip_mismatch = false;
  // Loads only variables that match one of these patterns, by their names or those of layers that
  // contain them: {"backbone", "*/gamma"}; '*' stands for any characters. All others keep their
  // values, and by_name concerns only names that match. A pattern that matches no variable is an
  // error.
  std::vector<std::string> only = {"*"};
};
// Report of LoadWeights and SetWeights, about the names that match PartialWeightsOptions.only.
struct WeightsReport {
  struct Skipped {
    std::string name;
    std::string reason;
  };
  std::vector<std::string> loaded;  // variables of the model that were loaded
  std::vector<Skipped> skipped;     // variables of the model that kept their values
  std::vector<std::string> unused;  // arrays without a variable
  // "12 of 14 variables loaded; ...", then a line for each variable that was skipped.
  std::string ToString() const;
};

// Keras's arguments of fit, evaluate, and predict (train/options.h).
using train::EvaluateOptions;
using train::FitOptions;
using train::PredictOptions;

class Model {
 public:
  // A functional model: the layers between inputs and outputs. These symbols may come from another
  // model, for a submodel that shares its layers and their names:
  //
  //   keras::Model features(model.inputs(), model.GetLayer("pool").output());
  Model(const SymbolsArg& inputs, const SymbolsArg& outputs, std::string name = "model")
      : Model(nn::Network(inputs.Get(), outputs.Get(), std::move(name))) {}
  explicit Model(nn::Network network) : network_(std::move(network)) {}
  virtual ~Model() = default;
  Model(Model&&) = default;
  Model& operator=(Model&&) = default;

  const nn::Network& network() const { return network_; }
  // Inputs and outputs as symbols, for models built from parts of this one; empty after an error of
  // building.
  std::vector<nn::Symbol> inputs() const { return network_.InputSymbols(); }
  std::vector<nn::Symbol> outputs() const { return network_.OutputSymbols(); }
  // A layer by its name in Summary: keras.Model.get_layer.
  ModelLayer GetLayer(absl::string_view name) const { return ModelLayer(network_, name); }
  // Freezes (false) or unfreezes layers: all, or those whose paths match a pattern
  // (nn::Network::SetTrainable). Takes effect when the model is compiled; Summary shows it at once.
  //
  //   PENSTOCK_RETURN_IF_ERROR(model.SetTrainable(false, {"backbone"}));
  absl::Status SetTrainable(bool trainable,
                            const std::vector<std::string>& patterns = {"*"}) const {
    return network_.SetTrainable(trainable, patterns);
  }
  std::string Summary(const nn::SummaryOptions& options = {}) const {
    return network_.Refreshed().Summary(options);
  }

  // Configures the model for training. The first call initializes the weights, later ones keep them
  // (CompileOptions::keep_weights). Errors:
  // the first error of building, an unknown name, a device that is not available.
  // FAILED_PRECONDITION while Fit is running.
  absl::Status Compile(const CompileOptions& options);

  // Callbacks may call Evaluate, Predict, Save and the like, but neither Fit nor Compile. The
  // progress line is shown unless FitOptions.verbose is 0.
  absl::StatusOr<History> Fit(const data::Dataset& dataset, const FitOptions& options = {});
  absl::StatusOr<History> Fit(const ArraysArg& x, const ArraysArg& y,
                              const FitOptions& options = {});
  // The loss and the metrics by name. The progress line is shown unless EvaluateOptions.verbose is
  // 0, or Fit is running (a callback evaluates).
  absl::StatusOr<Logs> Evaluate(const data::Dataset& dataset, const EvaluateOptions& options = {});
  absl::StatusOr<Logs> Evaluate(const ArraysArg& x, const ArraysArg& y,
                                const EvaluateOptions& options = {});
  // The output for every row, of a model with one output.
  absl::StatusOr<base::Array> Predict(const data::Dataset& dataset,
                                      const PredictOptions& options = {});
  absl::StatusOr<base::Array> Predict(const ArraysArg& x, const PredictOptions& options = {});
  template <std::integral T>
  absl::StatusOr<base::Array> Predict(const ArraysArg& x, T batch_size) {
    return Predict(x, PredictOptions{.batch_size = batch_size});
  }
  // The outputs for every row.
  absl::StatusOr<std::vector<base::Array>> PredictAll(const data::Dataset& dataset,
                                                      const PredictOptions& options = {});
  absl::StatusOr<std::vector<base::Array>> PredictAll(const ArraysArg& x,
                                                      const PredictOptions& options = {});
  template <std::integral T>
  absl::StatusOr<std::vector<base::Array>> PredictAll(const ArraysArg& x, T batch_size) {
    return PredictAll(x, PredictOptions{.batch_size = batch_size});
  }

  // The model as a layer of another model, where its variables are named "<name>/<layer>/...". The
  // other model initializes new weights; SetWeights copies these into it. A layer that both models
  // call is one layer of the other model, with one set of variables (nn/network.h).
  // SetTrainable(false) on the result freezes this model's layers, in models that are compiled
  // afterward; a model that is compiled already, such as this one, still trains them.
  nn::Layer AsLayer() const { return nn::Nested(network_); }
  // A model of the same layers without weights (keras.models.clone_model).
  absl::StatusOr<Model> Clone() const;

  absl::StatusOr<base::NamedArrays> GetWeights() const;
  absl::Status SetWeights(const base::NamedArrays& weights);

  // Writes a safetensors file: the weights by name, and in its metadata the layers and the
  // arguments of Compile, as JSON. Any file system; the file is published atomically. User-defined
  // losses and metrics are saved by name: Load needs them again (LoadOptions.custom_losses,
  // custom_metrics).
  //
  // "x.keras" and "x.h5" are written as Keras does, with the optimizer's state:
  // keras.models.load_model opens them and continues the training. INVALID_ARGUMENT, and nothing is
  // written, if Keras has no counterpart of a layer, an option or an argument of Compile.
  // batch_augmentation, which in Keras belongs to the input, is not in the file: give it to Compile
  // again to continue the training with it.
  absl::Status Save(absl::string_view uri) const;
  // Exports the prediction, with the current weights, as a program for other systems, at any batch
  // size (export.h): Keras's model.export. The name selects the format: "classifier" is a folder, a
  // SavedModel of TensorFlow, "classifier.onnx" an ONNX model.
  //
  //   PENSTOCK_RETURN_IF_ERROR(model.Export("gs://bucket/classifier/1"));
  absl::Status Export(absl::string_view uri, const ExportOptions& options = {}) const;
  // Names of the classes along the last axis of a classifier's output. Save stores the names, Load
  // restores them, `penstock predict` prints them. Empty: unknown.
  //
  //   model.SetClassNames(train_set.class_names());
  void SetClassNames(std::vector<std::string> names) { class_names_ = std::move(names); }
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Whether Save(uri) can describe this model: Lambda layers cannot be described, and Keras's
  // formats (by the extension of `uri`) cannot describe what Keras lacks.
  absl::Status CheckSavable(absl::string_view uri = "") const;
  // Saves and loads the weights alone, by name; the models' variables must be the same. LoadWeights
  // also reads Keras's files (.weights.h5, .h5, .keras), by the places of variables in Keras's
  // layers; files with PyTorch's names for the variables of a network of room models, which may be
  // a layer of this one (models/torch_weights.h); and the checkpoints of a training
  // (train/callbacks/checkpoint.h), without its other state: the newest one in their folder, or the
  // one in a folder such as "run7/step-00002000".
  absl::Status SaveWeights(absl::string_view uri) const;
  absl::Status LoadWeights(absl::string_view uri);
  // Loads the weights that match and reports the others. The model is unchanged after an error. If
  // none of a TensorFlow checkpoint's arrays has the name of a variable by its place in the
  // program's objects ("layer_with_weights-0/kernel"), the variables' own names count
  // ("conv/kernel").
  absl::StatusOr<WeightsReport> LoadWeights(absl::string_view uri,
                                            const PartialWeightsOptions& options);
  absl::StatusOr<WeightsReport> SetWeights(const base::NamedArrays& weights,
                                           const PartialWeightsOptions& options);
  // A picture of the layers (nn/plot.h).
  std::string ToDot(const nn::PlotOptions& options = {}) const {
    return nn::ToDot(network_, options);
  }
  std::string ToSvg(const nn::PlotOptions& options = {}) const {
    return nn::ToSvg(network_, options);
  }
  // Loads a model written by Save, or by Keras (.keras, .h5), ready to Predict, Evaluate and
  // continue training, with the file's optimizer, loss and metrics (and of Keras's formats the
  // optimizer's state). The weights are transferred to the devices once, and no initializer is run.
  // NOT_FOUND only if the file does not exist; every error names the file.
  struct LoadOptions {
    std::shared_ptr<runtime::Client> client = nullptr;
    int replicas = 1;
    train::Columns columns = {};
    // User-defined layer classes, by class name.
    nn::CustomLayers custom_layers = {};
    // CustomLoss and CustomMean functions, looked up by name.
    std::vector<nn::Loss> custom_losses = {};
    std::vector<nn::Metric> custom_metrics = {};
    // False: leaves out optimizer, loss, metrics and the optimizer's state (compile of
    // keras.models.load_model). Such a model predicts, as one whose file has none of these; before
    // Fit and Evaluate it needs Compile.
    bool compile = true;
  };
  static absl::StatusOr<Model> Load(absl::string_view uri, const LoadOptions& options);
  static absl::StatusOr<Model> Load(absl::string_view uri) { return Load(uri, LoadOptions()); }

  // The trainer underneath; FAILED_PRECONDITION before Compile.
  absl::StatusOr<train::Trainer*> trainer() const;

 protected:
  // For subclasses, which override Call with their forward pass (Keras's `call`). Build, which the
  // subclass's constructor calls last, runs Call once on symbols and makes the result the model's
  // network. An exception thrown by Call is an error of Compile.
  //
  //   class Tower : public keras::Model {
  //    public:
  //     explicit Tower(int64_t units)
  //         : hidden_(keras::Dense({.units = units, .activation = "relu"})),
  //           score_(keras::Dense({.units = 1})) {
  //       Build({keras::Input({.shape = {8}})}, "tower");
  //     }
  //     keras::SymbolsArg Call(const std::vector<keras::Symbol>& x) override {
  //       return score_(hidden_(x[0]));
  //     }
  //
  //    private:
  //     keras::Layer hidden_, score_;
  //   };
  Model();
  virtual SymbolsArg Call(const std::vector<nn::Symbol>& inputs);
  void Build(const SymbolsArg& inputs, std::string name = "model");

 private:
  // Compile with these weights instead of the initializers' values, if not null.
  absl::Status CompileWith(const CompileOptions& options, const base::NamedArrays* weights);

  nn::Network network_;
  std::unique_ptr<train::Trainer> trainer_;
  std::vector<std::string> class_names_;
};

// Callback that saves `model` at the end of epochs (Keras's ModelCheckpoint). The file name may
// contain "{epoch:02d}" (from 1) and metrics, "{val_loss:.2f}". To resume an interrupted training
// use BackupAndRestore, which saves more than the weights.
struct ModelCheckpointOptions {
  std::string filepath;
  std::string monitor = "val_loss";
  bool save_best_only = false;
  bool save_weights_only = false;
  train::Mode mode = train::Mode::kAuto;
  int save_freq = 1;  // epochs, at least 1
  // With save_best_only: the best number so far. Default: the first epoch is the best.
  std::optional<double> initial_value_threshold = std::nullopt;
};
// `model` must outlive the training.
std::shared_ptr<Callback> ModelCheckpoint(const Model& model,
                                          const ModelCheckpointOptions& options);

// An Input or a layer of a Sequential model.
class SequentialItem {
 public:
  SequentialItem(nn::Symbol input) : input_(std::move(input)) {}  // NOLINT
  SequentialItem(nn::Layer layer) : layer_(std::move(layer)) {}   // NOLINT
  const nn::Symbol& input() const { return input_; }
  const nn::Layer& layer() const { return layer_; }

 private:
  nn::Symbol input_;
  nn::Layer layer_;
};
// A chain of layers after one Input.
Model Sequential(const std::vector<SequentialItem>& items, std::string name = "sequential");

}  // namespace penstock::keras
