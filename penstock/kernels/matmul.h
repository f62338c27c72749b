// Matrix products by oneDNN, split over XLA's threads: f32 or bf16, sums in f32, rounded once.
//
// Internal to room kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"
#include "penstock/ir/ops.h"
#include "penstock/runtime/client.h"

namespace xla::ffi {
class ThreadPool;
}

namespace penstock::kernels {

// An extent, and how many elements apart its places are in each tensor; 0 where it is not in one.
struct MatmulAxis {
  int64_t size = 1, of_lhs = 0, of_rhs = 0, of_out = 0;
};

// out[batch.., row, column] = the sum over depth of lhs[batch.., row, depth] * rhs[batch.., depth,
// column], wherever the axes stand in memory.
struct MatmulShape {
  base::DType dtype = base::DType::kF32;
  std::vector<MatmulAxis> batch;  // the innermost last, of more than one place each
  MatmulAxis rows, columns, depth;

  int64_t BatchSize() const;
  int64_t Multiplications() const;
};

// What a dot_general of operands of these extents is. Nothing where it has no elements, or where
// several axes that together are the rows (columns, depth) lie so that no single step leads from
// each place to the next: that needs a copy.
std::optional<MatmulShape> ReadMatmul(base::DType dtype, absl::Span<const int64_t> lhs,
                                      absl::Span<const int64_t> rhs,
                                      const ir::DotDimensions& dimensions);

// Whether this is faster than XLA's product, by measurement, and oneDNN has more than its reference
// code for it on this CPU.
bool HasFastMatmul(const MatmulShape& shape);

// The product of tensors in memory. Shares out whole products, or, if these are few, parts of the
// longer side of each, never of the sum.
absl::Status RunMatmul(xla::ffi::ThreadPool& pool, const MatmulShape& shape, void* lhs, void* rhs,
                       void* out);

// Operands (lhs, rhs). Attributes: lhs_batch, lhs_contracting, rhs_batch, rhs_contracting
// (array<i64>), as those of the dot_general.
inline constexpr char kMatmulTarget[] = "penstock.matmul";
std::vector<runtime::Kernel> MatmulKernels();

}  // namespace penstock::kernels
