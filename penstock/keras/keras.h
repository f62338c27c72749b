// Room keras: the front end for those who think in Keras — Sequential and functional models,
// Compile, Fit, Evaluate, Predict, Save, Load. It translates; the work is done in nn and train.
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
//   absl::StatusOr<keras::History> history = model.Fit(train_set, {.epochs = 5, .validation_data =
//   &test_set});
//
// Errors of building (a layer that gets the wrong shape) are kept until Compile, which returns the
// first one with the layer, the shapes and the line of your program.
//
// Where this differs from Keras: a dataset's batches are columns with names, and
// CompileOptions.columns says which are the inputs and the labels when that is not clear.
#pragma once

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
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"
#include "penstock/nn/plot.h"
#include "penstock/runtime/client.h"
#include "penstock/train/callbacks.h"
#include "penstock/train/trainer.h"

namespace penstock::keras {

// ---- Names ----
using nn::Activation;
using nn::ActivityRegularization;
using nn::Adapt;
using nn::Adapter;
using nn::AdaptiveAveragePooling1D;
using nn::AdaptiveAveragePooling2D;
using nn::AdaptiveAveragePooling3D;
using nn::AdaptiveMaxPooling1D;
using nn::AdaptiveMaxPooling2D;
using nn::AdaptiveMaxPooling3D;
using nn::Add;
using nn::AdditiveAttention;
using nn::AlphaDropout;
using nn::Attention;
using nn::Average;
using nn::AveragePooling1D;
using nn::AveragePooling2D;
using nn::AveragePooling3D;
using nn::BatchNormalization;
using nn::Bidirectional;
using nn::CategoryEncoding;
using nn::CenterCrop;
using nn::Concatenate;
using nn::Conv1D;
using nn::Conv1DTranspose;
using nn::Conv2D;
using nn::Conv2DTranspose;
using nn::Conv3D;
using nn::Conv3DTranspose;
using nn::Cropping1D;
using nn::Cropping2D;
using nn::Cropping3D;
using nn::CustomLayer;
using nn::Dense;
using nn::DepthwiseConv1D;
using nn::DepthwiseConv2D;
using nn::Discretization;
using nn::Dot;
using nn::Dropout;
using nn::ELU;
using nn::Embedding;
using nn::Flatten;
using nn::GaussianDropout;
using nn::GaussianNoise;
using nn::GlobalAveragePooling1D;
using nn::GlobalAveragePooling2D;
using nn::GlobalAveragePooling3D;
using nn::GlobalMaxPooling1D;
using nn::GlobalMaxPooling2D;
using nn::GlobalMaxPooling3D;
using nn::GroupNormalization;
using nn::GroupQueryAttention;
using nn::GRU;
using nn::Identity;
using nn::Input;
using nn::Lambda;
using nn::LayerNormalization;
using nn::LeakyReLU;
using nn::LSTM;
using nn::Masking;
using nn::Maximum;
using nn::MaxPooling1D;
using nn::MaxPooling2D;
using nn::MaxPooling3D;
using nn::Minimum;
using nn::MultiHeadAttention;
using nn::Multiply;
using nn::Nested;
using nn::Normalization;
using nn::Permute;
using nn::PositionEmbedding;
using nn::PReLU;
using nn::RandomBrightness;
using nn::RandomContrast;
using nn::RandomCrop;
using nn::RandomFlip;
using nn::RandomRotation;
using nn::RandomTranslation;
using nn::RandomZoom;
using nn::ReLU;
using nn::RepeatVector;
using nn::Rescaling;
using nn::Reshape;
using nn::Resizing;
using nn::ReversibleEmbedding;
using nn::RMSNormalization;
using nn::SeparableConv1D;
using nn::SeparableConv2D;
using nn::SimpleRNN;
using nn::Softmax;
using nn::SpatialDropout1D;
using nn::SpatialDropout2D;
using nn::SpatialDropout3D;
using nn::Subtract;
using nn::TimeDistributed;
using nn::UnitNormalization;
using nn::UpSampling1D;
using nn::UpSampling2D;
using nn::UpSampling3D;
using nn::ZeroPadding1D;
using nn::ZeroPadding2D;
using nn::ZeroPadding3D;

using nn::Adadelta;
using nn::Adafactor;
using nn::Adagrad;
using nn::Adam;
using nn::Adamax;
using nn::AdamW;
using nn::Ftrl;
using nn::Lamb;
using nn::LARS;
using nn::Lion;
using nn::LossScaleOptimizer;
using nn::Muon;
using nn::Nadam;
using nn::RMSprop;
using nn::SGD;

using nn::CosineDecay;
using nn::CosineDecayRestarts;
using nn::ExponentialDecay;
using nn::InverseTimeDecay;
using nn::LinearBatchScaling;
using nn::OneCycle;
using nn::PiecewiseConstantDecay;
using nn::PolynomialDecay;
using nn::WarmUp;

using nn::CategoricalCrossentropy;
using nn::MeanSquaredError;
using nn::SparseCategoricalCrossentropy;

using train::BackupAndRestore;
using train::Callback;
using train::Checkpoint;
using train::CsvLogger;
using train::CustomStep;
using train::EarlyStopping;
using train::History;
using train::LambdaCallback;
using train::LearningRateScheduler;
using train::Logs;
using train::ReduceLROnPlateau;
using train::TensorBoard;
using train::TerminateOnNan;

// Shows `column` of all of a dataset's elements to a layer that learns from data before training
// (Normalization, Discretization); with one column there is no need to name it. The dataset must
// end. The layer must not be part of a model yet.
//
//   nn::Layer normalize = keras::Normalization();
//   PENSTOCK_RETURN_IF_ERROR(keras::Adapt(normalize, train_set, "image"));
absl::Status Adapt(const nn::Layer& layer, const data::Dataset& dataset,
                   absl::string_view column = "");

struct CompileOptions {
  OptimizerArg optimizer = "adam";
  // Of several outputs: LossesArg::ByName{{"class", "sparse_categorical_crossentropy"},
  // {"box", "mse"}}, or a list in their order.
  LossesArg loss = "sparse_categorical_crossentropy";
  // How much each output's loss counts, by the output's name; 1 where it is not named.
  std::map<std::string, double> loss_weights = {};
  // Of every output.
  std::vector<MetricArg> metrics = {};
  // The same, but examples count as their weights say.
  std::vector<MetricArg> weighted_metrics = {};
  // Of single outputs, by the output's name.
  std::map<std::string, std::vector<MetricArg>> output_metrics = {};
  // A training step of one's own instead of the losses (train/objective.h). It is not saved with
  // the model.
  std::optional<train::CustomStep> train_step = {};
  train::Columns columns = {};
  // Where it runs. None: the device that PENSTOCK_DEVICE names, else the CPU, with one replica.
  std::shared_ptr<runtime::Client> client = nullptr;
  int replicas = 1;   // 0: all devices
  uint64_t seed = 0;  // of the first weights, dropout and augmentation
  // Training steps between two looks at the host; Keras's "auto" is train::kAutoSteps.
  int64_t steps_per_execution = 1;
  // For layers that have no dtype of their own: "float32", "mixed_bfloat16", "mixed_float16"...
  // (nn/policy.h; in Keras keras.config.set_dtype_policy). Empty: as the network has it. Under
  // "mixed_float16" the optimizer becomes a LossScaleOptimizer, as in Keras.
  std::string dtype_policy = "";
  // How exactly TPUs and GPUs multiply in float32: "default", "high", "highest".
  std::string matmul_precision = "default";
};

// Keras's arguments of fit.
struct FitOptions {
  // Of arrays, 32 if not given. A dataset has its batches already.
  std::optional<int64_t> batch_size = std::nullopt;
  int epochs = 1;
  // 1, 2: the progress line. 0: silence.
  int verbose = 1;
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  // Of arrays: this share of the rows, the last ones, is not trained on but validated on.
  double validation_split = 0;
  ValidationData validation_data = {};
  // Of arrays: rows in another order in each epoch.
  bool shuffle = true;
  // How much the examples of a class count, by its number; 1 where it is not named.
  std::map<int64_t, double> class_weight = {};
  // Of arrays: how much each example counts, one number for each row (for each output). A dataset
  // has them in a column "sample_weight".
  ArraysArg sample_weight = {};
  int initial_epoch = 0;
  // 0: an epoch is one pass. Otherwise the data go on from epoch to epoch, and should Repeat().
  int64_t steps_per_epoch = 0;
  // Batches of a validation; 0: all.
  int64_t validation_steps = 0;
  // Of arrays; batch_size if not given.
  std::optional<int64_t> validation_batch_size = std::nullopt;
  int validation_freq = 1;
  train::ReadOptions read = {};
  // Where the time goes, as pictures and tables (train/profile_options.h).
  std::optional<train::ProfileOptions> profile = {};
};

struct EvaluateOptions {
  int64_t batch_size = 32;
  ArraysArg sample_weight = {};
};

class Model {
 public:
  // Functional: what lies between inputs and outputs.
  Model(const std::vector<nn::Symbol>& inputs, const std::vector<nn::Symbol>& outputs,
        std::string name = "model")
      : Model(nn::Network(inputs, outputs, std::move(name))) {}
  explicit Model(nn::Network network) : network_(std::move(network)) {}

  const nn::Network& network() const { return network_; }
  std::string Summary(const nn::SummaryOptions& options = {}) const {
    return network_.Summary(options);
  }

  // The first error of building, a wrong name, a device that is not there. Initializes the
  // weights again. FAILED_PRECONDITION while Fit is running.
  absl::Status Compile(const CompileOptions& options);

  // Callbacks may call Evaluate, Predict, Save and the like, but neither Fit nor Compile.
  absl::StatusOr<History> Fit(const data::Dataset& dataset, const FitOptions& options = {});
  absl::StatusOr<History> Fit(const ArraysArg& x, const ArraysArg& y,
                              const FitOptions& options = {});
  absl::StatusOr<Logs> Evaluate(const data::Dataset& dataset);
  absl::StatusOr<Logs> Evaluate(const ArraysArg& x, const ArraysArg& y,
                                const EvaluateOptions& options = {});
  // The only output for every row.
  absl::StatusOr<base::Array> Predict(const data::Dataset& dataset);
  absl::StatusOr<base::Array> Predict(const ArraysArg& x, int64_t batch_size = 32);
  // All outputs.
  absl::StatusOr<std::vector<base::Array>> PredictAll(const data::Dataset& dataset);
  absl::StatusOr<std::vector<base::Array>> PredictAll(const ArraysArg& x, int64_t batch_size = 32);

  // The model as a layer of another: its variables are "<name>/<layer>/...". The other model
  // initializes new weights; SetWeights copies these into it. Layers that both models call are one
  // layer of the other model, with one set of variables (nn/network.h). SetTrainable(false) on the
  // result freezes the layers only in models that are compiled with it afterwards.
  nn::Layer AsLayer() const { return nn::Nested(network_); }
  // The same layers anew, with no weights: keras.models.clone_model.
  absl::StatusOr<Model> Clone() const;

  absl::StatusOr<base::NamedArrays> GetWeights() const;
  absl::Status SetWeights(const base::NamedArrays& weights);

  // One safetensors file: the weights by name, and in its metadata the layers and the arguments of
  // Compile, as JSON. Any file system; the file is published atomically. User-defined losses and
  // metrics are saved by name: Load needs them again (LoadOptions.custom_losses, custom_metrics).
  absl::Status Save(absl::string_view uri) const;
  // Whether Save can describe this model: a Lambda layer has no description.
  absl::Status CheckSavable() const;
  // The weights alone, and back: of a model of the same variables, by name.
  absl::Status SaveWeights(absl::string_view uri) const;
  absl::Status LoadWeights(absl::string_view uri);
  // A picture of the layers (nn/plot.h).
  std::string ToDot(const nn::PlotOptions& options = {}) const {
    return nn::ToDot(network_, options);
  }
  std::string ToSvg(const nn::PlotOptions& options = {}) const {
    return nn::ToSvg(network_, options);
  }
  // A model that can Predict and Evaluate at once, and be trained further. `options` says where it
  // runs; its optimizer, loss and metrics are those of the file. NOT_FOUND only if the file does
  // not exist; every error names the file.
  struct LoadOptions {
    std::shared_ptr<runtime::Client> client = nullptr;
    int replicas = 1;
    train::Columns columns = {};
    // Layer classes of the program's own, by class name.
    nn::CustomLayers custom_layers = {};
    // CustomLoss and CustomMean functions, looked up by name.
    std::vector<nn::Loss> custom_losses = {};
    std::vector<nn::Metric> custom_metrics = {};
  };
  static absl::StatusOr<Model> Load(absl::string_view uri, const LoadOptions& options);
  static absl::StatusOr<Model> Load(absl::string_view uri) { return Load(uri, LoadOptions()); }

  // The machinery underneath; needs Compile.
  absl::StatusOr<train::Trainer*> trainer() const;

 private:
  // Rows as a dataset, under the names that the feed looks for.
  absl::StatusOr<data::Dataset> Rows(const ArraysArg& x, const ArraysArg* y,
                                     const ArraysArg& sample_weight) const;
  // What to validate on, in batches; none when there is none.
  absl::StatusOr<std::optional<data::Dataset>> Batches(const ValidationData& validation,
                                                       int64_t batch_size) const;
  absl::StatusOr<History> FitWith(const data::Dataset& dataset,
                                  const std::optional<data::Dataset>& validation,
                                  const FitOptions& options);

  nn::Network network_;
  std::unique_ptr<train::Trainer> trainer_;
};

// Keras's ModelCheckpoint: saves `model` at the ends of epochs. The file's name may have
// "{epoch:02d}" (from 1) and measured numbers, "{val_loss:.2f}". To go on with a training that was
// broken off use BackupAndRestore, which keeps more than the weights.
struct ModelCheckpointOptions {
  std::string filepath;
  std::string monitor = "val_loss";
  bool save_best_only = false;
  bool save_weights_only = false;
  train::Mode mode = train::Mode::kAuto;
  int save_freq = 1;  // epochs, at least 1
  // The best so far, with save_best_only; none: the first epoch is the best.
  std::optional<double> initial_value_threshold = std::nullopt;
};
// `model` must outlive the training.
std::shared_ptr<Callback> ModelCheckpoint(const Model& model,
                                          const ModelCheckpointOptions& options);

// A chain of layers after one Input.
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
Model Sequential(const std::vector<SequentialItem>& items, std::string name = "sequential");

}  // namespace penstock::keras
