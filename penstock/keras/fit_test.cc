// The arguments of Fit, as in Keras.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace fit_test {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

Array Numbers(int64_t rows, float from) {
  Array x = Array::Uninitialized(DType::kF32, {rows, 1});
  for (int64_t i = 0; i < rows; ++i) x.mutable_data<float>()[i] = from + static_cast<float>(i);
  return x;
}

// y = w x with w = 1, which never changes: losses are squares that are easy to compute by hand.
Model Still(int outputs = 1) {
  const nn::Symbol x = Input({.shape = {1}, .name = "in"});
  std::vector<nn::Symbol> heads;
  for (int i = 0; i < outputs; ++i) {
    heads.push_back(Dense({.units = 1,
                           .use_bias = false,
                           .kernel_initializer = "ones",
                           .name = i == 0 ? "first" : "second"})(x));
  }
  return Model({x}, heads);
}
CompileOptions StillOptions() {
  return {
      .optimizer = SGD({.learning_rate = 0.0}), .loss = "mse", .client = runtime::TestClient(1)};
}

TEST(Fit, ValidationSplitIsTheLastRows) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  // Ten rows: errors of 1 for the first 7 rows, and of 2 for the last 3.
  const Array x = Numbers(10, 0);
  Array y = x.Clone();
  for (int i = 0; i < 10; ++i) y.mutable_data<float>()[i] += i < 7 ? 1 : 2;
  const auto history = model.Fit(x, y, {.batch_size = 4, .verbose = 0, .validation_split = 0.3});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_FLOAT_EQ(*history->epochs[0].Get("loss"), 1);
  EXPECT_FLOAT_EQ(*history->epochs[0].Get("val_loss"), 4);
  EXPECT_THAT(Message(model.Fit(x, y, {.verbose = 0, .validation_split = 1}).status()),
              HasSubstr("validation_split"));
}

TEST(Fit, AppliesSampleWeightsToTrainingAndValidation) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0), y = Numbers(4, 1);
  const auto history =
      model.Fit(x, y,
                {.verbose = 0,
                 .validation_data = {x, Numbers(4, 3), Array::Of<float>({4}, {0, 0, 0, 2})},
                 .sample_weight = Array::Of<float>({4}, {1, 2, 3, 4})});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_FLOAT_EQ(*history->epochs[0].Get("loss"), 2.5);
  EXPECT_FLOAT_EQ(*history->epochs[0].Get("val_loss"), 4.5);
  EXPECT_FLOAT_EQ(
      *model.Evaluate(x, y, {.sample_weight = Array::Of<float>({4}, {0, 0, 0, 1})})->Get("loss"),
      0.25);
}

std::string StderrOf(const std::function<void()>& run) {
  ::testing::internal::CaptureStderr();
  run();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Evaluate, ShowsTheProgressLineAsKerasDoes) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0);
  const data::Dataset rows = data::Dataset::FromArrays({{"in", x}, {"first", x}}).Batch(2);
  EXPECT_THAT(StderrOf([&] { ASSERT_TRUE(model.Evaluate(x, x).ok()); }), HasSubstr("Evaluate"));
  EXPECT_THAT(StderrOf([&] { ASSERT_TRUE(model.Evaluate(rows).ok()); }), HasSubstr("Evaluate"));
  EXPECT_EQ(StderrOf([&] { ASSERT_TRUE(model.Evaluate(x, x, {.verbose = 0}).ok()); }), "");
  EXPECT_EQ(StderrOf([&] { ASSERT_TRUE(model.Evaluate(rows, {.verbose = 0}).ok()); }), "");
  EXPECT_EQ(StderrOf([&] { ASSERT_TRUE(model.Predict(x).ok()); }), "");
  EXPECT_EQ(StderrOf([&] { ASSERT_TRUE((*model.trainer())->Evaluate(x, x).ok()); }), "");
  EXPECT_THAT(Message(model.Evaluate(x, x, {.verbose = 3}).status()), HasSubstr("verbose is 0"));
  // A callback that evaluates does not break the line of Fit.
  int evaluations = 0;
  const auto evaluate = LambdaCallback(
      {.on_epoch_end = [&](TrainingContext&, const Position&, const Logs&) -> absl::Status {
        ++evaluations;
        return model.Evaluate(x, x).status();
      }});
  EXPECT_EQ(
      StderrOf([&] { ASSERT_TRUE(model.Fit(x, x, {.verbose = 0, .callbacks = {evaluate}}).ok()); }),
      "");
  EXPECT_EQ(evaluations, 1);
}

// The same numbers in a shape without, or with, a last axis of 1.
Array Flat(const Array& column) { return *column.Reshape({column.dim(0)}); }

// Labels [n] beside predictions [n, 1]: as Keras's squeeze_or_expand_to_same_rank.
struct Labeled {
  Array x, y, weights;
};

Labeled LabeledRows() {
  const Array x = Numbers(10, -3);
  Array y = x.Clone();
  for (int i = 0; i < 10; ++i) y.mutable_data<float>()[i] = i % 3 == 0 ? 1 : 0;
  return {x, y, Array::Of<float>({10}, {1, 2, 0, 1, 3, 1, 1, 0.5, 2, 1})};
}

// Losses and metrics of one epoch; the last batch is smaller. In a dataset, labels may be integers.
Logs LogsOf(Model& model, const Labeled& rows, bool as_dataset) {
  FitOptions fit{.verbose = 0};
  absl::StatusOr<History> history;
  if (as_dataset) {
    const data::Dataset dataset =
        data::Dataset::FromArrays(
            {{"in", rows.x}, {"first", *rows.y.Cast(DType::kI64)}, {"sample_weight", rows.weights}})
            .Batch(4);
    fit.validation_data = dataset;
    history = model.Fit(dataset, fit);
  } else {
    fit.batch_size = 4;
    fit.shuffle = false;
    fit.sample_weight = rows.weights;
    fit.validation_data = ValidationData(rows.x, rows.y, rows.weights);
    history = model.Fit(rows.x, rows.y, fit);
  }
  EXPECT_TRUE(history.ok()) << history.status();
  return history.ok() ? history->epochs[0] : Logs();
}

TEST(LabelShapes, MetricsOfRowsAreThoseOfAColumn) {
  const Labeled column = LabeledRows();
  Model model = Still();
  CompileOptions options = StillOptions();
  options.metrics = {"accuracy",
                     metrics::BinaryAccuracy(),
                     metrics::AUC({.from_logits = true}),
                     metrics::Precision(),
                     metrics::TruePositives(),
                     metrics::RootMeanSquaredError(),
                     metrics::R2Score(),
                     metrics::MeanAbsoluteError(),
                     metrics::CustomMean("custom", [](ir::Value y, ir::Value p) {
                       return ir::Square(ir::Convert(y, p.dtype()) - p);
                     })};
  options.weighted_metrics = {metrics::MeanSquaredError()};
  const absl::Status compiled = model.Compile(options);
  ASSERT_TRUE(compiled.ok()) << compiled;
  const Logs want = LogsOf(model, column, false);
  EXPECT_EQ(std::distance(want.begin(), want.end()), 2 * (1 + 9 + 1));
  for (const bool as_dataset : {false, true}) {
    for (const Array& weights : {column.weights, *column.weights.Reshape({10, 1})}) {
      const Logs got = LogsOf(model, {column.x, Flat(column.y), weights}, as_dataset);
      for (const auto& [name, value] : want) EXPECT_EQ(*got.Get(name), value) << name;
    }
  }
}

TEST(LabelShapes, LossesOfRowsAreThoseOfAColumn) {
  const Labeled column = LabeledRows();
  const nn::Loss custom = nn::CustomLoss("custom", [](ir::Value y, ir::Value p) {
    return ir::ReduceMean(ir::Abs(ir::Convert(y, p.dtype()) - p), {1});
  });
  for (const nn::Loss& loss :
       {MeanSquaredError(), MeanAbsoluteError(), Huber(), LogCosh(), KLDivergence(),
        BinaryCrossentropy({.from_logits = true}), BinaryFocalCrossentropy({.from_logits = true}),
        Hinge(), SquaredHinge(), CosineSimilarity(), Dice(), Tversky(), custom,
        MeanSquaredError({.reduction = Reduction::kSum}),
        MeanSquaredError({.reduction = Reduction::kMeanWithSampleWeight})}) {
    Model model = Still();
    CompileOptions options = StillOptions();
    options.loss = loss;
    const absl::Status compiled = model.Compile(options);
    ASSERT_TRUE(compiled.ok()) << compiled;
    const auto evaluated = [&](const Array& labels, const Array& weights) {
      const auto logs = model.Evaluate(column.x, labels,
                                       {.batch_size = 4, .verbose = 0, .sample_weight = weights});
      EXPECT_TRUE(logs.ok()) << loss.name() << ": " << logs.status();
      return logs.ok() ? *logs->Get("loss") : -1;
    };
    const double want = evaluated(column.y, column.weights);
    EXPECT_EQ(evaluated(Flat(column.y), column.weights), want) << loss.name();
    EXPECT_EQ(evaluated(Flat(column.y), *column.weights.Reshape({10, 1})), want) << loss.name();
  }
}

// The mean over n errors, by hand: [n] and [n, 1] broadcast to [n, n] would give another one.
TEST(LabelShapes, EvaluatesTheErrorsOfPairs) {
  Model model = Still();
  CompileOptions options = StillOptions();
  options.metrics = {"mae"};
  ASSERT_TRUE(model.Compile(options).ok());
  const Array x = Array::Of<float>({3, 1}, {1, 2, 5}), y = Array::Of<float>({3}, {1, 4, 2});
  const auto logs = model.Evaluate(x, y);
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_FLOAT_EQ(*logs->Get("loss"), (0 + 4 + 9) / 3.0f);
  EXPECT_FLOAT_EQ(*logs->Get("mae"), (0 + 2 + 3) / 3.0f);
  const auto weighed = model.Evaluate(x, y, {.sample_weight = Array::Of<float>({3}, {2, 1, 0})});
  ASSERT_TRUE(weighed.ok()) << weighed.status();
  EXPECT_FLOAT_EQ(*weighed->Get("loss"), (2 * 0 + 1 * 4) / 3.0f);
}

TEST(LabelShapes, ClassesAndSeveralOutputsMayBeOfEither) {
  const nn::Symbol x = Input({.shape = {2}, .name = "in"});
  Model model({x},
              {Dense({.units = 3, .name = "class"})(x), Dense({.units = 1, .name = "size"})(x)});
  CompileOptions options = StillOptions();
  options.loss = LossesArg::ByName{{"class", SparseCategoricalCrossentropy({.from_logits = true})},
                                   {"size", "mse"}};
  options.metrics = {"accuracy"};
  ASSERT_TRUE(model.Compile(options).ok());
  const Array in = Array::Of<float>({5, 2}, {1, 2, 0, 1, 3, 1, -1, 1, 2, 2});
  const Array classes = Array::Of<int64_t>({5}, {0, 2, 1, 1, 0}), sizes = Numbers(5, 1);
  std::vector<Logs> all;
  for (const Array& c : {classes, *classes.Reshape({5, 1})}) {
    for (const Array& s : {sizes, Flat(sizes)}) {
      const auto logs = model.Evaluate(in, std::vector<Array>{c, s}, {.batch_size = 2});
      ASSERT_TRUE(logs.ok()) << logs.status();
      all.push_back(*logs);
    }
  }
  EXPECT_EQ(std::distance(all[0].begin(), all[0].end()), 5);
  for (const Logs& logs : all) {
    for (const auto& [name, value] : all[0]) EXPECT_EQ(*logs.Get(name), value) << name;
  }
}

// A mask of steps beside labels [batch, steps] and predictions [batch, steps, 1].
TEST(LabelShapes, MaskedStepsCountOnce) {
  Model model = Sequential({Input({.shape = {3, 1}, .name = "in"}), Masking(),
                            Dense({.units = 1, .use_bias = false, .kernel_initializer = "ones"})});
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  // Steps of 0 are masked.
  const Array x = Array::Of<float>({2, 3, 1}, {1, 2, 0, 3, 0, 0});
  const Array y = Array::Of<float>({2, 3}, {2, 4, 9, 3, 9, 9});
  for (const Array& labels : {y, *y.Reshape({2, 3, 1})}) {
    const auto logs = model.Evaluate(x, labels);
    ASSERT_TRUE(logs.ok()) << logs.status();
    EXPECT_FLOAT_EQ(*logs->Get("loss"), (1 + 4 + 0) / 3.0f);
  }
}

TEST(LabelShapes, WhatDoesNotFitSaysSo) {
  const auto error = [](const LossArg& loss, int64_t units, const Array& y) {
    Model model = Sequential({Input({.shape = {1}}), Dense({.units = units})});
    CompileOptions options = StillOptions();
    options.loss = loss;
    EXPECT_TRUE(model.Compile(options).ok());
    return Message(model.Fit(Numbers(4, 0), y, {.verbose = 0}).status());
  };
  const Array wide = Array::Of<float>({4, 2}, {0, 1, 0, 1, 0, 1, 0, 1});
  EXPECT_THAT(error("mse", 1, wide), HasSubstr("the last layer has 1 units and the labels 2"));
  EXPECT_THAT(error("mse", 3, Flat(Numbers(4, 0))), HasSubstr("1 unit instead of 3"));
}

TEST(Fit, MatchesOutputsInOrderOrByNameAndWeightsTheirLosses) {
  for (const bool by_name : {false, true}) {
    Model model = Still(2);
    CompileOptions options = StillOptions();
    options.loss = LossesArg::ByName{{"second", "mse"}, {"first", "mse"}};
    options.loss_weights = {{"second", 10}};
    options.output_metrics = {{"first", {"mse"}}};
    const absl::Status compiled = model.Compile(options);
    ASSERT_TRUE(compiled.ok()) << compiled;
    const Array x = Numbers(6, 0), one = Numbers(6, 1), two = Numbers(6, 2);
    const ArraysArg y = by_name ? ArraysArg(base::NamedArrays{{"second", two}, {"first", one}})
                                : ArraysArg(std::vector<Array>{one, two});
    const auto history = model.Fit(x, y, {.batch_size = 4, .verbose = 0});
    ASSERT_TRUE(history.ok()) << history.status();
    std::vector<std::string> names;
    for (const auto& [name, value] : history->epochs[0]) names.push_back(name);
    EXPECT_THAT(names, ElementsAre("loss", "first_loss", "second_loss", "first_mse"));
    EXPECT_FLOAT_EQ(*history->epochs[0].Get("loss"), 1 + 10 * 4);
    const auto outputs = model.PredictAll(x);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(outputs->size(), 2u);
    EXPECT_THAT(Message(model.Predict(x).status()), HasSubstr("2 outputs; PredictAll"));
    EXPECT_THAT(Message(model.Fit(x, one, {.verbose = 0}).status()),
                AllOf(HasSubstr("y has 1 arrays"), HasSubstr("first, second")));
  }
}

TEST(Fit, MultiOutputModelRoundTripsThroughFile) {
  Model model = Still(2);
  CompileOptions options = StillOptions();
  options.loss = std::vector<LossArg>{"mse", "mse"};
  options.loss_weights = {{"first", 0.5}};
  options.output_metrics = {{"second", {"mse"}}};
  ASSERT_TRUE(model.Compile(options).ok());
  const std::string file =
      ::testing::TempDir() + "/two_" + std::to_string(base::EntropySeed()) + ".safetensors";
  ASSERT_TRUE(model.Save(file).ok());
  auto loaded = Model::Load(file, {.client = runtime::TestClient(1)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::vector<Array> y = {Numbers(6, 1), Numbers(6, 2)};
  const auto a = model.Evaluate(Numbers(6, 0), y), b = loaded->Evaluate(Numbers(6, 0), y);
  ASSERT_TRUE(a.ok() && b.ok()) << b.status();
  for (const auto& [name, value] : *a) EXPECT_EQ(*b->Get(name), value) << name;
  std::remove(file.c_str());
}

TEST(Compile, NamesTargetsThatDoNotMatchOutputs) {
  Model model = Still(2);
  CompileOptions options = StillOptions();
  EXPECT_THAT(Message(model.Compile(options)), HasSubstr("has 2 outputs, loss has 1"));
  options.loss = LossesArg::ByName{{"first", "mse"}};
  EXPECT_THAT(Message(model.Compile(options)), HasSubstr("no loss for the output 'second'"));
  options.loss = LossesArg::ByName{{"first", "mse"}, {"third", "mse"}};
  EXPECT_THAT(Message(model.Compile(options)),
              AllOf(HasSubstr("'third'"), HasSubstr("first, second")));
}

TEST(Fit, RejectsArrayOptionsForDataset) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const auto rows =
      data::Dataset::FromArrays({{"x", Numbers(4, 0)}, {"y", Numbers(4, 0)}}).Batch(2);
  EXPECT_THAT(Message(model.Fit(rows, {.batch_size = 2}).status()), HasSubstr("batch_size"));
  EXPECT_THAT(Message(model.Fit(rows, {.validation_split = 0.5}).status()),
              HasSubstr("validation_split"));
}

TEST(Fit, ValidationStepsLimitValidation) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(8, 0);
  Array y = x.Clone();
  for (int i = 4; i < 8; ++i) y.mutable_data<float>()[i] += 100;
  const auto history = model.Fit(
      x, x,
      {.verbose = 0, .validation_data = {x, y}, .validation_steps = 2, .validation_batch_size = 2});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(*history->epochs[0].Get("val_loss"), 0);
}

TEST(Clone, CopiesLayersWithoutWeightsAndTrainability) {
  Model model = Still();
  auto clone = model.Clone();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ(clone->network().ToJson(), model.network().ToJson());
  for (const auto& use : model.network().uses()) {
    if (use.layer.valid()) use.layer.SetTrainable(false);
  }
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  ASSERT_TRUE(clone->Compile(StillOptions()).ok());
  EXPECT_EQ(model.network().CountParameters(true), 0);
  EXPECT_EQ(clone->network().CountParameters(true), 1);
}

TEST(ModelCheckpoint, SavesBestEpochsUnderTheirNumbers) {
  Model model = Still();
  CompileOptions options = StillOptions();
  options.optimizer = SGD({.learning_rate = 0.01});
  ASSERT_TRUE(model.Compile(options).ok());
  const std::string folder =
      ::testing::TempDir() + "/best_" + std::to_string(base::EntropySeed()) + "/";
  std::filesystem::create_directory(folder);
  // The rate of the second epoch is so large that the loss increases.
  const auto raise =
      LearningRateScheduler([](int epoch, double) { return epoch == 1 ? 0.5 : 0.01; });
  const auto best =
      ModelCheckpoint(model, {.filepath = folder + "{epoch:03d}-{loss:.1f}.safetensors",
                              .monitor = "loss",
                              .save_best_only = true});
  const auto weights = ModelCheckpoint(
      model,
      {.filepath = folder + "weights.safetensors", .save_weights_only = true, .save_freq = 3});
  const Array x = Numbers(4, 0), y = Numbers(4, 4);
  const auto history =
      model.Fit(x, y, {.epochs = 3, .verbose = 0, .callbacks = {raise, best, weights}});
  ASSERT_TRUE(history.ok()) << history.status();
  std::vector<std::string> expected = {"weights.safetensors"};
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < 3; ++i) {
    const double loss = *history->epochs[i].Get("loss");
    if (loss >= least) continue;
    least = loss;
    char name[64];
    std::snprintf(name, sizeof name, "%03d-%.1f.safetensors", static_cast<int>(i + 1), loss);
    expected.push_back(name);
  }
  EXPECT_LT(expected.size(), 4u);
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    files.push_back(file.path().filename());
  }
  EXPECT_THAT(files, ::testing::UnorderedElementsAreArray(expected));
  Model other = Still();
  ASSERT_TRUE(other.Compile(StillOptions()).ok());
  ASSERT_TRUE(other.LoadWeights(folder + "weights.safetensors").ok());
  EXPECT_EQ(other.GetWeights()->Find("first/kernel")->data<float>()[0],
            model.GetWeights()->Find("first/kernel")->data<float>()[0]);
  std::filesystem::remove_all(folder);
}

// A separate bias for each epoch makes the AUC 1, then 0. If AUC were minimized, the second epoch
// would be kept.
TEST(ModelCheckpoint, KeepsBestOfMaximizedMetricRegardlessOfName) {
  Model model = Sequential({Input({.shape = {1}}), Dense({.units = 1,
                                                          .activation = "sigmoid",
                                                          .use_bias = false,
                                                          .kernel_initializer = "zeros",
                                                          .name = "w"})});
  ASSERT_TRUE(model
                  .Compile({.optimizer = SGD({.learning_rate = 0.0}),
                            .loss = "binary_crossentropy",
                            .metrics = {nn::AUC().Named("auc")},
                            .client = runtime::TestClient(1)})
                  .ok());
  const std::string folder =
      ::testing::TempDir() + "/auc_" + std::to_string(base::EntropySeed()) + "/";
  const Array x = Numbers(8, -3.5);
  Array y = x.Clone();
  for (int i = 0; i < 8; ++i) y.mutable_data<float>()[i] = i < 4 ? 0 : 1;
  const auto set =
      LambdaCallback({.on_epoch_begin = [](train::TrainingContext& run, const train::Position& at) {
        const float weight = at.epoch == 0 ? 1.0f : -1.0f;
        return run.SetWeights({{"w/kernel", Array::Of<float>({1, 1}, {weight})}});
      }});
  const auto history = model.Fit(
      x, y,
      {.epochs = 5,
       .verbose = 0,
       .callbacks = {set,
                     EarlyStopping(
                         {.monitor = "val_auc", .patience = 2, .restore_best_weights = true}),
                     ModelCheckpoint(model, {.filepath = folder + "{epoch}.safetensors",
                                             .monitor = "val_auc",
                                             .save_best_only = true})},
       .validation_data = {x, y}});
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->epochs.size(), 3u) << "patience counts from the first epoch";
  EXPECT_EQ(*history->epochs[0].Get("val_auc"), 1);
  EXPECT_LT(*history->epochs[1].Get("val_auc"), 0.5);
  EXPECT_EQ(model.GetWeights()->Find("w/kernel")->data<float>()[0], 1);
  EXPECT_TRUE(std::filesystem::exists(folder + "1.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder + "2.safetensors"));
  std::filesystem::remove_all(folder);
}

// The best value in a checkpoint is that of its number and file: another one begins without.
TEST(ModelCheckpoint, ARestartThatMonitorsAnotherNumberSavesIt) {
  const std::string folder =
      ::testing::TempDir() + "/another_" + std::to_string(base::EntropySeed()) + "/";
  const Array x = Numbers(4, 0), y = Numbers(4, 0.5);
  for (const std::string monitor : {"loss", "mae"}) {  // 0.25, and 0.5, which is not less
    Model model = Still();
    CompileOptions options = StillOptions();
    options.metrics = {"mae"};
    ASSERT_TRUE(model.Compile(options).ok());
    const auto history = model.Fit(
        x, y,
        {.epochs = monitor == "loss" ? 1 : 2,
         .verbose = 0,
         .callbacks = {train::Checkpoint({.folder = folder + "checkpoints"}),
                       ModelCheckpoint(model, {.filepath = folder + monitor + ".safetensors",
                                               .monitor = monitor,
                                               .save_best_only = true})}});
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_TRUE(std::filesystem::exists(folder + monitor + ".safetensors")) << monitor;
  }
  std::filesystem::remove_all(folder);
}

TEST(ModelCheckpoint, RejectsInvalidOptionsBeforeFirstStep) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0);
  const std::string folder = ::testing::TempDir() + "/mc_" + std::to_string(base::EntropySeed());
  int steps = 0;
  const auto count = LambdaCallback(
      {.on_train_batch_end = [&](train::TrainingContext&, const train::Position&, const Logs&) {
        ++steps;
        return absl::OkStatus();
      }});
  const auto error = [&](const ModelCheckpointOptions& options, int validation_freq = 1) {
    return Message(model
                       .Fit(x, x,
                            {.epochs = 2,
                             .verbose = 0,
                             .callbacks = {count, ModelCheckpoint(model, options)},
                             .validation_data = {x, x},
                             .validation_freq = validation_freq})
                       .status());
  };
  EXPECT_THAT(error({.filepath = ""}), HasSubstr("filepath is empty"));
  EXPECT_THAT(error({.filepath = folder + "/m.tiff"}), HasSubstr("formats are safetensors"));
  EXPECT_THAT(error({.filepath = "/proc/none/{epoch}.safetensors"}), HasSubstr("/proc/none"));
  EXPECT_THAT(error({.filepath = folder + "/m.safetensors", .save_freq = 0}),
              HasSubstr("save_freq must be at least 1, got 0"));
  EXPECT_THAT(error({.filepath = folder + "/m.safetensors", .save_freq = -2}),
              HasSubstr("save_freq must be at least 1, got -2"));
  EXPECT_THAT(error({.filepath = folder + "/{val_loss}.safetensors"}, 2),
              HasSubstr("which is measured every 2 epochs"));
  EXPECT_EQ(steps, 0);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(ModelCheckpoint, WarnsOfEpochsWithoutValidation) {
  class Notes : public Callback {
   public:
    bool ShowsNotes() const override { return true; }
    void Note(absl::string_view text) override { texts.emplace_back(text); }
    std::vector<std::string> texts;
  };
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0);
  const std::string file =
      ::testing::TempDir() + "/mc_" + std::to_string(base::EntropySeed()) + ".safetensors";
  const auto notes = std::make_shared<Notes>();
  const auto history = model.Fit(
      x, x,
      {.epochs = 3,
       .verbose = 0,
       .callbacks = {notes, ModelCheckpoint(model, {.filepath = file, .save_best_only = true})},
       .validation_data = {x, x},
       .validation_freq = 2});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(notes->texts,
              ElementsAre(HasSubstr("ModelCheckpoint: 'val_loss' is measured only every 2 epochs "
                                    "(validation_freq)")));
  EXPECT_TRUE(std::filesystem::remove(file));
}

TEST(Fit, RejectsArraysWithoutRows) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0), one = Array::Scalar(1.0f), none = Numbers(0, 0);
  EXPECT_THAT(Message(model.Fit(one, x, {.verbose = 0}).status()),
              HasSubstr("x must have rows, got a scalar"));
  EXPECT_THAT(Message(model.Fit(x, one, {.verbose = 0}).status()), HasSubstr("y must have rows"));
  EXPECT_THAT(Message(model.Fit(x, x, {.verbose = 0, .sample_weight = one}).status()),
              HasSubstr("sample_weight must have rows"));
  EXPECT_THAT(Message(model.Evaluate(one, one).status()), HasSubstr("x must have rows"));
  EXPECT_THAT(Message(model.Predict(one).status()), HasSubstr("x must have rows"));
  EXPECT_THAT(Message(model.Predict(Array()).status()), HasSubstr("x must have rows"));
  EXPECT_THAT(Message(model.Fit(x, x, {.verbose = 0, .validation_data = {none, none}}).status()),
              HasSubstr("validation: there is nothing to evaluate"));
  EXPECT_FALSE(model.Fit(none, none, {.verbose = 0}).ok());
  EXPECT_FALSE(model.Predict(none).ok());
}

TEST(Fit, NamesInvalidNumbers) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0);
  const auto error = [&](FitOptions options) {
    if (options.verbose == 1) options.verbose = 0;
    return Message(model.Fit(x, x, options).status());
  };
  EXPECT_THAT(error({.batch_size = 0}), HasSubstr("batch_size must be at least 1, got 0"));
  EXPECT_THAT(error({.batch_size = -1}), HasSubstr("batch_size"));
  EXPECT_THAT(error({.epochs = 0}), HasSubstr("epochs must be at least 1"));
  EXPECT_THAT(error({.epochs = -5}), HasSubstr("epochs must be at least 1"));
  EXPECT_THAT(error({.verbose = -1}), HasSubstr("verbose"));
  EXPECT_THAT(error({.verbose = 3}), HasSubstr("verbose"));
  EXPECT_THAT(error({.validation_split = -0.5}), HasSubstr("validation_split"));
  EXPECT_THAT(error({.class_weight = {{0, -1}}}), HasSubstr("class_weight"));
  EXPECT_THAT(error({.initial_epoch = -1}), HasSubstr("initial_epoch"));
  EXPECT_THAT(error({.steps_per_epoch = -1}), HasSubstr("steps_per_epoch"));
  EXPECT_THAT(error({.validation_steps = -1}), HasSubstr("validation_steps"));
  EXPECT_THAT(error({.validation_batch_size = 0}), HasSubstr("validation_batch_size"));
  EXPECT_THAT(error({.validation_freq = 0}), HasSubstr("validation_freq"));
  EXPECT_FALSE(model.Evaluate(x, x, {.batch_size = 0}).ok());
  EXPECT_FALSE(model.Predict(x, -1).ok());
  CompileOptions compile = StillOptions();
  compile.replicas = -1;
  EXPECT_THAT(Message(Still().Compile(compile)), HasSubstr("replicas must be at least 0, got -1"));
  compile = StillOptions();
  compile.steps_per_execution = -1;
  EXPECT_THAT(Message(Still().Compile(compile)), HasSubstr("steps_per_execution"));
  compile = StillOptions();
  compile.loss_weights = {{"first", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_THAT(Message(Still().Compile(compile)), HasSubstr("weight of a loss"));
}

// The file contains only a name, which may equal that of a built-in loss.
TEST(Save, RestoresCustomLossesAndMetricsPassedToLoad) {
  const auto twice = [](ir::Value y, ir::Value p) { return 2.0 * ir::Square(y - p); };
  const nn::Loss loss = nn::CustomLoss("mse", twice);
  const nn::Metric metric = nn::CustomMean("twice", twice, nn::MetricDirection::kDown);
  Model model = Still();
  CompileOptions options = StillOptions();
  options.loss = loss;
  options.metrics = {metric.Named("shown")};
  ASSERT_TRUE(model.Compile(options).ok());
  const std::string file =
      ::testing::TempDir() + "/custom_" + std::to_string(base::EntropySeed()) + ".safetensors";
  ASSERT_TRUE(model.Save(file).ok());
  const auto client = runtime::TestClient(1);
  EXPECT_THAT(Message(Model::Load(file, {.client = client}).status()),
              AllOf(HasSubstr("the loss 'mse' is a function of the program"),
                    HasSubstr("LoadOptions.custom_losses")));
  EXPECT_THAT(Message(Model::Load(file, {.client = client, .custom_losses = {loss}}).status()),
              AllOf(HasSubstr("the metric 'twice'"), HasSubstr("LoadOptions.custom_metrics")));
  auto loaded =
      Model::Load(file, {.client = client, .custom_losses = {loss}, .custom_metrics = {metric}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto logs = loaded->Evaluate(Numbers(4, 0), Numbers(4, 3));
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_FLOAT_EQ(*logs->Get("loss"), 18);
  EXPECT_FLOAT_EQ(*logs->Get("shown"), 18);
  std::remove(file.c_str());
}

// ---- Reductions ----

// Loss of one batch of four rows with the errors 1, 2, 3, 4 and the weights 1, 0, 2, 0.5.
TEST(Reductions, FitAndEvaluateMatchFormulas) {
  const Array x = Array::Of<float>({4, 1}, {0, 0, 0, 0}), y = Array::Of<float>({4}, {1, 2, 3, 4});
  const Array weights = Array::Of<float>({4}, {1, 0, 2, 0.5});
  struct Case {
    Reduction reduction;
    double plain, weighted;
  };
  const double sum = 1 + 4 + 9 + 16, weighted = 1 * 1 + 2 * 9 + 0.5 * 16;
  for (const Case& c :
       {Case{Reduction::kSumOverBatchSize, sum / 4, weighted / 4},
        Case{Reduction::kMean, sum / 4, weighted / 4}, Case{Reduction::kSum, sum, weighted},
        Case{Reduction::kMeanWithSampleWeight, sum / 4, weighted / 3.5}}) {
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(c.reduction + ", replicas: " + std::to_string(replicas));
      Model model = Still();
      CompileOptions options = StillOptions();
      options.loss = MeanSquaredError({.reduction = c.reduction});
      options.client = runtime::TestClient(replicas);
      options.replicas = replicas;
      ASSERT_TRUE(model.Compile(options).ok());
      // A batch of 6 has two rows of padding.
      for (const int64_t batch : {4, 6}) {
        const auto evaluated = [&](const ArraysArg& given) {
          const auto logs =
              model.Evaluate(x, y, {.batch_size = batch, .verbose = 0, .sample_weight = given});
          EXPECT_TRUE(logs.ok()) << logs.status();
          return logs.ok() ? *logs->Get("loss") : -1;
        };
        EXPECT_FLOAT_EQ(evaluated({}), c.plain);
        EXPECT_FLOAT_EQ(evaluated(weights), c.weighted);
      }
      const auto history = model.Fit(x, y, {.verbose = 0, .sample_weight = weights});
      ASSERT_TRUE(history.ok()) << history.status();
      EXPECT_FLOAT_EQ(*history->epochs[0].Get("loss"), c.weighted);
    }
  }
}

// One step from w = 1 by the gradient of each reduction.
TEST(Reductions, ScaleTheGradient) {
  const Array x = Numbers(4, 1), y = Array::Of<float>({4}, {0, 0, 0, 0});
  const double sum = 2 * (1 + 4 + 9 + 16);
  for (const auto& [reduction, gradient] :
       {std::pair<Reduction, double>{Reduction::kSum, sum},
        std::pair<Reduction, double>{Reduction::kMean, sum / 4}}) {
    Model model = Still();
    CompileOptions options = StillOptions();
    options.optimizer = SGD({.learning_rate = 0.001});
    options.loss = MeanSquaredError({.reduction = reduction});
    ASSERT_TRUE(model.Compile(options).ok());
    ASSERT_TRUE(model.Fit(x, y, {.verbose = 0}).ok());
    const auto weights = model.GetWeights();
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_FLOAT_EQ(weights->Find("first/kernel")->values<float>()[0], 1 - 0.001 * gradient)
        << reduction;
  }
}

TEST(Reductions, NoneCannotBeCompiled) {
  for (const std::string& name : nn::Loss::Names()) {
    CompileOptions options = StillOptions();
    options.loss = nn::Loss::FromName(name)->WithReduction(Reduction::kNone);
    EXPECT_THAT(Message(Still().Compile(options)),
                AllOf(HasSubstr("the loss " + name + " has the reduction 'none'"),
                      HasSubstr("use sum_over_batch_size, mean, sum, mean_with_sample_weight")));
  }
}

// The loss of the model that Load returns.
nlohmann::ordered_json LoadedLoss(const std::string& file, const Model::LoadOptions& options) {
  const auto model = Model::Load(file, options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return nullptr;
  return (*model->trainer())->objective().targets[0].loss.ToJson();
}

TEST(Save, RestoresReductionAndNameOfEveryLoss) {
  const std::string file =
      ::testing::TempDir() + "/loss_" + std::to_string(base::EntropySeed()) + ".safetensors";
  const auto client = runtime::TestClient(1);
  const nn::Loss custom =
      nn::CustomLoss("mine", [](ir::Value y, ir::Value p) { return ir::Square(y - p); });
  std::vector<nn::Loss> losses = {custom};
  for (const std::string& name : nn::Loss::Names()) losses.push_back(*nn::Loss::FromName(name));
  for (const nn::Loss& loss : losses) {
    for (const char* reduction : {"sum", "mean_with_sample_weight"}) {
      Model model = Still();
      CompileOptions options = StillOptions();
      options.loss = loss.WithReduction(reduction).Named("shown");
      ASSERT_TRUE(model.Compile(options).ok());
      ASSERT_TRUE(model.Save(file).ok());
      const auto loaded = LoadedLoss(file, {.client = client, .custom_losses = {custom}});
      EXPECT_EQ(loaded, loss.WithReduction(reduction).Named("shown").ToJson());
      EXPECT_EQ(loaded["config"]["reduction"], reduction);
      EXPECT_EQ(loaded["config"]["name"], "shown");
    }
  }
  std::remove(file.c_str());
}

TEST(ModelCheckpoint, RejectsUnknownFormatsAndNames) {
  Model model = Still();
  ASSERT_TRUE(model.Compile(StillOptions()).ok());
  const Array x = Numbers(4, 0);
  const auto error = [&](const std::string& path) {
    return Message(
        model.Fit(x, x, {.verbose = 0, .callbacks = {ModelCheckpoint(model, {.filepath = path})}})
            .status());
  };
  EXPECT_THAT(error("/tmp/{epoch:xyz}"), HasSubstr("'xyz' is not supported"));
  EXPECT_THAT(error("/tmp/{auc}"), HasSubstr("nothing named 'auc'"));
  EXPECT_THAT(error("/tmp/{epoch"), HasSubstr("not closed"));
}

TEST(Freezing, FrozenLayerKeepsItsWeights) {
  Model model = Still(2);
  for (const auto& use : model.network().uses()) {
    if (use.name == "first") use.layer.SetTrainable(false);
  }
  CompileOptions options = StillOptions();
  options.optimizer = SGD({.learning_rate = 0.01});
  options.loss = std::vector<LossArg>{"mse", "mse"};
  ASSERT_TRUE(model.Compile(options).ok());
  const std::vector<Array> y = {Numbers(4, 5), Numbers(4, 5)};
  ASSERT_TRUE(model.Fit(Numbers(4, 0), y, {.verbose = 0}).ok());
  const auto weights = model.GetWeights();
  EXPECT_EQ(weights->Find("first/kernel")->data<float>()[0], 1);
  EXPECT_NE(weights->Find("second/kernel")->data<float>()[0], 1);
}

}  // namespace fit_test
}  // namespace penstock::keras
