// The names of room nn in the front end: keras::Dense, keras::Adam, keras::metrics::AUC...
//
// Keras's modules are namespaces. Layers, optimizers, schedules, losses and callbacks are also
// available directly in keras::, as are initializers, regularizers and constraints (but
// initializers::Identity, since keras::Identity is the layer). Metrics are in keras::metrics alone,
// where many have the names of losses; activations in keras::activations, where some have the names
// of layers:
//
//   keras::layers::Dense, keras::Dense
//   keras::optimizers::AdamW, keras::AdamW
//   keras::optimizers::schedules::CosineDecay, keras::CosineDecay
//   keras::losses::Huber, keras::Huber
//   keras::metrics::MeanSquaredError
//   keras::initializers::HeNormal, keras::HeNormal
//   keras::activations::Gelu
//
// Included by keras.h. A test (names_test.cc) reads this file and fails when a name of room nn is
// missing here.
#pragma once

#include "penstock/ir/stablehlo.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"
#include "penstock/nn/schedules.h"
#include "penstock/nn/typed_options.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/csv_logger.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/callbacks/learning_rate.h"
#include "penstock/train/callbacks/swap_ema_weights.h"
#include "penstock/train/callbacks/tensorboard.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/trainer.h"

namespace penstock::keras {

// ---- Layers and symbols ----
using nn::CallContext;
using nn::Input;
using nn::Layer;
using nn::LayerBody;
using nn::Remat;
using nn::RematMode;
using nn::RematOptions;
using nn::Symbol;
using nn::Value;
using nn::Values;

// ---- Typed values of options (nn/typed_options.h) ----
using ir::MatmulPrecision;
using nn::ActivationFunction;
using nn::AnnealStrategy;
using nn::AucCurve;
using nn::AucSummationMethod;
using nn::ClassAggregation;
using nn::ClassAverage;
using nn::Constraint;
using nn::DTypePolicy;
using nn::ElementType;
using nn::FillMode;
using nn::FlipMode;
using nn::Initializer;
using nn::Interpolation;
using nn::MergeMode;
using nn::OrthogonalMode;
using nn::OutputMode;
using nn::Padding;
using nn::RankDir;
using nn::Reduction;
using nn::Regularizer;
using nn::ScalingDistribution;
using nn::ScalingMode;
using nn::ScoreMode;

inline namespace layers {
using nn::Activation;
using nn::ActivityRegularization;
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
using nn::AutoContrast;
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
using nn::CustomScaleLayer;
using nn::Dense;
using nn::DepthwiseConv1D;
using nn::DepthwiseConv2D;
using nn::Discretization;
using nn::Dot;
using nn::Dropout;
using nn::ELU;
using nn::Embedding;
using nn::Flatten;
using nn::Flip;
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
using nn::Lambda;
using nn::LayerNormalization;
using nn::LayerScale;
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
using nn::RandomColorDegeneration;
using nn::RandomColorJitter;
using nn::RandomContrast;
using nn::RandomCrop;
using nn::RandomErasing;
using nn::RandomFlip;
using nn::RandomGaussianBlur;
using nn::RandomGrayscale;
using nn::RandomHue;
using nn::RandomInvert;
using nn::RandomPosterization;
using nn::RandomRotation;
using nn::RandomSaturation;
using nn::RandomSharpness;
using nn::RandomShear;
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
using nn::Solarization;
using nn::SpatialDropout1D;
using nn::SpatialDropout2D;
using nn::SpatialDropout3D;
using nn::StochasticDepth;
using nn::Subtract;
using nn::TimeDistributed;
using nn::UnitNormalization;
using nn::UpSampling1D;
using nn::UpSampling2D;
using nn::UpSampling3D;
using nn::ZeroPadding1D;
using nn::ZeroPadding2D;
using nn::ZeroPadding3D;
// Keras's layers of these names act on {"images", "labels"}; here they are arguments of Compile.
using nn::CutMix;
using nn::MixUp;
}  // namespace layers

inline namespace optimizers {
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
using nn::Optimizer;
using nn::RMSprop;
using nn::SGD;

inline namespace schedules {
using nn::CosineDecay;
using nn::CosineDecayRestarts;
using nn::ExponentialDecay;
using nn::InverseTimeDecay;
using nn::LinearBatchScaling;
using nn::OneCycle;
using nn::PiecewiseConstantDecay;
using nn::PolynomialDecay;
using nn::Schedule;
using nn::WarmUp;
}  // namespace schedules
}  // namespace optimizers

inline namespace losses {
using nn::BinaryCrossentropy;
using nn::BinaryFocalCrossentropy;
using nn::CategoricalCrossentropy;
using nn::CategoricalFocalCrossentropy;
using nn::CategoricalGeneralizedCrossEntropy;
using nn::CategoricalHinge;
using nn::Circle;
using nn::CosineSimilarity;
using nn::CTC;
using nn::CustomLoss;
using nn::Dice;
using nn::Hinge;
using nn::Huber;
using nn::KLDivergence;
using nn::LogCosh;
using nn::Loss;
using nn::MeanAbsoluteError;
using nn::MeanAbsolutePercentageError;
using nn::MeanSquaredError;
using nn::MeanSquaredLogarithmicError;
using nn::Poisson;
using nn::SparseCategoricalCrossentropy;
using nn::SquaredHinge;
using nn::Tversky;
}  // namespace losses

namespace metrics {
using nn::AUC;
using nn::BinaryAccuracy;
using nn::BinaryIoU;
using nn::CategoricalAccuracy;
using nn::ConcordanceCorrelation;
using nn::CustomMean;
using nn::F1Score;
using nn::FalseNegatives;
using nn::FalsePositives;
using nn::FBetaScore;
using nn::IoU;
using nn::Mean;
using nn::MeanIoU;
using nn::MeanOfLoss;
using nn::Metric;
using nn::MetricDirection;
using nn::OneHotIoU;
using nn::OneHotMeanIoU;
using nn::PearsonCorrelation;
using nn::Precision;
using nn::PrecisionAtRecall;
using nn::R2Score;
using nn::Recall;
using nn::RecallAtPrecision;
using nn::RootMeanSquaredError;
using nn::SensitivityAtSpecificity;
using nn::SparseCategoricalAccuracy;
using nn::SparseTopKCategoricalAccuracy;
using nn::SpecificityAtSensitivity;
using nn::Sum;
using nn::TopKCategoricalAccuracy;
using nn::TrueNegatives;
using nn::TruePositives;

// keras.metrics.Accuracy: predictions equal to labels. The metric "accuracy", which chooses by the
// shapes, is nn::Accuracy().
inline Metric Accuracy() { return nn::ExactAccuracy(); }
inline Metric CosineSimilarity(const nn::CorrelationOptions& options = {}) {
  return nn::CosineSimilarityMetric(options);
}
inline Metric MeanSquaredError() { return nn::MeanSquaredErrorMetric(); }
inline Metric LogCoshError() { return nn::LogCoshErrorMetric(); }
inline Metric BinaryCrossentropy(const nn::CrossentropyMetricOptions& options = {}) {
  return nn::MeanOfLoss(nn::BinaryCrossentropy({.from_logits = options.from_logits,
                                                .label_smoothing = options.label_smoothing,
                                                .axis = options.axis}));
}
inline Metric CategoricalCrossentropy(const nn::CrossentropyMetricOptions& options = {}) {
  return nn::MeanOfLoss(nn::CategoricalCrossentropy({.from_logits = options.from_logits,
                                                     .label_smoothing = options.label_smoothing,
                                                     .axis = options.axis}));
}
inline Metric SparseCategoricalCrossentropy(
    const nn::SparseCrossentropyMetricOptions& options = {}) {
  return nn::MeanOfLoss(
      nn::SparseCategoricalCrossentropy({.from_logits = options.from_logits,
                                         .ignore_class = options.ignore_class,
                                         .axis = options.axis,
                                         .label_smoothing = options.label_smoothing}));
}
inline Metric MeanAbsoluteError() { return nn::MeanOfLoss(nn::MeanAbsoluteError()); }
inline Metric MeanAbsolutePercentageError() {
  return nn::MeanOfLoss(nn::MeanAbsolutePercentageError());
}
inline Metric MeanSquaredLogarithmicError() {
  return nn::MeanOfLoss(nn::MeanSquaredLogarithmicError());
}
inline Metric KLDivergence() { return nn::MeanOfLoss(nn::KLDivergence()); }
inline Metric Poisson() { return nn::MeanOfLoss(nn::Poisson()); }
inline Metric Hinge() { return nn::MeanOfLoss(nn::Hinge()); }
inline Metric SquaredHinge() { return nn::MeanOfLoss(nn::SquaredHinge()); }
inline Metric CategoricalHinge() { return nn::MeanOfLoss(nn::CategoricalHinge()); }
}  // namespace metrics

inline namespace callbacks {
// Keras's spelling of CsvLogger.
inline std::shared_ptr<train::Callback> CSVLogger(const train::CsvLoggerOptions& options) {
  return train::CsvLogger(options);
}
using train::BackupAndRestore;
using train::Callback;
using train::Checkpoint;
using train::CheckpointPlace;
using train::CsvLogger;
using train::EarlyStopping;
using train::InferenceContext;
using train::LambdaCallback;
using train::LearningRateScheduler;
using train::Position;
using train::ReduceLROnPlateau;
using train::SwapEMAWeights;
using train::TensorBoard;
using train::TerminateOnNan;
using train::TrainingContext;
}  // namespace callbacks

namespace activations = nn::activations;
namespace initializers = nn::initializers;
namespace regularizers = nn::regularizers;
namespace constraints = nn::constraints;
using nn::constraints::MaxNorm;
using nn::constraints::MinMaxNorm;
using nn::constraints::NonNeg;
using nn::constraints::UnitNorm;
using nn::initializers::Constant;
using nn::initializers::GlorotNormal;
using nn::initializers::GlorotUniform;
using nn::initializers::HeNormal;
using nn::initializers::HeUniform;
using nn::initializers::LecunNormal;
using nn::initializers::LecunUniform;
using nn::initializers::Ones;
using nn::initializers::Orthogonal;
using nn::initializers::RandomNormal;
using nn::initializers::RandomUniform;
using nn::initializers::TruncatedNormal;
using nn::initializers::VarianceScaling;
using nn::initializers::Zeros;
using nn::regularizers::L1;
using nn::regularizers::L1L2;
using nn::regularizers::L2;
using nn::regularizers::OrthogonalRegularizer;

using nn::Adapt;
using nn::Adapter;
using train::CustomStep;
using train::History;
using train::Logs;
using train::StepContext;
using train::StepResult;

}  // namespace penstock::keras
