#include "penstock/kernels/winograd.h"

#include <algorithm>

#include "penstock/base/status.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/scratch.h"
#include "penstock/kernels/vector_loops.h"
#include "penstock/kernels/winograd_loops.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;

// Number of tiles processed together: they stay in a core's cache, and each table of the kernel is
// read once for all of them.
constexpr int64_t kFewestTiles = 24, kMaxTiles = 96;
constexpr int64_t kFloatsInCache = 192 << 10;

// Parameters of a call, as a convolution of the image `from` to the image `to`, with or without
// rotating the kernel. For the kernel gradient, `to` is the cotangent.
struct Problem {
  explicit Problem(const ConvolutionShape& shape)
      : turned(shape.direction == Direction::kInputGradient),
        filters_first(shape.filters_first),
        channels(turned ? shape.filters : shape.channels),
        filters(turned ? shape.channels : shape.filters) {
    const auto& from = turned ? shape.output : shape.input;
    const auto& to = turned ? shape.input : shape.output;
    const int64_t down = CeilDiv(to[0], kTile), across = CeilDiv(to[1], kTile);
    tiles = shape.batch * down * across;
    // The padding of a convolution and that of its input gradient add up to the kernel's reach.
    const auto low = [&](int axis) { return turned ? 2 - shape.low[axis] : shape.low[axis]; };
    in = {from[0], from[1], channels, down, across, low(0), low(1), tiles};
    out = {to[0], to[1], filters, down, across, 0, 0, tiles};
    const int64_t fit = kFloatsInCache / (kTables * (channels + filters));
    block = std::min(tiles, std::clamp(fit / kFewestTiles * kFewestTiles, kFewestTiles, kMaxTiles));
  }

  int64_t columns() const { return filters / KernelTables::WidthFor(filters); }
  Rows FiltersOf(int64_t parts, int64_t index) const {
    const Rows rows = RowsOf(columns(), parts, index);
    const int64_t width = KernelTables::WidthFor(filters);
    return {rows.begin * width, rows.end * width};
  }

  const bool turned, filters_first;
  const int64_t channels, filters;
  TileGrid in, out;
  int64_t tiles = 0;
  int64_t block = 0;  // tiles processed together
};

size_t BytesOf(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

// Scratch memory for the points of a block of tiles.
struct Points {
  Points(int64_t rows, int64_t from_features, int64_t to_features)
      : from{nullptr, rows, from_features},
        to{nullptr, rows, to_features},
        memory(BytesOf(from.size() + to.size())) {
    from.data = memory.as<float>();
    to.data = from.data + from.size();
  }
  // The same memory for fewer tiles.
  void Resize(int64_t rows) { from.rows = to.rows = rows; }

  TileRows from, to;
  const Scratch memory;
};

// ---- Forward and input gradient ----

template <typename T>
absl::Status Convolve(ffi::ThreadPool& pool, const Problem& problem, const T* from, const T* kernel,
                      const T* bias, T* to) {
  KernelTables tables{nullptr, problem.channels, problem.filters};
  const Scratch memory(BytesOf(tables.size()));
  tables.data = memory.as<float>();
  PENSTOCK_RETURN_IF_ERROR(
      ForEachPiece(pool, problem.channels / kLanes, [&](int64_t index) -> absl::Status {
        RunAvx512<KernelToTables>(KernelArgs<const T>{kernel, problem.turned, problem.filters_first,
                                                      index * kLanes, tables});
        return absl::OkStatus();
      }));
  // A piece is a block of tiles; if there are too few blocks for the threads, only for some of the
  // filters.
  const int64_t blocks = CeilDiv(problem.tiles, problem.block);
  const int64_t parts = std::min(problem.columns(), CeilDiv(2 * MaxPieces(pool), blocks));
  return ForEachPiece(pool, blocks * parts, [&](int64_t index) -> absl::Status {
    const int64_t begin = index / parts * problem.block;
    const int64_t rows = std::min(problem.block, problem.tiles - begin);
    const Rows filters = problem.FiltersOf(parts, index % parts);
    const Points points(rows, problem.channels, filters.size());
    RunAvx512<GatherTiles<OfPatch>>(TilesArgs<const T>{from, problem.in, begin, 0, points.from});
    RunAvx512<ForwardProducts>(ForwardProductsArgs{points.from, tables, filters.begin, points.to});
    RunAvx512<ScatterTiles>(
        ScatterArgs<T>{{to, problem.out, begin, filters.begin, points.to}, bias});
    return absl::OkStatus();
  });
}

// ---- Kernel gradient ----

// Maximum bytes of the pieces' partial sums.
constexpr size_t kMaxBytesOfSums = size_t{1} << 20;

// Distribution of the sums over pieces, determined by the shape and the machine only, so that
// results are deterministic: small kernels by tiles with partial sums for each piece, large ones by
// filters.
struct Shares {
  Shares(const Problem& problem, int64_t max_pieces, size_t bytes_of_sums) {
    const auto fit = static_cast<int64_t>(kMaxBytesOfSums / bytes_of_sums);
    if (fit < max_pieces) filters = std::min(problem.columns(), max_pieces);
    const int64_t blocks = CeilDiv(problem.tiles, problem.block);
    tiles = std::min(blocks, std::clamp(fit, CeilDiv(max_pieces, filters), 4 * max_pieces));
  }
  int64_t tiles = 1, filters = 1;
};

template <typename T>
absl::Status KernelGradient(ffi::ThreadPool& pool, const Problem& problem, const T* input,
                            const T* cotangent, T* kernel) {
  KernelTables sums{nullptr, problem.channels, problem.filters};
  const Shares shares(problem, MaxPieces(pool), BytesOf(sums.size()));
  const Scratch memory(BytesOf(sums.size() * shares.tiles));
  sums.data = memory.as<float>();
  PENSTOCK_RETURN_IF_ERROR(
      ForEachPiece(pool, shares.tiles * shares.filters, [&](int64_t index) -> absl::Status {
        const int64_t share = index / shares.filters;
        const Rows tiles = RowsOf(problem.tiles, shares.tiles, share);
        const Rows filters = problem.FiltersOf(shares.filters, index % shares.filters);
        KernelTables own = sums;
        own.data += share * sums.size();
        Points points(problem.block, problem.channels, filters.size());
        for (int64_t begin = tiles.begin; begin < tiles.end; begin += problem.block) {
          points.Resize(std::min(problem.block, tiles.end - begin));
          RunAvx512<GatherTiles<OfPatch>>(
              TilesArgs<const T>{input, problem.in, begin, 0, points.from});
          RunAvx512<GatherTiles<OfCotangents>>(
              TilesArgs<const T>{cotangent, problem.out, begin, filters.begin, points.to});
          RunAvx512<GradientProducts>(GradientProductsArgs{
              points.from, points.to, begin == tiles.begin, own, filters.begin});
        }
        return absl::OkStatus();
      }));
  return ForEachPiece(pool, problem.channels / kLanes, [&](int64_t index) -> absl::Status {
    RunAvx512<TablesToKernel>(
        KernelSumArgs<T>{kernel, problem.filters_first, index * kLanes, shares.tiles, sums});
    return absl::OkStatus();
  });
}

template <typename T>
absl::Status Run(ffi::ThreadPool& pool, const ConvolutionShape& shape,
                 const WinogradBuffers& buffers) {
  const Problem problem(shape);
  const auto *a = static_cast<const T*>(buffers.a), *b = static_cast<const T*>(buffers.b);
  auto* const out = static_cast<T*>(buffers.out);
  if (shape.direction == Direction::kKernelGradient) {
    return KernelGradient(pool, problem, a, b, out);
  }
  return Convolve(pool, problem, a, b, static_cast<const T*>(buffers.bias), out);
}

}  // namespace

bool IsForWinograd(const ConvolutionShape& s) {
  using Pair = std::array<int64_t, 2>;
  if (s.kernel != Pair{3, 3} || s.strides != Pair{1, 1} || s.dilation != Pair{1, 1} ||
      s.groups != 1 || s.channels % kLanes != 0 || s.filters % kLanes != 0 || !HasAvx512()) {
    return false;
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t high = s.output[i] + 2 - s.input[i] - s.low[i];
    if (s.low[i] < 0 || s.low[i] > 2 || high < 0 || high > 2) return false;
  }
  // Forward, bf16 instructions are as fast for few features, and for more than fit the cache.
  const int64_t square = s.channels * s.filters;
  if (s.dtype == base::DType::kBF16 && s.direction != Direction::kKernelGradient &&
      (square < 64 * 64 || square > 128 * 128)) {
    return false;
  }
  const auto& to = s.direction == Direction::kInputGradient ? s.input : s.output;
  const int64_t tiles = CeilDiv(to[0], kTile) * CeilDiv(to[1], kTile);
  // Multiplications per pair of features: at most half of a direct convolution's, and more than the
  // kernel's own transform needs.
  return 2 * tiles * kTables <= 9 * to[0] * to[1] && tiles * s.batch >= kFewestTiles;
}

absl::Status RunWinograd(ffi::ThreadPool& pool, const ConvolutionShape& shape,
                         const WinogradBuffers& buffers) {
  return shape.dtype == base::DType::kBF16 ? Run<Bf16>(pool, shape, buffers)
                                           : Run<float>(pool, shape, buffers);
}

}  // namespace penstock::kernels
