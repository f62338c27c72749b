#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/image/view.h"

namespace penstock::data {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;
using base::Shape;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::ReadAll;

Array RandomImage(uint64_t seed, int64_t height, int64_t width) {
  Array image = Array::Uninitialized(DType::kU8, {height, width, 3});
  base::Random random(seed);
  for (int64_t i = 0; i < image.num_elements(); ++i) {
    image.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(random.Next());
  }
  return image;
}

std::string Png(const Array& image) { return *image::EncodePng(*image::ViewOf(image)); }

struct Images {
  std::vector<Array> pixels;
  std::vector<std::string> files;

  void Add(int64_t height, int64_t width) {
    pixels.push_back(RandomImage(pixels.size(), height, width));
    files.push_back(Png(pixels.back()));
  }
  Dataset ToDataset() const {
    const int64_t n = static_cast<int64_t>(files.size());
    Array id = Array::Uninitialized(DType::kI64, {n});
    for (int64_t i = 0; i < n; ++i) id.mutable_data<int64_t>()[i] = i;
    return Dataset::FromArrays({{"image", Array::Strings({n}, files)}, {"id", id}});
  }
};

TEST(DecodeImage, WritesTheImagesOfABatch) {
  Images images;
  for (int i = 0; i < 50; ++i) images.Add(9, 7);
  for (const DecodeImageOptions& options :
       {DecodeImageOptions{}, DecodeImageOptions{.height = 9, .width = 7}}) {
    for (int threads : {1, 4}) {
      base::ThreadPool pool(threads);
      auto iterator = images.ToDataset().DecodeImage(options).Shuffle(20).Batch(16).MakeIterator(
          {.pool = &pool, .seed = 1});
      int64_t rows = 0;
      for (NamedArrays batch; *(*iterator)->Next(&batch);) {
        for (int64_t i = 0; i < batch[0].second.dim(0); ++i, ++rows) {
          const int64_t id = batch.Find("id")->data<int64_t>()[i];
          EXPECT_TRUE(BitwiseEqual(batch.Find("image")->Row(i), images.pixels[id]));
        }
      }
      EXPECT_EQ(rows, 50);
    }
  }
}

TEST(DecodeImage, ResizesAndTurnsGray) {
  Images images;
  for (int i = 0; i < 8; ++i) images.Add(20 + i, 30);
  const Dataset dataset = images.ToDataset().DecodeImage(
      {.channels = 1, .height = 10, .width = 12, .fit = image::Fit::kCentreCrop});
  EXPECT_EQ(dataset.spec()[0].ToString(), "image: uint8[10,12,1]");
  auto iterator = dataset.Batch(8).MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  for (int64_t i = 0; i < 8; ++i) {
    const Array alone = *image::Decode(
        images.files[i],
        {.channels = 1,
         .crop = {},
         .resize = image::Resize{.height = 10, .width = 12, .fit = image::Fit::kCentreCrop}});
    EXPECT_TRUE(BitwiseEqual(batch[0].second.Row(i), alone));
  }
}

TEST(DecodeImage, OfDifferentSizesNeedsAResizeToBeBatched) {
  Images images;
  images.Add(5, 4);
  images.Add(5, 4);
  images.Add(6, 4);
  const Dataset dataset = images.ToDataset().DecodeImage();
  EXPECT_EQ(dataset.spec()[0].ToString(), "image: uint8[?,?,3]");
  EXPECT_EQ(ReadAll(dataset)->size(), 3);  // one by one there is no difficulty
  EXPECT_EQ(ReadAll(dataset.Cache().Shuffle(3))->size(), 3);
  base::ThreadPool pool(1);
  // Which of the rows comes first, and so decides the shape, depends on who computes: the pool or
  // the reader.
  for (const Dataset& batched : {dataset.Batch(3), dataset.Cache().Batch(3)}) {
    EXPECT_THAT(
        std::string(ReadAll(batched, {.pool = &pool}).status().message()),
        AllOf(
            AnyOf(AllOf(HasSubstr("arrays:2: "), HasSubstr("has image of shape [6,4,3], but row "),
                        HasSubstr(") has [5,4,3]")),
                  AllOf(HasSubstr("has image of shape [5,4,3], but row 2 (arrays:2) has [6,4,3]"))),
            HasSubstr("give DecodeImage a .height and a .width")));
  }
}

TEST(DecodeImage, NamesTheImageThatIsBroken) {
  Images images;
  for (int i = 0; i < 10; ++i) images.Add(8, 8);
  images.files[6].resize(images.files[6].size() / 2);
  images.files[8] = "no image";
  base::ThreadPool pool(4);
  for (const Dataset& dataset :
       {images.ToDataset().DecodeImage(), images.ToDataset().DecodeImage().Batch(10),
        images.ToDataset().DecodeImage({.height = 4, .width = 4}).Batch(5)}) {
    const auto got = ReadAll(dataset, {.pool = &pool});
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("arrays:6: DecodeImage: "));
  }
}

TEST(DecodeImage, RefusesOptionsThatDoNotFit) {
  Images images;
  images.Add(2, 2);
  const Dataset dataset = images.ToDataset();
  EXPECT_THAT(std::string(dataset.DecodeImage({.column = "id"}).status().message()),
              HasSubstr("id: int64[]"));
  EXPECT_FALSE(dataset.DecodeImage({.column = "picture"}).status().ok());
  EXPECT_FALSE(dataset.DecodeImage({.channels = 2}).status().ok());
  EXPECT_FALSE(dataset.DecodeImage({.height = 2}).status().ok());
  EXPECT_FALSE(dataset.DecodeImage({.height = -2, .width = 4}).status().ok());
}

}  // namespace
}  // namespace penstock::data
