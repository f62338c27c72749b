// Loops of Winograd's convolution: image tiles to points (transform domain) and back, and the
// products at each point.
//
// "Points" are 6x6 tables, one for each value of the transform, stored as matrices in the layout
// that the loops read. Features are processed in groups of sixteen.
//
// Internal to room kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "penstock/kernels/vector_loops.h"
#include "penstock/kernels/winograd_transforms.h"

namespace penstock::kernels {

inline constexpr int64_t kTables = kPoints * kPoints;

// Rows of features, one table for each point, stored as sixteen features of all rows, then the next
// sixteen, so that strides between neighbors are compile-time constants. A table is an odd number
// of cache lines, so that tables map to different cache sets.
struct TileRows {
  float* data = nullptr;
  int64_t rows = 0, features = 0;

  int64_t size_of_table() const { return (rows * features / kLanes | 1) * kLanes; }
  int64_t size() const { return kTables * size_of_table(); }
  // `feature` is a multiple of sixteen.
  float* at(int64_t point, int64_t row, int64_t feature) const {
    return data + point * size_of_table() + feature * rows + row * kLanes;
  }
};

// Channels by filters, one table for each point, in columns of `width` filters, so that a product
// reads memory sequentially.
struct KernelTables {
  float* data = nullptr;
  int64_t channels = 0, filters = 0;

  static int64_t WidthFor(int64_t filters) {
    return filters % (2 * kLanes) == 0 ? 2 * kLanes : kLanes;
  }
  int64_t width() const { return WidthFor(filters); }
  int64_t size_of_table() const { return (channels * filters / kLanes | 1) * kLanes; }
  int64_t size() const { return kTables * size_of_table(); }
  float* at(int64_t point, int64_t channel, int64_t filter) const {
    const int64_t w = width();
    return data + point * size_of_table() + (filter / w * channels + channel) * w + filter % w;
  }
};

// Images [examples, height, width, features] divided into tiles of 4x4; a patch begins `top` rows
// and `left` columns before its tile.
struct TileGrid {
  int64_t height = 0, width = 0, features = 0;
  int64_t down = 0, across = 0;  // tiles of an image
  int64_t top = 0, left = 0;
  int64_t tiles = 0;  // of all images

  int64_t size_of_image() const { return height * width * features; }
};

// A range of tiles of the grid, from `begin` on, as many as `points` has rows, and of their
// features from `first` on.
template <typename T>
struct TilesArgs {
  T* images;
  TileGrid grid;
  int64_t begin, first;
  TileRows points;
};

// Position of a tile: the first element of its image, and the pixel where its patch begins.
template <typename T>
struct Place {
  PENSTOCK_INLINE Place(const TilesArgs<T>& args, int64_t row) {
    const TileGrid& grid = args.grid;
    const int64_t tile = args.begin + row, of_image = tile % (grid.down * grid.across);
    image = args.images + tile / (grid.down * grid.across) * grid.size_of_image() + args.first;
    y = of_image / grid.across * kTile - grid.top;
    x = of_image % grid.across * kTile - grid.left;
  }
  T* image;
  int64_t y, x;
};

// Images to points by OfPatch or OfCotangents. Pixels outside the image read as 0.
template <typename Transform>
struct GatherTiles {
  static constexpr int kFrom = Transform::kFrom;

  template <typename T>
  PENSTOCK_INLINE static void Run(const TilesArgs<const T>& args) {
    const TileGrid& grid = args.grid;
    for (int64_t row = 0; row < args.points.rows; ++row) {
      const Place<const T> place(args, row);
      const bool inside = place.y >= 0 && place.x >= 0 && place.y + kFrom <= grid.height &&
                          place.x + kFrom <= grid.width;
      Prefetch(args, row + grid.across);
      inside ? Inside(args, place, row) : AtEdge(args, place, row);
    }
  }

  // Prefetches what the next row of tiles will read first. Patches access too many streams for the
  // hardware prefetcher.
  template <typename T>
  PENSTOCK_INLINE static void Prefetch(const TilesArgs<const T>& args, int64_t row) {
    if (args.begin + row >= args.grid.tiles) return;
    const TileGrid& grid = args.grid;
    const Place<const T> place(args, row);
    const int64_t y = place.y + grid.top, x = place.x + grid.left;
    const int64_t bottom = std::min(y + kTile, grid.height),
                  right = std::min(x + kTile, grid.width);
    for (int64_t r = y; r < bottom; ++r) {
      const char* from =
          reinterpret_cast<const char*>(place.image + (r * grid.width + x) * grid.features);
      const char* end =
          reinterpret_cast<const char*>(place.image + (r * grid.width + right) * grid.features);
      for (; from < end; from += 64) __builtin_prefetch(from);
    }
  }

  template <typename T>
  PENSTOCK_INLINE static void Inside(const TilesArgs<const T>& args, const Place<const T>& place,
                                     int64_t row) {
    const TileGrid& grid = args.grid;
    const T* const corner = place.image + (place.y * grid.width + place.x) * grid.features;
    const int64_t down = grid.width * grid.features, across = grid.features;
    for (int64_t f = 0; f < args.points.features; f += kLanes) {
      InBothDimensions<Transform>(
          [&](int y, int x, Floats& to)
              PENSTOCK_INLINE_LAMBDA { Load(corner + y * down + x * across + f, to); },
          [&](int y, int x, const Floats& from)
              PENSTOCK_INLINE_LAMBDA { Store(from, args.points.at(y * kPoints + x, row, f)); });
    }
  }

  template <typename T>
  PENSTOCK_INLINE static void AtEdge(const TilesArgs<const T>& args, const Place<const T>& place,
                                     int64_t row) {
    const TileGrid& grid = args.grid;
    static constexpr T kNothing[kLanes] = {};
    const T* pixels[kFrom][kFrom];  // nullptr: outside the image
    for (int y = 0; y < kFrom; ++y) {
      const bool in_rows = place.y + y >= 0 && place.y + y < grid.height;
      for (int x = 0; x < kFrom; ++x) {
        const bool in_image = in_rows && place.x + x >= 0 && place.x + x < grid.width;
        pixels[y][x] =
            in_image ? place.image + ((place.y + y) * grid.width + place.x + x) * grid.features
                     : nullptr;
      }
    }
    for (int64_t f = 0; f < args.points.features; f += kLanes) {
      InBothDimensions<Transform>(
          [&](int y, int x, Floats& to) PENSTOCK_INLINE_LAMBDA {
            Load(pixels[y][x] == nullptr ? kNothing : pixels[y][x] + f, to);
          },
          [&](int y, int x, const Floats& from)
              PENSTOCK_INLINE_LAMBDA { Store(from, args.points.at(y * kPoints + x, row, f)); });
    }
  }
};

// Points to images by ToOutputs, plus a bias for each feature unless `bias` is nullptr. Pixels
// outside the image are not written.
template <typename T>
struct ScatterArgs {
  TilesArgs<T> tiles;
  const T* bias;
};

struct ScatterTiles {
  template <typename T>
  PENSTOCK_INLINE static void Run(const ScatterArgs<T>& args) {
    const auto& [images, grid, begin, first, points] = args.tiles;
    for (int64_t row = 0; row < points.rows; ++row) {
      const Place<T> place(args.tiles, row);
      for (int64_t f = 0; f < points.features; f += kLanes) {
        Floats bias = {};
        if (args.bias != nullptr) Load(args.bias + first + f, bias);
        Features(args.tiles, place, row, f, bias);
      }
    }
  }

  template <typename T>
  PENSTOCK_INLINE static void Features(const TilesArgs<T>& args, const Place<T>& place, int64_t row,
                                       int64_t f, const Floats& bias) {
    const TileGrid& grid = args.grid;
    const int64_t rows = grid.height - place.y, columns = grid.width - place.x;
    T* const corner = place.image + (place.y * grid.width + place.x) * grid.features + f;
    InBothDimensions<ToOutputs>(
        [&](int y, int x, Floats& to)
            PENSTOCK_INLINE_LAMBDA { Load(args.points.at(y * kPoints + x, row, f), to); },
        [&](int y, int x, const Floats& from) PENSTOCK_INLINE_LAMBDA {
          if (y < rows && x < columns) {
            Store(from + bias, corner + (y * grid.width + x) * grid.features);
          }
        });
  }
};

// ---- Kernels ----

// Transposes a 16x16 block in registers.
PENSTOCK_INLINE void Transpose(Floats rows[kLanes]) {
  PENSTOCK_UNROLL
  for (int round = 0; round < 4; ++round) {
    Floats next[kLanes];
    PENSTOCK_UNROLL
    for (int i = 0; i < kLanes / 2; ++i) {
      const Floats &a = rows[i], &b = rows[i + kLanes / 2];
      next[2 * i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
    }
    PENSTOCK_UNROLL
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

// Sixteen channels, from `channel` on, of the kernel in memory ([3, 3, channels, filters], or, with
// `filters_first`, [filters, channels, 3, 3]) and its tables. With `turned`, the tables are those of the kernel rotated by 180 degrees with channels
// and filters exchanged, which makes the input gradient a convolution of the cotangent; `tables`
// then has the kernel's filters as its channels, and `channel` counts these.
template <typename T>
struct KernelArgs {
  T* kernel;
  bool turned, filters_first;
  int64_t channel;
  KernelTables tables;
};

// Kernel to points.
struct KernelToTables {
  template <typename T>
  PENSTOCK_INLINE static void Run(const KernelArgs<const T>& args) {
    const KernelTables& to = args.tables;
    for (int64_t filter = 0; filter < to.filters; filter += kLanes) {
      Floats pixels[3][3][kLanes];
      if (args.filters_first) LoadFiltersFirst(args, filter, pixels);
      for (int y = 0; y < 3 && !args.filters_first; ++y) {
        for (int x = 0; x < 3; ++x) {
          if (args.turned) {
            const T* from = args.kernel + ((2 - y) * 3 + 2 - x) * to.channels * to.filters +
                            filter * to.channels + args.channel;
            for (int i = 0; i < kLanes; ++i) Load(from + i * to.channels, pixels[y][x][i]);
            Transpose(pixels[y][x]);
          } else {
            const T* from =
                args.kernel + ((y * 3 + x) * to.channels + args.channel) * to.filters + filter;
            for (int i = 0; i < kLanes; ++i) Load(from + i * to.filters, pixels[y][x][i]);
          }
        }
      }
      for (int i = 0; i < kLanes; ++i) {
        InBothDimensions<OfKernel>([&](int y, int x, Floats& to)
                                       PENSTOCK_INLINE_LAMBDA { to = pixels[y][x][i]; },
                                   [&](int y, int x, const Floats& from) PENSTOCK_INLINE_LAMBDA {
                                     Store(from, to.at(y * kPoints + x, args.channel + i, filter));
                                   });
      }
    }
  }

 private:
  // The pixels of a 3x3 kernel are consecutive: its nine numbers go to nine vectors.
  template <typename T>
  PENSTOCK_INLINE static void LoadFiltersFirst(const KernelArgs<const T>& args, int64_t filter,
                                               Floats pixels[3][3][kLanes]) {
    const KernelTables& to = args.tables;
    // Distances in memory between the tables' channels, and between their filters.
    const int64_t channels = args.turned ? 9 * to.filters : 9;
    const int64_t filters = args.turned ? 9 : 9 * to.channels;
    const T* const from = args.kernel + args.channel * channels + filter * filters;
    for (int p = 0; p < 9; ++p) {
      for (int c = 0; c < kLanes; ++c) {
        const T* const lane = from + c * channels + (args.turned ? 8 - p : p);
        T lanes[kLanes];
        for (int f = 0; f < kLanes; ++f) lanes[f] = lane[f * filters];
        Load(lanes, pixels[p / 3][p % 3][c]);
      }
    }
  }
};

// Points to a kernel, after summing the `parts` consecutive parts of the tables.
template <typename T>
struct KernelSumArgs {
  T* kernel;
  bool filters_first;
  int64_t channel, parts;
  KernelTables tables;  // the first part
};

struct TablesToKernel {
  template <typename T>
  PENSTOCK_INLINE static void Run(const KernelSumArgs<T>& args) {
    const KernelTables& from = args.tables;
    for (int64_t c = args.channel; c < args.channel + kLanes; ++c) {
      for (int64_t filter = 0; filter < from.filters; filter += kLanes) {
        InBothDimensions<ToKernel>(
            [&](int y, int x, Floats& to) PENSTOCK_INLINE_LAMBDA {
              const float* part = from.at(y * kPoints + x, c, filter);
              Load(part, to);
              for (int64_t p = 1; p < args.parts; ++p) {
                Floats more;
                Load(part + p * from.size(), more);
                to += more;
              }
            },
            [&](int y, int x, const Floats& sum) PENSTOCK_INLINE_LAMBDA {
              if (args.filters_first) {
                T lanes[kLanes];
                Store(sum, lanes);
                T* const to = args.kernel + (filter * from.channels + c) * 9 + y * 3 + x;
                for (int i = 0; i < kLanes; ++i) to[i * from.channels * 9] = lanes[i];
              } else {
                Store(sum, args.kernel + ((y * 3 + x) * from.channels + c) * from.filters + filter);
              }
            });
      }
    }
  }
};

// ---- Products, at each point ----

// Filters [first, first + out.features) of a convolution: out = in x tables.
struct ForwardProductsArgs {
  TileRows in;
  KernelTables tables;
  int64_t first;
  TileRows out;
};

struct ForwardProducts {
  PENSTOCK_INLINE static void Run(const ForwardProductsArgs& args) {
    for (int64_t point = 0; point < kTables; ++point) {
      for (int64_t f = 0; f < args.out.features; f += args.tables.width()) {
        args.tables.width() == kLanes ? Column<24, 1>(args, point, f)
                                      : Column<12, 2>(args, point, f);
      }
    }
  }

  // Processes as many rows at once as there are registers for their accumulators.
  template <int kRows, int kVectors>
  PENSTOCK_INLINE static void Column(const ForwardProductsArgs& args, int64_t point, int64_t f) {
    int64_t row = 0;
    for (; row + kRows <= args.in.rows; row += kRows) Rows<kRows, kVectors>(args, point, row, f);
    for (; row + 4 <= args.in.rows; row += 4) Rows<4, kVectors>(args, point, row, f);
    for (; row < args.in.rows; ++row) Rows<1, kVectors>(args, point, row, f);
  }

  template <int kRows, int kVectors>
  PENSTOCK_INLINE static void Rows(const ForwardProductsArgs& args, int64_t point, int64_t row,
                                   int64_t f) {
    const float* kernel = args.tables.at(point, 0, args.first + f);
    Floats sums[kRows][kVectors] = {};
    for (int64_t block = 0; block < args.in.features; block += kLanes) {
      const float* const in = args.in.at(point, row, block);
      for (int64_t c = 0; c < kLanes; ++c, kernel += kVectors * kLanes) {
        Floats weights[kVectors];
        PENSTOCK_UNROLL
        for (int v = 0; v < kVectors; ++v) Load(kernel + v * kLanes, weights[v]);
        PENSTOCK_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const float value = in[r * kLanes + c];
          PENSTOCK_UNROLL
          for (int v = 0; v < kVectors; ++v) sums[r][v] += value * weights[v];
        }
      }
    }
    PENSTOCK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PENSTOCK_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Store(sums[r][v], args.out.at(point, row + r, f + v * kLanes));
      }
    }
  }
};

// Filters [first, first + cotangents.features) of a kernel gradient: tables += in' x cotangents, or
// tables = ... if `fresh`.
struct GradientProductsArgs {
  TileRows in, cotangents;
  bool fresh;
  KernelTables tables;
  int64_t first;
};

struct GradientProducts {
  PENSTOCK_INLINE static void Run(const GradientProductsArgs& args) {
    for (int64_t point = 0; point < kTables; ++point) {
      for (int64_t f = 0; f < args.cotangents.features; f += args.tables.width()) {
        for (int64_t c = 0; c < args.in.features; c += kLanes) {
          if (args.tables.width() == kLanes) {
            Channels<16, 1>(args, point, c, f);
          } else {
            Channels<8, 2>(args, point, c, f);
            Channels<8, 2>(args, point, c + 8, f);
          }
        }
      }
    }
  }

  template <int kChannels, int kVectors>
  PENSTOCK_INLINE static void Channels(const GradientProductsArgs& args, int64_t point, int64_t c,
                                       int64_t f) {
    const float* in = args.in.at(point, 0, c / kLanes * kLanes) + c % kLanes;
    const float* cotangents[kVectors];
    for (int v = 0; v < kVectors; ++v) cotangents[v] = args.cotangents.at(point, 0, f + v * kLanes);
    float* const out = args.tables.at(point, c, args.first + f);
    Floats sums[kChannels][kVectors] = {};
    if (!args.fresh) {
      PENSTOCK_UNROLL
      for (int i = 0; i < kChannels; ++i) {
        PENSTOCK_UNROLL
        for (int v = 0; v < kVectors; ++v) Load(out + (i * kVectors + v) * kLanes, sums[i][v]);
      }
    }
    for (int64_t row = 0; row < args.in.rows; ++row) {
      Floats values[kVectors];
      PENSTOCK_UNROLL
      for (int v = 0; v < kVectors; ++v) Load(cotangents[v] + row * kLanes, values[v]);
      PENSTOCK_UNROLL
      for (int i = 0; i < kChannels; ++i) {
        const float value = in[row * kLanes + i];
        PENSTOCK_UNROLL
        for (int v = 0; v < kVectors; ++v) sums[i][v] += value * values[v];
      }
    }
    PENSTOCK_UNROLL
    for (int i = 0; i < kChannels; ++i) {
      PENSTOCK_UNROLL
      for (int v = 0; v < kVectors; ++v) Store(sums[i][v], out + (i * kVectors + v) * kLanes);
    }
  }
};

}  // namespace penstock::kernels
