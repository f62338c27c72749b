// Image resizing: area, bilinear and bicubic interpolation. Every output pixel is a weighted mean
// of input pixels, separably along height and width. Pixel centers are at half-integer coordinates.
//
//   Resizer resizer;  // keeps its weight tables, which images of the same size reuse
//   resizer.ResizeInto(image, {.filter = Filter::kArea}, out);
//
// For an axis of `in` input and `out` output pixels, with s = in / out, output pixel i is the mean
// of the input pixels j with the weights (those of pixels outside the image are dropped, the others
// normalized to sum to 1):
//
//   kBilinear   w(j) = T(((i + 0.5) s - (j + 0.5)) / k)   T(t) = max(0, 1 - |t|)
//   kBicubic    w(j) = C(((i + 0.5) s - (j + 0.5)) / k)   C: Keys, "Cubic convolution interpolation
//               for digital image processing" (1981), with a = -1/2
//   kArea       w(j) = length of the overlap of pixel j, [j, j+1), with [i s, (i + 1) s)
//
// k is 1; with antialias it is max(1, s), so that downscaling takes all pixels into account. This
// is tf.image.resize (TensorFlow 2) for all three, jax.image.resize for the first two, Pillow's
// BILINEAR and BICUBIC with antialias, and OpenCV's INTER_AREA for downscaling. TensorFlow returns
// floats, and takes bicubic weights from a table of 1024 entries.
//
// uint8 output is rounded to nearest and clamped to 0..255. bfloat16 and float output is (x * scale
// - mean) / std (Normalize), with bfloat16 rounded to nearest even. Before that, x is within 0.02
// of the formula (out of 255): computed in 16-bit fixed point if the weights are few and
// nonnegative, otherwise in float32.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/base/float16.h"
#include "penstock/image/view.h"

namespace penstock::image {

enum class Filter : uint8_t { kArea, kBilinear, kBicubic };

// Normalization of a pixel x (0..255) for floating-point output: (x * scale - mean) / std, per
// channel; an image with one channel uses the first element of each.
struct Normalize {
  float scale = 1;
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};

  friend bool operator==(const Normalize&, const Normalize&) = default;
};

// A rectangle with fractional pixel coordinates.
struct Window {
  double y = 0;
  double x = 0;
  double height = 0;
  double width = 0;
};

struct ResizeOptions {
  Filter filter = Filter::kBilinear;
  bool antialias = false;
  bool flip = false;         // mirror left-right
  Normalize normalize = {};  // floating-point output only
};

// Resizer with cached weight tables. Not thread-safe. T is uint8_t, base::bfloat16 or float.
class Resizer {
 public:
  // Resizes `in` into `out`. Both must be nonempty, have the same 1 to 4 channels (floating-point
  // output: 1 or 3), and not overlap in memory.
  template <typename T>
  void ResizeInto(ImageView in, const ResizeOptions& options, const BasicImageView<T>& out) {
    const double height = in.height;
    const double width = in.width;
    ResizeInto(in, {0, 0, height, width}, options, out);
  }
  // Same for a window of `in`: in the formulas, coordinates are relative to the window, and its
  // extent replaces `in`. Pixels partially inside the window count fully.
  template <typename T>
  void ResizeInto(ImageView in, const Window& window, const ResizeOptions& options,
                  const BasicImageView<T>& out);
  // Flips and converts without resizing. Exact except for rounding to T.
  template <typename T>
  void ConvertInto(ImageView in, const ResizeOptions& options, const BasicImageView<T>& out);

 private:
  // Weight table of one axis.
  struct Axis {
    int in = 0;
    int out = 0;
    double begin = 0;
    double extent = 0;
    Filter filter = Filter::kArea;
    bool antialias = false;
    bool flip = false;

    int stride = 0;              // of `weights`
    int most = 0;                // maximum of `count`
    std::vector<int> first;      // first input pixel of output pixel i
    std::vector<int> count;      // number of input pixels of output pixel i
    std::vector<float> weights;  // `stride` per output pixel, 0 after its count

    const float* taps(int i) const { return &weights[static_cast<size_t>(i) * stride]; }
    // Weights in units of 1/65536, which sum to 65536, except for a single weight, which is 65535.
    void FixedTaps(int i, uint16_t* fixed) const;
    bool fits_fixed() const;
    // Returns true if the weights changed.
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
  // Buffers of ResizeFixed: one row resized along the height only, in units of 1/256; for each tap
  // along the width the gathered pixels of that row, and the weights, one per sample of an output
  // row; and the result.
  std::vector<uint16_t> row_;
  std::vector<uint16_t> gathered_;
  std::vector<uint16_t> spread_;
  std::vector<int> offsets_;  // of the first pixel in row_
  std::vector<uint16_t> mixed_;
  int spread_channels_ = 0;
  // Buffers of ResizeFloat.
  std::vector<float> float_row_;
  std::vector<float> float_mixed_;
  // Normalization per sample of an output row: factor and offset.
  std::vector<float> gain_;
  std::vector<float> offset_;
};

}  // namespace penstock::image
