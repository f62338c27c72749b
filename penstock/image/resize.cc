#include "penstock/image/resize.h"

#include <algorithm>
#include <bit>
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

// Vectors that every processor has: four floats, and the sixteen bytes they come from. (The
// compiler does not see that a loop over bytes would be as good, nor that a conversion of bytes to
// floats goes by interleaving with zeros.)
typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef uint16_t Short8 __attribute__((vector_size(16)));
typedef uint8_t Byte16 __attribute__((vector_size(16)));
constexpr int kLanes = 4;
constexpr int kBlock = 16;
constexpr Byte16 kNoBytes = {};
constexpr Short8 kNoShorts = {};

inline Float4 LoadFloats(const float* p) {
  Float4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

inline Float4 ShortsToFloats(Short8 interleaved) {
  return __builtin_convertvector(std::bit_cast<Int4>(interleaved), Float4);
}

// sum[0..3] += weight * the sixteen bytes at p.
inline void AddBytes(const uint8_t* p, float weight, Float4 sum[4]) {
  static_assert(std::endian::native == std::endian::little);
  Byte16 bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  const auto low = std::bit_cast<Short8>(__builtin_shufflevector(
      bytes, kNoBytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  const auto high = std::bit_cast<Short8>(__builtin_shufflevector(
      bytes, kNoBytes, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  const auto first = [](Short8 v) {
    return ShortsToFloats(__builtin_shufflevector(v, kNoShorts, 0, 8, 1, 9, 2, 10, 3, 11));
  };
  const auto second = [](Short8 v) {
    return ShortsToFloats(__builtin_shufflevector(v, kNoShorts, 4, 12, 5, 13, 6, 14, 7, 15));
  };
  sum[0] += weight * first(low);
  sum[1] += weight * second(low);
  sum[2] += weight * first(high);
  sum[3] += weight * second(high);
}

// Rounded to nearest, clamped to 0..255.
inline Int4 ToByteRange(Float4 v) {
  const Int4 rounded = __builtin_convertvector(v + 0.5f, Int4);
  const Int4 not_negative = rounded > 0 ? rounded : 0;
  return not_negative < 255 ? not_negative : 255;
}

// out[x] = sum over k of weights[k] * (row k of `in`)[x].
void MixRows(const uint8_t* in, int64_t row_stride, const float* weights, int count, int64_t length,
             float* out) {
  int64_t x = 0;
  for (; x + kBlock <= length; x += kBlock) {
    Float4 sum[4] = {};
    const uint8_t* p = in + x;
    for (int k = 0; k < count; ++k, p += row_stride) AddBytes(p, weights[k], sum);
    std::memcpy(out + x, sum, sizeof(sum));
  }
  for (; x < length; ++x) {
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += weights[k] * static_cast<float>(in[x + k * row_stride]);
    out[x] = sum;
  }
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
  row_.resize(static_cast<size_t>(in.row_elements()) + kLanes);  // MixColumns reads beyond the last

  const auto mix_columns = channels == 1   ? &Resizer::MixColumns<1>
                           : channels == 2 ? &Resizer::MixColumns<2>
                           : channels == 3 ? &Resizer::MixColumns<3>
                                           : &Resizer::MixColumns<4>;
  for (int y = 0; y < out.height; ++y) {
    MixRows(in.row(vertical_.first[y]), in.row_stride, vertical_.taps(y), vertical_.count[y],
            in.row_elements(), row_.data());
    (this->*mix_columns)(out.row(y));
  }
}

// Resizes row_ along the width. A pixel is four floats, of which the last ones may belong to the
// next pixel and are not used.
template <int kChannels>
void Resizer::MixColumns(uint8_t* out) const {
  for (int x = 0; x < horizontal_.out; ++x, out += kChannels) {
    const float* pixel = &row_[static_cast<size_t>(horizontal_.first[x]) * kChannels];
    const float* weights = horizontal_.taps(x);
    Float4 sum = {};
    for (int k = 0; k < horizontal_.count[x]; ++k, pixel += kChannels) {
      sum += weights[k] * LoadFloats(pixel);
    }
    const Int4 samples = ToByteRange(sum);
    for (int c = 0; c < kChannels; ++c) out[c] = static_cast<uint8_t>(samples[c]);
  }
}

}  // namespace penstock::image
