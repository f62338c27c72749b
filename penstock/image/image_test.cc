#include "penstock/image/image.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/image/codec.h"
#include "penstock/image/encode.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace image_test {

using ::testing::HasSubstr;

// View of golden pixels that another program decoded: row-major bytes.
ImageView Golden(const std::string& bytes, Size size, int channels) {
  PENSTOCK_CHECK(bytes.size() == static_cast<size_t>(size.height) * size.width * channels);
  return {reinterpret_cast<const uint8_t*>(bytes.data()), size.height, size.width, channels,
          int64_t{size.width} * channels};
}

ImageView Pixels(const base::Array& array) { return *ViewOf(array); }

struct Case {
  std::string file = "";
  bool gray = false;  // a golden grayscale decode exists too
  int channels = 3;   // expected ImageInfo::channels
  int bit_depth = 8;
  int tolerance = 0;  // maximum difference from TensorFlow's pixels
};

std::string Stem(const std::string& file) { return file.substr(0, file.rfind('.')); }

class GoldenTest : public testing::TestWithParam<Case> {};

TEST_P(GoldenTest, MatchesTensorFlowPixels) {
  const Case& c = GetParam();
  const std::string bytes = ReadTestdata(c.file);
  const auto info = ReadInfo(bytes);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->size(), (Size{29, 37}));
  EXPECT_EQ(info->channels, c.channels);
  EXPECT_EQ(info->bit_depth, c.bit_depth);

  const auto rgb = Decode(bytes);
  ASSERT_TRUE(rgb.ok()) << rgb.status();
  const std::string golden = ReadTestdata((c.file == "photo.png" ? "rgb" : Stem(c.file)) + ".rgb");
  EXPECT_LE(MaxDifference(Pixels(*rgb), Golden(golden, {29, 37}, 3)), c.tolerance);

  const auto gray = Decode(bytes, {.channels = 1});
  ASSERT_TRUE(gray.ok()) << gray.status();
  if (c.gray) {
    const std::string golden_gray = ReadTestdata(Stem(c.file) + ".gray");
    EXPECT_LE(MaxDifference(Pixels(*gray), Golden(golden_gray, {29, 37}, 1)), c.tolerance);
  }
  const auto as_stored = Decode(bytes, {.channels = 0});
  ASSERT_TRUE(as_stored.ok());
  EXPECT_EQ(as_stored->dim(2), c.channels <= 2 ? 1 : 3);
  EXPECT_TRUE(base::BitwiseEqual(*as_stored, c.channels <= 2 ? *gray : *rgb));
}

TEST_P(GoldenTest, CropEqualsPartOfFullDecode) {
  const std::string bytes = ReadTestdata(GetParam().file);
  Decoder decoder;
  for (int channels : {1, 3}) {
    const auto whole = decoder.Decode(bytes, {.channels = channels});
    ASSERT_TRUE(whole.ok());
    for (const Box box : {Box{0, 0, 5, 7}, Box{24, 30, 5, 7}, Box{9, 17, 1, 1}, Box{3, 0, 26, 37},
                          Box{0, 2, 29, 20}, Box{15, 17, 9, 4}, Box{0, 0, 29, 37}}) {
      const auto part = decoder.Decode(bytes, {.channels = channels, .crop = box});
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_EQ(MaxDifference(Pixels(*part), Pixels(*whole).Crop(box)), 0) << box.ToString();
    }
  }
}

TEST_P(GoldenTest, RejectsTruncationAtEveryByte) {
  const std::string bytes = ReadTestdata(GetParam().file);
  Decoder decoder;
  for (size_t length = 0; length < bytes.size(); ++length) {
    // Allocate exactly this size, so that the sanitizers detect reads beyond the end.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<int64_t>(length));
    const auto image = decoder.Decode({cut.data(), cut.size()});
    ASSERT_FALSE(image.ok()) << "cut to " << length << " of " << bytes.size() << " bytes";
    const bool named = absl::IsDataLoss(image.status());
    ASSERT_TRUE(named || (length < 8 && absl::IsInvalidArgument(image.status()))) << image.status();
  }
}

TEST_P(GoldenTest, SurvivesEveryCorruptByte) {
  const std::string bytes = ReadTestdata(GetParam().file);
  Decoder decoder;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    (void)decoder.Decode(changed, {.max_pixels = 1 << 20});
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Png, GoldenTest,
    testing::Values(
        Case{"photo.png"}, Case{"rgb.png"}, Case{"rgb_interlaced.png"},
        Case{.file = "rgba.png", .channels = 4}, Case{.file = "rgba_interlaced.png", .channels = 4},
        Case{.file = "gray.png", .gray = true, .channels = 1},
        Case{.file = "gray_interlaced.png", .gray = true, .channels = 1},
        Case{.file = "gray_alpha.png", .gray = true, .channels = 2},
        Case{.file = "gray_alpha_interlaced.png", .gray = true, .channels = 2},
        Case{.file = "gray1.png", .gray = true, .channels = 1, .bit_depth = 1},
        Case{.file = "gray1_interlaced.png", .gray = true, .channels = 1, .bit_depth = 1},
        Case{.file = "gray2.png", .gray = true, .channels = 1, .bit_depth = 2},
        Case{.file = "gray4.png", .gray = true, .channels = 1, .bit_depth = 4},
        Case{.file = "gray4_interlaced.png", .gray = true, .channels = 1, .bit_depth = 4},
        Case{.file = "gray16.png", .gray = true, .channels = 1, .bit_depth = 16},
        Case{.file = "gray16_interlaced.png", .gray = true, .channels = 1, .bit_depth = 16},
        Case{.file = "rgb16.png", .bit_depth = 16},
        Case{.file = "rgba16.png", .channels = 4, .bit_depth = 16},
        Case{.file = "palette4.png", .bit_depth = 4},
        Case{.file = "palette4_interlaced.png", .bit_depth = 4},
        Case{.file = "palette8_transparent.png"}, Case{.file = "rgb_transparent.png"},
        Case{.file = "exif_turned.png"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Jpeg, GoldenTest,
    testing::Values(Case{.file = "baseline420.jpg", .gray = true},
                    Case{.file = "baseline422.jpg", .gray = true},
                    Case{.file = "baseline444.jpg", .gray = true},
                    Case{.file = "progressive.jpg", .gray = true},
                    Case{.file = "restart.jpg", .gray = true}, Case{.file = "adobe_rgb.jpg"},
                    Case{.file = "gray_baseline.jpg", .gray = true, .channels = 1},
                    Case{.file = "cmyk_adobe.jpg", .channels = 4},
                    Case{.file = "cmyk_plain.jpg", .channels = 4},
                    Case{.file = "ycck_adobe.jpg", .channels = 4}),
    CaseName);

TEST(Image, DetectsFormatFromBytes) {
  const std::string bytes = ReadTestdata("png_named.jpg");
  const auto info = ReadInfo(bytes);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->format, Format::kPng);
  EXPECT_TRUE(base::BitwiseEqual(*Decode(bytes), *Decode(ReadTestdata("rgb.png"))));
}

TEST(Image, ReadInfoNeedsOnlyHeader) {
  const std::string jpeg = ReadTestdata("exif6.jpg");
  const auto whole = ReadInfo(jpeg);
  ASSERT_TRUE(whole.ok());
  const auto part = ReadInfo(absl::string_view(jpeg).substr(0, jpeg.find("\xff\xda")));
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->size(), whole->size());
  EXPECT_EQ(part->orientation, 6);
  const auto png = ReadInfo(absl::string_view(ReadTestdata("rgb.png")).substr(0, 33));
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_EQ(png->size(), (Size{29, 37}));
}

TEST(Image, AppliesEveryExifOrientation) {
  const base::Array upright = *Decode(ReadTestdata("exif1.jpg"));
  for (int way = 1; way <= 8; ++way) {
    const std::string name = absl::StrCat("exif", way);
    const std::string bytes = ReadTestdata(name + ".jpg");
    EXPECT_EQ(ReadInfo(bytes)->orientation, way);
    const auto turned = Decode(bytes, {.apply_orientation = true});
    ASSERT_TRUE(turned.ok()) << turned.status();
    const std::string golden = ReadTestdata(name + ".rgb");  // written by Pillow's exif_transpose
    EXPECT_EQ(MaxDifference(Pixels(*turned), Golden(golden, {16, 24}, 3)), 0) << name;
    EXPECT_LE(MaxDifference(Pixels(*turned), Pixels(upright)), 12) << name;

    const Box box{2, 5, 10, 6};
    const auto part = Decode(bytes, {.apply_orientation = true, .crop = box});
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(MaxDifference(Pixels(*part), Pixels(*turned).Crop(box)), 0) << name;

    const bool sideways = way >= 5;
    EXPECT_EQ(Pixels(*Decode(bytes)).size(), (sideways ? Size{24, 16} : Size{16, 24})) << name;
  }
}

TEST(Image, ReadsTheOrientationOfAPng) {
  const std::string bytes = ReadTestdata("exif_turned.png");
  EXPECT_EQ(ReadInfo(bytes)->orientation, 6);
  const auto turned = Decode(bytes, {.apply_orientation = true});
  ASSERT_TRUE(turned.ok());
  EXPECT_EQ(Pixels(*turned).size(), (Size{37, 29}));
}

TEST(Image, WritesOnlyIntoItsRowOfBatch) {
  const std::string bytes = ReadTestdata("baseline420.jpg");
  base::Array batch = base::Array::Zeros(base::DType::kU8, {3, 29, 37, 3});
  base::Array middle = batch.Row(1);
  Decoder decoder;
  ASSERT_TRUE(decoder.DecodeInto(bytes, {}, *MutableViewOf(middle)).ok());
  EXPECT_TRUE(base::BitwiseEqual(middle, *Decode(bytes)));
  const base::Array zeros = base::Array::Zeros(base::DType::kU8, {29, 37, 3});
  EXPECT_TRUE(base::BitwiseEqual(batch.Row(0), zeros));
  EXPECT_TRUE(base::BitwiseEqual(batch.Row(2), zeros));
}

TEST(Image, SupportsRowStride) {
  base::Array canvas = base::Array::Zeros(base::DType::kU8, {40, 50, 3});
  const MutableImageView out = MutableViewOf(canvas)->Crop({4, 6, 29, 37});
  for (const char* name : {"baseline420.jpg", "rgb.png", "rgb_interlaced.png", "cmyk_adobe.jpg"}) {
    const std::string bytes = ReadTestdata(name);
    ASSERT_TRUE(DecodeInto(bytes, {}, out).ok());
    EXPECT_EQ(MaxDifference(out, Pixels(*Decode(bytes))), 0) << name;
  }
}

TEST(Image, CenterCropsWithinCrop) {
  const std::string bytes = ReadTestdata("photo.png");
  const Resize resize = {
      .height = 10, .width = 10, .filter = Filter::kArea, .fit = Fit::kCenterCrop};
  const auto got = Decode(bytes, {.crop = Box{2, 3, 20, 30}, .resize = resize});
  ASSERT_TRUE(got.ok()) << got.status();
  const base::Array whole = *Decode(bytes);
  base::Array expected = base::Array::Uninitialized(base::DType::kU8, {10, 10, 3});
  Resizer().ResizeInto(Pixels(whole).Crop({2, 8, 20, 20}), {.filter = Filter::kArea},
                       *MutableViewOf(expected));
  EXPECT_TRUE(base::BitwiseEqual(*got, expected));
}

TEST(Image, AppliesOrientationBeforeResize) {
  Resize resize = {.height = 8, .width = 12, .filter = Filter::kArea};
  for (int way = 1; way <= 8; ++way) {
    const std::string bytes = ReadTestdata(absl::StrCat("exif", way, ".jpg"));
    const base::Array turned = *Decode(bytes, {.apply_orientation = true});
    base::Array expected = base::Array::Uninitialized(base::DType::kU8, {8, 12, 3});
    Resizer().ResizeInto(Pixels(turned), {.filter = Filter::kArea}, *MutableViewOf(expected));
    const auto got = Decode(bytes, {.apply_orientation = true, .resize = resize});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(base::BitwiseEqual(*got, expected)) << way;
  }
}

TEST(Image, DecoderKeepsNoStateOfPreviousImage) {
  Decoder decoder;
  const std::vector<std::string> names = {"progressive.jpg", "gray_baseline.jpg",
                                          "rgb16.png",       "exif3.jpg",
                                          "cmyk_adobe.jpg",  "gray4_interlaced.png"};
  for (const std::string& before : names) {
    for (const std::string& name : names) {
      (void)decoder.Decode(ReadTestdata(before).substr(0, 300));
      const auto got = decoder.Decode(ReadTestdata(name));
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_TRUE(base::BitwiseEqual(*got, *Decode(ReadTestdata(name))));
    }
  }
}

TEST(Image, RejectsNonImages) {
  const auto gif = Decode("GIF89a\x01\x00");
  EXPECT_TRUE(absl::IsInvalidArgument(gif.status()));
  EXPECT_THAT(std::string(gif.status().message()), HasSubstr("GIF89a"));
  EXPECT_THAT(std::string(gif.status().message()), HasSubstr("JPEG, PNG"));
  EXPECT_TRUE(absl::IsInvalidArgument(Decode("").status()));
}

// Overwrites width and height in the frame header.
std::string WithJpegSize(std::string jpeg, int height, int width) {
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg[frame + 5] = static_cast<char>(height >> 8);
  jpeg[frame + 6] = static_cast<char>(height);
  jpeg[frame + 7] = static_cast<char>(width >> 8);
  jpeg[frame + 8] = static_cast<char>(width);
  return jpeg;
}

TEST(Image, RejectsDecompressionBombs) {
  const std::string jpeg = WithJpegSize(ReadTestdata("baseline420.jpg"), 65500, 65500);
  ASSERT_EQ(ReadInfo(jpeg)->size(), (Size{65500, 65500}));
  EXPECT_TRUE(absl::IsResourceExhausted(Decode(jpeg).status())) << Decode(jpeg).status();

  std::string png = ReadTestdata("rgb.png");
  for (int i : {16, 20}) png.replace(static_cast<size_t>(i), 4, "\x7f\xff\xff\xff");
  EXPECT_TRUE(absl::IsResourceExhausted(Decode(png).status())) << Decode(png).status();

  std::string thread = ReadTestdata("rgb.png");
  thread.replace(16, 8, absl::string_view("\0\x1e\x84\x80\0\0\0\1", 8).data(), 8);
  ASSERT_EQ(ReadInfo(thread)->size(), (Size{1, 2'000'000}));
  EXPECT_TRUE(absl::IsResourceExhausted(Decode(thread).status())) << Decode(thread).status();

  const auto small = Decode(ReadTestdata("rgb.png"), {.max_pixels = 29 * 37 - 1});
  EXPECT_TRUE(absl::IsResourceExhausted(small.status()));
  EXPECT_THAT(std::string(small.status().message()), HasSubstr("29x37"));
  EXPECT_TRUE(Decode(ReadTestdata("rgb.png"), {.max_pixels = 29 * 37}).ok());
}

TEST(Image, RejectsPngWithTooFewCompressedBytes) {
  std::string png = ReadTestdata("rgb.png");
  png.replace(16, 4, absl::string_view("\0\0\x20\0", 4).data(), 4);
  png.replace(20, 4, absl::string_view("\0\0\x20\0", 4).data(), 4);
  const absl::Status status = Decode(png).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot hold 8192x8192 pixels"));
}

TEST(Image, RejectsProgressiveJpegWithTooManyScans) {
  const std::string jpeg = ReadTestdata("progressive.jpg");
  // Repeats the first scan: few bytes in the file, but a full pass over the image for each.
  const size_t begin = jpeg.find("\xff\xda");
  const size_t end = jpeg.find("\xff\xc4", begin);
  const auto with_repeats = [&](int count) {
    std::string more = jpeg.substr(0, end);
    for (int i = 0; i < count; ++i) more += jpeg.substr(begin, end - begin);
    return more + jpeg.substr(end);
  };
  EXPECT_TRUE(base::BitwiseEqual(*Decode(with_repeats(50)), *Decode(jpeg)));
  const absl::Status status = Decode(with_repeats(200)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(Image, ReportsUnsupportedJpegVariants) {
  std::string deep = ReadTestdata("baseline420.jpg");
  deep[deep.find("\xff\xc0") + 4] = 12;
  EXPECT_EQ(ReadInfo(deep)->bit_depth, 12);
  EXPECT_TRUE(absl::IsUnimplemented(Decode(deep).status())) << Decode(deep).status();
  std::string lossless = ReadTestdata("baseline420.jpg");
  lossless[lossless.find("\xff\xc0") + 1] = '\xc3';
  EXPECT_TRUE(absl::IsUnimplemented(Decode(lossless).status())) << Decode(lossless).status();
}

TEST(Image, SkipsGarbageBetweenJpegSegments) {
  const std::string jpeg = ReadTestdata("exif6.jpg");
  const size_t tables = jpeg.find("\xff\xdb");
  const std::string with_garbage = jpeg.substr(0, tables) + "junk" + jpeg.substr(tables);
  EXPECT_EQ(ReadInfo(with_garbage)->orientation, 6);
  EXPECT_TRUE(base::BitwiseEqual(*Decode(with_garbage), *Decode(jpeg)));
}

TEST(Image, ConvertsColorPngToLuma) {
  for (const char* name : {"photo.png", "rgb_interlaced.png", "rgba.png"}) {
    const auto gray = Decode(ReadTestdata(name), {.channels = 1});
    ASSERT_TRUE(gray.ok()) << gray.status();
    const std::string golden = ReadTestdata("rgb.luma");  // written by Pillow's convert("L")
    EXPECT_EQ(MaxDifference(Pixels(*gray), Golden(golden, {29, 37}, 1)), 0) << name;
  }
}

TEST(Image, RejectsCorruptPngChecksum) {
  std::string png = ReadTestdata("photo.png");
  png[png.size() - 20] = static_cast<char>(png[png.size() - 20] ^ 1);
  EXPECT_TRUE(absl::IsDataLoss(Decode(png).status()));
}

TEST(Image, RejectsInvalidOptionsAndOutputs) {
  const std::string bytes = ReadTestdata("rgb.png");
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(bytes, {.channels = 2}).status()));
  for (const Box box : {Box{0, 0, 30, 37}, Box{-1, 0, 5, 5}, Box{0, 0, 0, 5}, Box{28, 36, 2, 1},
                        Box{0x7fffffff, 0, 0x7fffffff, 1}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(bytes, {.crop = box}).status())) << box.ToString();
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Decode(bytes, {.resize = Resize{.height = 4}}).status()));
  base::Array other = base::Array::Zeros(base::DType::kU8, {28, 37, 3});
  const absl::Status status = DecodeInto(bytes, {}, *MutableViewOf(other));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("29x37"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("28x37"));
}

TEST(Image, DecodesCropOfTruncatedRest) {
  const base::Array picture = NoisyPicture({400, 300}, 3);
  for (const bool fine : {true, false}) {
    const std::string jpeg = *EncodeJpeg(
        Pixels(picture), {.subsampling = fine ? ChromaSubsampling::k444 : ChromaSubsampling::k420});
    const Box box{10, 120, 40, 60};
    const auto part = Decode(absl::string_view(jpeg).substr(0, jpeg.size() / 2), {.crop = box});
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(MaxDifference(Pixels(*part), Pixels(*Decode(jpeg)).Crop(box)), 0);
  }
}

// A smooth picture with an edge, like a photograph.
base::Array SmoothPicture(Size size) {
  base::Array picture = base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, 3});
  const MutableImageView view = *MutableViewOf(picture);
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      const bool inside = std::hypot(y - size.height * 0.4, x - size.width * 0.6) < 40;
      for (int c = 0; c < 3; ++c) {
        const double wave = std::sin(x / (9.0 + 4 * c)) * std::cos(y / (13.0 - 2 * c));
        view.row(y)[x * 3 + c] = static_cast<uint8_t>((inside ? 160 : 110) + 60 * wave);
      }
    }
  }
  return picture;
}

double MeanDifference(ImageView a, ImageView b) {
  double sum = 0;
  for (int y = 0; y < a.height; ++y) {
    for (int64_t i = 0; i < a.row_elements(); ++i) sum += std::abs(a.row(y)[i] - b.row(y)[i]);
  }
  return sum / (static_cast<double>(a.row_elements()) * a.height);
}

TEST(Image, DctScalingApproximatesAreaAveraging) {
  const base::Array picture = SmoothPicture({301, 403});
  for (const ChromaSubsampling subsampling : {ChromaSubsampling::k444, ChromaSubsampling::k420}) {
    const std::string jpeg = *EncodeJpeg(Pixels(picture), {.subsampling = subsampling});
    for (const Box box : {Box{0, 0, 301, 403}, Box{7, 13, 290, 383}, Box{150, 201, 151, 202}}) {
      for (const Size size : {Size{70, 97}, Size{75, 50}, Size{31, 48}}) {
        DecodeOptions options = {
            .crop = box,
            .resize = Resize{.height = size.height, .width = size.width, .filter = Filter::kArea}};
        const base::Array exact = *Decode(jpeg, options);
        options.dct_scaling = DctScaling::kAuto;
        const auto scaled = Decode(jpeg, options);
        ASSERT_TRUE(scaled.ok()) << scaled.status();
        EXPECT_FALSE(base::BitwiseEqual(*scaled, exact));
        // A window misplaced by a quarter of a pixel would double the difference.
        EXPECT_LT(MeanDifference(Pixels(*scaled), Pixels(exact)), 1.0) << box.ToString();
      }
    }
  }
}

TEST(Image, DctScalingIsOffForSmallReductions) {
  const base::Array picture = SmoothPicture({100, 120});
  const std::string jpeg = *EncodeJpeg(Pixels(picture));
  const std::string png = *EncodePng(Pixels(picture));
  for (const Size size : {Size{51, 60}, Size{50, 61}, Size{100, 30}, Size{200, 200}}) {
    DecodeOptions options = {.resize = Resize{.height = size.height, .width = size.width}};
    const base::Array exact = *Decode(jpeg, options);
    options.dct_scaling = DctScaling::kAuto;
    EXPECT_TRUE(base::BitwiseEqual(*Decode(jpeg, options), exact)) << size.ToString();
  }
  DecodeOptions options = {.resize = Resize{.height = 25, .width = 30}};
  const base::Array exact = *Decode(png, options);
  options.dct_scaling = DctScaling::kAuto;
  EXPECT_TRUE(base::BitwiseEqual(*Decode(png, options), exact));
}

TEST(Image, DctScalingByHalfEqualsLibjpeg) {
  const base::Array picture = SmoothPicture({64, 96});
  const std::string jpeg = *EncodeJpeg(Pixels(picture));
  for (int by : {2, 4}) {
    const auto got = Decode(
        jpeg, {.resize = Resize{.height = 64 / by, .width = 96 / by, .filter = Filter::kArea},
               .dct_scaling = DctScaling::kAuto});
    ASSERT_TRUE(got.ok()) << got.status();
    base::Array expected = base::Array::Uninitialized(base::DType::kU8, {64 / by, 96 / by, 3});
    CodecScratch scratch;
    ASSERT_TRUE(kJpegCodec
                    .decode({.bytes = jpeg,
                             .info = *ReadInfo(jpeg),
                             .box = {0, 0, 64 / by, 96 / by},
                             .reduction = by,
                             .row_padding = 0,
                             .scratch = &scratch},
                            *MutableViewOf(expected))
                    .ok());
    EXPECT_TRUE(base::BitwiseEqual(*got, expected)) << by;
  }
}

TEST(Image, DctScalingAppliesOrientationToWindow) {
  // The same picture, stored in each of the eight orientations.
  for (int way = 1; way <= 8; ++way) {
    const std::string bytes = ReadTestdata(absl::StrCat("exif", way, ".jpg"));
    DecodeOptions options = {.apply_orientation = true,
                             .crop = Box{1, 3, 13, 19},
                             .resize = Resize{.height = 5, .width = 8, .filter = Filter::kArea}};
    const base::Array exact = *Decode(bytes, options);
    options.dct_scaling = DctScaling::kAuto;
    const auto scaled = Decode(bytes, options);
    ASSERT_TRUE(scaled.ok()) << scaled.status();
    EXPECT_LT(MeanDifference(Pixels(*scaled), Pixels(exact)), 4) << way;
  }
}

TEST(Image, FlipsAndNormalizesInSameCall) {
  const std::string bytes = ReadTestdata("baseline420.jpg");
  const base::Array plain = *Decode(bytes);
  const base::Array flipped = *Decode(bytes, {.flip = true});
  const Normalize normalize = {.scale = 0.5f, .mean = {1, 2, 3}, .std = {1, 2, 4}};
  const auto floats = Decode(bytes, {.flip = true, .normalize = normalize}, base::DType::kF32);
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(floats->TypeString(), "float32[29,37,3]");
  const auto halves = Decode(bytes, {.flip = true, .normalize = normalize}, base::DType::kBF16);
  ASSERT_TRUE(halves.ok()) << halves.status();
  for (int y = 0; y < 29; ++y) {
    for (int x = 0; x < 37; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int i = (y * 37 + x) * 3 + c;
        const uint8_t pixel = plain.data<uint8_t>()[(y * 37 + 36 - x) * 3 + c];
        ASSERT_EQ(flipped.data<uint8_t>()[i], pixel);
        const float expected = (pixel * 0.5f - normalize.mean[c]) / normalize.std[c];
        ASSERT_EQ(floats->data<float>()[i], expected);
        ASSERT_EQ(halves->data<base::bfloat16>()[i].bits, base::bfloat16(expected).bits);
      }
    }
  }
}

TEST(Image, RejectsNonFiniteNormalization) {
  const std::string bytes = ReadTestdata("rgb.png");
  const auto to = [&](const Normalize& normalize, base::DType dtype) {
    return Decode(bytes, {.normalize = normalize}, dtype).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(to({.std = {1, 0, 1}}, base::DType::kF32)));
  EXPECT_TRUE(absl::IsInvalidArgument(to({.mean = {NAN, 0, 1}}, base::DType::kBF16)));
  EXPECT_TRUE(absl::IsInvalidArgument(to({.scale = INFINITY}, base::DType::kF32)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(to({.scale = 3e38f, .std = {1e-3f, 1, 1}}, base::DType::kBF16)));
  EXPECT_TRUE(absl::IsInvalidArgument(to({.scale = 0.5f}, base::DType::kU8)));
  EXPECT_TRUE(absl::IsInvalidArgument(to({}, base::DType::kF64)));
  EXPECT_TRUE(to({}, base::DType::kF32).ok());
}

}  // namespace image_test
}  // namespace penstock::image
