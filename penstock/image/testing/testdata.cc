#include "penstock/image/testing/testdata.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace penstock::image {

std::string ReadTestdata(const std::string& name) {
  const auto room = std::filesystem::path(__FILE__).parent_path().parent_path();
  std::ifstream file(room / "testdata" / name, std::ios::binary);
  PENSTOCK_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int MaxDifference(ImageView a, ImageView b) {
  PENSTOCK_CHECK(a.size() == b.size() && a.channels == b.channels);
  int max_difference = 0;
  for (int y = 0; y < a.height; ++y) {
    for (int64_t x = 0; x < a.row_elements(); ++x) {
      max_difference = std::max(max_difference, std::abs(a.row(y)[x] - b.row(y)[x]));
    }
  }
  return max_difference;
}

base::Array NoisyPicture(Size size, int channels) {
  base::Array picture =
      base::Array::Uninitialized(base::DType::kU8, {size.height, size.width, channels});
  base::Random random(1);
  uint8_t* p = picture.mutable_data<uint8_t>();
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int slope = c == 0 ? 128 * y / size.height : 128 * x / size.width;
        *p++ = static_cast<uint8_t>(slope + static_cast<int>(random.Below(120)));
      }
    }
  }
  return picture;
}

}  // namespace penstock::image
