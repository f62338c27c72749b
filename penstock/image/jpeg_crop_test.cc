// The decoder's pixels equal those of plain libjpeg-turbo calls, at full and reduced size. A crop
// decodes only the blocks it needs, and its pixels equal that part of the full image. Runs for
// every chroma subsampling.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>
#include <jpeglib.h>

#include "penstock/image/codec.h"
#include "penstock/image/image.h"
#include "penstock/image/testing/make_jpeg.h"
#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace jpeg_crop_test {

struct Sampling {
  int components;
  int horizontal;  // sampling factor of the first component; those of the others are 1
  int vertical;
  bool progressive;
};

std::string Encode(ImageView image, const Sampling& sampling) {
  return MakeJpeg(image, {.quality = 75,
                          .horizontal = sampling.horizontal,
                          .vertical = sampling.vertical,
                          .progressive = sampling.progressive});
}

class JpegCropTest : public testing::TestWithParam<Sampling> {};

TEST_P(JpegCropTest, EqualsPartOfFullDecode) {
  const Sampling& sampling = GetParam();
  const Size size{133, 171};
  const base::Array picture = NoisyPicture(size, sampling.components);
  const std::string file = Encode(*ViewOf(picture), sampling);
  Decoder decoder;
  base::Random random(5);
  for (int channels : {1, 3}) {
    const auto whole = decoder.Decode(file, {.channels = channels});
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (int i = 0; i < 150; ++i) {
      const Size crop{1 + static_cast<int>(random.Below(133)),
                      1 + static_cast<int>(random.Below(i % 2 == 0 ? 171 : 40))};
      const Box box = *RandomCrop(size, crop, random);
      const auto part = decoder.Decode(file, {.channels = channels, .crop = box});
      ASSERT_TRUE(part.ok()) << part.status();
      ASSERT_EQ(MaxDifference(*ViewOf(*part), ViewOf(*whole)->Crop(box)), 0)
          << box.ToString() << ", channels " << channels;
    }
  }
}

// Reference decoder: plain libjpeg calls without any option.
base::Array DecodeWithLibjpeg(const std::string& file, int channels, int reduction) {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  cinfo.scale_num = 1;
  cinfo.scale_denom = static_cast<unsigned>(reduction);
  jpeg_start_decompress(&cinfo);
  base::Array out = base::Array::Uninitialized(base::DType::kU8,
                                               {cinfo.output_height, cinfo.output_width, channels});
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW row = MutableViewOf(out)->row(static_cast<int>(cinfo.output_scanline));
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return out;
}

TEST_P(JpegCropTest, EqualsLibjpegWithAndWithoutScaling) {
  const Sampling& sampling = GetParam();
  if (sampling.components == 4) return;  // plain libjpeg cannot convert CMYK to RGB
  const Size size{133, 171};
  const base::Array picture = NoisyPicture(size, sampling.components);
  const std::string file = Encode(*ViewOf(picture), sampling);
  const ImageInfo info = *ReadInfo(file);
  CodecScratch scratch;
  base::Random random(6);
  for (int channels : {1, 3}) {
    for (int reduction : {1, 2, 4}) {
      const base::Array whole = DecodeWithLibjpeg(file, channels, reduction);
      CodecRequest request = {.bytes = file, .info = info, .box = {}, .reduction = reduction};
      request.scratch = &scratch;
      const Size reduced = request.reduced_size();
      ASSERT_EQ(ViewOf(whole)->size(), reduced);
      for (int i = 0; i < 100; ++i) {
        request.box = {0, 0, reduced.height, reduced.width};
        if (i > 0) {
          const Size crop{1 + static_cast<int>(random.Below(reduced.height)),
                          1 + static_cast<int>(random.Below(i % 2 == 0 ? reduced.width : 20))};
          request.box = *RandomCrop(reduced, crop, random);
        }
        // Either no padding, or space for whole blocks on both sides; bytes beyond it must stay
        // unchanged.
        request.row_padding = i % 3 == 0 ? 0 : 192;
        const int guard = 4;
        const int64_t stride = request.box.width * channels + 2 * (request.row_padding + guard);
        std::vector<uint8_t> memory(static_cast<size_t>(stride) * request.box.height, 77);
        const MutableImageView out{memory.data() + request.row_padding + guard, request.box.height,
                                   request.box.width, channels, stride};
        const absl::Status status = kJpegCodec.decode(request, out);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(MaxDifference(out, ViewOf(whole)->Crop(request.box)), 0)
            << request.box.ToString() << ", channels " << channels << ", 1/" << reduction;
        for (int y = 0; y < out.height; ++y) {
          const uint8_t* row = memory.data() + y * stride;
          for (int k = 0; k < guard; ++k) ASSERT_EQ(row[k] + row[stride - 1 - k], 2 * 77);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Samplings, JpegCropTest,
    testing::Values(Sampling{3, 1, 1, false}, Sampling{3, 2, 1, false}, Sampling{3, 2, 2, false},
                    Sampling{3, 1, 2, false}, Sampling{3, 4, 1, false}, Sampling{3, 1, 4, false},
                    Sampling{3, 4, 2, false}, Sampling{3, 2, 4, false}, Sampling{3, 2, 2, true},
                    Sampling{3, 2, 1, true}, Sampling{3, 1, 4, true}, Sampling{1, 1, 1, false},
                    Sampling{1, 2, 2, false}, Sampling{1, 1, 1, true}, Sampling{4, 1, 1, false},
                    Sampling{4, 2, 2, false}),
    [](const testing::TestParamInfo<Sampling>& info) {
      return absl::StrCat(info.param.components, "Components", info.param.horizontal, "x",
                          info.param.vertical, info.param.progressive ? "Progressive" : "");
    });

}  // namespace jpeg_crop_test
}  // namespace penstock::image
