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
// two, Pillow's BILINEAR and BICUBIC with antialias, and OpenCV's INTER_AREA where an image becomes
// smaller. TensorFlow returns floats, and looks bicubic weights up in a table of 1024.
//
// Into uint8 the result is rounded to nearest and clamped to 0..255. Into bfloat16 and float it is
// (x * scale - mean) / std (Normalize), bfloat16 rounded to nearest even. Before that, x is within
// 0.02 of the formula (out of 255): weights are computed in 16-bit fixed point where they are few
// and none is negative, otherwise in floats.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/base/float16.h"
#include "penstock/image/view.h"

namespace penstock::image {

enum class Filter : uint8_t { kArea, kBilinear, kBicubic };

// What becomes of a pixel x, 0..255, where floats are written: (x * scale - mean) / std, for each
// channel; an image of one channel uses the first of each.
struct Normalize {
  float scale = 1;
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};

  friend bool operator==(const Normalize&, const Normalize&) = default;
};

// A rectangle that need not begin and end with a pixel.
struct Window {
  double y = 0;
  double x = 0;
  double height = 0;
  double width = 0;
};

struct ResizeOptions {
  Filter filter = Filter::kBilinear;
  bool antialias = false;
  bool flip = false;         // left becomes right
  Normalize normalize = {};  // for floats only
};

// One thread at a time. T is uint8_t, base::bfloat16 or float.
class Resizer {
 public:
  // Neither is empty, both have the same 1 to 4 channels (floats: 1 or 3), the memory does not
  // overlap (contract).
  template <typename T>
  void ResizeInto(ImageView in, const ResizeOptions& options, const BasicImageView<T>& out) {
    const double height = in.height;
    const double width = in.width;
    ResizeInto(in, {0, 0, height, width}, options, out);
  }
  // The same of a part of `in`: in the formulas, pixels begin at the window's edges, and its extent
  // stands for `in`. Pixels at its edges that lie in it partly count as if they did wholly.
  template <typename T>
  void ResizeInto(ImageView in, const Window& window, const ResizeOptions& options,
                  const BasicImageView<T>& out);
  // Without a change of size: flips and converts. Exact but for the rounding of T.
  template <typename T>
  void ConvertInto(ImageView in, const ResizeOptions& options, const BasicImageView<T>& out);

 private:
  // The weights of one axis.
  struct Axis {
    int in = 0;
    int out = 0;
    double begin = 0;
    double extent = 0;
    Filter filter = Filter::kArea;
    bool antialias = false;
    bool flip = false;

    int stride = 0;              // of weights
    int most = 0;                // of count
    std::vector<int> first;      // of the input pixels of output pixel i
    std::vector<int> count;      // how many they are
    std::vector<float> weights;  // `stride` for each output pixel, 0 behind its count

    const float* taps(int i) const { return &weights[static_cast<size_t>(i) * stride]; }
    // In 1/65536; they add up to that, but for a single one, which is 65535.
    void FixedTaps(int i, uint16_t* fixed) const;
    bool fits_fixed() const;
    // True when the weights are others than before.
    bool Prepare(const Axis& wanted);
    template <typename Weight>
    void Fill(double reach, Weight weight);
  };

  void PrepareFixed(int channels);
  void PrepareNormalize(const ResizeOptions& options, int channels, int width, float unit);
  template <typename T>
  void ResizeFixed(ImageView in, const BasicImageView<T>& out);
  template <typename T>
  void ResizeFloat(ImageView in, const BasicImageView<T>& out);

  Axis vertical_;
  Axis horizontal_;
  // Of ResizeFixed: one row resized along the height only, in 1/256; for each tap along the width
  // the pixels of that row that it takes, and its weights, one for each sample of an output row;
  // and the result.
  std::vector<uint16_t> row_;
  std::vector<uint16_t> taken_;
  std::vector<uint16_t> spread_;
  std::vector<int> offsets_;  // in row_, of the first pixel
  std::vector<uint16_t> mixed_;
  int spread_channels_ = 0;
  // The same of ResizeFloat.
  std::vector<float> float_row_;
  std::vector<float> float_mixed_;
  // For each sample of an output row: times, plus.
  std::vector<float> gain_;
  std::vector<float> offset_;
};

}  // namespace penstock::image
