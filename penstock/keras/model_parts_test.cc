// Parts of models: subclasses, layers by name, partial weights, rematerialization.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace model_parts_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Array Random(const base::Shape& shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Uninitialized(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(2 * random.Uniform() - 1);
  }
  return out;
}

CompileOptions Compiling() {
  return {
      .optimizer = Adam({.learning_rate = 0.05}), .loss = "mse", .client = runtime::TestClient(1)};
}

class Tower : public Model {
 public:
  explicit Tower(int64_t units)
      : hidden_(Dense({.units = units, .activation = "relu", .name = "hidden"})),
        score_(Dense({.units = 1})) {
    Build({Input({.shape = {4}}), Input({.shape = {4}})}, "tower");
  }
  SymbolsArg Call(const std::vector<Symbol>& x) override {
    return score_(Add()({hidden_(x[0]), hidden_(x[1])}));
  }

 private:
  Layer hidden_, score_;
};

TEST(SubclassedModel, TrainsAndEqualsFunctionalModel) {
  Tower tower(8);
  ASSERT_TRUE(tower.Compile(Compiling()).ok());
  EXPECT_EQ(tower.network().name(), "tower");
  const std::vector<Array> x{Random({64, 4}, 1), Random({64, 4}, 2)};
  const auto history = tower.Fit(x, Random({64, 1}, 3), {.epochs = 5, .verbose = 0});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_LT((*history)["loss"].back(), (*history)["loss"].front());
  const Symbol a = Input({.shape = {4}}), b = Input({.shape = {4}});
  const Layer hidden = Dense({.units = 8, .activation = "relu", .name = "hidden"});
  const Model functional({a, b}, Dense({.units = 1})(Add()({hidden(a), hidden(b)})), "tower");
  EXPECT_EQ(tower.network().ToJson(), functional.network().ToJson());
  const std::string file = absl::StrCat(::testing::TempDir(), "/tower_", getpid(), ".safetensors");
  ASSERT_TRUE(tower.Save(file).ok());
  auto loaded = Model::Load(file, {.client = runtime::TestClient(1)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(base::BitwiseEqual(*tower.Predict(x), *loaded->Predict(x)));
  Model moved = std::move(tower);
  EXPECT_TRUE(moved.Predict(x).ok());
}

TEST(SubclassedModel, CompileReportsErrors) {
  struct NeverBuilt : Model {};
  struct NoCall : Model {
    NoCall() { Build(Input({.shape = {2}})); }
  };
  struct Throws : Model {
    Throws() { Build(Input({.shape = {2}})); }
    SymbolsArg Call(const std::vector<Symbol>&) override { throw std::runtime_error("no luck"); }
  };
  EXPECT_THAT(std::string(NeverBuilt().Compile(Compiling()).message()), HasSubstr("calls Build"));
  EXPECT_THAT(std::string(NoCall().Compile(Compiling()).message()),
              HasSubstr("does not override Call"));
  EXPECT_THAT(std::string(Throws().Compile(Compiling()).message()), HasSubstr("no luck"));
}

// Names are derived from numbers.
Model Chain() {
  return Sequential({Input({.shape = {6}}), Dense({.units = 5, .activation = "tanh"}),
                     Dense({.units = 4, .activation = "tanh"}), Dense({.units = 3})});
}

std::vector<std::string> VariableNames(const Model& model) {
  std::vector<std::string> names;
  for (const auto& variable : model.network().variables()) names.push_back(variable.name);
  return names;
}

TEST(GetLayer, SubmodelsKeepLayerNames) {
  Model model = Chain();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  Model head(model.inputs(), model.GetLayer("dense_1").output());
  EXPECT_THAT(VariableNames(head),
              ElementsAre("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"));
  ASSERT_TRUE(head.Compile(Compiling()).ok());
  const auto report = head.SetWeights(*model.GetWeights(), {.by_name = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loaded.size(), 4u);
  EXPECT_THAT(report->unused, ElementsAre("dense_2/kernel", "dense_2/bias"));
  // Symbols of a part belong to the whole model and can be extended.
  const Model tail(model.inputs(), model.GetLayer("dense_2").layer()(head.outputs()[0]));
  const Array x = Random({8, 6}, 5);
  Model whole(model.inputs(), model.outputs());
  ASSERT_TRUE(whole.Compile(Compiling()).ok());
  ASSERT_TRUE(whole.SetWeights(*model.GetWeights()).ok());
  EXPECT_TRUE(base::BitwiseEqual(*whole.Predict(x), *model.Predict(x)));
  EXPECT_EQ(head.Predict(x)->shape(), base::Shape({8, 4}));
  EXPECT_THAT(VariableNames(tail), Contains("dense_2/kernel"));
}

TEST(SetWeights, CountsAVariableOnce) {
  Model model = Chain();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  base::NamedArrays weights = *model.GetWeights();
  weights.Append("dense/kernel", *weights.Find("dense/kernel"));
  const auto report = model.SetWeights(weights, {.by_name = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loaded.size(), model.network().variables().size());
  EXPECT_THAT(report->skipped, ::testing::IsEmpty());
}

TEST(GetLayer, AutomaticNamesAvoidNamesOfSubmodels) {
  const Model model = Chain();
  const Symbol y = Dense({.units = 2})(model.GetLayer("dense_1").output());
  EXPECT_THAT(VariableNames(Model(model.inputs(), y)),
              ElementsAre("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias",
                          "dense_2/kernel", "dense_2/bias"));
  // Layers of two models with equal names.
  const Model other = Chain();
  const Model both({model.inputs()[0], other.inputs()[0]},
                   Add()({model.GetLayer("dense").output(), other.GetLayer("dense").output()}));
  EXPECT_THAT(VariableNames(both),
              UnorderedElementsAre("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"));
}

TEST(GetLayer, ErrorListsExistingNames) {
  const Model model = Chain();
  EXPECT_THAT(std::string(model.GetLayer("pool").status().message()),
              AllOf(HasSubstr("has no layer 'pool'"), HasSubstr("dense, dense_1, dense_2")));
  Model part(model.inputs(), model.GetLayer("pool").output());
  EXPECT_THAT(std::string(part.Compile(Compiling()).message()), HasSubstr("no layer 'pool'"));
  EXPECT_THAT(std::string(model.GetLayer("dense").GetLayer("x").status().message()),
              HasSubstr("is no model"));
  const Symbol x = Input({.shape = {6}});
  const Model outer({x}, model.AsLayer()(x));
  EXPECT_TRUE(outer.GetLayer("sequential").GetLayer("dense_1").status().ok());
  EXPECT_FALSE(outer.GetLayer("nothing").GetLayer("dense_1").status().ok());
}

TEST(ClassNames, AreSavedWithModel) {
  Model model = Chain();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  model.SetClassNames({"daisy", "rose", "tulip"});
  const std::string file = absl::StrCat(::testing::TempDir(), "/names_", getpid(), ".safetensors");
  ASSERT_TRUE(model.Save(file).ok());
  const auto loaded = Model::Load(file, {.client = runtime::TestClient(1)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->class_names(), ElementsAre("daisy", "rose", "tulip"));
  model.SetClassNames({"\xff"});
  EXPECT_FALSE(model.Save(file).ok()) << "a description is UTF-8";
}

// A checkpoint that Keras 2 wrote, with its optimizer (save/testdata/make_tensor_bundle.py).
TEST(PartialWeights, OfTensorFlowCheckpointAreFoundByTheirOwnNames) {
  Model model = Sequential({Input({.shape = {4, 4, 1}}),
                            Conv2D({.filters = 2, .kernel_size = 3, .name = "conv"}),
                            BatchNormalization({.name = "norm"})});
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const auto report = model.LoadWeights(
      absl::StrCat(PENSTOCK_SOURCE_DIR, "/penstock/save/testdata/tensor_bundle/keras.ckpt"),
      {.by_name = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->loaded,
              UnorderedElementsAre("conv/kernel", "conv/bias", "norm/gamma", "norm/beta",
                                   "norm/moving_mean", "norm/moving_variance"));
  const NamedArrays weights = *model.GetWeights();
  for (int i = 0; i < 18; ++i) {
    EXPECT_EQ(weights.Find("conv/kernel")->data<float>()[i], static_cast<float>(i));
  }
}

TEST(PartialWeights, SkipsMissingAndMismatchedWeights) {
  Model model = Sequential({Input({.shape = {6}}), Dense({.units = 5, .name = "a"}),
                            Dense({.units = 2, .name = "head"})});
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const NamedArrays before = *model.GetWeights();
  const NamedArrays weights{{"a/kernel", Random({6, 5}, 1)},
                            {"a/bias", Random({5}, 2)},
                            {"head/kernel", Random({5, 3}, 3)},
                            {"other/bias", Random({5}, 4)}};
  const std::string file = absl::StrCat(::testing::TempDir(), "/part_", getpid(), ".safetensors");
  ASSERT_TRUE(save::WriteWeights(*io::FileSystem::Default(), file, {.arrays = weights}).ok());
  EXPECT_FALSE(model.LoadWeights(file).ok());
  EXPECT_THAT(
      std::string(model.LoadWeights(file, {.by_name = true}).status().message()),
      AllOf(HasSubstr(file), HasSubstr("variable 'head/kernel'"), HasSubstr("float32[5,3]")));
  EXPECT_FALSE(model.LoadWeights(file, {.skip_mismatch = true}).ok()) << "names differ";
  EXPECT_TRUE(base::BitwiseEqual(*model.GetWeights()->Find("a/kernel"), *before.Find("a/kernel")))
      << "an error leaves the model unchanged";
  const auto report = model.LoadWeights(file, {.by_name = true, .skip_mismatch = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->loaded, UnorderedElementsAre("a/kernel", "a/bias"));
  EXPECT_THAT(report->unused, ElementsAre("other/bias"));
  EXPECT_EQ(report->ToString(),
            "2 of 4 variables loaded; 1 arrays unused\n"
            "skipped head/kernel: the model has float32[5,2], the weights float32[5,3]\n"
            "skipped head/bias: no array of that name\n"
            "unused other/bias");
  const NamedArrays after = *model.GetWeights();
  EXPECT_TRUE(base::BitwiseEqual(*after.Find("a/bias"), *weights.Find("a/bias")));
  EXPECT_TRUE(base::BitwiseEqual(*after.Find("head/kernel"), *before.Find("head/kernel")));
}

TEST(PartialWeights, LoadsOnlyMatchingVariables) {
  Model model = Sequential({Input({.shape = {6}}), Dense({.units = 5, .name = "body"}),
                            Dense({.units = 2, .name = "head"})});
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const NamedArrays before = *model.GetWeights();
  const NamedArrays body{{"body/kernel", Random({6, 5}, 1)}, {"body/bias", Random({5}, 2)}};
  NamedArrays weights = body;
  weights.Set("head/kernel", Random({5, 9}, 3));  // of another number of classes
  weights.Set("old_head/bias", Random({9}, 4));
  const auto report = model.SetWeights(weights, {.only = {"body"}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->ToString(), "2 of 2 variables loaded; 0 arrays unused");
  const NamedArrays loaded = *model.GetWeights();
  for (const auto& [name, array] : loaded) {
    const NamedArrays& source = body.Find(name) != nullptr ? body : before;
    EXPECT_TRUE(base::BitwiseEqual(array, *source.Find(name))) << name;
  }
  // Names that match must be equal on both sides.
  const auto error = [&](std::vector<std::string> only) {
    const auto result = model.SetWeights(weights, {.only = std::move(only)});
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    return std::string(result.status().message());
  };
  EXPECT_THAT(error({"*/bias"}), HasSubstr("skipped head/bias: no array of that name"));
  EXPECT_THAT(error({"body", "head/kernel"}), HasSubstr("skip_mismatch"));
  EXPECT_THAT(error({"body", "bodi"}), AllOf(HasSubstr("'bodi'"), HasSubstr("body/kernel")));
  EXPECT_THAT(error({}), HasSubstr("`only` is empty"));
  EXPECT_TRUE(model.SetWeights(weights, {.by_name = true, .only = {"*/bias", "body"}}).ok());
}

// A model starts from a run's checkpoints without its optimizer and position.
TEST(PartialWeights, OfTrainingCheckpoint) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/run_", getpid());
  std::filesystem::remove_all(folder);
  // The names of layers that the rest of a checkpoint's names begin with.
  const auto make = [](int64_t classes) {
    return Sequential({Input({.shape = {6}}), Dense({.units = 5, .name = "metrics"}),
                       BatchNormalization({.name = "optimizer"}),
                       Dense({.units = classes, .name = "head"})});
  };
  Model trained = make(3);
  ASSERT_TRUE(trained.Compile(Compiling()).ok());
  ASSERT_TRUE(trained
                  .Fit(Random({16, 6}, 1), Random({16, 3}, 2),
                       {.batch_size = 8,
                        .epochs = 2,
                        .verbose = 0,
                        .callbacks = {Checkpoint({.folder = folder})}})
                  .ok());
  const NamedArrays expected = *trained.GetWeights();
  for (const std::string& uri : {folder, folder + "/step-00000004"}) {
    SCOPED_TRACE(uri);
    Model same = make(3);
    ASSERT_TRUE(same.Compile(Compiling()).ok());
    const absl::Status status = same.LoadWeights(uri);
    ASSERT_TRUE(status.ok()) << status;
    const NamedArrays loaded = *same.GetWeights();
    for (const auto& [name, array] : loaded) {
      EXPECT_TRUE(base::BitwiseEqual(array, *expected.Find(name))) << name;
    }
    Model other = make(7);
    ASSERT_TRUE(other.Compile(Compiling()).ok());
    EXPECT_FALSE(other.LoadWeights(uri).ok());
    const auto report = other.LoadWeights(uri, {.only = {"metrics", "optimizer"}});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->ToString(), "6 of 6 variables loaded; 0 arrays unused");
    const NamedArrays part = *other.GetWeights();
    for (const char* name : {"metrics/kernel", "optimizer/moving_mean"}) {
      EXPECT_TRUE(base::BitwiseEqual(*part.Find(name), *expected.Find(name))) << name;
    }
  }
  // An earlier epoch has other weights.
  Model first = make(3);
  ASSERT_TRUE(first.Compile(Compiling()).ok());
  ASSERT_TRUE(first.LoadWeights(folder + "/step-00000002").ok());
  EXPECT_FALSE(
      base::BitwiseEqual(*first.GetWeights()->Find("head/kernel"), *expected.Find("head/kernel")));
  // There are no layers in a checkpoint.
  EXPECT_THAT(std::string(Model::Load(folder).status().message()), HasSubstr("use LoadWeights"));
  std::filesystem::remove_all(folder);
}

TEST(Compile, KeepsWeightsUnlessInitialized) {
  Model model = Chain();
  CompileOptions options = Compiling();
  ASSERT_TRUE(model.Compile(options).ok());
  ASSERT_TRUE(model.Fit(Random({16, 6}, 1), Random({16, 3}, 2), {.verbose = 0}).ok());
  const NamedArrays trained = *model.GetWeights();
  options.seed = 7;
  ASSERT_TRUE(model.Compile(options).ok());
  for (const auto& [name, array] : trained) {
    EXPECT_TRUE(base::BitwiseEqual(array, *model.GetWeights()->Find(name))) << name;
  }
  // Under another policy they are rounded to its type.
  options.dtype_policy = "bfloat16";
  ASSERT_TRUE(model.Compile(options).ok());
  const NamedArrays rounded = *model.GetWeights();
  EXPECT_TRUE(base::BitwiseEqual(*trained.Find("dense/kernel")->Cast(base::DType::kBF16),
                                 *rounded.Find("dense/kernel")));
  options.dtype_policy = "float32";
  options.keep_weights = false;
  ASSERT_TRUE(model.Compile(options).ok());
  EXPECT_FALSE(
      base::BitwiseEqual(*trained.Find("dense/kernel"), *model.GetWeights()->Find("dense/kernel")));
}

// A block with wide hidden values, random operations, moving averages, and penalties.
Model Blocks(Remat remat, double dropout = 0.25) {
  const Symbol in = Input({.shape = {8}}), x = Input({.shape = {8}});
  Symbol y = Dense({.units = 32, .activation = "tanh", .kernel_regularizer = "l2(0.001)"})(in);
  if (dropout > 0) y = Dropout({.rate = dropout})(y);
  y = Dense({.units = 32, .activation = "tanh", .activity_regularizer = "l2(0.001)"})(y);
  y = BatchNormalization({.momentum = 0.5})(y);
  y = Dense({.units = 8})(y);
  const Layer block = nn::Nested(nn::Network({in}, {y}), {.name = "block", .remat = remat});
  return Model(x, Dense({.units = 1})(block(x)));
}

NamedArrays TrainedBlocks(Model model, const CompileOptions& options) {
  PENSTOCK_CHECK_OK(model.Compile(options));
  PENSTOCK_CHECK_OK(model
                        .Fit(Random({48, 8}, 1), Random({48, 1}, 2),
                             {.batch_size = 16, .epochs = 2, .verbose = 0, .shuffle = false})
                        .status());
  return *model.GetWeights();
}

double LargestDifference(const NamedArrays& a, const NamedArrays& b) {
  double largest = 0;
  for (const auto& [name, array] : a) {
    const auto x = array.values<float>(), y = b.Find(name)->values<float>();
    for (size_t i = 0; i < x.size(); ++i)
      largest = std::max<double>(largest, std::abs(x[i] - y[i]));
  }
  return largest;
}

TEST(Remat, DoesNotChangeTraining) {
  CompileOptions options = Compiling();
  options.optimizer = SGD({.learning_rate = 0.05});
  const NamedArrays plain = TrainedBlocks(Blocks(false), options);
  EXPECT_LT(LargestDifference(plain, TrainedBlocks(Blocks(true), options)), 1e-5);
  EXPECT_LT(LargestDifference(plain, TrainedBlocks(Blocks(Remat::kActivations), options)), 1e-5);
  options.remat = {.mode = RematMode::kActivations};
  EXPECT_LT(LargestDifference(plain, TrainedBlocks(Blocks(false), options)), 1e-5);
  options.remat = {.mode = nn::RematMode::kListOfLayers, .layer_names = {"block"}};
  EXPECT_LT(LargestDifference(plain, TrainedBlocks(Blocks(false), options)), 1e-5);
  options.remat.layer_names = {"block9"};
  EXPECT_THAT(std::string(Blocks(false).Compile(options).message()),
              HasSubstr("has no layer 'block9'"));
}

TEST(Remat, IsSavedForItsLayerOnly) {
  const auto remat = Blocks(true).network().ToJson(), plain = Blocks(false).network().ToJson();
  EXPECT_THAT(remat.dump(), HasSubstr("\"remat\":true"));
  EXPECT_EQ(plain.dump().find("remat"), std::string::npos);
  const auto activations = Blocks(Remat::kActivations).network().ToJson();
  EXPECT_THAT(activations.dump(), HasSubstr("\"remat\":\"activations\""));
  for (const auto& json : {remat, activations}) {
    const auto again = nn::Network::FromJson(json);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), json);
  }
}

// An option of the execution, which may be another one when a training is resumed.
TEST(Remat, MayDifferWhenATrainingResumes) {
  const std::string folder = ::testing::TempDir() + "/remat_" + std::to_string(base::EntropySeed());
  int epochs = 0, steps = 0;
  for (const Remat remat : {Remat(false), Remat(true), Remat(Remat::kActivations)}) {
    Model model = Blocks(remat, /*dropout=*/0);
    PENSTOCK_CHECK_OK(model.Compile(Compiling()));
    const auto history = model.Fit(
        Random({48, 8}, 1), Random({48, 1}, 2),
        {.batch_size = 16,
         .epochs = ++epochs,
         .verbose = 0,
         .callbacks = {
             callbacks::Checkpoint({.folder = folder}),
             callbacks::LambdaCallback(
                 {.on_train_batch_end = [&](TrainingContext&, const Position&, const Logs&) {
                   ++steps;
                   return absl::OkStatus();
                 }})}});
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_EQ(steps, 3 * epochs) << "resumes at the next epoch";
  }
  std::filesystem::remove_all(folder);
}

}  // namespace model_parts_test
}  // namespace penstock::keras
