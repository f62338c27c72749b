// Fine-tuning on cached features: compared with the training of the whole frozen model; and what is
// rejected.
#include "penstock/keras/cached_features.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/split_dataset.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace cached_features_test {

using base::Array;
using base::BitwiseEqual;
using base::DType;
using base::NamedArrays;
using data::Dataset;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 20;
constexpr char kFolder[] = "memory://cache/features";

Array Uniform(base::Shape shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(random.Uniform() - 0.5);
  }
  return out;
}

NamedArrays Columns(uint64_t seed) {
  return {{"image", Uniform({kRows, 4, 4, 2}, seed)},
          {"y", Uniform({kRows, 2}, seed + 1)},
          {"sample_weight", Uniform({kRows}, seed + 2)}};
}

// The rows, each of which is counted when it is read.
Dataset Counted(const NamedArrays& columns, std::atomic<int>* reads,
                const std::string& name = "count") {
  return Dataset::FromArrays(columns).Map(
      [reads](const NamedArrays& in, NamedArrays* out) {
        ++*reads;
        out->Set("image", *in.Find("image"));
        return absl::OkStatus();
      },
      {.name = name, .reads = {"image"}});
}

// Backbone "conv" ... "pool", head "hidden" and "logits".
Model Net(const std::vector<nn::Layer>& in_backbone = {}) {
  const nn::Symbol image = Input({.shape = {4, 4, 2}, .name = "image"});
  nn::Symbol x = Conv2D({.filters = 4, .kernel_size = 3, .name = "conv"})(image);
  x = BatchNormalization({.name = "norm"})(x);
  for (const nn::Layer& layer : in_backbone) x = layer(x);
  x = GlobalAveragePooling2D({.name = "pool"})(x);
  x = Dense({.units = 3, .activation = "tanh", .name = "hidden"})(x);
  return Model(image, Dense({.units = 2, .name = "logits"})(x));
}
CompileOptions Options() {
  return {.optimizer = Adam({.learning_rate = 0.01}),
          .loss = "mse",
          .metrics = {"mae"},
          .columns = {.labels = {"y"}},
          .client = runtime::TestClient(1),
          .seed = 7};
}
// Compiled, with the backbone frozen.
Model Frozen(const std::vector<nn::Layer>& in_backbone = {},
             const CompileOptions& options = Options()) {
  Model model = Net(in_backbone);
  EXPECT_TRUE(model.SetTrainable(false, {"conv", "norm"}).ok());
  EXPECT_TRUE(model.Compile(options).ok());
  return model;
}

class CachedFeaturesTest : public ::testing::Test {
 protected:
  FitOptions Fitting(int epochs) const {
    return {.epochs = epochs, .verbose = 0, .read = {.file_system = files_}};
  }
  absl::StatusOr<History> FitCached(Model& model, const Dataset& dataset,
                                    const std::string& until = "pool") const {
    return FitOnCachedFeatures(model, dataset, {.folder = kFolder, .until = until}, Fitting(1));
  }
  // Its message; the folder must not have been touched.
  std::string Rejection(Model& model, const Dataset& dataset, const std::string& until = "pool") {
    const auto history = FitCached(model, dataset, until);
    EXPECT_FALSE(history.ok());
    EXPECT_EQ(NumSets(), 0) << history.status();
    EXPECT_EQ(reads_, 0) << history.status();
    return std::string(history.status().message());
  }
  int NumSets() const {
    const auto list = files_->List(kFolder);
    return list.ok() ? static_cast<int>(list->size()) : 0;
  }

  const std::shared_ptr<io::FileSystem> files_ = io::MakeMemoryFileSystem();
  const NamedArrays columns_ = Columns(1);
  std::atomic<int> reads_ = 0;
};

void ExpectNear(const NamedArrays& got, const NamedArrays& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, array] : expected) {
    const Array* mine = got.Find(name);
    ASSERT_NE(mine, nullptr) << name;
    for (int64_t i = 0; i < array.num_elements(); ++i) {
      EXPECT_NEAR(mine->data<float>()[i], array.data<float>()[i], 1e-5) << name << "[" << i << "]";
    }
  }
}

void ExpectNear(const History& got, const History& expected) {
  ASSERT_EQ(got.epochs.size(), expected.epochs.size());
  for (size_t e = 0; e < expected.epochs.size(); ++e) {
    for (const auto& [name, value] : expected.epochs[e]) {
      ASSERT_NE(got.epochs[e].Find(name), nullptr) << name;
      EXPECT_NEAR(*got.epochs[e].Find(name), value, 1e-5) << name << " of epoch " << e;
    }
  }
}

TEST_F(CachedFeaturesTest, TrainsAsTheWholeModel) {
  // 8 + 8 + 4 rows a batch, in the same random order in both trainings; weights of the examples.
  const Dataset train = Counted(columns_, &reads_).Shuffle(kRows, {.seed = 3}).Batch(8).Prefetch(2);
  const Dataset test = Dataset::FromArrays(Columns(10)).Batch(6);
  Model whole = Frozen(), cached = Frozen();
  FitOptions fit = Fitting(4);
  fit.validation_data = &test;
  const auto expected = whole.Fit(train, fit);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(reads_, 4 * kRows);
  reads_ = 0;
  const auto got = FitOnCachedFeatures(cached, train, {.folder = kFolder, .until = "pool"}, fit);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(reads_, kRows) << "every image once";
  EXPECT_EQ(NumSets(), 2);
  ExpectNear(*got, *expected);
  ExpectNear(*cached.GetWeights(), *whole.GetWeights());
  // The frozen weights are the same bits.
  EXPECT_TRUE(BitwiseEqual(*cached.GetWeights()->Find("conv/kernel"),
                           *whole.GetWeights()->Find("conv/kernel")));
  // The optimizer's state and iteration are those of the whole training, which continues alike.
  ASSERT_TRUE(whole.Fit(train, Fitting(1)).ok());
  ASSERT_TRUE(cached.Fit(train, Fitting(1)).ok());
  ExpectNear(*cached.GetWeights(), *whole.GetWeights());
}

TEST_F(CachedFeaturesTest, OrderOfStagesIsThatOfEachEpoch) {
  // Stages after Shuffle and Repeat select other rows in each epoch.
  const Dataset train =
      Counted(columns_, &reads_).Skip(2).Repeat().Shuffle(8, {.seed = 5}).Skip(1).Batch(4).Skip(1);
  Model whole = Frozen(), cached = Frozen();
  FitOptions fit = Fitting(3);
  fit.steps_per_epoch = 7;
  const auto expected = whole.Fit(train, fit);
  ASSERT_TRUE(expected.ok()) << expected.status();
  reads_ = 0;
  const auto got = FitOnCachedFeatures(cached, train, {.folder = kFolder, .until = "pool"}, fit);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(reads_, kRows - 2);
  ExpectNear(*got, *expected);
  ExpectNear(*cached.GetWeights(), *whole.GetWeights());
}

TEST_F(CachedFeaturesTest, NestedBackboneIsSplitBehindIt) {
  const Model backbone = Net();
  const auto model = [&] {
    const nn::Symbol image = Input({.shape = {4, 4, 2}, .name = "image"});
    const nn::Layer layer = nn::Nested(backbone.network(), {.name = "backbone"});
    layer.SetTrainable(false);
    Model out(image, Dense({.units = 2, .name = "logits"})(layer(image)));
    EXPECT_TRUE(out.Compile(Options()).ok());
    return out;
  };
  Model whole = model(), cached = model();
  const Dataset train = Dataset::FromArrays(columns_).Batch(8);
  FitOptions fit = Fitting(2);
  const NamedArrays test = Columns(10);
  fit.validation_data = {*test.Find("image"), *test.Find("y")};
  const auto expected = whole.Fit(train, fit);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto got =
      FitOnCachedFeatures(cached, train, {.folder = kFolder, .until = "backbone"}, fit);
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectNear(*got, *expected);
  ExpectNear(*cached.GetWeights(), *whole.GetWeights());
}

TEST_F(CachedFeaturesTest, SeveralInputsAndOutputs) {
  const auto model = [] {
    const nn::Symbol a = Input({.shape = {4, 4, 2}, .name = "image"});
    const nn::Symbol b = Input({.shape = {2}, .name = "more"});
    const nn::Symbol pooled = GlobalAveragePooling2D()(Conv2D({.filters = 3, .name = "conv"})(a));
    const nn::Symbol both = Concatenate({.name = "both"})({pooled, b});
    const nn::Layer shared = Dense({.units = 5, .activation = "relu"});
    const nn::Symbol x = Dense({.units = 5})(shared(both));
    Model out({a, b}, {Dense({.units = 2, .name = "p"})(shared(x)),
                       Dense({.units = 1, .name = "q"})(Add()({x, shared(both)}))});
    EXPECT_TRUE(out.SetTrainable(false, {"conv"}).ok());
    CompileOptions options = Options();
    options.optimizer =
        SGD({.learning_rate = ExponentialDecay(
                 {.initial_learning_rate = 0.1, .decay_steps = 2, .decay_rate = 0.5}),
             .momentum = 0.9,
             .use_ema = true});
    options.loss = LossesArg::ByName{{"p", "mse"}, {"q", "mae"}};
    options.loss_weights = {{"q", 0.5}};
    options.columns = {.sample_weights = {"sample_weight"}};
    EXPECT_TRUE(out.Compile(options).ok());
    return out;
  };
  NamedArrays columns = {{"q", Uniform({kRows, 1}, 5)},
                         {"more", Uniform({kRows, 2}, 6)},
                         {"p", *columns_.Find("y")},
                         {"image", *columns_.Find("image")},
                         {"sample_weight", *columns_.Find("sample_weight")}};
  const Dataset train = Dataset::FromArrays(columns).Shuffle(9, {.seed = 4}).Batch(8);
  Model whole = model(), cached = model();
  const auto expected = whole.Fit(train, Fitting(3));
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto got =
      FitOnCachedFeatures(cached, train, {.folder = kFolder, .until = "both"}, Fitting(3));
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectNear(*got, *expected);
  ExpectNear(*cached.GetWeights(), *whole.GetWeights());
}

TEST_F(CachedFeaturesTest, MixedPrecisionAndSeveralReplicas) {
  const Dataset train = Dataset::FromArrays(columns_).Batch(8);
  for (const char* policy : {"mixed_bfloat16", "mixed_float16"}) {
    CompileOptions options = Options();
    options.dtype_policy = policy;
    options.client = runtime::TestClient(2);
    options.replicas = 2;
    Model whole = Frozen({}, options), cached = Frozen({}, options);
    const auto expected = whole.Fit(train, Fitting(2));
    const auto got =
        FitOnCachedFeatures(cached, train, {.folder = kFolder, .until = "pool"}, Fitting(2));
    ASSERT_TRUE(got.ok()) << got.status();
    for (int e = 0; e < 2; ++e) {
      EXPECT_NEAR(*got->epochs[e].Find("loss"), *expected->epochs[e].Find("loss"), 1e-2) << policy;
    }
  }
  EXPECT_EQ(NumSets(), 2);
}

TEST_F(CachedFeaturesTest, SetIsReusedAndAChangeMakesAnother) {
  const Dataset train = Counted(columns_, &reads_).Batch(8);
  const auto fit = [&](Model& model, const Dataset& dataset, const std::string& until = "pool") {
    reads_ = 0;
    const auto history = FitCached(model, dataset, until);
    EXPECT_TRUE(history.ok()) << history.status();
  };
  Model model = Frozen();
  fit(model, train);
  EXPECT_EQ(reads_, kRows);
  EXPECT_EQ(NumSets(), 1);
  // The head has changed; neither it nor the order, the batches or another program matters.
  fit(model, train);
  EXPECT_EQ(reads_, 0);
  Model second = Frozen();
  fit(second, Counted(columns_, &reads_).Shuffle(5).Batch(4));
  EXPECT_EQ(reads_, 0);
  EXPECT_EQ(NumSets(), 1);

  // One weight of the backbone.
  NamedArrays weights = *model.GetWeights();
  Array kernel = weights.Find("conv/kernel")->Clone();
  kernel.mutable_data<float>()[5] += 1e-6F;
  weights.Set("conv/kernel", kernel);
  ASSERT_TRUE(model.SetWeights(weights).ok());
  fit(model, train);
  EXPECT_EQ(reads_, kRows) << "weights";
  // Another layer.
  fit(second, train, "norm");
  EXPECT_EQ(reads_, kRows) << "until";
  // The last row's label, the function, a stage.
  NamedArrays labels = columns_;
  Array y = labels.Find("y")->Clone();
  y.mutable_data<float>()[2 * kRows - 1] += 1;
  labels.Set("y", y);
  fit(second, Counted(labels, &reads_).Batch(8));
  EXPECT_EQ(reads_, kRows) << "labels";
  fit(second, Counted(columns_, &reads_, "other").Batch(8));
  EXPECT_EQ(reads_, kRows) << "function";
  fit(second, Counted(columns_, &reads_).Take(9).Batch(8));
  EXPECT_EQ(reads_, 9) << "stage";
  EXPECT_EQ(NumSets(), 6);
  // All of them are still there.
  fit(second, train);
  EXPECT_EQ(reads_, 0);
}

TEST_F(CachedFeaturesTest, ChangedFileMakesAnotherSet) {
  const std::string text = "memory://data/rows.csv";
  const auto write = [&](const std::string& content) {
    auto out = files_->Create(text);
    ASSERT_TRUE(out.ok() && (*out)->Append(content).ok() && (*out)->Close().ok());
  };
  write("image,y\n1,2\n3,4\n");
  const auto dataset = [&] {
    return Dataset::FromCsv({text}, {.columns = {{"image", DType::kF32}, {"y", DType::kF32}},
                                     .file_system = files_})
        .Batch(2);
  };
  const nn::Symbol x = Input({.shape = {}, .name = "image"});
  const nn::Symbol features = Reshape({.target_shape = {1}, .name = "features"})(x);
  Model model(x, Dense({.units = 1})(features));
  ASSERT_TRUE(model.Compile(Options()).ok());
  for (const int sets : {1, 1}) {
    ASSERT_TRUE(FitCached(model, dataset(), "features").ok());
    EXPECT_EQ(NumSets(), sets);
  }
  write("image,y\n1,2\n3,4\n5,6\n");
  const auto changed = FitCached(model, dataset(), "features");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(NumSets(), 2);
}

TEST_F(CachedFeaturesTest, IncompleteSetIsNotUsed) {
  bool fails = true;
  const auto half = [&] {
    return Dataset::FromArrays(columns_).Map(
        [&fails, this](const NamedArrays& in, NamedArrays* out) -> absl::Status {
          if (++reads_ > kRows / 2 && fails) return absl::InternalError("killed");
          out->Set("image", *in.Find("image"));
          return absl::OkStatus();
        },
        {.name = "half", .reads = {"image"}});
  };
  Model whole = Frozen(), cached = Frozen();
  const CachedFeatures cache{.folder = kFolder, .until = "pool", .batch_size = 2};
  const NamedArrays before = *cached.GetWeights();
  const auto failed = FitOnCachedFeatures(cached, half().Batch(8), cache, Fitting(1));
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("killed"));
  ExpectNear(*cached.GetWeights(), before);
  fails = false;
  reads_ = 0;
  const auto again = FitOnCachedFeatures(cached, half().Batch(8), cache, Fitting(1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(reads_, kRows) << "all over again";
  ASSERT_TRUE(whole.Fit(half().Batch(8), Fitting(1)).ok());
  ExpectNear(*cached.GetWeights(), *whole.GetWeights());
  // A file of the set is cut off.
  const auto sets = files_->List(kFolder);
  const auto files = files_->List((*sets)[0].uri);
  for (const io::FileInfo& file : *files) {
    if (file.uri.find(".tfrec") == std::string::npos) continue;
    auto out = files_->Create(file.uri);
    ASSERT_TRUE(out.ok() && (*out)->Append("short").ok() && (*out)->Close().ok());
  }
  reads_ = 0;
  ASSERT_TRUE(FitOnCachedFeatures(cached, half().Batch(8), cache, Fitting(1)).ok());
  EXPECT_EQ(reads_, kRows);
}

TEST_F(CachedFeaturesTest, TerminationSignalInterrupts) {
  const auto sigterm = base::TerminationSignal::Install();
  ASSERT_TRUE(sigterm.ok()) << sigterm.status();
  // A second signal would end the process.
  const Dataset train = Dataset::FromArrays(columns_)
                            .Take(1)
                            .Map(
                                [this](const NamedArrays& in, NamedArrays* out) {
                                  if (++reads_ == 1) std::raise(SIGTERM);
                                  *out = in;
                                  return absl::OkStatus();
                                },
                                {.name = "preempted", .reads = {"y"}})
                            .Batch(1);
  Model model = Frozen();
  const auto history = FitOnCachedFeatures(
      model, train, {.folder = kFolder, .until = "pool", .termination = *sigterm}, Fitting(1));
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_TRUE(history->interrupted);
  EXPECT_THAT(history->stop_reason, HasSubstr("SIGTERM"));
  EXPECT_TRUE(history->epochs.empty());
}

// Compares the model's weights with the training's at the end of each epoch.
class SeesHead : public Callback {
 public:
  explicit SeesHead(const Model& model) : model_(model) {}
  absl::Status EpochEnd(train::TrainingContext& training, const train::Position&,
                        const Logs&) override {
    ++epochs;
    EXPECT_TRUE(BitwiseEqual(*model_.GetWeights()->Find("logits/kernel"),
                             *training.Weights()->Find("logits/kernel")));
    return epochs == 2 ? absl::InternalError("enough") : absl::OkStatus();
  }
  int epochs = 0;

 private:
  const Model& model_;
};

TEST_F(CachedFeaturesTest, CallbacksSeeTheModelWithItsHead) {
  Model model = Frozen(), other = Frozen();
  const Dataset train = Dataset::FromArrays(columns_).Batch(8);
  FitOptions fit = Fitting(5);
  const auto callback = std::make_shared<SeesHead>(model);
  fit.callbacks = {callback};
  const auto failed = FitOnCachedFeatures(model, train, {.folder = kFolder, .until = "pool"}, fit);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("enough"));
  EXPECT_EQ(callback->epochs, 2);
  // The training before the error is kept, as in Fit.
  ASSERT_TRUE(other.Fit(train, Fitting(2)).ok());
  ExpectNear(*model.GetWeights(), *other.GetWeights());
}

TEST_F(CachedFeaturesTest, RejectsFeaturesThatChange) {
  const Dataset train = Counted(columns_, &reads_).Batch(8);
  Model trained = Net();
  ASSERT_TRUE(trained.SetTrainable(false, {"norm"}).ok());
  ASSERT_TRUE(trained.Compile(Options()).ok());
  EXPECT_THAT(Rejection(trained, train),
              AllOf(HasSubstr("layer 'conv' is trained"), HasSubstr("SetTrainable(false")));
  ASSERT_TRUE(trained.SetTrainable(false, {"conv"}).ok());  // but not compiled again
  EXPECT_THAT(Rejection(trained, train), HasSubstr("before Compile"));

  Model dropout = Frozen({Dropout({.rate = 0.5, .name = "drop"})});
  EXPECT_THAT(Rejection(dropout, train), HasSubstr("layer 'drop' computes something else"));
  // Unless it is to be computed as in prediction: as if there were no dropout.
  CachedFeatures inference{.folder = "memory://other/features", .until = "pool", .inference = true};
  Model without = Frozen();
  EXPECT_TRUE(FitOnCachedFeatures(dropout, train, inference, Fitting(1)).ok());
  EXPECT_TRUE(without.Fit(train, Fitting(1)).ok());
  ExpectNear(*dropout.GetWeights(), *without.GetWeights());
  reads_ = 0;
  Model augmented = Frozen({RandomFlip({.name = "flip"})});
  EXPECT_THAT(Rejection(augmented, train), HasSubstr("layer 'flip'"));
  Model normalized =
      Frozen({BatchNormalization({.center = false, .scale = false, .name = "moving"})});
  EXPECT_THAT(Rejection(normalized, train),
              AllOf(HasSubstr("variable moving/moving_"), HasSubstr("{\"moving\"}")));
  Model penalized = Frozen({ActivityRegularization({.l2 = 0.1})});
  EXPECT_THAT(Rejection(penalized, train), HasSubstr("adds to the loss"));

  CompileOptions options = Options();
  options.batch_augmentation = {MixUp()};
  options.loss = "categorical_crossentropy";
  Model mixed = Frozen({}, options);
  EXPECT_THAT(Rejection(mixed, train), HasSubstr("batch_augmentation"));
  options = Options();
  options.train_step = train::CustomStep{[](const train::StepContext& step) -> train::StepResult {
    return {.loss = ir::ReduceMean(step.apply(step.inputs)[0], {1})};
  }};
  Model custom = Frozen({}, options);
  EXPECT_THAT(Rejection(custom, train), HasSubstr("train_step"));
  Model lambda =
      Frozen({nn::Lambda([](nn::CallContext&, const nn::Values& x) { return x[0] * 0.5; })});
  EXPECT_THAT(Rejection(lambda, train), HasSubstr("could not be detected"));
}

TEST_F(CachedFeaturesTest, RejectsALayerThatDoesNotSplit) {
  const Dataset train = Counted(columns_, &reads_).Batch(8);
  Model model = Frozen();
  EXPECT_THAT(Rejection(model, train, "pol"),
              AllOf(HasSubstr("no layer 'pol'"), HasSubstr("pool")));
  EXPECT_THAT(Rejection(model, train, "image"), HasSubstr("is an input"));
  EXPECT_THAT(Rejection(model, train, ""), HasSubstr("until"));
  EXPECT_THAT(Rejection(model, train, "logits"), HasSubstr("no layer after 'logits' is trained"));

  const nn::Symbol image = Input({.shape = {4, 4, 2}, .name = "image"});
  const nn::Symbol flat = Flatten({.name = "flat"})(image);
  const nn::Symbol left = Activation({.activation = "relu", .name = "left"})(flat);
  Model bypass(image, Dense({.units = 2})(Add({.name = "sum"})({left, flat})));
  ASSERT_TRUE(bypass.Compile(Options()).ok());
  EXPECT_THAT(Rejection(bypass, train, "left"),
              AllOf(HasSubstr("'image' reaches the outputs"), HasSubstr("'left'")));
  const auto merged = FitCached(bypass, train, "sum");
  EXPECT_TRUE(merged.ok()) << merged.status();

  Model raw = Net();
  const auto not_compiled = FitCached(raw, train);
  EXPECT_TRUE(absl::IsFailedPrecondition(not_compiled.status())) << not_compiled.status();
}

TEST_F(CachedFeaturesTest, RejectsOutputsWithMasks) {
  const nn::Symbol words = Input({.shape = {4}, .dtype = DType::kI32, .name = "words"});
  const nn::Symbol x =
      Embedding({.input_dim = 5, .output_dim = 2, .mask_zero = true, .name = "embed"})(words);
  Model model(words, Dense({.units = 2})(GlobalAveragePooling1D({.name = "pool"})(x)));
  ASSERT_TRUE(model.SetTrainable(false, {"embed"}).ok());
  ASSERT_TRUE(model.Compile(Options()).ok());
  const Dataset train = Dataset::FromArrays({{"words", Array::Zeros(DType::kI32, {8, 4})},
                                             {"y", Array::Zeros(DType::kF32, {8, 2})}})
                            .Batch(4);
  EXPECT_THAT(Rejection(model, train, "embed"), HasSubstr("has a mask"));
  const auto pooled = FitCached(model, train, "pool");
  EXPECT_TRUE(pooled.ok()) << pooled.status();
}

TEST_F(CachedFeaturesTest, RejectsDatasetsThatDiffer) {
  Model model = Frozen();
  const Dataset rows = Counted(columns_, &reads_);
  const auto identity = [](const NamedArrays& in, NamedArrays* out) {
    *out = in;
    return absl::OkStatus();
  };
  EXPECT_THAT(Rejection(model, rows.Map(identity).Batch(8)),
              AllOf(HasSubstr("a function without a name"), HasSubstr("MapOptions::name")));
  EXPECT_THAT(Rejection(model, rows.RandomSeed().Batch(8)),
              AllOf(HasSubstr("RandomSeed"), HasSubstr("other elements in each epoch")));
  EXPECT_THAT(Rejection(model, rows), HasSubstr("has no Batch(n)"));
  EXPECT_THAT(Rejection(model, rows.Batch(8).Map(identity, {.name = "late"})),
              AllOf(HasSubstr("Map(late"), HasSubstr("follows Batch")));
  EXPECT_THAT(Rejection(model, rows.Shuffle(4).Cache().Batch(8)),
              AllOf(HasSubstr("Cache"), HasSubstr("follows Shuffle")));
  EXPECT_THAT(
      Rejection(model,
                Dataset::Random().Map<int64_t>("value", [](int64_t v) { return v; }).Batch(8)),
      HasSubstr("Random"));
  EXPECT_THAT(Rejection(model, Dataset::FromArrays({{"a", Array::Zeros(DType::kF32, {2})},
                                                    {"b", Array::Zeros(DType::kF32, {2})},
                                                    {"c", Array::Zeros(DType::kF32, {2})}})
                                   .Batch(2)),
              HasSubstr("CompileOptions::columns"));
  NamedArrays taken = columns_;
  taken.Set("features", *columns_.Find("y"));
  EXPECT_THAT(Rejection(model, Dataset::FromArrays(taken).Batch(8)), HasSubstr("rename it"));
  const Dataset endless =
      Dataset::FromArrays(columns_).Repeat().Concatenate(Dataset::FromArrays(columns_)).Batch(8);
  EXPECT_THAT(Rejection(model, endless), HasSubstr("has no end"));
  // Validation data as well.
  FitOptions fit = Fitting(1);
  fit.validation_data = rows.RandomSeed().Batch(8);
  const auto history =
      FitOnCachedFeatures(model, rows.Batch(8), {.folder = kFolder, .until = "pool"}, fit);
  EXPECT_THAT(std::string(history.status().message()),
              AllOf(HasSubstr("validation_data"), HasSubstr("RandomSeed")));
  EXPECT_EQ(reads_, 0);
  // Options for arrays.
  fit = Fitting(1);
  fit.batch_size = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(
      FitOnCachedFeatures(model, rows.Batch(8), {.folder = kFolder, .until = "pool"}, fit)
          .status()));
}

TEST_F(CachedFeaturesTest, RejectsFoldersWithoutSpaceOrPermission) {
  Model model = Frozen();
  const std::string folder =
      ::testing::TempDir() + "/features_" + std::to_string(base::EntropySeed());
  const auto fit = [&](const Dataset& dataset, const std::string& where) {
    return FitOnCachedFeatures(model, dataset, {.folder = where, .until = "pool"},
                               {.epochs = 1, .verbose = 0})
        .status();
  };
  // Exabytes of images.
  const Dataset huge =
      Dataset::Range(0, int64_t{1} << 58)
          .Map(
              [this](const NamedArrays&, NamedArrays* out) {
                ++reads_;
                out->Set("image", Array::Zeros(DType::kF32, {4, 4, 2}));
                out->Set("y", Array::Zeros(DType::kF32, {2}));
                return absl::OkStatus();
              },
              {.name = "zeros",
               .makes = {{"image", DType::kF32, {4, 4, 2}}, {"y", DType::kF32, {2}}},
               .drops = {"value"}})
          .Batch(8);
  const absl::Status full = fit(huge, folder);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), AllOf(HasSubstr("EiB"), HasSubstr("pool")));
  const Dataset train = Counted(columns_, &reads_).Batch(8);
  EXPECT_FALSE(fit(train, "/proc/none").ok());
  EXPECT_EQ(reads_, 0);
  EXPECT_FALSE(std::filesystem::exists(folder));
  // A local disk that has space.
  const absl::Status stored = fit(train, folder);
  EXPECT_TRUE(stored.ok()) << stored;
  EXPECT_EQ(reads_, kRows);
  EXPECT_TRUE(fit(train, folder).ok());
  EXPECT_EQ(reads_, kRows);
  std::filesystem::remove_all(folder);
}

TEST_F(CachedFeaturesTest, SourceThatShufflesIsShuffledAgain) {
  // The set has the order of one epoch; a Shuffle after it draws another one in each.
  data::testing::WriteShard(*files_, "memory://d/0.tfrec", {"a", "b"});
  data::testing::WriteShard(*files_, "memory://d/1.tfrec", {"c"});
  for (const bool shuffle : {false, true}) {
    const auto split = SplitAtBatch(
        Dataset::FromTfRecords({"memory://d/*.tfrec"}, {.shuffle_files = shuffle}).Batch(2));
    ASSERT_TRUE(split.ok()) << split.status();
    const std::string text = split->Batches(split->rows, 8).ToString();
    EXPECT_EQ(text.find("Shuffle(") != std::string::npos, shuffle) << text;
  }
}

}  // namespace cached_features_test
}  // namespace penstock::keras
