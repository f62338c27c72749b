#include "penstock/keras/export.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/ir/ops.h"
#include "penstock/keras/keras.h"

namespace penstock::keras {
namespace export_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A folder that is removed at the end.
struct Folder {
  Folder() : path(::testing::TempDir() + "/export_" + std::to_string(base::EntropySeed())) {}
  ~Folder() { std::filesystem::remove_all(path); }
  const std::string path;
};
std::string Path(const std::string& name) {
  static const Folder folder;
  return folder.path + "/" + name;
}

std::string BytesOf(const std::string& uri) {
  const auto bytes = io::ReadFile(*io::FileSystem::Default(), uri);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or("");
}

Model Compiled(const std::vector<nn::Layer>& layers) {
  std::vector<SequentialItem> items{Input({.shape = {3}, .name = "x"})};
  items.insert(items.end(), layers.begin(), layers.end());
  Model model = Sequential(items);
  EXPECT_TRUE(model.Compile({.loss = "mse"}).ok());
  return model;
}

TEST(Export, WritesOnnxWithCurrentWeightsAndClassNames) {
  Model model = Compiled({Dense({.units = 2, .name = "scores"})});
  base::NamedArrays weights = *model.GetWeights();
  weights.Set("scores/bias", base::Array::Of<float>({2}, {1234.5F, -77}));
  ASSERT_TRUE(model.SetWeights(weights).ok());
  model.SetClassNames({"cat", "dog"});
  ASSERT_TRUE(model.Export(Path("a.onnx")).ok());
  const std::string bytes = BytesOf(Path("a.onnx"));
  const float bias = 1234.5F;
  const std::string bits(reinterpret_cast<const char*>(&bias), sizeof(bias));
  EXPECT_THAT(bytes, AllOf(HasSubstr("scores/bias"), HasSubstr(bits)));
  EXPECT_THAT(bytes, AllOf(HasSubstr("class_names"), HasSubstr(R"(["cat","dog"])")));
  EXPECT_THAT(bytes, HasSubstr("batch"));
}

TEST(Export, ReadsTheFileOfAModel) {
  Model model = Compiled({Dense({.units = 2, .name = "scores"})});
  model.SetClassNames({"cat", "dog"});
  ASSERT_TRUE(model.Save(Path("b.safetensors")).ok());
  ASSERT_TRUE(model.Export(Path("b.onnx")).ok());
  ASSERT_TRUE(ExportFile(Path("b.safetensors"), Path("c.onnx")).ok());
  EXPECT_EQ(BytesOf(Path("b.onnx")), BytesOf(Path("c.onnx")));
  EXPECT_THAT(ExportFile(Path("none.safetensors"), Path("d.onnx")).message(), HasSubstr("none"));
}

TEST(Export, SelectsTheFormatByTheName) {
  const Model model = Compiled({Dense({.units = 2})});
  EXPECT_TRUE(IsExport("net.onnx"));
  EXPECT_EQ(ExportFormatNames(), "SavedModel (.savedmodel, or no extension), ONNX (.onnx)");
  EXPECT_TRUE(IsExport("s3://b/net.ONNX?region=eu-west-1"));
  EXPECT_FALSE(IsExport("net.safetensors"));
  EXPECT_THAT(model.Export(Path("a.safetensors")).message(),
              AllOf(HasSubstr("a.safetensors"), HasSubstr(".onnx")));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Sequential({Input({.shape = {3}})}).Export(Path("a.onnx"))));
}

TEST(Export, NamesTheLayerThatCannotBeExported) {
  const Model model = Compiled({Lambda(
      [](nn::CallContext&, const ir::Values& x) -> nn::Outputs {
        return ir::Fft({x[0], x[0]}).real;
      },
      {.name = "spectrum"})});
  const absl::Status status = model.Export(Path("spectrum.onnx"));
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("spectrum.onnx"), HasSubstr("layer \"spectrum\""), HasSubstr("fft")));
  EXPECT_FALSE(*io::FileSystem::Default()->Exists(Path("spectrum.onnx")));
}

// A destination that cannot be written is an error before the network is traced.
TEST(Export, ChecksTheDestinationFirst) {
  int calls = 0;
  const Model model = Compiled({Lambda(
      [&calls](nn::CallContext&, const ir::Values& x) -> nn::Outputs {
        ++calls;
        return x[0];
      },
      {.name = "counted"})});
  const std::filesystem::path file = Path("file");
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << "not a folder";
  const int before = calls;
  EXPECT_FALSE(model.Export((file / "net.onnx").string()).ok());
  EXPECT_EQ(calls, before);
}

}  // namespace export_test
}  // namespace penstock::keras
