// Resizing pixels: every output pixel is a weighted mean of input pixels, along the height and the
// width independently. Pixels are squares whose centres lie at half coordinates.
//
//   Resizer resizer;  // keeps its tables: images of one size after the other need no new ones
//   resizer.ResizeInto(image, {.filter = Filter::kArea}, out);
//
// With in pixels becoming out pixels along an axis, s = in / out, output pixel i is the mean of
// input pixels j, weighted (the weights of pixels outside are dropped, the others scaled so that
// they sum to 1):
//
//   kBilinear   w(j) = T(((i + 0.5) s - (j + 0.5)) / k)   T(t) = max(0, 1 - |t|)
//   kBicubic    w(j) = C(((i + 0.5) s - (j + 0.5)) / k)   C: Keys, "Cubic convolution interpolation
//               for digital image processing" (1981), with a = -1/2
//   kArea       w(j) = the length that pixel j, [j, j+1), shares with [i s, (i + 1) s)
//
// k is 1; with antialias it is max(1, s), so that making an image smaller takes all pixels into
// account. This is tf.image.resize (TensorFlow 2) for all three, jax.image.resize for the first
// two, and OpenCV's INTER_AREA where an image becomes smaller. The result is rounded to nearest and
// clamped to 0..255; TensorFlow returns floats, and looks bicubic weights up in a table of 1024.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/image/view.h"

namespace penstock::image {

enum class Filter : uint8_t { kArea, kBilinear, kBicubic };

struct ResizeOptions {
  Filter filter = Filter::kBilinear;
  bool antialias = false;
};

// One thread at a time.
class Resizer {
 public:
  // Neither is empty, both have the same 1 to 4 channels, the memory does not overlap (contract).
  void ResizeInto(ImageView in, const ResizeOptions& options, const MutableImageView& out);

 private:
  // The weights of one axis.
  struct Axis {
    int in = 0;
    int out = 0;
    ResizeOptions options;
    int most_taps = 0;
    std::vector<int> first;      // of the input pixels of output pixel i
    std::vector<int> count;      // how many they are
    std::vector<float> weights;  // most_taps for each output pixel

    const float* taps(int i) const { return &weights[static_cast<size_t>(i) * most_taps]; }
    void Prepare(int in_extent, int out_extent, const ResizeOptions& resize_options);
  };

  template <int kChannels>
  void MixColumns(uint8_t* out) const;

  Axis vertical_;
  Axis horizontal_;
  std::vector<float> row_;  // one row, resized along the height only
};

}  // namespace penstock::image
