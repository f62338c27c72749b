// The front end as users see it: build, Compile, Fit, Evaluate, Predict, Save, Load.
#include "penstock/keras/keras.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace keras_test {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::shared_ptr<runtime::Client> Client() { return runtime::TestClient(2); }

// Points in the plane, labeled by their side of a line, with a gap between the classes.
std::pair<Array, Array> Points(int64_t rows, uint64_t seed = 3) {
  base::Random random(seed);
  Array x = Array::Uninitialized(DType::kF32, {rows, 2}),
        y = Array::Uninitialized(DType::kI64, {rows});
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t side = static_cast<int64_t>(random.Below(2));
    const double along = 4 * random.Uniform() - 2, off = 0.3 + random.Uniform();
    x.mutable_data<float>()[2 * i] = static_cast<float>(along + (side == 1 ? off : -off));
    x.mutable_data<float>()[2 * i + 1] = static_cast<float>(along - (side == 1 ? off : -off));
    y.mutable_data<int64_t>()[i] = side;
  }
  return {x, y};
}

Model SmallModel() {
  return Sequential({Input({.shape = {2}}), Dense({.units = 8, .activation = "relu"}),
                     BatchNormalization({.momentum = 0.8}),
                     Dense({.units = 2, .activation = "softmax"})});
}

CompileOptions Compiling() {
  return {.optimizer = Adam({.learning_rate = 0.02}), .metrics = {"accuracy"}, .client = Client()};
}

std::string NewFile() {
  return absl::StrCat(::testing::TempDir(), "/keras_", getpid(), "_", base::EntropySeed(),
                      ".safetensors");
}

TEST(Model, SequentialLearnsFromArrays) {
  Model model = SmallModel();
  const absl::Status compiled = model.Compile(Compiling());
  ASSERT_TRUE(compiled.ok()) << compiled;
  const auto [x, y] = Points(203);
  const auto history = model.Fit(x, y, {.epochs = 15, .verbose = 0});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->epochs.size(), 15u);
  const auto [test_x, test_y] = Points(101, /*seed=*/4);
  const auto logs = model.Evaluate(test_x, test_y);
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_GT(*logs->Get("accuracy"), 0.97);
  const auto predicted = model.Predict(test_x);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  ASSERT_EQ(predicted->shape(), base::Shape({101, 2}));
  // Evaluate's accuracy equals that of Predict's rows.
  double right = 0;
  for (int64_t i = 0; i < 101; ++i) {
    const float* p = predicted->data<float>() + 2 * i;
    EXPECT_NEAR(p[0] + p[1], 1, 1e-5);
    right += (p[1] > p[0]) == (test_y.data<int64_t>()[i] == 1);
  }
  EXPECT_NEAR(*logs->Get("accuracy"), right / 101, 1e-6);
}

TEST(Model, StepsPerExecutionDoesNotChangeResults) {
  const auto [x, y] = Points(203);
  std::vector<double> losses;
  for (const int64_t steps : {int64_t{1}, int64_t{4}}) {
    Model model = SmallModel();
    CompileOptions options = Compiling();
    options.steps_per_execution = steps;
    ASSERT_TRUE(model.Compile(options).ok());
    const auto history = model.Fit(x, y, {.epochs = 2, .verbose = 0});
    ASSERT_TRUE(history.ok()) << history.status();
    losses.push_back(*history->epochs[1].Get("loss"));
    EXPECT_EQ(history->stats[1].executions, steps == 1 ? 7 : 2);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(Model, SavesMixedPrecisionPolicy) {
  const auto [x, y] = Points(203);
  for (const std::string policy : {"mixed_bfloat16", "bfloat16", "mixed_float16"}) {
    Model model = SmallModel();
    CompileOptions options = Compiling();
    options.dtype_policy = policy;
    const absl::Status compiled = model.Compile(options);
    ASSERT_TRUE(compiled.ok()) << compiled;
    EXPECT_EQ(model.network().policy().name, policy);
    ASSERT_TRUE(model.Fit(x, y, {.epochs = 12, .verbose = 0}).ok());
    const std::string file = NewFile();
    ASSERT_TRUE(model.Save(file).ok());
    auto loaded = Model::Load(file, {.client = Client()});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->network().policy().name, policy);
    const auto before = model.Predict(x), after = loaded->Predict(x);
    ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
    EXPECT_EQ(before->dtype(), DType::kF32);
    EXPECT_TRUE(BitwiseEqual(*before, *after));
    EXPECT_GT(*model.Evaluate(x, y)->Get("accuracy"), 0.95) << policy;
    std::remove(file.c_str());
  }
}

TEST(Model, SavesMetricsWithTheirOptions) {
  const auto [x, y] = Points(64);
  Model model = SmallModel();
  CompileOptions options = Compiling();
  options.metrics = {"acc", nn::SparseTopKCategoricalAccuracy({.k = 2}).Named("top_2"),
                     nn::MeanOfLoss(nn::SparseCategoricalCrossentropy()).Named("surprise")};
  const absl::Status compiled = model.Compile(options);
  ASSERT_TRUE(compiled.ok()) << compiled;
  const std::string file = NewFile();
  ASSERT_TRUE(model.Save(file).ok());
  auto loaded = Model::Load(file, {.client = Client()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto before = model.Evaluate(x, y), after = loaded->Evaluate(x, y);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_EQ(*after->Get("top_2"), 1);
  for (const char* name : {"loss", "acc", "surprise"})
    EXPECT_EQ(*before->Get(name), *after->Get(name)) << name;
  EXPECT_NEAR(*after->Get("surprise"), *after->Get("loss"), 1e-6);
  std::remove(file.c_str());
}

TEST(Model, CompileRejectsInvalidPolicyAndPrecision) {
  Model model = SmallModel();
  CompileOptions options = Compiling();
  options.dtype_policy = "mixed_float8";
  EXPECT_THAT(Message(model.Compile(options)),
              AllOf(HasSubstr("mixed_float8"), HasSubstr("mixed_bfloat16")));
  // A Compile that fails changes nothing, whatever it fails at.
  CompileOptions unknown = Compiling();
  unknown.dtype_policy = "mixed_bfloat16";
  unknown.optimizer = "no_such";
  EXPECT_THAT(Message(model.Compile(unknown)), HasSubstr("no_such"));
  EXPECT_EQ(model.network().policy().name, "float32");
  options.dtype_policy = "";
  options.matmul_precision = "most";
  EXPECT_THAT(Message(model.Compile(options)), HasSubstr("default, high, highest"));
  options.matmul_precision = "highest";
  EXPECT_TRUE(model.Compile(options).ok());
  for (const ir::MatmulPrecision precision :
       {MatmulPrecision::kDefault, MatmulPrecision::kHigh, MatmulPrecision::kHighest}) {
    options.matmul_precision = precision;
    ASSERT_TRUE(model.Compile(options).ok());
    EXPECT_EQ((*model.trainer())->objective().matmul_precision, precision);
  }
}

TEST(Model, FunctionalModelMatchesInputsToColumnsByName) {
  const nn::Symbol a = Input({.shape = {1}, .name = "a"}), b = Input({.shape = {1}, .name = "b"});
  const nn::Symbol sum =
      Dense({.units = 1, .name = "out"})(Add()({Dense({.units = 4})(a), Dense({.units = 4})(b)}));
  Model model({a, b}, {sum});
  const absl::Status compiled = model.Compile({.optimizer = Adam({.learning_rate = 0.05}),
                                               .loss = "mse",
                                               .client = Client(),
                                               .replicas = 2});
  ASSERT_TRUE(compiled.ok()) << compiled;
  Array first = Array::Uninitialized(DType::kF32, {64, 1}), second = first.Clone(),
        target = first.Clone();
  base::Random random(9);
  for (int64_t i = 0; i < 64; ++i) {
    const auto u = static_cast<float>(random.Uniform()), v = static_cast<float>(random.Uniform());
    first.mutable_data<float>()[i] = u;
    second.mutable_data<float>()[i] = v;
    target.mutable_data<float>()[i] = 2 * u - v + 0.5f;
  }
  const data::Dataset rows =
      data::Dataset::FromArrays({{"b", second}, {"target", target}, {"a", first}}).Batch(16);
  const auto history = model.Fit(rows, {.epochs = 60, .verbose = 0, .validation_data = &rows});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_LT(*history->epochs.back().Get("val_loss"), 1e-3);
}

TEST(Model, CompileReturnsFirstBuildErrorWithItsLine) {
  const int line = __LINE__ + 1;
  const nn::Layer early = Conv2D({.filters = 2, .name = "early"});
  Model model = Sequential(
      {Input({.shape = {8, 8}}), Dense({.units = 3}), early, Dense({.units = 0}), Flatten()});
  EXPECT_THAT(Message(model.Compile({})), AllOf(HasSubstr("early"), HasSubstr("f32[2,8,3]"),
                                                HasSubstr(absl::StrCat("keras_test.cc:", line))));
}

TEST(Model, UnknownNameErrorListsKnownOnes) {
  Model model = SmallModel();
  EXPECT_THAT(Message(model.Compile({.optimizer = "adamm"})), HasSubstr("available: SGD, Adam"));
  EXPECT_THAT(Message(model.Compile({.loss = "log_loss"})),
              HasSubstr("sparse_categorical_crossentropy"));
  EXPECT_THAT(Message(model.Compile({.metrics = {"accuracy", "f2"}})),
              HasSubstr("unknown metric 'f2'"));
  CompileOptions many = Compiling();
  many.replicas = 3;
  EXPECT_THAT(Message(model.Compile(many)), HasSubstr("cpu has 2 devices"));
}

TEST(Model, RequiresCompile) {
  Model model = SmallModel();
  const auto [x, y] = Points(8);
  EXPECT_THAT(Message(model.Fit(x, y).status()), HasSubstr("call Compile first"));
  EXPECT_THAT(Message(model.Evaluate(x, y).status()), HasSubstr("call Compile first"));
  EXPECT_THAT(Message(model.Predict(x).status()), HasSubstr("call Compile first"));
  EXPECT_THAT(Message(model.Save(NewFile())), HasSubstr("call Compile first"));
}

TEST(Model, RejectsSequentialWithoutInput) {
  EXPECT_FALSE(Sequential({}).Compile({}).ok());
  EXPECT_THAT(Message(Sequential({Dense({.units = 1})}).Compile({})), HasSubstr("Input"));
}

TEST(Model, RejectsArraysOfDifferentLengths) {
  Model model = SmallModel();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const auto [x, y] = Points(8);
  EXPECT_THAT(Message(model.Fit(x, y.Slice(0, 7)).status()),
              AllOf(HasSubstr("as many rows"), HasSubstr("[8,2]"), HasSubstr("[7]")));
}

TEST(Save, LoadedModelPredictsBitIdenticallyAndTrains) {
  const auto [x, y] = Points(64);
  const std::string file = NewFile();
  Model model = SmallModel();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  ASSERT_TRUE(model.Fit(x, y, {.epochs = 2, .verbose = 0}).ok());
  const absl::Status saved = model.Save(file);
  ASSERT_TRUE(saved.ok()) << saved;
  auto loaded = Model::Load(file, {.client = Client()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(base::BitwiseEqual(*model.Predict(x), *loaded->Predict(x)));
  EXPECT_EQ(loaded->Summary(), model.Summary());
  const auto a = model.Evaluate(x, y), b = loaded->Evaluate(x, y);
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(*a->Get("loss"), *b->Get("loss"));
  EXPECT_EQ(*a->Get("accuracy"), *b->Get("accuracy"));
  // The optimizer and its options come from the file.
  EXPECT_EQ((*loaded->trainer())->objective().optimizer.learning_rate().constant(), 0.02);
  EXPECT_TRUE(loaded->Fit(x, y, {.verbose = 0}).ok());
  EXPECT_FALSE(base::BitwiseEqual(*model.Predict(x), *loaded->Predict(x)));
  std::remove(file.c_str());
}

TEST(Load, ErrorNamesFileWithoutModel) {
  EXPECT_EQ(Model::Load(NewFile()).status().code(), absl::StatusCode::kNotFound);
  const std::string file = NewFile();
  std::ofstream(file) << "these are not the weights you are looking for";
  EXPECT_THAT(Message(Model::Load(file).status()), HasSubstr(file));
  std::remove(file.c_str());
}

}  // namespace keras_test
}  // namespace penstock::keras
