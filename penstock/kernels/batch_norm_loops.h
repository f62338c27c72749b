// Loops of batch normalization over a block of rows.
//
// Internal to room kernels.
#pragma once

#include <cstdint>

#include "penstock/kernels/vector_loops.h"

namespace penstock::kernels {

// Bytes of a block: small enough to stay in the cache between two passes over it.
constexpr int64_t kBlockBytes = 32 << 10;

template <typename T>
struct Block {
  const T* x;
  int64_t rows, features;
};

// Moments: sum[f] = sum of x; then squares[f] = sum of (x - sum / rows)^2.
template <typename T>
struct MomentsArgs {
  Block<T> block;
  float *sum, *squares;
};

struct Moments {
  template <typename T>
  PENSTOCK_INLINE static void Run(const MomentsArgs<T>& args) {
    const int64_t features = args.block.features;
    int64_t f = 0;
    for (; f + kLanes <= features; f += kLanes) Column(args, f, kLanes);
    if (f < features) Column(args, f, features - f);
  }

  // Four independent accumulators, because an addition has a latency of four cycles.
  template <typename T>
  PENSTOCK_INLINE static void Column(const MomentsArgs<T>& args, int64_t f, int64_t lanes) {
    const auto& [x, rows, features] = args.block;
    Floats sums[4] = {}, squares[4] = {};
    for (int64_t r = 0; r < rows; ++r) {
      Floats value;
      LoadLanes(x + r * features + f, lanes, value);
      sums[r & 3] += value;
    }
    const Floats sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    const Floats mean = sum / static_cast<float>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      Floats value;
      LoadLanes(x + r * features + f, lanes, value);
      value -= mean;
      squares[r & 3] += value * value;
    }
    StorePart(sum, lanes, args.sum + f);
    StorePart((squares[0] + squares[1]) + (squares[2] + squares[3]), lanes, args.squares + f);
  }
};

// y = x * a + b (+ other, if not nullptr), then relu if set.
template <typename T>
struct AffineArgs {
  Block<T> block;
  const float *a, *b;
  const T* other;  // may be nullptr
  bool relu;
  T* y;
};

struct Affine {
  template <typename T>
  PENSTOCK_INLINE static void Run(const AffineArgs<T>& args) {
    if (args.other != nullptr) {
      args.relu ? Rows<true, true>(args) : Rows<false, true>(args);
    } else {
      args.relu ? Rows<true, false>(args) : Rows<false, false>(args);
    }
  }

  template <bool kRelu, bool kOther, typename T>
  PENSTOCK_INLINE static void Rows(const AffineArgs<T>& args) {
    const int64_t features = args.block.features;
    for (int64_t r = 0; r < args.block.rows; ++r) {
      int64_t f = 0;
      for (; f + kLanes <= features; f += kLanes)
        Part<kRelu, kOther>(args, r * features, f, kLanes);
      if (f < features) Part<kRelu, kOther>(args, r * features, f, features - f);
    }
  }

  template <bool kRelu, bool kOther, typename T>
  PENSTOCK_INLINE static void Part(const AffineArgs<T>& args, int64_t row, int64_t f,
                                   int64_t lanes) {
    Floats x, a, b;
    LoadLanes(args.block.x + row + f, lanes, x);
    LoadLanes(args.a + f, lanes, a);
    LoadLanes(args.b + f, lanes, b);
    Floats y = x * a + b;
    if constexpr (kOther) {
      Floats other;
      LoadLanes(args.other + row + f, lanes, other);
      y += other;
    }
    if constexpr (kRelu) {
      const Floats zero = {};
      y = y <= zero ? zero : y;  // this comparison propagates NaN
    }
    if (lanes == kLanes) {
      Store(y, args.y + row + f);
    } else {
      StorePart(y, lanes, args.y + row + f);
    }
  }
};

// Gradients of offset and scale: of_offset[f] += sum of d, of_scale[f] += sum of d * (x - mean). d
// is the cotangent; with relu, it is zero where x * a + b is not above 0.
template <typename T>
struct SumsArgs {
  Block<T> block;
  const T* cotangent;
  const float *a, *b, *mean;
  bool relu;
  float *of_offset, *of_scale;
};

struct Sums {
  template <typename T>
  PENSTOCK_INLINE static void Run(const SumsArgs<T>& args) {
    const int64_t features = args.block.features;
    int64_t f = 0;
    for (; f + kLanes <= features; f += kLanes) Column(args, f, kLanes);
    if (f < features) Column(args, f, features - f);
  }

  template <typename T>
  PENSTOCK_INLINE static void Column(const SumsArgs<T>& args, int64_t f, int64_t lanes) {
    const auto& [x, rows, features] = args.block;
    Floats a, b, mean, of_offset[4] = {}, of_scale[4] = {};
    LoadLanes(args.a + f, lanes, a);
    LoadLanes(args.b + f, lanes, b);
    LoadLanes(args.mean + f, lanes, mean);
    const Floats zero = {};
    for (int64_t r = 0; r < rows; ++r) {
      Floats value, d;
      LoadLanes(x + r * features + f, lanes, value);
      LoadLanes(args.cotangent + r * features + f, lanes, d);
      if (args.relu) d = value * a + b <= zero ? zero : d;
      of_offset[r & 3] += d;
      of_scale[r & 3] += d * (value - mean);
    }
    StorePart((of_offset[0] + of_offset[1]) + (of_offset[2] + of_offset[3]), lanes,
              args.of_offset + f);
    StorePart((of_scale[0] + of_scale[1]) + (of_scale[2] + of_scale[3]), lanes, args.of_scale + f);
  }
};

// Gradient of x: of_x = d * a + (x - mean) * p + q, with d as in SumsArgs; p and q are 0 for
// masked-out examples. (x * p plus a constant would cancel where the mean is far larger than the
// standard deviation.)
template <typename T>
struct GradientArgs {
  Block<T> block;
  const T* cotangent;
  const float *a, *b, *mean, *p, *q;
  bool relu;
  T* of_x;
};

struct Gradient {
  template <typename T>
  PENSTOCK_INLINE static void Run(const GradientArgs<T>& args) {
    const auto& [x, rows, features] = args.block;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t f = 0;
      for (; f + kLanes <= features; f += kLanes) Part(args, r * features, f, kLanes);
      if (f < features) Part(args, r * features, f, features - f);
    }
  }

  template <typename T>
  PENSTOCK_INLINE static void Part(const GradientArgs<T>& args, int64_t row, int64_t f,
                                   int64_t lanes) {
    Floats x, d, a, b, mean, p, q;
    LoadLanes(args.block.x + row + f, lanes, x);
    LoadLanes(args.cotangent + row + f, lanes, d);
    LoadLanes(args.a + f, lanes, a);
    LoadLanes(args.b + f, lanes, b);
    LoadLanes(args.mean + f, lanes, mean);
    LoadLanes(args.p + f, lanes, p);
    LoadLanes(args.q + f, lanes, q);
    const Floats zero = {};
    if (args.relu) d = x * a + b <= zero ? zero : d;
    const Floats of_x = d * a + ((x - mean) * p + q);
    if (lanes == kLanes) {
      Store(of_x, args.of_x + row + f);
    } else {
      StorePart(of_x, lanes, args.of_x + row + f);
    }
  }
};

}  // namespace penstock::kernels
