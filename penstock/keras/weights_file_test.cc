// Files with PyTorch's names. tests/interop/torch_models_test.cc reads PyTorch's own.
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace weights_file_test {

using base::BitwiseEqual;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model Compiled(nn::Network network, uint64_t seed) {
  Model model(std::move(network));
  PENSTOCK_CHECK_OK(model.Compile({.client = runtime::TestClient(1), .seed = seed}));
  return model;
}

models::ImageNetOptions Small(int64_t classes) {
  return {.input_shape = {32, 32, 3}, .classes = classes, .alpha = 0.35};
}

class TorchFile : public ::testing::Test {
 protected:
  TorchFile() : source_(Compiled(models::MobileNetV2Torch(Small(3)), 1)) {
    weights_ = *source_.GetWeights();
    const NamedArrays theirs = *models::ToTorch(source_.network(), weights_);
    PENSTOCK_CHECK_OK(save::WriteWeights(*io::FileSystem::Default(), file_, {.arrays = theirs}));
  }
  ~TorchFile() override { std::remove(file_.c_str()); }

  const std::string file_ =
      ::testing::TempDir() + "/torch_" + std::to_string(base::EntropySeed()) + ".pt";
  Model source_;
  NamedArrays weights_;
};

TEST_F(TorchFile, IsLoaded) {
  Model model = Compiled(models::MobileNetV2Torch(Small(3)), 2);
  const absl::Status loaded = model.LoadWeights(file_);
  ASSERT_TRUE(loaded.ok()) << loaded;
  const NamedArrays got = *model.GetWeights();
  for (const auto& [name, array] : weights_) {
    EXPECT_TRUE(BitwiseEqual(*got.Find(name), array)) << name;
  }
}

TEST_F(TorchFile, DifferencesAreListedAndSkippedOnRequest) {
  Model model = Compiled(models::MobileNetV2Torch(Small(5)), 2);
  const NamedArrays before = *model.GetWeights();
  EXPECT_THAT(std::string(model.LoadWeights(file_).message()),
              AllOf(HasSubstr(file_), HasSubstr("predictions/bias is f32[5], classifier.1.bias"),
                    HasSubstr("--new-head")));
  const auto report = model.LoadWeights(file_, {.skip_mismatch = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loaded.size(), weights_.size() - 2);
  ASSERT_EQ(report->skipped.size(), 2u);
  EXPECT_EQ(report->skipped[0].name, "predictions/kernel");
  const NamedArrays after = *model.GetWeights();
  EXPECT_TRUE(BitwiseEqual(*after.Find("Conv1/kernel"), *weights_.Find("Conv1/kernel")));
  EXPECT_TRUE(BitwiseEqual(*after.Find("predictions/bias"), *before.Find("predictions/bias")));
}

TEST_F(TorchFile, ModelWithoutTopTakesWhatFits) {
  models::ImageNetOptions options = Small(3);
  options.include_top = false;
  Model model = Compiled(models::MobileNetV2Torch(options), 2);
  EXPECT_THAT(std::string(model.LoadWeights(file_).message()), HasSubstr("by_name"));
  const auto report = model.LoadWeights(file_, {.by_name = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->skipped, IsEmpty());
  EXPECT_THAT(report->unused, ElementsAre("classifier.1.weight", "classifier.1.bias"));
}

TEST_F(TorchFile, NetworkThatComputesOtherwiseIsAnError) {
  Model model = Compiled(models::MobileNetV2(Small(3)), 2);
  for (const bool by_name : {false, true}) {
    EXPECT_THAT(std::string(model.LoadWeights(file_, {.by_name = by_name}).status().message()),
                AllOf(HasSubstr(file_), HasSubstr("mobilenet_v2_torch")));
  }
}

}  // namespace weights_file_test
}  // namespace penstock::keras
