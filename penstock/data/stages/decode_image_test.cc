#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/image/view.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {
namespace decode_image_test {

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

TEST(DecodeImage, ResizesAndConvertsToGray) {
  Images images;
  for (int i = 0; i < 8; ++i) images.Add(20 + i, 30);
  const Dataset dataset = images.ToDataset().DecodeImage(
      {.channels = 1, .height = 10, .width = 12, .fit = image::Fit::kCenterCrop});
  EXPECT_EQ(dataset.spec()[0].ToString(), "image: uint8[10,12,1]");
  auto iterator = dataset.Batch(8).MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  for (int64_t i = 0; i < 8; ++i) {
    const Array alone = *image::Decode(
        images.files[i],
        {.channels = 1,
         .crop = {},
         .resize = image::Resize{.height = 10, .width = 12, .fit = image::Fit::kCenterCrop}});
    EXPECT_TRUE(BitwiseEqual(batch[0].second.Row(i), alone));
  }
}

TEST(DecodeImage, RejectsBatchOfDifferentSizesWithoutResize) {
  Images images;
  images.Add(5, 4);
  images.Add(5, 4);
  images.Add(6, 4);
  const Dataset dataset = images.ToDataset().DecodeImage();
  EXPECT_EQ(dataset.spec()[0].ToString(), "image: uint8[?,?,3]");
  EXPECT_EQ(ReadAll(dataset)->size(), 3);  // without batching, the sizes may differ
  EXPECT_EQ(ReadAll(dataset.Cache().Shuffle(3))->size(), 3);
  base::ThreadPool pool(1);
  // The first row computed determines the shape; it depends on whether a pool thread or the reader
  // computes it.
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

TEST(DecodeImage, NamesCorruptImage) {
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

TEST(DecodeImage, RejectsInconsistentOptions) {
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

const DecodeImageOptions kTraining = {.height = 6,
                                      .width = 5,
                                      .filter = image::Filter::kArea,
                                      .random_crop = image::RandomResizedCrop{},
                                      .random_flip = true};

// The same image in every row, so that only the augmentation differs.
Dataset OneImage(int64_t rows) {
  const std::string file = Png(RandomImage(1, 40, 30));
  return Dataset::FromArrays(
      {{"image", Array::Strings({rows}, std::vector<std::string>(rows, file))}});
}

// Pixels of all rows, independent of batch boundaries.
std::vector<std::string> RowPixels(const Dataset& dataset, const IteratorOptions& options) {
  std::vector<std::string> rows;
  auto iterator = dataset.MakeIterator(options);
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  for (NamedArrays element; *(*iterator)->Next(&element);) {
    const Array& image = *element.Find("image");
    const int64_t count = image.rank() == 4 ? image.dim(0) : 1;
    const auto* bytes = static_cast<const char*>(image.raw());
    for (int64_t i = 0; i < count; ++i) {
      rows.emplace_back(bytes + i * image.num_bytes() / count, image.num_bytes() / count);
    }
  }
  return rows;
}

TEST(DecodeImage, DrawsBoxAndFlipFromSeedEpochAndRow) {
  const std::string file = Png(RandomImage(1, 40, 30));
  DecodeImageOptions options = kTraining;
  options.seed = 17;
  const auto rows = RowPixels(OneImage(30).DecodeImage(options).Batch(7), {.epoch = 2});
  ASSERT_EQ(rows.size(), 30);
  int flips = 0;
  for (uint64_t i = 0; i < rows.size(); ++i) {
    base::Random random(base::MixSeeds(base::MixSeeds(17, 2), i));
    image::DecodeOptions decode = {
        .crop = image::RandomResizedCropBox({40, 30}, {}, random),
        .resize = image::Resize{.height = 6, .width = 5, .filter = image::Filter::kArea}};
    decode.flip = random.Below(2) == 1;
    flips += decode.flip;
    const Array expected = *image::Decode(file, decode);
    EXPECT_EQ(rows[i], std::string(static_cast<const char*>(expected.raw()), expected.num_bytes()))
        << i;
  }
  EXPECT_GT(flips, 5);
  EXPECT_LT(flips, 25);
}

TEST(DecodeImage, AugmentationIsIndependentOfThreads) {
  const Dataset decoded = OneImage(60).DecodeImage(kTraining);
  const auto expected = RowPixels(decoded.Batch(8), {.seed = 5});
  for (int threads : {1, 2, 5}) {
    base::ThreadPool pool(threads);
    EXPECT_EQ(RowPixels(decoded.Batch(8), {.pool = &pool, .seed = 5}), expected);
    // The batch size does not matter, nor whether rows are batched at all.
    EXPECT_EQ(RowPixels(decoded.Batch(60), {.pool = &pool, .seed = 5}), expected);
    EXPECT_EQ(RowPixels(decoded, {.pool = &pool, .seed = 5}), expected);
  }
  EXPECT_NE(RowPixels(decoded.Batch(8), {.seed = 6}), expected);
}

TEST(DecodeImage, AugmentsDifferentlyInEachEpoch) {
  const Dataset batches = OneImage(40).DecodeImage(kTraining).Batch(8);
  const auto first = RowPixels(batches, {.seed = 5});
  const auto second = RowPixels(batches, {.seed = 5, .epoch = 1});
  int same = 0;
  for (size_t i = 0; i < first.size(); ++i) same += first[i] == second[i];
  EXPECT_LT(same, 3);
  // Repeat after Batch advances the epoch, as iterators do.
  auto both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(RowPixels(batches.Repeat(2), {.seed = 5}), both);
  // Repeat before DecodeImage makes one long pass, in which rows are augmented differently.
  const auto long_pass =
      RowPixels(OneImage(40).DecodeImage(kTraining).Repeat(2).Batch(8), {.seed = 5});
  ASSERT_EQ(long_pass.size(), 80);
  same = 0;
  for (size_t i = 0; i < 40; ++i) same += long_pass[i] == long_pass[40 + i];
  EXPECT_LT(same, 3);
}

TEST(DecodeImage, RestoresPixelsAfterSkipAndRestart) {
  for (const Dataset& dataset :
       {OneImage(50).DecodeImage(kTraining).Batch(4).Repeat(2),
        OneImage(50).Shuffle(10).DecodeImage(kTraining).Repeat(2).Batch(4),
        OneImage(50).DecodeImage(kTraining).Skip(3).Batch(4).Prefetch(2)}) {
    const auto all = RowPixels(dataset, {.seed = 9});
    for (int64_t skip : {1, 7, 11}) {
      const std::vector<std::string> rest(all.begin() + 4 * skip, all.end());
      EXPECT_EQ(RowPixels(dataset, {.seed = 9, .skip = skip}), rest);
      auto iterator = *dataset.MakeIterator({.seed = 9});
      NamedArrays element;
      for (int64_t i = 0; i < skip; ++i) ASSERT_TRUE(*iterator->Next(&element));
      EXPECT_EQ(RowPixels(dataset, {.state = iterator->State()}), rest);
    }
  }
}

TEST(DecodeImage, OfTwoColumnsDrawsTwice) {
  const std::string file = Png(RandomImage(1, 40, 30));
  const std::vector<std::string> files(20, file);
  DecodeImageOptions other = kTraining;
  other.column = "other";
  auto iterator = *Dataset::FromArrays({{"image", Array::Strings({20}, files)},
                                        {"other", Array::Strings({20}, files)}})
                       .DecodeImage(kTraining)
                       .DecodeImage(other)
                       .Batch(20)
                       .MakeIterator({.seed = 1});
  NamedArrays batch;
  ASSERT_TRUE(*iterator->Next(&batch));
  int same = 0;
  for (int64_t i = 0; i < 20; ++i) {
    same += BitwiseEqual(batch.Find("image")->Row(i), batch.Find("other")->Row(i));
  }
  EXPECT_LT(same, 3);
}

TEST(DecodeImage, AugmentsAfterShuffleWhereverWritten) {
  // The shuffle buffer holds encoded files; images are decoded in the batch.
  auto iterator =
      *OneImage(50).DecodeImage(kTraining).Shuffle(10).Batch(4).MakeIterator({.seed = 1});
  const std::string plan = iterator->Explain();
  EXPECT_LT(plan.find("Shuffle"), plan.find("DecodeImage")) << plan;
  EXPECT_LT(plan.find("DecodeImage"), plan.find("Batch")) << plan;
}

TEST(DecodeImage, WritesNormalizedFloatsIntoBatch) {
  Images images;
  for (int i = 0; i < 8; ++i) images.Add(20 + i, 30);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const image::Normalize normalize = {
        .scale = 1 / 255.0f, .mean = {0.5f, 0.4f, 0.3f}, .std = {0.2f, 0.3f, 0.1f}};
    const Dataset dataset = images.ToDataset().DecodeImage(
        {.height = 10, .width = 12, .dtype = dtype, .normalize = normalize});
    EXPECT_EQ(dataset.spec()[0].ToString(),
              absl::StrCat("image: ", base::DTypeName(dtype), "[10,12,3]"));
    auto iterator = *dataset.Batch(8).MakeIterator();
    NamedArrays batch;
    ASSERT_TRUE(*iterator->Next(&batch));
    for (int64_t i = 0; i < 8; ++i) {
      const Array alone = *image::Decode(
          images.files[i],
          {.resize = image::Resize{.height = 10, .width = 12}, .normalize = normalize}, dtype);
      EXPECT_TRUE(BitwiseEqual(batch[0].second.Row(i), alone));
    }
  }
}

TEST(DecodeImage, OfARecordNamesFileOffsetAndRecordOfABrokenImage) {
  auto fs = io::MakeMemoryFileSystem();
  auto writer = *record::TfRecordWriter::Create(*fs, "memory://d/a.tfrec");
  const std::string whole = *image::EncodeJpeg(*image::ViewOf(RandomImage(3, 50, 50)));
  for (int i = 0; i < 9; ++i) {
    record::ExampleBuilder example;
    example.SetBytes("image", i == 6 ? whole.substr(0, 300) : whole);
    PENSTOCK_CHECK_OK(writer->Append(example.Serialize()));
  }
  PENSTOCK_CHECK_OK(writer->Close());
  DecodeImageOptions options = kTraining;
  options.dtype = DType::kBF16;
  options.dct_scaling = image::DctScaling::kAuto;
  const auto got =
      ReadAll(Dataset::FromTfRecords({"memory://d/*.tfrec"})
                  .ParseExample({.features = {{.name = "image", .dtype = DType::kString}}})
                  .DecodeImage(options)
                  .Batch(3),
              {.file_system = std::move(fs), .seed = 1});
  EXPECT_THAT(std::string(got.status().message()),
              AllOf(::testing::ContainsRegex("memory://d/a.tfrec:[0-9]+:6: DecodeImage: JPEG: "),
                    HasSubstr("truncated")));
}

TEST(DecodeImage, RejectsInvalidAugmentations) {
  Images images;
  images.Add(2, 2);
  const auto message = [&](const DecodeImageOptions& options) {
    return std::string(images.ToDataset().DecodeImage(options).status().message());
  };
  const image::RandomResizedCrop crop;
  EXPECT_THAT(message({.random_crop = crop}), HasSubstr("(.height, .width)"));
  EXPECT_THAT(
      message({.height = 2, .width = 2, .fit = image::Fit::kCenterCrop, .random_crop = crop}),
      HasSubstr("kStretch"));
  EXPECT_THAT(
      message(
          {.height = 2, .width = 2, .random_crop = image::RandomResizedCrop{.scale = {0.5, 2}}}),
      HasSubstr("0.5..2"));
  EXPECT_THAT(message({.dtype = DType::kF64}), HasSubstr("not float64"));
  EXPECT_THAT(message({.normalize = {.scale = 2}}),
              HasSubstr("requires bfloat16 or float32 output"));
  EXPECT_THAT(message({.dtype = DType::kF32, .normalize = {.std = {1, 1, 0}}}), HasSubstr("std"));
}

TEST(DecodeImage, PrintsOptionsThatDeterminePixels) {
  // Cache(folder) identifies a pipeline by its printed form.
  DecodeImageOptions options = kTraining;
  const std::string before = OneImage(1).DecodeImage(options).ToString();
  options.filter = image::Filter::kBilinear;
  EXPECT_NE(OneImage(1).DecodeImage(options).ToString(), before);
  options = kTraining;
  options.random_crop->scale[0] = 0.25;
  EXPECT_NE(OneImage(1).DecodeImage(options).ToString(), before);
  options = kTraining;
  options.dtype = DType::kF32;
  const std::string floats = OneImage(1).DecodeImage(options).ToString();
  EXPECT_NE(floats, before);
  options.normalize.mean[2] = 0.5;
  EXPECT_NE(OneImage(1).DecodeImage(options).ToString(), floats);
}

TEST(DecodeImage, Conforms) {
  const std::string file = Png(RandomImage(1, 12, 9));
  testing::ExpectConforms(
      [&](const Dataset& dataset) {
        return dataset
            .Map(
                [&file](const NamedArrays&, NamedArrays* out) {
                  out->Set("image", Array::Strings({}, {file}));
                  return absl::OkStatus();
                },
                {.reads = {"x"}, .makes = ElementSpec{ColumnSpec{"image", DType::kString, {}}}})
            .DecodeImage(kTraining);
      },
      {.numbers_rows_where_it_runs = true, .max_ahead = 6000});
}

}  // namespace decode_image_test
}  // namespace penstock::data
