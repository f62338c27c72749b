#include "penstock/kernels/pointwise.h"

#include <algorithm>
#include <cstring>

#include "penstock/base/status.h"
#include "penstock/kernels/matmul.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/scratch.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;
using Pair = std::array<int64_t, 2>;

// Minimum number of elements of an f32 kernel; below, the convolution is as fast.
constexpr int64_t kLeastF32 = 128 * 512;

// Gathers the pixels selected by the strides.
absl::Status Gather(ffi::ThreadPool& pool, const ConvolutionShape& shape, int64_t bytes_of_pixel,
                    const char* input, char* to) {
  const int64_t rows = shape.batch * shape.output[0];
  return ForEachPiece(pool, std::min(rows, MaxPieces(pool)), [&](int64_t index) -> absl::Status {
    const Rows part = RowsOf(rows, std::min(rows, MaxPieces(pool)), index);
    for (int64_t row = part.begin; row < part.end; ++row) {
      const int64_t example = row / shape.output[0], y = row % shape.output[0] * shape.strides[0];
      const char* from = input + (example * shape.input[0] + y) * shape.input[1] * bytes_of_pixel;
      for (int64_t x = 0; x < shape.output[1]; ++x) {
        std::memcpy(to + (row * shape.output[1] + x) * bytes_of_pixel,
                    from + x * shape.strides[1] * bytes_of_pixel,
                    static_cast<size_t>(bytes_of_pixel));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

bool IsForPointwise(const ConvolutionShape& s) {
  return s.direction == Direction::kKernelGradient && s.kernel == Pair{1, 1} &&
         s.low == Pair{0, 0} && s.groups == 1 &&
         // No padding at the end either.
         (s.output[0] - 1) * s.strides[0] < s.input[0] &&
         (s.output[1] - 1) * s.strides[1] < s.input[1] &&
         (s.dtype == base::DType::kBF16 || s.channels * s.filters >= kLeastF32);
}

absl::Status RunPointwise(ffi::ThreadPool& pool, const ConvolutionShape& shape, void* input,
                          void* cotangent, void* kernel) {
  const int64_t bytes = base::ByteWidth(shape.dtype), bytes_of_pixel = shape.channels * bytes;
  const int64_t pixels = shape.batch * shape.output[0] * shape.output[1];
  const bool all = shape.strides == Pair{1, 1};
  const Scratch gathered(all ? 0 : static_cast<size_t>(pixels * bytes_of_pixel));
  if (!all) {
    PENSTOCK_RETURN_IF_ERROR(
        Gather(pool, shape, bytes_of_pixel, static_cast<const char*>(input), gathered.as<char>()));
    input = gathered.data();
  }
  return RunMatmul(pool,
                   {.dtype = shape.dtype,
                    .batch = {},
                    .rows = {shape.channels, 1, 0, shape.filters},
                    .columns = {shape.filters, 0, 1, 1},
                    .depth = {pixels, shape.channels, shape.filters, 0}},
                   input, cotangent, kernel);
}

}  // namespace penstock::kernels
