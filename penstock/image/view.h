// Image views: non-owning views of rows of interleaved pixels. Decoded pixels are uint8; bfloat16
// and float are model inputs. A crop is a view of the same memory.
//
//   MutableImageView out = TightView(batch.mutable_data<uint8_t>() + i * bytes, {32, 32}, 3);
//   PENSTOCK_ASSIGN_OR_RETURN(Box box, RandomCrop(image.size(), {28, 28}, random));
//   CopyPixels(image.Crop(box), out);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/base/contract_error.h"
#include "penstock/base/random.h"

namespace penstock::image {

struct Size {
  int height = 0;
  int width = 0;

  friend bool operator==(const Size&, const Size&) = default;
  std::string ToString() const;  // "480x640": height first, as in a shape
};

// A rectangle of pixels (bounding box); (y, x) is its top left corner.
struct Box {
  int y = 0;
  int x = 0;
  int height = 0;
  int width = 0;

  friend bool operator==(const Box&, const Box&) = default;
  Size size() const { return {height, width}; }
  // Whether the box is nonempty and within an image of that size; valid for any values.
  bool Inside(Size image) const;
  std::string ToString() const;  // "32x32 at (4, 7)"
};

template <typename T>
struct BasicImageView {
  T* data = nullptr;
  int height = 0;
  int width = 0;
  int channels = 0;
  int64_t row_stride = 0;  // elements from one row to the next; width * channels if contiguous

  Size size() const { return {height, width}; }
  int64_t row_elements() const { return int64_t{width} * channels; }
  T* row(int y) const { return data + y * row_stride; }
  // A view of a part of the image, sharing memory. A box outside the image throws
  // base::ContractError.
  BasicImageView Crop(const Box& box) const {
    base::Require(box.Inside(size()), "a crop is outside of its image");
    return {row(box.y) + int64_t{box.x} * channels, box.height, box.width, channels, row_stride};
  }
  operator BasicImageView<const T>() const  // NOLINT: converts like a pointer does
      requires(!std::is_const_v<T>) {
    return {data, height, width, channels, row_stride};
  }
};
using ImageView = BasicImageView<const uint8_t>;
using MutableImageView = BasicImageView<uint8_t>;

// A view of contiguous rows, as in a batch [N,H,W,C].
template <typename T>
BasicImageView<T> TightView(T* data, Size size, int channels) {
  return {data, size.height, size.width, channels, int64_t{size.width} * channels};
}

// Views of a uint8 array [H,W,C], or [H,W] with one channel.
absl::StatusOr<ImageView> ViewOf(const base::Array& array);
absl::StatusOr<MutableImageView> MutableViewOf(base::Array& array);

// Copies pixels. Size and channels must match, and the memory must not overlap.
void CopyPixels(ImageView from, const MutableImageView& to);
// A copy of the pixels as a uint8 array [H,W,C].
base::Array ToArray(ImageView view);

// Position of a crop of size `crop` in an image of size `image`: centered (rounded toward the top
// left), or uniformly random. InvalidArgument if it does not fit.
absl::StatusOr<Box> CenterCrop(Size image, Size crop);
absl::StatusOr<Box> RandomCrop(Size image, Size crop, base::Random& random);

// Random resized crop: a box of random area and aspect ratio at a random position, to be resized to
// a fixed size. The augmentation of Szegedy et al., "Going Deeper with Convolutions" (2015),
// section 6, sampled exactly as torchvision's RandomResizedCrop.get_params does it: up to ten times
// it draws an area, uniform in `scale` (a fraction of the image's area), and an aspect ratio (width
// / height), log-uniform in `ratio`; the first box that fits is placed uniformly at random. If none
// fits, it is the largest centered box whose aspect ratio is within `ratio`. (The random number
// generator differs from torchvision's, so boxes agree in distribution only.)
struct RandomResizedCrop {
  std::array<double, 2> scale = {0.08, 1.0};
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};
};
// Checks that 0 < scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1], all finite.
absl::Status CheckRandomResizedCrop(const RandomResizedCrop& crop);
// Draws a box. Requires a nonempty image and a `crop` that passed CheckRandomResizedCrop.
Box RandomResizedCropBox(Size image, const RandomResizedCrop& crop, base::Random& random);
// The largest centered box with the aspect ratio of `aspect`, rounded to whole pixels. Both sizes
// must be nonempty.
Box CoverBox(Size image, Size aspect);

}  // namespace penstock::image
