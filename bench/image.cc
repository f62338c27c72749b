// Benchmark of room image beside libjpeg-turbo alone, in one thread, with JPEGs of 331x331 at
// quality 90 (generated images with 4 to 5 bits per pixel, like photographs):
//
//   decode            the whole image                                    | libjpeg, the same
//   decode, random crop to 192x192                                       | libjpeg, whole image
//   the same as normalized bfloat16, half of them flipped                | libjpeg, whole image
//   decode of the random crop alone                                      | libjpeg, whole image
// and downscaling by area averaging, with and without scaling in the DCT. Measures the CPU time of
// one thread; rows alternate image by image, and medians over the rounds are printed.
//
// bench_image [images]      (default: 64)
#include "penstock/image/image.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <jpeglib.h>

#include "penstock/base/median.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/image/encode.h"

namespace penstock::image {
namespace {

constexpr int kRounds = 15;

// Returns multi-scale noise with less amplitude at finer scales, like photographs.
base::Array Picture(Size size, uint64_t seed) {
  base::Random random(seed);
  std::vector<float> sum(static_cast<size_t>(size.height) * size.width * 3, 128.0f);
  for (int cell = 256; cell >= 1; cell /= 2) {
    const int columns = size.width / cell + 2;
    std::vector<float> knots(static_cast<size_t>(size.height / cell + 2) * columns * 3);
    const float strength = 44 * std::pow(static_cast<float>(cell) / 256, 0.3f);
    for (size_t i = 0; i < knots.size(); ++i) {
      // The finest details have little color.
      const float own = strength * static_cast<float>(random.Uniform() * 2 - 1);
      knots[i] = i % 3 == 0 || cell > 8 ? own : knots[i - 1] + own / 8;
    }
    for (int y = 0; y < size.height; ++y) {
      const float fy = static_cast<float>(y % cell) / cell;
      for (int x = 0; x < size.width; ++x) {
        const float fx = static_cast<float>(x % cell) / cell;
        const float* knot = &knots[(static_cast<size_t>(y / cell) * columns + x / cell) * 3];
        const float* below = knot + columns * 3;
        float* to = &sum[(static_cast<size_t>(y) * size.width + x) * 3];
        for (int c = 0; c < 3; ++c) {
          const float top = knot[c] + fx * (knot[c + 3] - knot[c]);
          const float bottom = below[c] + fx * (below[c + 3] - below[c]);
          to[c] += top + fy * (bottom - top);
        }
      }
    }
  }
  base::Array picture = base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, 3});
  uint8_t* to = picture.mutable_data<uint8_t>();
  for (float sample : sum) *to++ = static_cast<uint8_t>(std::clamp(sample, 0.0f, 255.0f));
  return picture;
}

std::vector<std::string> Jpegs(int count, Size size) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    const base::Array picture = Picture(size, static_cast<uint64_t>(i));
    files.push_back(*EncodeJpeg(*ViewOf(picture), {.quality = 90, .optimize = false}));
  }
  return files;
}

// Decodes with libjpeg-turbo alone, like the example of its manual.
void DecodeWithLibjpeg(const std::string& file, uint8_t* out) {
  jpeg_decompress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_RGB;
  jpeg_start_decompress(&cinfo);
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW row = out + size_t{cinfo.output_scanline} * cinfo.output_width * 3;
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
}

struct Row {
  std::string work;
  std::function<void(const std::string& file, int i)> run;
  std::vector<double> seconds = {};
};

// Returns the CPU time of this thread, which other programs affect little.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Measures the rows; ratios are relative to the first row.
void Measure(const std::vector<std::string>& files, std::vector<Row> rows) {
  for (int round = 0; round < kRounds; ++round) {
    for (Row& row : rows) row.seconds.push_back(0);
    for (size_t i = 0; i < files.size(); ++i) {
      for (Row& row : rows) {
        const double begin = CpuSeconds();
        row.run(files[i], static_cast<int>(i));
        row.seconds.back() += CpuSeconds() - begin;
      }
    }
  }
  for (const Row& row : rows) {
    std::vector<double> ratios;
    for (size_t i = 0; i < row.seconds.size(); ++i) {
      ratios.push_back(rows[0].seconds[i] / row.seconds[i]);
    }
    std::printf("%-52s %7.1f us per image   ratio %.2f\n", row.work.c_str(),
                base::Median(row.seconds) / static_cast<double>(files.size()) * 1e6,
                base::Median(ratios));
  }
}

void MeasureCrops(int count) {
  const Size size{331, 331};
  const std::vector<std::string> files = Jpegs(count, size);
  size_t bytes = 0;
  for (const std::string& file : files) bytes += file.size();
  std::printf("%d JPEGs of %s, quality 90, %.1f kB each, one thread\n", count,
              size.ToString().c_str(), static_cast<double>(bytes) / 1e3 / count);
  std::vector<Box> boxes;
  base::Random random(1);
  for (int i = 0; i < count; ++i) boxes.push_back(RandomResizedCropBox(size, {}, random));

  std::vector<uint8_t> pixels(331 * 331 * 3);
  std::vector<base::bfloat16> halves(192 * 192 * 3);
  Decoder decoder;
  Resizer resizer;
  const base::Array picture = *Decode(files[0]);
  const ImageView decoded = *ViewOf(picture);
  const auto crop_to = [&](Filter filter, bool antialias) {
    return [&, filter, antialias](const std::string& file, int i) {
      PENSTOCK_CHECK_OK(decoder.DecodeInto(
          file,
          {.crop = boxes[static_cast<size_t>(i)],
           .resize = Resize{.height = 192, .width = 192, .filter = filter, .antialias = antialias}},
          TightView(pixels.data(), {192, 192}, 3)));
    };
  };
  Measure(
      files,
      {{"libjpeg-turbo alone, whole image",
        [&](const std::string& file, int) { DecodeWithLibjpeg(file, pixels.data()); }},
       {"decode",
        [&](const std::string& file, int) {
          PENSTOCK_CHECK_OK(decoder.DecodeInto(file, {}, TightView(pixels.data(), size, 3)));
        }},
       {"decode of a random crop",
        [&](const std::string& file, int i) {
          const Box box = boxes[static_cast<size_t>(i)];
          PENSTOCK_CHECK_OK(
              decoder.DecodeInto(file, {.crop = box}, TightView(pixels.data(), box.size(), 3)));
        }},
       {"resize alone, of a random box to 192x192, bilinear",
        [&](const std::string&, int i) {
          resizer.ResizeInto(decoded.Crop(boxes[static_cast<size_t>(i)]), {},
                             TightView(pixels.data(), {192, 192}, 3));
        }},
       {"random crop to 192x192, bilinear", crop_to(Filter::kBilinear, false)},
       {"random crop to 192x192, bilinear antialias", crop_to(Filter::kBilinear, true)},
       {"random crop to 192x192, area", crop_to(Filter::kArea, false)},
       {"random crop to 192x192, bicubic", crop_to(Filter::kBicubic, false)},
       {"random crop to 192x192, bilinear, flip, bfloat16", [&](const std::string& file, int i) {
          PENSTOCK_CHECK_OK(decoder.DecodeInto(file,
                                               {.crop = boxes[static_cast<size_t>(i)],
                                                .resize = Resize{.height = 192, .width = 192},
                                                .flip = i % 2 == 0,
                                                .normalize = {.scale = 1 / 255.0f,
                                                              .mean = {0.485f, 0.456f, 0.406f},
                                                              .std = {0.229f, 0.224f, 0.225f}}},
                                               TightView(halves.data(), {192, 192}, 3)));
        }}});
}

void MeasureScaling(int count, Size size) {
  const std::vector<std::string> files = Jpegs(count, size);
  size_t bytes = 0;
  for (const std::string& file : files) bytes += file.size();
  std::printf("%d JPEGs of %s, quality 90, %.1f kB each, one thread\n", count,
              size.ToString().c_str(), static_cast<double>(bytes) / 1e3 / count);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.height) * size.width * 3);
  Decoder decoder;
  std::vector<Row> rows = {{"libjpeg-turbo alone, whole image", [&](const std::string& file, int) {
                              DecodeWithLibjpeg(file, pixels.data());
                            }}};
  for (int factor : {2, 4}) {
    const Size to{size.height * 9 / 10 / factor, size.width * 9 / 10 / factor};
    for (const bool scaled : {false, true}) {
      const DecodeOptions options = {
          .resize = Resize{.height = to.height, .width = to.width, .filter = Filter::kArea},
          .dct_scaling = scaled ? DctScaling::kAuto : DctScaling::kNever};
      rows.push_back({absl::StrCat("to ", to.ToString(), ", area",
                                   scaled ? absl::StrCat(", scaled in the DCT by 1/", factor) : ""),
                      [&pixels, &decoder, to, options](const std::string& file, int) {
                        PENSTOCK_CHECK_OK(
                            decoder.DecodeInto(file, options, TightView(pixels.data(), to, 3)));
                      }});
    }
  }
  Measure(files, std::move(rows));
}

}  // namespace
}  // namespace penstock::image

int main(int argc, char** argv) {
  const int images = argc > 1 ? std::atoi(argv[1]) : 64;
  penstock::image::MeasureCrops(images);
  penstock::image::MeasureScaling(images, {331, 331});
  penstock::image::MeasureScaling(std::max(1, images / 8), {1000, 1000});
  return 0;
}
