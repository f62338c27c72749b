// Model::Export to SavedModels, and ServingModel. tests/interop/saved_model_test.cc compares with
// TensorFlow.
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/ir/ops.h"
#include "penstock/keras/export.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/saved_model/saved_model.h"

namespace penstock::keras {
namespace export_saved_model_test {

using base::Array;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExportSavedModel : public ::testing::Test {
 protected:
  ~ExportSavedModel() override { std::filesystem::remove_all(folder_); }
  std::string Path(absl::string_view name) const { return folder_ / std::string(name); }
  io::FileSystem& fs() const { return *io::FileSystem::Default(); }

  static Model Compiled(Model model, const DTypePolicy& policy = "") {
    const absl::Status status =
        model.Compile({.loss = "mse", .client = runtime::TestClient(1), .dtype_policy = policy});
    EXPECT_TRUE(status.ok()) << status;
    return model;
  }
  absl::StatusOr<ServingModel> Served(const std::string& uri) const {
    return ServingModel::Load(uri, {.client = runtime::TestClient(1)});
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      absl::StrCat("penstock_export_saved_model_", base::EntropySeed());
};

Model Net() {
  const Symbol image = Input({.shape = {4, 4, 2}, .name = "image"});
  const Symbol y =
      BatchNormalization({})(Conv2D({.filters = 3, .kernel_size = 3, .padding = "same"})(image));
  return Model(image, Dense({.units = 2, .name = "scores"})(Flatten({})(MaxPooling2D({})(y))));
}

Array Images(int64_t count) {
  Array images = Array::Zeros(base::DType::kF32, {count, 4, 4, 2});
  for (int64_t i = 0; i < images.num_elements(); ++i) {
    images.mutable_data<float>()[i] = static_cast<float>(i % 13) / 7.0f - 1.0f;
  }
  return images;
}

TEST_F(ExportSavedModel, ServesThePredictionsOfTheModelAtEveryBatchSize) {
  Model model = Compiled(Net());
  ASSERT_TRUE(model.Export(Path("net")).ok()) << model.Export(Path("net"));
  auto served = Served(Path("net"));
  ASSERT_TRUE(served.ok()) << served.status();
  for (const int64_t batch : {1, 5}) {
    const Array want = *model.Predict(Images(batch), batch);
    const auto got = served->Predict({{"image", Images(batch)}});
    ASSERT_TRUE(got.ok()) << got.status();
    const Array scores = *got->Get("scores");
    ASSERT_EQ(scores.TypeString(), want.TypeString());
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      EXPECT_NEAR(scores.data<float>()[i], want.data<float>()[i], 1e-5);
    }
  }
}

TEST_F(ExportSavedModel, HoldsPlainStableHloWithTheNamesOfTheNetwork) {
  Model model = Compiled(Net());
  ASSERT_TRUE(model.Export(Path("net.savedmodel")).ok());
  const auto function = save::ReadServingFunction(fs(), Path("net.savedmodel"));
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_FALSE(absl::StrContains(function->module, "custom_call"));
  EXPECT_THAT(function->module, HasSubstr("jax.uses_shape_polymorphism = true"));
  EXPECT_EQ(function->inputs[0].name, "image");
  EXPECT_EQ(function->inputs[0].shape.ToString(), "[?,4,4,2]");
  EXPECT_EQ(function->outputs[0].name, "scores");
  EXPECT_EQ(function->outputs[0].shape.ToString(), "[?,2]");
}

TEST_F(ExportSavedModel, NumbersOutputsOfOneLayer) {
  const Symbol x = Input({.shape = {5, 3}, .name = "x"});
  const nn::Network net({x}, LSTM({.units = 2, .return_state = true, .name = "lstm"}).Outputs({x}));
  NamedArrays weights;
  for (const nn::VariableSpec& variable : net.variables()) {
    weights.Append(variable.name, Array::Zeros(variable.type.dtype, variable.type.shape));
  }
  const absl::Status exported = ExportNetwork(net, weights, Path("net"));
  ASSERT_TRUE(exported.ok()) << exported;
  auto served = Served(Path("net"));
  ASSERT_TRUE(served.ok()) << served.status();
  std::vector<std::string> names;
  for (const auto& output : served->outputs()) names.push_back(output.name);
  EXPECT_THAT(names, ElementsAre("lstm", "lstm_1", "lstm_2"));
}

TEST_F(ExportSavedModel, ReplacesTheWeightsWhenItIsRepeated) {
  Model model = Compiled(Net());
  ASSERT_TRUE(model.Export(Path("net")).ok());
  NamedArrays zeros;
  const NamedArrays weights = *model.GetWeights();
  for (const auto& [name, array] : weights) {
    zeros.Append(name, Array::Zeros(array.dtype(), array.shape()));
  }
  ASSERT_TRUE(model.SetWeights(zeros).ok());
  ASSERT_TRUE(model.Export(Path("net")).ok());
  auto served = Served(Path("net"));
  ASSERT_TRUE(served.ok());
  const auto got = served->Predict({{"image", Images(2)}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (int i = 0; i < 4; ++i) EXPECT_EQ((*got)[0].second.data<float>()[i], 0);
}

TEST_F(ExportSavedModel, ReturnsFloat32UnderAPolicyOf16Bits) {
  Model model = Compiled(Net(), "mixed_bfloat16");
  ASSERT_TRUE(model.Export(Path("net")).ok());
  auto served = Served(Path("net"));
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->outputs()[0].dtype, base::DType::kF32);
  const auto got = served->Predict({{"image", Images(2)}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].second.TypeString(), "float32[2,2]");
}

TEST_F(ExportSavedModel, NamesTheLayerThatDependsOnTheBatchSize) {
  const Symbol x = Input({.shape = {3}});
  const Symbol y = nn::Lambda(
      [](nn::CallContext&, const ir::Values& in) -> nn::Outputs {
        return in[0] / static_cast<double>(in[0].shape().dim(0));
      },
      {.name = "average"})(x);
  Model model = Compiled(Model(x, y));
  const absl::Status status = model.Export(Path("net"));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("average"), HasSubstr("batch size")));
  EXPECT_FALSE(*fs().Exists(Path("net/saved_model.pb")));
}

TEST_F(ExportSavedModel, ChoosesTheFormatByTheName) {
  for (const char* name : {"net", "net/", "gs://b/net/1", "net.savedmodel", "a.b/net"}) {
    EXPECT_TRUE(IsExport(name)) << name;
  }
  for (const char* name : {"net.safetensors", "net.txt", "net.ckpt"}) {
    EXPECT_FALSE(IsExport(name)) << name;
  }
  Model model = Compiled(Net());
  EXPECT_THAT(std::string(model.Export(Path("net.txt")).message()),
              AllOf(HasSubstr("net.txt"), HasSubstr(".savedmodel")));
  EXPECT_TRUE(absl::IsFailedPrecondition(Net().Export(Path("net"))));  // not compiled
}

// A destination that cannot be written is an error before the network is traced.
TEST_F(ExportSavedModel, ChecksTheDestinationFirst) {
  int calls = 0;
  const Symbol x = Input({.shape = {3}});
  const Symbol y = nn::Lambda(
      [&calls](nn::CallContext&, const ir::Values& in) -> nn::Outputs {
        ++calls;
        return in[0];
      },
      {.name = "counted"})(x);
  const Model model = Compiled(Model(x, y));
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "file") << "not a folder";
  const int before = calls;
  EXPECT_FALSE(CheckExportDestination(Path("file/net")).ok());
  EXPECT_THAT(std::string(model.Export(Path("file/net")).message()), HasSubstr("file/net"));
  // Nor may the folder's name be that of a file.
  EXPECT_FALSE(model.Export(Path("file")).ok());
  EXPECT_EQ(calls, before);
}

TEST_F(ExportSavedModel, RejectsInputsThatDoNotFit) {
  ASSERT_TRUE(Compiled(Net()).Export(Path("net")).ok());
  auto served = Served(Path("net"));
  ASSERT_TRUE(served.ok());
  const auto error = [&](const NamedArrays& inputs) {
    const auto got = served->Predict(inputs);
    return got.ok() ? "no error" : std::string(got.status().message());
  };
  EXPECT_THAT(error({{"picture", Images(1)}}), HasSubstr("image"));
  EXPECT_THAT(error({{"image", Images(1)}, {"more", Images(1)}}), HasSubstr("1 inputs, got 2"));
  EXPECT_THAT(error({{"image", Array::Zeros(base::DType::kF32, {1, 4, 4, 3})}}),
              AllOf(HasSubstr("[?,4,4,2]"), HasSubstr("[1,4,4,3]")));
  EXPECT_THAT(error({{"image", Array::Zeros(base::DType::kI32, {1, 4, 4, 2})}}),
              HasSubstr("int32"));
  EXPECT_THAT(error({{"image", Images(0)}}), HasSubstr("without examples"));
}

// A SavedModel of this module, with the types of Net's signature.
absl::Status WriteModule(io::FileSystem& fs, const std::string& uri, const std::string& module) {
  save::SavedModelContents contents;
  contents.function.inputs = {{"x", base::DType::kF32, {2}}};
  contents.function.outputs = {{"y", base::DType::kF32, {2}}};
  contents.function.module = module;
  contents.function.version = 9;
  contents.function.platforms = {"CPU"};
  return save::WriteSavedModel(fs, uri, contents);
}

TEST_F(ExportSavedModel, RejectsModulesThatAreNotWhatTheirSignatureSays) {
  const auto run = [&](const std::string& module) {
    EXPECT_TRUE(WriteModule(fs(), Path("net"), module).ok());
    auto served = Served(Path("net"));
    if (!served.ok()) return served.status();
    return served->Predict({{"x", Array::Of<float>({2}, {1, 2})}}).status();
  };
  const auto module = [](absl::string_view type, absl::string_view more) {
    return absl::StrCat("func.func public @main(%x: ", type, more, ") -> ", type,
                        " {\n  return %x : ", type, "\n}\n");
  };
  EXPECT_TRUE(run(module("tensor<2xf32>", "")).ok()) << run(module("tensor<2xf32>", ""));
  EXPECT_FALSE(run("").ok());
  EXPECT_FALSE(run("module {}").ok());
  EXPECT_FALSE(run("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { nonsense }").ok());
  EXPECT_FALSE(run(module("tensor<2xf32>", ", %y: tensor<f32>")).ok());
  EXPECT_FALSE(run(module("tensor<3xf32>", "")).ok());
  EXPECT_FALSE(run("ML\xefR and nothing else").ok());
}

}  // namespace export_saved_model_test
}  // namespace penstock::keras
