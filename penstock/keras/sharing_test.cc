// Models that share layers: training, saving, and loading.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace sharing_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array Numbers(const base::Shape& shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Uninitialized(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(2 * random.Uniform() - 1);
  }
  return out;
}

std::vector<float> Floats(const Array& array) {
  return {array.values<float>().begin(), array.values<float>().end()};
}

std::vector<std::string> Names(const NamedArrays& arrays) {
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  return names;
}

// inner(x) + shared(x), where inner is a batch normalization after shared.
Model InAndOut() {
  const auto shared = Dense({.units = 4, .activation = "tanh", .name = "shared"});
  const auto i = Input({.shape = {4}, .name = "i"}), x = Input({.shape = {4}, .name = "x"});
  const auto inner =
      Model({i}, {BatchNormalization({.momentum = 0.5, .name = "n"})(shared(i))}, "inner")
          .AsLayer();
  return Model({x}, {Add({.name = "add"})({inner(x), shared(x)})});
}

CompileOptions Compiling(int replicas = 1) {
  return {.optimizer = SGD({.learning_rate = 0.1, .momentum = 0.9}),
          .loss = "mse",
          .client = runtime::TestClient(4),
          .replicas = replicas};
}

TEST(SharedLayers, AreTrainedSavedAndLoadedOnce) {
  Model model = InAndOut();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const Array x = Numbers({32, 4}, 1), y = Numbers({32, 4}, 2);
  ASSERT_TRUE(model.Fit(x, y, {.batch_size = 8, .epochs = 2, .verbose = 0}).ok());
  const NamedArrays weights = *model.GetWeights();
  EXPECT_THAT(Names(weights),
              ElementsAre("inner/shared/kernel", "inner/shared/bias", "inner/n/gamma",
                          "inner/n/beta", "inner/n/moving_mean", "inner/n/moving_variance"));
  const std::string file = absl::StrCat(::testing::TempDir(), "/shared_", getpid(), "_",
                                        base::EntropySeed(), ".safetensors");
  ASSERT_TRUE(model.Save(file).ok());
  EXPECT_EQ(save::ReadWeights(*io::FileSystem::Default(), file)->arrays.size(), weights.size());
  auto loaded = Model::Load(file, {.client = runtime::TestClient(4)});
  ::unlink(file.c_str());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Names(*loaded->GetWeights()), Names(weights));
  EXPECT_EQ(Floats(*loaded->Predict(x)), Floats(*model.Predict(x)));
  // Training continues with a single shared layer.
  ASSERT_TRUE(loaded->Fit(x, y, {.batch_size = 8, .verbose = 0}).ok());
  EXPECT_EQ(loaded->GetWeights()->size(), 6u);
  auto clone = model.Clone();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ(clone->network().variables().size(), 6u);
}

TEST(SharedLayers, TrainIdenticallyOnOneAndFourReplicas) {
  const Array x = Numbers({24, 4}, 1), y = Numbers({24, 4}, 2);
  const auto trained = [&](int replicas) {
    const auto shared = Dense({.units = 4, .activation = "tanh", .name = "shared"});
    const auto i = Input({.shape = {4}, .name = "i"}), in = Input({.shape = {4}, .name = "x"});
    const auto inner = Model({i}, {shared(i)}, "inner").AsLayer();
    Model model({in}, {Add({.name = "add"})({inner(in), shared(shared(in))})});
    EXPECT_TRUE(model.Compile(Compiling(replicas)).ok());
    EXPECT_TRUE(
        model.Fit(x, y, {.batch_size = 8, .epochs = 3, .verbose = 0, .shuffle = false}).ok());
    return *model.GetWeights();
  };
  const NamedArrays one = trained(1), four = trained(4);
  ASSERT_EQ(Names(one), Names(four));
  for (size_t i = 0; i < one.size(); ++i) {
    const auto a = one[i].second.values<float>(), b = four[i].second.values<float>();
    for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-5) << one[i].first;
  }
}

// Weights saved when each path to a shared layer had its own name.
TEST(SharedLayers, LoadWeightsSavedUnderOtherPaths) {
  Model model = InAndOut();
  ASSERT_TRUE(model.Compile(Compiling()).ok());
  const NamedArrays weights = *model.GetWeights();
  NamedArrays both = weights, other;
  both.Set("shared/kernel", *weights.Find("inner/shared/kernel"));
  both.Set("shared/bias", *weights.Find("inner/shared/bias"));
  EXPECT_TRUE(model.SetWeights(both).ok());
  for (const auto& [name, array] : weights) {
    other.Set(name.find("shared") == std::string::npos ? name : name.substr(6), array);
  }
  EXPECT_TRUE(model.SetWeights(other).ok()) << model.SetWeights(other);
  EXPECT_EQ(Floats(*model.GetWeights()->Find("inner/shared/kernel")),
            Floats(*weights.Find("inner/shared/kernel")));
  both.Set("shared/kernel", Numbers({4, 4}, 9));
  EXPECT_THAT(std::string(model.SetWeights(both).message()),
              AllOf(HasSubstr("two different arrays"), HasSubstr("'inner/shared/kernel'"),
                    HasSubstr("'shared/kernel'")));
}

// A generator and a critic: the critic is trained alone, then frozen behind the generator.
TEST(SharedLayers, FrozenCriticTrainsGeneratorOnly) {
  const auto sample = Input({.shape = {4}, .name = "sample"});
  auto judged = Dense({.units = 6, .use_bias = false, .name = "d"})(sample);
  judged = BatchNormalization({.momentum = 0.5, .name = "n"})(judged);
  Model critic({sample}, {Dense({.units = 1, .name = "out"})(judged)}, "critic");
  ASSERT_TRUE(critic.Compile(Compiling()).ok());

  const auto frozen = critic.AsLayer();
  frozen.SetTrainable(false);
  const auto noise = Input({.shape = {3}, .name = "noise"});
  Model gan({noise}, {frozen(Dense({.units = 4, .name = "generator"})(noise))}, "gan");
  ASSERT_TRUE(gan.Compile(Compiling()).ok());

  const Array x = Numbers({16, 4}, 1), z = Numbers({16, 3}, 2), y = Numbers({16, 1}, 3);
  for (int round = 0; round < 2; ++round) {
    const NamedArrays before = *critic.GetWeights();
    ASSERT_TRUE(critic.Fit(x, y, {.batch_size = 8, .verbose = 0}).ok());
    const NamedArrays trained = *critic.GetWeights();
    for (const auto& [name, array] : trained) {
      EXPECT_NE(Floats(array), Floats(*before.Find(name))) << name << " is not trained";
    }
    NamedArrays given = *gan.GetWeights();
    for (const auto& [name, array] : trained) given.Set("critic/" + name, array);
    ASSERT_TRUE(gan.SetWeights(given).ok());
    ASSERT_TRUE(gan.Fit(z, y, {.batch_size = 8, .verbose = 0}).ok());
    const NamedArrays after = *gan.GetWeights();
    EXPECT_EQ(after.size(), trained.size() + 2);
    for (const auto& [name, array] : after) {
      const bool frozen_one = name.rfind("critic/", 0) == 0;
      EXPECT_EQ(Floats(array) == Floats(*given.Find(name)), frozen_one) << name;
    }
  }
}

// Padding makes entire rows of the attention mask false.
TEST(HalfPrecision, TrainsAttentionOverPaddedTokens) {
  constexpr int64_t kRows = 64, kSteps = 8;
  base::Random random(7);
  Array tokens = Array::Zeros(DType::kI32, {kRows, kSteps});
  Array classes = Array::Zeros(DType::kI32, {kRows});
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t k = 0; k < 3 + i % 5; ++k) {
      tokens.mutable_data<int32_t>()[i * kSteps + k] = 1 + static_cast<int32_t>(random.Below(9));
    }
    classes.mutable_data<int32_t>()[i] = tokens.data<int32_t>()[i * kSteps] % 3;
  }
  for (const bool heads : {true, false}) {
    double accuracy[2];
    for (const bool half : {false, true}) {
      const auto x = Input({.shape = {kSteps}, .dtype = DType::kI32, .name = "x"});
      const auto e = Embedding({.input_dim = 10, .output_dim = 8, .mask_zero = true})(x);
      const auto a = heads ? MultiHeadAttention({.num_heads = 2, .key_dim = 4})({e, e})
                           : Attention({.use_scale = true})({e, e});
      Model model({x}, {Dense({.units = 3, .dtype = "float32"})(GlobalAveragePooling1D()(a))});
      ASSERT_TRUE(model
                      .Compile({.optimizer = Adam({.learning_rate = 0.02}),
                                .loss = SparseCategoricalCrossentropy({.from_logits = true}),
                                .metrics = {"accuracy"},
                                .client = runtime::TestClient(4),
                                .dtype_policy = half ? "mixed_float16" : "float32"})
                      .ok());
      const auto history =
          model.Fit(tokens, classes, {.batch_size = 16, .epochs = 25, .verbose = 0});
      ASSERT_TRUE(history.ok()) << history.status();
      accuracy[half] = *history->epochs.back().Find("accuracy");
    }
    EXPECT_GT(accuracy[0], 0.6);
    EXPECT_NEAR(accuracy[1], accuracy[0], 0.1) << (heads ? "MultiHeadAttention" : "Attention");
  }
}

}  // namespace sharing_test
}  // namespace penstock::keras
