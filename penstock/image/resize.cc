#include "penstock/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace penstock::image {
namespace {

double Triangle(double t) { return std::max(0.0, 1.0 - std::abs(t)); }

double Cubic(double t) {
  constexpr double kA = -0.5;
  t = std::abs(t);
  if (t < 1) return ((kA + 2) * t - (kA + 3)) * t * t + 1;
  if (t < 2) return kA * (((t - 5) * t + 8) * t - 4);
  return 0;
}

// In the order of Filter. Area has no kernel around a centre: its weights are overlaps.
struct Kernel {
  double radius;
  double (*weight)(double t);
};
constexpr Kernel kKernels[] = {{0, nullptr}, {1, Triangle}, {2, Cubic}};

// Four floats that are computed at once, on any processor.
typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef uint8_t Byte4 __attribute__((vector_size(4)));
constexpr int kLanes = 4;

inline Float4 LoadFloats(const float* p) {
  Float4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

inline Float4 LoadBytes(const uint8_t* p) {
  Byte4 v;
  std::memcpy(&v, p, sizeof(v));
  return __builtin_convertvector(__builtin_convertvector(v, Int4), Float4);
}

inline uint8_t ToByte(float value) {
  return static_cast<uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

// out[x] = sum over k of weights[k] * (row k of `in`)[x].
void MixRows(const uint8_t* in, int64_t row_stride, const float* weights, int count, int64_t length,
             float* out) {
  constexpr int kBlock = 4 * kLanes;
  int64_t x = 0;
  for (; x + kBlock <= length; x += kBlock) {
    Float4 sum[4] = {};
    const uint8_t* p = in + x;
    for (int k = 0; k < count; ++k, p += row_stride) {
      for (int j = 0; j < 4; ++j) sum[j] += weights[k] * LoadBytes(p + j * kLanes);
    }
    std::memcpy(out + x, sum, sizeof(sum));
  }
  for (; x < length; ++x) {
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += weights[k] * static_cast<float>(in[x + k * row_stride]);
    out[x] = sum;
  }
}

// One pixel of up to four channels; reads four floats from each input pixel.
template <int kChannels>
void MixPixel(const float* in, const float* weights, int count, uint8_t* out) {
  Float4 sum = {};
  for (int k = 0; k < count; ++k) sum += weights[k] * LoadFloats(in + k * kChannels);
  for (int c = 0; c < kChannels; ++c) out[c] = ToByte(sum[c]);
}

}  // namespace

void Resizer::Axis::Prepare(int in_extent, int out_extent, const ResizeOptions& resize_options) {
  if (in == in_extent && out == out_extent && options.filter == resize_options.filter &&
      options.antialias == resize_options.antialias) {
    return;
  }
  in = in_extent;
  out = out_extent;
  options = resize_options;
  const double scale = static_cast<double>(in) / out;
  const bool is_area = options.filter == Filter::kArea;
  const Kernel kernel = kKernels[static_cast<int>(options.filter)];
  const double stretch = options.antialias ? std::max(1.0, scale) : 1.0;
  const double reach = is_area ? scale / 2 : kernel.radius * stretch;
  most_taps = std::min(in, static_cast<int>(std::ceil(2 * reach)) + 2);
  first.resize(static_cast<size_t>(out));
  count.resize(static_cast<size_t>(out));
  weights.assign(static_cast<size_t>(out) * most_taps, 0.0f);

  std::vector<double> exact(static_cast<size_t>(most_taps));
  for (int i = 0; i < out; ++i) {
    const double centre = (i + 0.5) * scale;
    // A pixel too many on either side has weight 0 and is dropped below.
    int begin = std::max(0, static_cast<int>(std::floor(centre - reach - 0.5)));
    begin = std::min(begin, in - 1);
    const int end = std::min(in, begin + most_taps);
    double sum = 0;
    int last = 0;
    for (int j = begin; j < end; ++j) {
      const double weight =
          is_area ? std::min(j + 1.0, (i + 1) * scale) - std::max<double>(j, i * scale)
                  : kernel.weight((centre - (j + 0.5)) / stretch);
      exact[j - begin] = is_area ? std::max(0.0, weight) : weight;
      sum += exact[j - begin];
      if (exact[j - begin] != 0) last = j - begin;
    }
    int skip = 0;
    while (skip < last && exact[skip] == 0) ++skip;
    first[i] = begin + skip;
    count[i] = last + 1 - skip;
    for (int k = 0; k < count[i]; ++k) {
      weights[static_cast<size_t>(i) * most_taps + k] = static_cast<float>(exact[skip + k] / sum);
    }
  }
}

void Resizer::ResizeInto(ImageView in, const ResizeOptions& options, const MutableImageView& out) {
  PENSTOCK_CHECK(in.height > 0 && in.width > 0 && out.height > 0 && out.width > 0);
  PENSTOCK_CHECK(in.channels == out.channels && in.channels >= 1 && in.channels <= 4);
  vertical_.Prepare(in.height, out.height, options);
  horizontal_.Prepare(in.width, out.width, options);
  const int channels = in.channels;
  row_.resize(static_cast<size_t>(in.row_elements()) + kLanes);  // MixPixel reads beyond the last

  const auto mix_pixel = channels == 1   ? MixPixel<1>
                         : channels == 2 ? MixPixel<2>
                         : channels == 3 ? MixPixel<3>
                                         : MixPixel<4>;
  for (int y = 0; y < out.height; ++y) {
    MixRows(in.row(vertical_.first[y]), in.row_stride, vertical_.taps(y), vertical_.count[y],
            in.row_elements(), row_.data());
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += channels) {
      mix_pixel(&row_[static_cast<size_t>(horizontal_.first[x]) * channels], horizontal_.taps(x),
                horizontal_.count[x], to);
    }
  }
}

}  // namespace penstock::image
