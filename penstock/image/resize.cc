#include "penstock/image/resize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "penstock/base/contract_error.h"

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

// std::floor is a function call with SSE2 only, and every random crop needs new tables.
inline int Floor(double x) {
  const int truncated = static_cast<int>(x);
  return truncated - (x < truncated ? 1 : 0);
}
inline int Ceil(double x) { return -Floor(-x); }

// Maximum number of taps for fixed point, so that rounding errors and their bias correction stay
// small.
constexpr int kMaxFixedTaps = 8;

// ---- Floats ----
//
// SIMD vectors available on every processor: four floats, and the sixteen bytes that they are
// loaded from. (The compiler does not vectorize an equivalent loop over bytes, nor the conversion
// of bytes to floats by interleaving with zeros.)
using Float4 __attribute__((vector_size(16))) = float;
using Int4 __attribute__((vector_size(16))) = int32_t;
using Short8 __attribute__((vector_size(16))) = uint16_t;
using Byte16 __attribute__((vector_size(16))) = uint8_t;
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

// ---- Fixed point: samples in 1/256, weights in 1/65536 ----
//
// Loops over contiguous 16-bit integers, whose products' upper halves every processor computes
// eight at a time (pmulhuw). Half a unit per tap compensates for the truncation.

inline uint16_t Product(uint16_t sample, uint16_t weight) {
  return static_cast<uint16_t>((uint32_t{sample} * weight) >> 16);
}

// sum[i] (+)= a[i] * weight_a + b[i] * weight_b, of bytes.
template <bool kFirst>
void MixTwoRows(const uint8_t* __restrict a, uint16_t weight_a, const uint8_t* __restrict b,
                uint16_t weight_b, int64_t length, uint16_t* __restrict sum) {
  for (int64_t i = 0; i < length; ++i) {
    const auto sample_a = static_cast<uint16_t>(a[i] << 8);
    const auto sample_b = static_cast<uint16_t>(b[i] << 8);
    const auto mixed =
        static_cast<uint16_t>(Product(sample_a, weight_a) + Product(sample_b, weight_b) + 1);
    sum[i] = kFirst ? mixed : static_cast<uint16_t>(sum[i] + mixed);
  }
}

// sum[i] (+)= a[i] * weights_a[i] + b[i] * weights_b[i].
template <bool kFirst>
void MixTwoTaps(const uint16_t* __restrict a, const uint16_t* __restrict weights_a,
                const uint16_t* __restrict b, const uint16_t* __restrict weights_b, int64_t length,
                uint16_t* __restrict sum) {
  for (int64_t i = 0; i < length; ++i) {
    const auto mixed =
        static_cast<uint16_t>(Product(a[i], weights_a[i]) + Product(b[i], weights_b[i]) + 1);
    sum[i] = kFirst ? mixed : static_cast<uint16_t>(sum[i] + mixed);
  }
}

// Same, rounded to bytes: the last step of a row.
template <bool kFirst>
void MixTwoTapsToBytes(const uint16_t* __restrict a, const uint16_t* __restrict weights_a,
                       const uint16_t* __restrict b, const uint16_t* __restrict weights_b,
                       int64_t length, const uint16_t* __restrict sum, uint8_t* __restrict out) {
  for (int64_t i = 0; i < length; ++i) {
    const auto mixed = static_cast<uint16_t>(Product(a[i], weights_a[i]) +
                                             Product(b[i], weights_b[i]) + (1 + 128));
    out[i] = static_cast<uint8_t>((kFirst ? mixed : static_cast<uint16_t>(sum[i] + mixed)) >> 8);
  }
}

// Gathers the pixels at `offsets` into `to`, and the pixels after them into `to_next`. Pixels of
// three samples are copied as four; the next one overwrites the last sample.
template <int kChannels>
void GatherPixels(const uint16_t* row, const int* offsets, int64_t count, uint16_t* to,
                  uint16_t* to_next) {
  // NOLINTNEXTLINE(bugprone-branch-clone): the branches are equal for four channels only
  constexpr size_t kBytes = sizeof(uint16_t) * (kChannels == 3 ? 4 : kChannels);
  const auto take = [=](int64_t x) {
    const uint16_t* pixel = row + offsets[x];
    std::memcpy(to + x * kChannels, pixel, kBytes);
    std::memcpy(to_next + x * kChannels, pixel + kChannels, kBytes);
  };
  int64_t x = 0;
  for (; x + 4 <= count; x += 4) {
    take(x);
    take(x + 1);
    take(x + 2);
    take(x + 3);
  }
  for (; x < count; ++x) take(x);
}
constexpr int kGatherPadding = 4;  // samples that GatherPixels writes and reads past the last

// ---- Output ----

// Same as base::bfloat16's constructor for values other than NaN, branch-free.
inline base::bfloat16 RoundToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  base::bfloat16 out;
  out.bits = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  return out;
}
inline void Store(float value, float* to) { *to = value; }
inline void Store(float value, base::bfloat16* to) { *to = RoundToBfloat16(value); }

template <typename From, typename T>
void StoreRow(const From* __restrict row, const std::vector<float>& gains,
              const std::vector<float>& offsets, int64_t length, T* __restrict out) {
  const float* __restrict gain = gains.data();
  const float* __restrict offset = offsets.data();
  for (int64_t i = 0; i < length; ++i) {
    Store(static_cast<float>(static_cast<int>(row[i])) * gain[i] + offset[i], &out[i]);
  }
}
template <typename T>
void StoreRow(const float* __restrict row, const std::vector<float>& gains,
              const std::vector<float>& offsets, int64_t length, T* __restrict out) {
  const float* __restrict gain = gains.data();
  const float* __restrict offset = offsets.data();
  for (int64_t i = 0; i < length; ++i) {
    // Overshoot of bicubic interpolation is clamped as for bytes.
    const float sample = std::min(255.0f, std::max(0.0f, row[i]));
    Store(sample * gain[i] + offset[i], &out[i]);
  }
}
void StoreRow(const float* __restrict row, const std::vector<float>&, const std::vector<float>&,
              int64_t length, uint8_t* __restrict out) {
  for (int64_t i = 0; i < length; ++i) {
    out[i] =
        static_cast<uint8_t>(static_cast<int>(std::min(255.0f, std::max(0.0f, row[i] + 0.5f))));
  }
}
void StoreRow(const uint8_t* row, const std::vector<float>&, const std::vector<float>&,
              int64_t length, uint8_t* out) {
  std::copy_n(row, length, out);
}

// Resizes a row along the width. A pixel is written as four floats, of which the last ones may
// belong to the next pixel, which overwrites them.
template <int kChannels>
void MixColumns(const float* row, const int* first, const int* count, const float* weights,
                int stride, int width, float* out) {
  for (int x = 0; x < width; ++x, out += kChannels, weights += stride) {
    const float* pixel = row + static_cast<int64_t>(first[x]) * kChannels;
    Float4 sum = {};
    for (int k = 0; k < count[x]; ++k, pixel += kChannels) sum += weights[k] * LoadFloats(pixel);
    std::memcpy(out, &sum, sizeof(sum));
  }
}

template <typename From>
void FlipRow(const From* row, int width, int channels, From* out) {
  for (int x = 0; x < width; ++x) {
    std::copy_n(row + int64_t{width - 1 - x} * channels, channels, out + int64_t{x} * channels);
  }
}

}  // namespace

template <typename Weight>
void Resizer::Axis::Fill(double reach, Weight weight) {
  const double scale = extent / out;
  stride = std::min(in, Ceil(2 * reach) + 2);
  first.resize(static_cast<size_t>(out));
  count.resize(static_cast<size_t>(out));
  weights.assign(static_cast<size_t>(out) * stride, 0.0f);
  most = 0;
  for (int i = 0; i < out; ++i) {
    const double center = begin + (i + 0.5) * scale;
    // The pixels whose centers are within `reach`; for area averaging, those that overlap.
    const double half = filter == Filter::kArea ? 0 : 0.5;
    const int begin_pixel = std::clamp(Floor(center - reach + half), 0, in - 1);
    const int end_pixel = std::clamp(Ceil(center + reach - half), begin_pixel + 1,
                                     std::min(in, begin_pixel + stride));
    // A flipped axis is filled from its end.
    const int to_pixel = flip ? out - 1 - i : i;
    float* taps = &weights[static_cast<size_t>(to_pixel) * stride];
    float sum = 0;
    for (int j = begin_pixel; j < end_pixel; ++j) {
      taps[j - begin_pixel] = static_cast<float>(weight(center, j));
      sum += taps[j - begin_pixel];
    }
    if (sum == 0) sum = taps[0] = 1;  // rounding put both neighbors just out of reach
    const float inverse = 1 / sum;
    for (int k = 0; k < end_pixel - begin_pixel; ++k) taps[k] *= inverse;
    first[to_pixel] = begin_pixel;
    count[to_pixel] = end_pixel - begin_pixel;
    most = std::max(most, end_pixel - begin_pixel);
  }
}

bool Resizer::Axis::Prepare(const Axis& wanted) {
  if (in == wanted.in && out == wanted.out && begin == wanted.begin && extent == wanted.extent &&
      filter == wanted.filter && antialias == wanted.antialias && flip == wanted.flip) {
    return false;
  }
  in = wanted.in;
  out = wanted.out;
  begin = wanted.begin;
  extent = wanted.extent;
  filter = wanted.filter;
  antialias = wanted.antialias;
  flip = wanted.flip;
  const double scale = extent / out;
  const double inverse_stretch = antialias ? 1 / std::max(1.0, scale) : 1.0;
  const auto distance = [=](double center, int j) {
    return (center - (j + 0.5)) * inverse_stretch;
  };
  switch (filter) {
    case Filter::kArea:
      Fill(scale / 2, [half = scale / 2](double center, int j) {
        return std::max(0.0, std::min(j + 1.0, center + half) - std::max<double>(j, center - half));
      });
      break;
    case Filter::kBilinear:
      Fill(1 / inverse_stretch, [=](double c, int j) { return Triangle(distance(c, j)); });
      break;
    case Filter::kBicubic:
      Fill(2 / inverse_stretch, [=](double c, int j) { return Cubic(distance(c, j)); });
      break;
  }
  return true;
}

bool Resizer::Axis::fits_fixed() const {
  return filter != Filter::kBicubic && most <= kMaxFixedTaps;
}

void Resizer::Axis::FixedTaps(int i, uint16_t* fixed) const {
  // The rounding remainder is added to the last weight; a single weight of 1 is reduced to 65535.
  const float* exact = taps(i);
  const int last = count[i] - 1;
  int left = 65536;
  for (int k = 0; k < last; ++k) {
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): lround would change the pixels of some images
    const int rounded = std::min(static_cast<int>(exact[k] * 65536 + 0.5f), std::min(left, 65535));
    fixed[k] = static_cast<uint16_t>(rounded);
    left -= rounded;
  }
  fixed[last] = static_cast<uint16_t>(std::min(left, 65535));
}

void Resizer::PrepareFixed(int channels) {
  spread_channels_ = channels;
  const int64_t samples = int64_t{horizontal_.out} * channels;
  const int most = (horizontal_.most + 1) / 2 * 2;  // taps are processed in pairs
  row_.resize(static_cast<size_t>(horizontal_.in + most) * channels + kGatherPadding);
  gathered_.resize(static_cast<size_t>(samples + kGatherPadding) * 2);
  mixed_.resize(static_cast<size_t>(samples));
  spread_.assign(static_cast<size_t>(samples) * most, 0);
  offsets_.resize(static_cast<size_t>(horizontal_.out));
  for (int x = 0; x < horizontal_.out; ++x) {
    uint16_t fixed[kMaxFixedTaps];
    horizontal_.FixedTaps(x, fixed);
    offsets_[x] = horizontal_.first[x] * channels;
    for (int k = 0; k < horizontal_.count[x]; ++k) {
      std::fill_n(&spread_[k * samples + int64_t{x} * channels], channels, fixed[k]);
    }
  }
}

void Resizer::PrepareNormalize(const ResizeOptions& options, int channels, int width, float unit) {
  base::Require(channels <= 3, "resizing to floating point supports at most 3 channels");
  gain_.resize(static_cast<size_t>(width) * channels);
  offset_.resize(gain_.size());
  for (size_t i = 0; i < gain_.size(); ++i) {
    const size_t channel = i % channels;
    gain_[i] = options.normalize.scale * unit / options.normalize.std[channel];
    offset_[i] = -options.normalize.mean[channel] / options.normalize.std[channel];
  }
}

template <typename T>
void Resizer::ResizeFixed(ImageView in, const BasicImageView<T>& out) {
  const int64_t in_length = in.row_elements();
  const int64_t out_length = out.row_elements();
  constexpr void (*kTakePixels[])(const uint16_t*, const int*, int64_t, uint16_t*, uint16_t*) = {
      GatherPixels<1>, GatherPixels<2>, GatherPixels<3>, GatherPixels<4>};
  const auto take_pixels = kTakePixels[in.channels - 1];
  uint16_t* taken_a = gathered_.data();
  uint16_t* taken_b = taken_a + out_length + kGatherPadding;
  for (int y = 0; y < out.height; ++y) {
    uint16_t fixed[kMaxFixedTaps + 1] = {};
    vertical_.FixedTaps(y, fixed);
    const int first = vertical_.first[y];
    const int last = first + vertical_.count[y] - 1;
    for (int j = first; j <= last; j += 2) {
      const auto mix = j == first ? MixTwoRows<true> : MixTwoRows<false>;
      mix(in.row(j), fixed[j - first], in.row(std::min(j + 1, last)), fixed[j - first + 1],
          in_length, row_.data());
    }
    for (int k = 0; k < horizontal_.most; k += 2) {
      const uint16_t* weights = &spread_[static_cast<size_t>(k) * out_length];
      take_pixels(row_.data() + int64_t{k} * in.channels, offsets_.data(), out.width, taken_a,
                  taken_b);
      if constexpr (std::is_same_v<T, uint8_t>) {
        if (k + 2 >= horizontal_.most) {
          const auto mix = k == 0 ? MixTwoTapsToBytes<true> : MixTwoTapsToBytes<false>;
          mix(taken_a, weights, taken_b, weights + out_length, out_length, mixed_.data(),
              out.row(y));
          break;
        }
      }
      const auto mix = k == 0 ? MixTwoTaps<true> : MixTwoTaps<false>;
      mix(taken_a, weights, taken_b, weights + out_length, out_length, mixed_.data());
    }
    if constexpr (!std::is_same_v<T, uint8_t>) {
      StoreRow(mixed_.data(), gain_, offset_, out_length, out.row(y));
    }
  }
}

template <typename T>
void Resizer::ResizeFloat(ImageView in, const BasicImageView<T>& out) {
  float_row_.resize(static_cast<size_t>(in.row_elements()) +
                    kLanes);  // MixColumns reads past the end
  float_mixed_.resize(static_cast<size_t>(out.row_elements()) + kLanes);  // and writes past it
  constexpr void (*kMixColumns[])(const float*, const int*, const int*, const float*, int, int,
                                  float*) = {MixColumns<1>, MixColumns<2>, MixColumns<3>,
                                             MixColumns<4>};
  for (int y = 0; y < out.height; ++y) {
    MixRows(in.row(vertical_.first[y]), in.row_stride, vertical_.taps(y), vertical_.count[y],
            in.row_elements(), float_row_.data());
    kMixColumns[in.channels - 1](float_row_.data(), horizontal_.first.data(),
                                 horizontal_.count.data(), horizontal_.weights.data(),
                                 horizontal_.stride, out.width, float_mixed_.data());
    StoreRow(float_mixed_.data(), gain_, offset_, out.row_elements(), out.row(y));
  }
}

template <typename T>
void Resizer::ResizeInto(ImageView in, const Window& window, const ResizeOptions& options,
                         const BasicImageView<T>& out) {
  base::Require(in.height > 0 && in.width > 0 && out.height > 0 && out.width > 0,
                "the input or the output of a resize is empty");
  base::Require(in.channels == out.channels && in.channels >= 1 && in.channels <= 4,
                "the input and the output of a resize must have the same 1 to 4 channels");
  Axis axis;
  axis.filter = options.filter;
  axis.antialias = options.antialias;
  axis.in = in.height;
  axis.out = out.height;
  axis.begin = window.y;
  axis.extent = window.height;
  vertical_.Prepare(axis);
  axis.in = in.width;
  axis.out = out.width;
  axis.begin = window.x;
  axis.extent = window.width;
  axis.flip = options.flip;
  const bool changed = horizontal_.Prepare(axis) || spread_channels_ != in.channels;
  const bool fixed = vertical_.fits_fixed() && horizontal_.fits_fixed();
  if (!std::is_same_v<T, uint8_t>) {
    PrepareNormalize(options, in.channels, out.width, fixed ? 1.0f / 256 : 1.0f);
  }
  if (!fixed) {
    spread_channels_ = 0;  // of a previous axis
    return ResizeFloat(in, out);
  }
  if (changed) PrepareFixed(in.channels);
  ResizeFixed(in, out);
}

template <typename T>
void Resizer::ConvertInto(ImageView in, const ResizeOptions& options,
                          const BasicImageView<T>& out) {
  base::Require(in.size() == out.size() && in.channels == out.channels,
                "the input and the output of a conversion must have the same size and channels");
  if (!std::is_same_v<T, uint8_t>) PrepareNormalize(options, in.channels, in.width, 1);
  std::vector<uint8_t> flipped(options.flip ? static_cast<size_t>(in.row_elements()) : 0);
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* row = in.row(y);
    if (options.flip) {
      FlipRow(row, in.width, in.channels, flipped.data());
      row = flipped.data();
    }
    StoreRow(row, gain_, offset_, in.row_elements(), out.row(y));
  }
}

#define PENSTOCK_RESIZER_INTO_(T)                                                   \
  template void Resizer::ResizeInto(ImageView, const Window&, const ResizeOptions&, \
                                    const BasicImageView<T>&);                      \
  template void Resizer::ConvertInto(ImageView, const ResizeOptions&, const BasicImageView<T>&)
PENSTOCK_RESIZER_INTO_(uint8_t);
PENSTOCK_RESIZER_INTO_(base::bfloat16);
PENSTOCK_RESIZER_INTO_(float);
#undef PENSTOCK_RESIZER_INTO_

}  // namespace penstock::image
