// Views of pixels: rows of interleaved channels somewhere in memory that another object owns.
// Pixels of images are uint8; bfloat16 and float are what a model takes. A crop is a view of the
// same memory.
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

// A rectangle of whole pixels; (y, x) is its top left corner.
struct Box {
  int y = 0;
  int x = 0;
  int height = 0;
  int width = 0;

  friend bool operator==(const Box&, const Box&) = default;
  Size size() const { return {height, width}; }
  // Not empty and within an image of that size; for any numbers.
  bool Inside(Size image) const;
  std::string ToString() const;  // "32x32 at (4, 7)"
};

template <typename T>
struct BasicImageView {
  T* data = nullptr;
  int height = 0;
  int width = 0;
  int channels = 0;
  int64_t row_stride = 0;  // elements from one row to the next; width * channels when tight

  Size size() const { return {height, width}; }
  int64_t row_elements() const { return int64_t{width} * channels; }
  T* row(int y) const { return data + y * row_stride; }
  // The same memory. A box that is not inside throws base::ContractError.
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

// Rows without gaps, as in a batch [N,H,W,C].
template <typename T>
BasicImageView<T> TightView(T* data, Size size, int channels) {
  return {data, size.height, size.width, channels, int64_t{size.width} * channels};
}

// Views of an array uint8 [H,W,C], or [H,W] with one channel.
absl::StatusOr<ImageView> ViewOf(const base::Array& array);
absl::StatusOr<MutableImageView> MutableViewOf(base::Array& array);

// Size and channels agree (contract); the memory does not overlap.
void CopyPixels(ImageView from, const MutableImageView& to);
// uint8 [H,W,C] in memory of its own.
base::Array ToArray(ImageView view);

// Where a crop of `crop` lies in an image of `image`: in the middle (half a pixel goes to the top
// left), or anywhere with equal chance. An error when it does not fit.
absl::StatusOr<Box> CentreCrop(Size image, Size crop);
absl::StatusOr<Box> RandomCrop(Size image, Size crop, base::Random& random);

// A box of random area and aspect at a random place, to be resized to one size: the augmentation of
// Szegedy et al., "Going Deeper with Convolutions" (2015), section 6, sampled exactly as
// torchvision's RandomResizedCrop.get_params does it: up to ten times an area, uniform in `scale`
// (of the image's area), and an aspect (width / height), log-uniform in `ratio`; the first box that
// fits is placed anywhere with equal chance. If none fits, the largest box in the middle whose
// aspect is within `ratio`. (The random numbers are ours, so boxes agree in distribution only.)
struct RandomResizedCrop {
  std::array<double, 2> scale = {0.08, 1.0};
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};
};
// 0 < scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1], all finite.
absl::Status CheckRandomResizedCrop(const RandomResizedCrop& crop);
// The image is not empty and `crop` passed its check (contract).
Box RandomResizedCropBox(Size image, const RandomResizedCrop& crop, base::Random& random);
// The largest box of `aspect`'s ratio in the middle of the image, rounded to whole pixels. Neither
// size is empty (contract).
Box CoverBox(Size image, Size aspect);

}  // namespace penstock::image
