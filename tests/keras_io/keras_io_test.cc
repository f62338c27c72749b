#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "programs.h"

namespace penstock::keras_io {
namespace {

std::string Temporary(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/keras_io_", getpid(), "_", name);
  std::filesystem::remove_all(path);
  return path;
}

void ExpectAbove(const absl::StatusOr<double>& number, double minimum) {
  ASSERT_TRUE(number.ok()) << number.status();
  EXPECT_GT(*number, minimum);
}
void ExpectBelow(const absl::StatusOr<double>& number, double maximum) {
  ASSERT_TRUE(number.ok()) << number.status();
  EXPECT_LT(*number, maximum);
}

TEST(KerasIo, MnistConvnetLearns) { ExpectAbove(MnistConvnet(), 0.9); }
TEST(KerasIo, ImageClassificationFromScratchLearns) {
  const std::string folder = Temporary("images");
  ExpectAbove(ImageClassificationFromScratch(folder), 0.8);
  std::filesystem::remove_all(folder);
}
TEST(KerasIo, TransferLearningLearns) { ExpectAbove(TransferLearning(), 0.9); }
TEST(KerasIo, TextClassificationLearns) { ExpectAbove(TextClassification(), 0.9); }
TEST(KerasIo, FunctionalApiLearns) { ExpectBelow(FunctionalApi(), 0.5); }
TEST(KerasIo, CustomTrainStepLearns) { ExpectBelow(CustomTrainStep(), 0.4); }
TEST(KerasIo, TimeseriesForecastingLearns) { ExpectBelow(TimeseriesForecasting(), 0.5); }
TEST(KerasIo, AutoencoderLearns) { ExpectBelow(Autoencoder(), 0.8); }
TEST(KerasIo, StructuredDataLearns) {
  const std::string file = Temporary("patients.csv");
  ExpectAbove(StructuredData(file), 0.85);
  std::filesystem::remove(file);
}
TEST(KerasIo, TransformerClassificationLearns) { ExpectAbove(TransformerClassification(), 0.85); }

}  // namespace
}  // namespace penstock::keras_io
