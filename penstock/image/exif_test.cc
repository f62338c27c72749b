#include "penstock/image/exif.h"

#include <string>

#include <gtest/gtest.h>

#include "penstock/image/testing/testdata.h"

namespace penstock::image {
namespace exif_test {

// A TIFF header and a directory with the entries Make (whose offset lies beyond the end and is
// never followed) and Orientation.
std::string Tiff(bool little, int orientation) {
  std::string out = little ? std::string("II*\0", 4) : std::string("MM\0*", 4);
  const auto number = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      const int shift = 8 * (little ? i : bytes - 1 - i);
      out.push_back(static_cast<char>(value >> shift));
    }
  };
  number(8, 4);
  number(2, 2);
  number(271, 2), number(2, 2), number(9, 4), number(0xffffffff, 4);
  number(274, 2), number(3, 2), number(1, 4), number(static_cast<uint32_t>(orientation), 2);
  number(0, 2), number(0, 4);
  return out;
}

TEST(Exif, ReadsBothByteOrders) {
  for (int way = 1; way <= 8; ++way) {
    EXPECT_EQ(ExifOrientation(Tiff(true, way)), way);
    EXPECT_EQ(ExifOrientation(Tiff(false, way)), way);
  }
}

TEST(Exif, MalformedDataIsUpright) {
  for (int value : {0, 9, 274}) EXPECT_EQ(ExifOrientation(Tiff(true, value)), 1);
  EXPECT_EQ(ExifOrientation(""), 1);
  EXPECT_EQ(ExifOrientation(absl::string_view("II*\0\xff\xff\xff\xff", 8)), 1);
  const std::string whole = Tiff(false, 6);
  for (size_t length = 0; length < 34; ++length) {
    const std::string cut = whole.substr(0, length);
    EXPECT_EQ(ExifOrientation(cut), 1) << length;
  }
}

TEST(Exif, MapsBoxesWithOrientation) {
  const base::Array stored = NoisyPicture({9, 14}, 3);
  const Size size{9, 14};
  for (int way = 1; way <= 8; ++way) {
    const Size turned_size = OrientedSize(size, way);
    base::Array turned =
        base::Array::Uninitialized(base::DType::kU8, {turned_size.height, turned_size.width, 3});
    Orient(*ViewOf(stored), way, *MutableViewOf(turned));
    const Box box{1, 2, 5, 3};
    const Box in_stored = StoredBox(box, size, way);
    ASSERT_TRUE(in_stored.Inside(size));
    base::Array part = base::Array::Uninitialized(base::DType::kU8, {5, 3, 3});
    Orient(ViewOf(stored)->Crop(in_stored), way, *MutableViewOf(part));
    EXPECT_EQ(MaxDifference(*ViewOf(part), ViewOf(turned)->Crop(box)), 0) << way;
  }
}

TEST(Exif, MapsWindowsLikeBoxes) {
  const Size stored{30, 50};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Size whole = OrientedSize(stored, orientation);
    const Box box{whole.height / 5, whole.width / 7, 4, 9};
    const Box at = StoredBox(box, stored, orientation);
    const Window window =
        OrientedWindow({static_cast<double>(at.y), static_cast<double>(at.x),
                        static_cast<double>(at.height), static_cast<double>(at.width)},
                       stored, orientation);
    EXPECT_EQ(window.y, box.y);
    EXPECT_EQ(window.x, box.x);
    EXPECT_EQ(window.height, box.height);
    EXPECT_EQ(window.width, box.width);
  }
}

}  // namespace exif_test
}  // namespace penstock::image
