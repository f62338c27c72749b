#include "penstock/image/testing/random_jpeg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include <jpeglib.h>

#include "penstock/image/jpeg_errors.h"

namespace penstock::image {
namespace {

int Between(base::Random& random, int low, int high) {
  return low + static_cast<int>(random.Below(static_cast<uint64_t>(high - low) + 1));
}
bool Chance(base::Random& random, double share) { return random.Uniform() < share; }

// Draws a random width or height.
int RandomSide(base::Random& random) {
  if (Chance(random, 0.1)) return 1;
  return Chance(random, 0.01) ? Between(random, 1000, 3000) : Between(random, 1, 200);
}

struct Colors {
  J_COLOR_SPACE given;
  J_COLOR_SPACE stored;
  int components;
};

Colors RandomColors(base::Random& random) {
  switch (random.Below(10)) {
    case 0:
    case 1:
      return {JCS_GRAYSCALE, JCS_GRAYSCALE, 1};
    case 2:
      return {JCS_RGB, JCS_RGB, 3};
    case 3:
      return {JCS_CMYK, JCS_CMYK, 4};
    case 4:
      return {JCS_CMYK, JCS_YCCK, 4};
    default:
      return {JCS_RGB, JCS_YCbCr, 3};
  }
}

// A scan has at most ten blocks per MCU (T.81, B.2.3).
void ChooseSampling(jpeg_compress_struct& cinfo, base::Random& random) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    int blocks = 0;
    for (int i = 0; i < cinfo.num_components; ++i) {
      jpeg_component_info& component = cinfo.comp_info[i];
      const bool usual = Chance(random, 0.8);
      const bool full = i == 0 || i == 3;
      component.h_samp_factor = usual ? (full ? Between(random, 1, 2) : 1) : Between(random, 1, 4);
      component.v_samp_factor = usual ? (full ? Between(random, 1, 2) : 1) : Between(random, 1, 4);
      blocks += component.h_samp_factor * component.v_samp_factor;
    }
    if (blocks <= 10) return;
  }
  for (int i = 0; i < cinfo.num_components; ++i) {
    cinfo.comp_info[i].h_samp_factor = cinfo.comp_info[i].v_samp_factor = 1;
  }
}

// `scans` stores the scan script and must outlive the encoding.
void ChooseCoding(jpeg_compress_struct& cinfo, base::Random& random, jpeg_scan_info* scans) {
  const uint64_t kind = random.Below(10);
  if (kind < 4) {
    jpeg_simple_progression(&cinfo);
  } else if (kind == 4 && cinfo.num_components > 1) {
    for (int i = 0; i < cinfo.num_components; ++i) {
      scans[i] = {};
      scans[i].comps_in_scan = 1;
      scans[i].component_index[0] = i;
      scans[i].Se = 63;
    }
    cinfo.scan_info = scans;
    cinfo.num_scans = cinfo.num_components;
  }
  cinfo.optimize_coding = Chance(random, 0.4) ? TRUE : FALSE;
  cinfo.arith_code = Chance(random, 0.1) ? TRUE : FALSE;
  if (Chance(random, 0.2)) cinfo.restart_interval = static_cast<unsigned>(Between(random, 1, 7));
  if (Chance(random, 0.2)) cinfo.restart_in_rows = Between(random, 1, 2);
  if (Chance(random, 0.1)) cinfo.smoothing_factor = Between(random, 0, 100);
  if (Chance(random, 0.2)) {
    cinfo.write_JFIF_header = Chance(random, 0.5) ? TRUE : FALSE;
    cinfo.write_Adobe_marker = Chance(random, 0.5) ? TRUE : FALSE;
  }
}

// Draws noise, gradients, blocks of one color, or waves.
void FillRow(int pattern, int fx, int fy, int y, int components, base::Random& random,
             std::vector<JSAMPLE>& row) {
  for (size_t i = 0; i < row.size(); ++i) {
    const int x = static_cast<int>(i) / components, channel = static_cast<int>(i) % components;
    int value = 0;
    switch (pattern) {
      case 0:
        value = static_cast<int>(random.Below(256));
        break;
      case 1:
        value = x * fx / 8 + y * fy / 8 + channel * 60;
        break;
      case 2:
        value = ((x / fx + y / fy) & 1) != 0 ? 250 - channel * 20 : 5 + channel * 9;
        break;
      default:
        value =
            128 + Between(random, -8, 8) +
            static_cast<int>(100 * std::sin(x * 0.01 * fx + channel) * std::cos(y * 0.007 * fy));
    }
    row[i] = static_cast<JSAMPLE>(value);
  }
}

// Offsets of the SOS markers, one per scan.
std::vector<size_t> Scans(absl::string_view jpeg) {
  std::vector<size_t> scans;
  size_t at = 2;
  while (at + 4 <= jpeg.size()) {
    if (jpeg[at] != '\xff') {
      ++at;
      continue;
    }
    const auto marker = static_cast<uint8_t>(jpeg[at + 1]);
    if (marker == 0xda) scans.push_back(at);
    const bool alone = marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd9) || marker == 0xff;
    at += alone ? (marker == 0xff ? 1 : 2)
                : 2 + static_cast<size_t>(static_cast<uint8_t>(jpeg[at + 2]) * 256 +
                                          static_cast<uint8_t>(jpeg[at + 3]));
  }
  return scans;
}

}  // namespace

RandomJpeg MakeRandomJpeg(base::Random& random) {
  const int width = RandomSide(random), height = RandomSide(random);
  const Colors colors = RandomColors(random);
  RandomJpeg made;
  jpeg_compress_struct cinfo = {};
  JpegErrors errors;
  jpeg_scan_info scans[MAX_COMPONENTS];
  unsigned char* file = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  std::vector<JSAMPLE> row(static_cast<size_t>(width) * static_cast<size_t>(colors.components));
  const int quality = Chance(random, 0.1) ? 1 : Chance(random, 0.1) ? 100 : Between(random, 5, 99);
  const int pattern = Between(random, 0, 3), fx = Between(random, 1, 40),
            fy = Between(random, 1, 40);
  cinfo.err = &errors.manager;
  const bool done = errors.Guarded([&] {
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &file, &size);
    cinfo.image_width = static_cast<JDIMENSION>(width);
    cinfo.image_height = static_cast<JDIMENSION>(height);
    cinfo.input_components = colors.components;
    cinfo.in_color_space = colors.given;
    jpeg_set_defaults(&cinfo);
    jpeg_set_colorspace(&cinfo, colors.stored);
    jpeg_set_quality(&cinfo, quality, TRUE);
    ChooseSampling(cinfo, random);
    ChooseCoding(cinfo, random, scans);
    jpeg_start_compress(&cinfo, TRUE);
    if (Chance(random, 0.2)) {
      JOCTET text[300];
      for (JOCTET& c : text) c = static_cast<JOCTET>(random.Next());
      jpeg_write_marker(&cinfo, Chance(random, 0.5) ? JPEG_COM : JPEG_APP0 + Between(random, 2, 13),
                        text, static_cast<unsigned>(random.Below(sizeof(text))));
    }
    while (cinfo.next_scanline < cinfo.image_height) {
      FillRow(pattern, fx, fy, static_cast<int>(cinfo.next_scanline), colors.components, random,
              row);
      JSAMPROW rows = row.data();
      jpeg_write_scanlines(&cinfo, &rows, 1);
    }
    jpeg_finish_compress(&cinfo);
  });
  made.what =
      absl::StrCat(width, "x", height, ", ", colors.components, " components, quality ", quality,
                   ", ", cinfo.num_scans, " scans, restart ", cinfo.restart_interval,
                   cinfo.arith_code ? ", arithmetic" : "", ", sampling");
  for (int i = 0; i < cinfo.num_components; ++i) {
    absl::StrAppend(&made.what, " ", cinfo.comp_info[i].h_samp_factor, "x",
                    cinfo.comp_info[i].v_samp_factor);
  }
  // Sampling factors that libjpeg cannot write result in no bytes.
  if (done) made.bytes.assign(reinterpret_cast<const char*>(file), size);
  jpeg_destroy_compress(&cinfo);
  std::free(file);
  return made;
}

std::string DropLastScans(absl::string_view jpeg, base::Random& random) {
  const std::vector<size_t> scans = Scans(jpeg);
  if (scans.size() < 2) return std::string(jpeg);
  const size_t kept = 1 + random.Below(scans.size() - 1);
  // Tables that precede the next scan are kept; they are harmless at the end.
  return absl::StrCat(jpeg.substr(0, scans[kept]), "\xff\xd9");
}

std::string Corrupt(absl::string_view file, base::Random& random) {
  std::string out(file);
  const uint64_t count = 1 + random.Below(3);
  for (uint64_t i = 0; i < count && !out.empty(); ++i) {
    const size_t at = random.Below(out.size());
    switch (random.Below(5)) {
      case 0:
        out[at] = static_cast<char>(out[at] ^ (1 << random.Below(8)));
        break;
      case 1:
        out[at] = static_cast<char>(random.Next());
        break;
      case 2:
        out.erase(at, 1 + random.Below(5));
        break;
      case 3:
        out.insert(at, 1 + random.Below(3), static_cast<char>(random.Next()));
        break;
      default:
        out.resize(at);
    }
  }
  return out;
}

}  // namespace penstock::image
