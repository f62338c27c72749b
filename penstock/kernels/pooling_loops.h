// Loops of pooling over rows of windows.
//
// Internal to room kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "penstock/kernels/vector_loops.h"

namespace penstock::kernels {

// Shape of one image and its windows.
struct PoolShape {
  std::array<int64_t, 2> input{}, output{}, size{}, strides{}, dilation{}, low{};
  int64_t features = 0;

  // Elements of window `o` along an axis that lie within the image: [first, last).
  std::array<int64_t, 2> Inside(int axis, int64_t o) const {
    const int64_t start = o * strides[axis] - low[axis], step = dilation[axis];
    const int64_t first = start >= 0 ? 0 : (-start + step - 1) / step;
    const int64_t room = input[axis] - start;
    const int64_t last = room <= 0 ? 0 : std::min(size[axis], (room + step - 1) / step);
    return {first, std::max(first, last)};
  }
  // Position in the image of element k of window `o`.
  int64_t At(int axis, int64_t o, int64_t k) const {
    return o * strides[axis] - low[axis] + k * dilation[axis];
  }
  // Offset in x of the features of that pixel.
  int64_t Pixel(int64_t oh, int64_t kh, int64_t ow, int64_t kw) const {
    return (At(0, oh, kh) * input[1] + At(1, ow, kw)) * features;
  }
};

// Element k of window o.
struct WindowElement {
  int64_t o, k;
};

// Windows of one image.
template <typename T>
struct PoolArgs {
  const PoolShape& shape;
  bool max;
  const T* x;
  T* y;
};

struct Pool {
  template <typename T>
  PENSTOCK_INLINE static void Run(const PoolArgs<T>& args) {
    args.max ? Windows<true>(args) : Windows<false>(args);
  }

  template <bool kMax, typename T>
  PENSTOCK_INLINE static void Windows(const PoolArgs<T>& args) {
    const PoolShape& s = args.shape;
    const int64_t features = s.features;
    for (int64_t oh = 0; oh < s.output[0]; ++oh) {
      for (int64_t ow = 0; ow < s.output[1]; ++ow) {
        int64_t f = 0;
        for (; f + kLanes <= features; f += kLanes) Part<kMax>(args, oh, ow, f, kLanes);
        if (f < features) Part<kMax>(args, oh, ow, f, features - f);
      }
    }
  }

  template <bool kMax, typename T>
  PENSTOCK_INLINE static void Part(const PoolArgs<T>& args, int64_t oh, int64_t ow, int64_t f,
                                   int64_t lanes) {
    const PoolShape& s = args.shape;
    const auto rows = s.Inside(0, oh), columns = s.Inside(1, ow);
    Floats y = {};
    if constexpr (kMax) y -= std::numeric_limits<float>::infinity();
    for (int64_t kh = rows[0]; kh < rows[1]; ++kh) {
      for (int64_t kw = columns[0]; kw < columns[1]; ++kw) {
        Floats x;
        LoadLanes(args.x + s.Pixel(oh, kh, ow, kw) + f, lanes, x);
        if constexpr (kMax) {
          y = x > y ? x : y;
          const Ints nan = x != x;
          Select(nan, x, y, y);  // NaN propagates
        } else {
          y += x;
        }
      }
    }
    StoreLanes(y, lanes, args.y + (oh * s.output[1] + ow) * s.features + f);
  }
};

inline constexpr uint16_t kNoWinner = 0xffff;

// Argmax of each of an image's windows: the index of the first element that equals the result, or
// kNoWinner. `winners` has kLanes extra elements at its end.
template <typename T>
struct WinnersArgs {
  const PoolShape& shape;
  const T *x, *y;
  uint16_t* winners;
};

struct Winners {
  template <typename T>
  PENSTOCK_INLINE static void Run(const WinnersArgs<T>& args) {
    const PoolShape& s = args.shape;
    const int64_t features = s.features;
    for (int64_t oh = 0; oh < s.output[0]; ++oh) {
      for (int64_t ow = 0; ow < s.output[1]; ++ow) {
        int64_t f = 0;
        for (; f + kLanes <= features; f += kLanes) Part(args, oh, ow, f, kLanes);
        if (f < features) Part(args, oh, ow, f, features - f);
      }
    }
  }

  template <typename T>
  PENSTOCK_INLINE static void Part(const WinnersArgs<T>& args, int64_t oh, int64_t ow, int64_t f,
                                   int64_t lanes) {
    const PoolShape& s = args.shape;
    const auto rows = s.Inside(0, oh), columns = s.Inside(1, ow);
    const int64_t window = (oh * s.output[1] + ow) * s.features + f;
    Floats y;
    LoadLanes(args.y + window, lanes, y);
    Ints winner = {};
    winner += kNoWinner;
    for (int64_t kh = rows[1]; kh-- > rows[0];) {
      for (int64_t kw = columns[1]; kw-- > columns[0];) {
        Floats x;
        LoadLanes(args.x + s.Pixel(oh, kh, ow, kw) + f, lanes, x);
        Ints number = {};
        number += static_cast<int32_t>(kh * s.size[1] + kw);
        winner = x == y ? number : winner;
      }
    }
    const Halves numbers = __builtin_convertvector(winner, Halves);
    std::memcpy(args.winners + window, &numbers, sizeof(numbers));
  }
};

// Gradient of one image: for each pixel, the cotangents of the windows in which it is the argmax.
template <typename T>
struct MaxPoolGradientArgs {
  const PoolShape& shape;
  // For each pixel along height and width: the windows that contain it, and its index in each.
  const std::vector<std::vector<WindowElement>>*rows, *columns;
  const uint16_t* winners;
  const T* cotangent;
  T* of_x;
};

struct MaxPoolGradient {
  template <typename T>
  PENSTOCK_INLINE static void Run(const MaxPoolGradientArgs<T>& args) {
    const PoolShape& s = args.shape;
    const int64_t features = s.features;
    for (int64_t h = 0; h < s.input[0]; ++h) {
      for (int64_t w = 0; w < s.input[1]; ++w) {
        int64_t f = 0;
        for (; f + kLanes <= features; f += kLanes) Part(args, h, w, f, kLanes);
        if (f < features) Part(args, h, w, f, features - f);
      }
    }
  }

  template <typename T>
  PENSTOCK_INLINE static void Part(const MaxPoolGradientArgs<T>& args, int64_t h, int64_t w,
                                   int64_t f, int64_t lanes) {
    const PoolShape& s = args.shape;
    const Floats zero = {};
    Floats sum = {};
    for (const WindowElement& row : (*args.rows)[h]) {
      for (const WindowElement& column : (*args.columns)[w]) {
        const int64_t window = (row.o * s.output[1] + column.o) * s.features + f;
        Halves winners;
        std::memcpy(&winners, args.winners + window, sizeof(winners));
        Ints number = {};
        number += static_cast<int32_t>(row.k * s.size[1] + column.k);
        Floats cotangent;
        LoadLanes(args.cotangent + window, lanes, cotangent);
        const Ints won = __builtin_convertvector(winners, Ints) == number;
        Select(won, cotangent, zero, cotangent);
        sum += cotangent;
      }
    }
    StoreLanes(sum, lanes, args.of_x + (h * s.input[1] + w) * s.features + f);
  }
};

}  // namespace penstock::kernels
