// Exports networks as SavedModels, which TensorFlow opens in each of its ways and which predict the
// same there at every batch size; reads SavedModels that TensorFlow and jax2tf write.
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests::saved_model_test {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr int64_t kBatches[] = {1, 3, 128};

Array Random(DType dtype, const base::Shape& shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Zeros(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(random.Uniform() * 2 - 1);
  }
  if (dtype == DType::kF32) return out;
  for (int64_t i = 0; i < out.num_elements(); ++i) {  // tokens
    out.mutable_data<float>()[i] = std::floor(5 + 4.9f * out.data<float>()[i]);
  }
  return *out.Cast(dtype);
}

keras::Symbol Image() { return keras::Input({.shape = {10, 9, 3}, .name = "image"}); }

keras::Model Dense() {
  return keras::Sequential({keras::Input({.shape = {8}, .name = "features"}),
                            keras::Dense({.units = 16, .activation = "gelu"}),
                            keras::Dropout({.rate = 0.5}), keras::LayerNormalization({}),
                            keras::Dense({.units = 5, .activation = "softmax", .name = "scores"})});
}

keras::Model Convolutions() {
  const keras::Symbol image = Image();
  keras::Symbol y =
      keras::Conv2D({.filters = 8, .kernel_size = 3, .padding = "same", .use_bias = false})(image);
  y = keras::ReLU({})(keras::BatchNormalization({})(y));
  y = keras::MaxPooling2D({.pool_size = 2, .padding = "same"})(y);
  y = keras::SeparableConv2D({.filters = 6, .kernel_size = 3, .strides = 2, .padding = "same"})(y);
  y = keras::AveragePooling2D({.pool_size = 2, .padding = "same"})(y);
  y = keras::UpSampling2D({.size = 2})(y);
  y = keras::GlobalAveragePooling2D({})(y);
  return keras::Model(image, keras::Dense({.units = 4})(y), "convolutions");
}

keras::Model Residual() {
  const keras::Symbol image = Image();
  keras::Symbol x = keras::Conv2D({.filters = 6, .kernel_size = 3, .strides = 2})(image);
  for (int block = 0; block < 2; ++block) {
    keras::Symbol y = keras::BatchNormalization({})(x);
    y = keras::Conv2D({.filters = 6, .kernel_size = 3, .padding = "same"})(
        keras::Activation({.activation = "swish"})(y));
    x = keras::Add({})({x, y});
  }
  return keras::Model(image, keras::Dense({.units = 3})(keras::Flatten({})(x)), "residual");
}

keras::Model Attention() {
  const keras::Symbol tokens = keras::Input({.shape = {7}, .dtype = DType::kI32, .name = "tokens"});
  keras::Symbol x = keras::Embedding({.input_dim = 10, .output_dim = 8})(tokens);
  const keras::Symbol y = keras::LayerNormalization({})(x);
  x = keras::Add({})({x, keras::MultiHeadAttention({.num_heads = 2, .key_dim = 4})({y, y})});
  x = keras::Add({})({x, keras::Dense({.units = 8, .activation = "relu"})(x)});
  return keras::Model(tokens, keras::GlobalAveragePooling1D({})(x), "attention");
}

keras::Model Recurrent() {
  const keras::Symbol steps = keras::Input({.shape = {6, 3}, .name = "steps"});
  keras::Symbol x = keras::LSTM({.units = 5, .return_sequences = true})(steps);
  return keras::Model(steps, keras::GRU({.units = 4})(x), "recurrent");
}

// Names that are not in alphabetical order, and no identifiers of Python.
keras::Model SeveralPorts() {
  const keras::Symbol b = keras::Input({.shape = {4}, .name = "wide-input"});
  const keras::Symbol a = keras::Input({.shape = {2, 3}, .name = "deep"});
  const keras::Symbol flat = keras::Flatten({})(a);
  const keras::Symbol both = keras::Concatenate({})({b, flat});
  const keras::Symbol score = keras::Dense({.units = 1, .name = "score"})(both);
  const keras::Symbol code = keras::Dense({.units = 3, .name = "code"})(flat);
  return keras::Model({b, a}, {score, code}, "ports");
}

struct Case {
  const char* name;
  keras::Model (*make)();
};
constexpr Case kCases[] = {{"dense", Dense},         {"convolutions", Convolutions},
                           {"residual", Residual},   {"attention", Attention},
                           {"recurrent", Recurrent}, {"ports", SeveralPorts}};

// Weights as after training: no zeros, variances above 0.
absl::Status Randomize(keras::Model& model) {
  auto weights = model.GetWeights();
  if (!weights.ok()) return weights.status();
  NamedArrays random;
  uint64_t seed = 1;
  for (const auto& [name, array] : *weights) {
    Array value = array;
    if (array.dtype() == DType::kF32) {
      value = Random(DType::kF32, array.shape(), seed++);
      if (absl::StrContains(name, "variance")) {
        for (int64_t i = 0; i < value.num_elements(); ++i) value.mutable_data<float>()[i] += 1.5f;
      }
    }
    random.Append(name, value);
  }
  return model.SetWeights(random);
}

NamedArrays InputsOf(const keras::Model& model, int64_t batch) {
  NamedArrays inputs;
  for (const auto& port : model.network().inputs()) {
    base::Shape shape = port.type.shape;
    shape.set_dim(0, batch);
    inputs.Append(port.name, Random(port.type.dtype, shape, static_cast<uint64_t>(batch)));
  }
  return inputs;
}

io::FileSystem& Files() { return *io::FileSystem::Default(); }

void ExpectNear(const Array& got, const Array& want, const std::string& what) {
  ASSERT_EQ(got.TypeString(), want.TypeString()) << what;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], want.data<float>()[i],
                1e-5 * (1 + std::abs(want.data<float>()[i])))
        << what << ", element " << i;
  }
}

// One run of TensorFlow checks all exports and writes what Penstock reads afterwards.
class SavedModelExports : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    models_ = new std::map<std::string, keras::Model>;
    for (const Case& one : kCases) {
      keras::Model& model = models_->emplace(one.name, one.make()).first->second;
      const absl::Status compiled = model.Compile(
          {.loss = std::vector<keras::LossArg>(model.outputs().size(), keras::LossArg("mse"))});
      ASSERT_TRUE(compiled.ok()) << one.name << ": " << compiled;
      ASSERT_TRUE(Randomize(model).ok());
      const absl::Status exported = model.Export(Path(one.name));
      ASSERT_TRUE(exported.ok()) << one.name << ": " << exported;
      for (const int64_t batch : kBatches) WriteCase(one.name, model, batch);
    }
    const absl::Status checked =
        RunPython("interop/saved_model_files.py", {folder_->path().string()});
    ASSERT_TRUE(checked.ok()) << checked;
  }
  static void TearDownTestSuite() {
    delete models_;
    delete folder_;
  }

  // Inputs and predictions, and the weights.
  static void WriteCase(const std::string& name, keras::Model& model, int64_t batch) {
    NamedArrays arrays;
    std::vector<Array> xs;
    for (const auto& [input, array] : InputsOf(model, batch)) {
      arrays.Append("input/" + input, array);
      xs.push_back(array);
    }
    const auto predicted =
        xs.size() == 1 ? model.PredictAll(xs[0], batch) : model.PredictAll(xs, batch);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    for (size_t i = 0; i < predicted->size(); ++i) {
      arrays.Append("output/" + model.network().outputs()[i].name, (*predicted)[i]);
    }
    const auto weights = model.GetWeights();
    ASSERT_TRUE(weights.ok());
    for (const auto& [variable, array] : *weights) arrays.Append("weight/" + variable, array);
    const absl::Status written = save::WriteWeights(
        Files(), Path(absl::StrCat(name, "_", batch, ".safetensors")), {.arrays = arrays});
    ASSERT_TRUE(written.ok()) << written;
  }

  static std::string Path(absl::string_view name) { return *folder_ / name; }
  static TemporaryFolder* folder_;
  static std::map<std::string, keras::Model>* models_;
};
TemporaryFolder* SavedModelExports::folder_ = nullptr;
std::map<std::string, keras::Model>* SavedModelExports::models_ = nullptr;

TEST_F(SavedModelExports, PredictTheSameWhenPenstockLoadsThem) {
  for (const Case& one : kCases) {
    // As exported, and as TensorFlow saved it again.
    for (const std::string& name : {std::string(one.name), absl::StrCat(one.name, "_again")}) {
      auto served = keras::ServingModel::Load(Path(name));
      ASSERT_TRUE(served.ok()) << name << ": " << served.status();
      for (const int64_t batch : {int64_t{1}, int64_t{3}}) {
        const auto file =
            save::ReadWeights(Files(), Path(absl::StrCat(one.name, "_", batch, ".safetensors")));
        ASSERT_TRUE(file.ok());
        const auto outputs = served->Predict(InputsOf(models_->at(one.name), batch));
        ASSERT_TRUE(outputs.ok()) << name << ": " << outputs.status();
        for (const auto& [output, array] : *outputs) {
          ExpectNear(array, *file->arrays.Get("output/" + output), name + ", " + output);
        }
      }
    }
  }
}

TEST_F(SavedModelExports, WeightsAreEqualBitForBitAfterTensorFlowSavedThem) {
  for (const Case& one : kCases) {
    const auto weights = models_->at(one.name).GetWeights();
    ASSERT_TRUE(weights.ok());
    for (const std::string& name : {std::string(one.name), absl::StrCat(one.name, "_again")}) {
      const auto file = save::ReadWeights(Files(), Path(name));
      ASSERT_TRUE(file.ok()) << name << ": " << file.status();
      for (const auto& [variable, array] : *weights) {
        const auto found = save::FindVariable(*file, variable);
        ASSERT_TRUE(found.ok()) << name << ": " << found.status();
        EXPECT_TRUE(BitwiseEqual(*found, array)) << name << ", " << variable;
      }
    }
  }
}

TEST_F(SavedModelExports, AreInspectedWithTheirSignature) {
  const auto contents = save::Inspect(Files(), Path("ports"));
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->format, "SavedModel");
  EXPECT_THAT(contents->metadata, Contains(Pair("signature serving_default",
                                                "wide-input: float32[?,4], deep: float32[?,2,3] -> "
                                                "score: float32[?,1], code: float32[?,3]")));
}

// Written by TensorFlow without StableHLO: the weights are read, the program is not.
TEST_F(SavedModelExports, OfTensorFlowsOperationsGiveTheirWeights) {
  const save::Weights weights = *save::ReadWeights(Files(), Path("keras_export"));
  const auto kernel = save::FindVariable(weights, "sequential/dense/kernel");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->TypeString(), "float32[3,2]");
  const auto served = keras::ServingModel::Load(Path("keras_export"));
  EXPECT_TRUE(absl::IsUnimplemented(served.status())) << served.status();
  EXPECT_THAT(std::string(served.status().message()), HasSubstr("TensorFlow's operation"));
}

// jax2tf writes StableHLO's binary form.
TEST_F(SavedModelExports, OfJaxRunAtTheirShapes) {
  auto served = keras::ServingModel::Load(Path("jax"));
  ASSERT_TRUE(served.ok()) << served.status();
  const auto file = save::ReadWeights(Files(), Path("jax.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(served->inputs().size(), 1u);
  const auto outputs = served->Predict({{served->inputs()[0].name, *file->arrays.Get("input")}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ExpectNear((*outputs)[0].second, *file->arrays.Get("output"), "jax");
}

}  // namespace
}  // namespace penstock::tests::saved_model_test
