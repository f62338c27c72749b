#include "penstock/kernels/matmul.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"

#include "penstock/base/status.h"
#include "penstock/kernels/calls_at_exit.h"
#include "penstock/kernels/onednn.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/typed_call.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;
using dnnl::memory;
using ir::Axes;

// ---- Shape of a product ----

// Strides of a dense tensor, in elements.
std::vector<int64_t> StepsOf(absl::Span<const int64_t> dims) {
  std::vector<int64_t> steps(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) steps[i - 1] = steps[i] * dims[i];
  return steps;
}

bool IsFree(int64_t axis, const Axes& batch, const Axes& contracting) {
  return std::count(batch.begin(), batch.end(), axis) +
             std::count(contracting.begin(), contracting.end(), axis) ==
         0;
}

// Merges adjacent axes with compatible strides; drops extents of 1.
std::vector<MatmulAxis> Merged(const std::vector<MatmulAxis>& axes) {
  std::vector<MatmulAxis> merged;
  for (const MatmulAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!merged.empty() && merged.back().of_lhs == axis.size * axis.of_lhs &&
        merged.back().of_rhs == axis.size * axis.of_rhs &&
        merged.back().of_out == axis.size * axis.of_out) {
      const int64_t outer = merged.back().size;
      merged.back() = axis;
      merged.back().size *= outer;
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

bool MergeToOne(const std::vector<MatmulAxis>& axes, MatmulAxis& one) {
  const std::vector<MatmulAxis> merged = Merged(axes);
  if (!merged.empty()) one = merged[0];
  return merged.size() <= 1;
}

// ---- Tile of one primitive ----

MatmulAxis InnermostBatch(const MatmulShape& s) {
  return s.batch.empty() ? MatmulAxis() : s.batch.back();
}

// A part of the products along the innermost batch axis, of their rows, of their columns.
struct Tile {
  Rows batch, rows, columns;
};

// oneDNN's description of consecutive matrices.
memory::desc Matrices(base::DType dtype, int64_t count, int64_t step, int64_t rows, int64_t of_rows,
                      int64_t columns, int64_t of_columns) {
  // The stride of an axis of extent 1 is meaningless, but oneDNN uses it to recognize dense
  // matrices.
  if (columns == 1) of_columns = 1;
  if (rows == 1) of_rows = of_columns == 1 ? columns : 1;
  if (count == 1) step = rows * columns;
  return {{count, rows, columns}, TypeOf(dtype), {step, of_rows, of_columns}};
}

struct Operands {
  memory::desc lhs, rhs, out;

  Operands(const MatmulShape& s, const Tile& tile) {
    const MatmulAxis step = InnermostBatch(s), &r = s.rows, &c = s.columns, &d = s.depth;
    const int64_t count = tile.batch.size(), rows = tile.rows.size(), columns = tile.columns.size();
    lhs = Matrices(s.dtype, count, step.of_lhs, rows, r.of_lhs, d.size, d.of_lhs);
    rhs = Matrices(s.dtype, count, step.of_rhs, d.size, d.of_rhs, columns, c.of_rhs);
    out = Matrices(s.dtype, count, step.of_out, rows, r.of_out, columns, c.of_out);
  }
};

// Throws dnnl::error if oneDNN does not support it. With `describe_only`, the primitive's code is
// not generated.
CachedPrimitive MakePrimitive(const MatmulShape& shape, const Tile& tile,
                              bool describe_only = false) {
  const Operands operands(shape, tile);
  const dnnl::matmul::primitive_desc desc({operands.lhs, operands.rhs, operands.out},
                                          UserScratchpad(), Engine());
  CachedPrimitive cached;
  Describe(desc, cached);
  if (!describe_only) cached.primitive = dnnl::matmul(desc);
  return cached;
}

std::shared_ptr<const CachedPrimitive> PrimitiveFor(const MatmulShape& s, const Tile& tile) {
  static auto& cache = *new PrimitiveCache;
  const MatmulAxis step = InnermostBatch(s);
  return cache.Get(
      {static_cast<int64_t>(s.dtype), tile.batch.size(), tile.rows.size(), tile.columns.size(),
       s.depth.size, step.of_lhs, step.of_rhs, step.of_out, s.rows.of_lhs, s.rows.of_out,
       s.columns.of_rhs, s.columns.of_out, s.depth.of_lhs, s.depth.of_rhs},
      [&] { return MakePrimitive(s, tile); });
}

// ---- Kernel call ----

struct Call {
  const MatmulShape& shape;
  char *lhs, *rhs, *out;

  // Runs a tile whose batch begins with product `first` of all.
  void Run(const Tile& tile, int64_t first) const {
    const MatmulShape& s = shape;
    int64_t of_lhs = tile.rows.begin * s.rows.of_lhs;
    int64_t of_rhs = tile.columns.begin * s.columns.of_rhs;
    int64_t of_out = tile.rows.begin * s.rows.of_out + tile.columns.begin * s.columns.of_out;
    for (size_t i = s.batch.size(); i-- > 0; first /= s.batch[i].size) {
      const int64_t place = first % s.batch[i].size;
      of_lhs += place * s.batch[i].of_lhs;
      of_rhs += place * s.batch[i].of_rhs;
      of_out += place * s.batch[i].of_out;
    }
    const int64_t bytes = base::ByteWidth(s.dtype);
    const Operands operands(s, tile);
    Execute(*PrimitiveFor(s, tile),
            {{DNNL_ARG_SRC, {operands.lhs, Engine(), lhs + of_lhs * bytes}},
             {DNNL_ARG_WEIGHTS, {operands.rhs, Engine(), rhs + of_rhs * bytes}},
             {DNNL_ARG_DST, {operands.out, Engine(), out + of_out * bytes}}});
  }
};

// Computing fewer multiplications is faster than waking a thread.
constexpr int64_t kLeastOfPiece = 1 << 18;
// With this many products per thread, it does not matter that some threads have one more.
constexpr int64_t kManyProducts = 8;

using Ints = ffi::Span<const int64_t>;

ffi::Error Matmul(ffi::ThreadPool pool, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs,
                  ffi::Result<ffi::AnyBuffer> out, Ints lhs_batch, Ints lhs_contracting,
                  Ints rhs_batch, Ints rhs_contracting) {
  const auto axes = [](Ints ints) { return Axes(ints.begin(), ints.end()); };
  const LibraryCall library;
  if (!library.allowed()) return ffi::Error::Internal("the process is exiting");
  return ToXlaError([&]() -> absl::Status {
    const Axes of_lhs = axes(lhs.dimensions()), of_rhs = axes(rhs.dimensions());
    const auto shape = ReadMatmul(
        lhs.element_type() == ffi::BF16 ? base::DType::kBF16 : base::DType::kF32, of_lhs, of_rhs,
        {.lhs_contracting = axes(lhs_contracting),
         .rhs_contracting = axes(rhs_contracting),
         .lhs_batch = axes(lhs_batch),
         .rhs_batch = axes(rhs_batch)});
    if (!shape.has_value()) {
      return absl::InvalidArgumentError("a matmul kernel expects axes that strides can describe");
    }
    return RunMatmul(pool, *shape, lhs.untyped_data(), rhs.untyped_data(), out->untyped_data());
  });
}

XLA_FFI_DEFINE_HANDLER(kMatmulHandler, Matmul,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<Ints>("lhs_batch")
                           .Attr<Ints>("lhs_contracting")
                           .Attr<Ints>("rhs_batch")
                           .Attr<Ints>("rhs_contracting"));

// ---- Where it is faster; docs/design/kernels.md has the measurements ----

// Minimum number of multiplications: XLA generates loops for smaller products, which are cheaper
// than a call.
constexpr int64_t kLeast = 2048;
// In f32, XLA's code is as fast for matrices in its preferred layout with much work and many rows;
// with a transposed right side, with more rows.
constexpr int64_t kMuchF32 = 1 << 25;
constexpr int64_t kManyRowsF32 = 512, kManyRowsTransposedF32 = 4096;

bool IsFasterThanXla(const MatmulShape& s) {
  if (s.Multiplications() < kLeast || s.depth.size == 1) return false;
  if (s.dtype == base::DType::kBF16) return true;
  if (s.rows.size == 1 || s.columns.size == 1) return false;
  const bool lhs_transposed = s.depth.of_lhs != 1, rhs_transposed = s.columns.of_rhs != 1;
  return lhs_transposed || s.BatchSize() > 1 || s.Multiplications() <= kMuchF32 ||
         s.rows.size <= (rhs_transposed ? kManyRowsTransposedF32 : kManyRowsF32);
}

}  // namespace

int64_t MatmulShape::BatchSize() const {
  int64_t size = 1;
  for (const MatmulAxis& axis : batch) size *= axis.size;
  return size;
}

int64_t MatmulShape::Multiplications() const {
  return BatchSize() * rows.size * columns.size * depth.size;
}

std::optional<MatmulShape> ReadMatmul(base::DType dtype, absl::Span<const int64_t> lhs,
                                      absl::Span<const int64_t> rhs,
                                      const ir::DotDimensions& dimensions) {
  const auto& [lhs_contracting, rhs_contracting, lhs_batch, rhs_batch] = dimensions;
  const std::vector<int64_t> of_lhs = StepsOf(lhs), of_rhs = StepsOf(rhs);
  std::vector<MatmulAxis> batch, rows, columns, depth;
  for (size_t i = 0; i < lhs_batch.size(); ++i) {
    batch.push_back({lhs[lhs_batch[i]], of_lhs[lhs_batch[i]], of_rhs[rhs_batch[i]], 0});
  }
  for (size_t i = 0; i < lhs_contracting.size(); ++i) {
    const int64_t axis = lhs_contracting[i];
    depth.push_back({lhs[axis], of_lhs[axis], of_rhs[rhs_contracting[i]], 0});
  }
  for (size_t i = 0; i < lhs.size(); ++i) {
    if (IsFree(i, lhs_batch, lhs_contracting)) rows.push_back({lhs[i], of_lhs[i], 0, 0});
  }
  for (size_t i = 0; i < rhs.size(); ++i) {
    if (IsFree(i, rhs_batch, rhs_contracting)) columns.push_back({rhs[i], 0, of_rhs[i], 0});
  }
  int64_t elements = 1;
  for (std::vector<MatmulAxis>* axes : {&columns, &rows, &batch}) {
    for (size_t i = axes->size(); i-- > 0;) {
      (*axes)[i].of_out = elements;
      elements *= (*axes)[i].size;
    }
  }
  // The order of the axes of a sum is arbitrary.
  std::sort(depth.begin(), depth.end(),
            [](const MatmulAxis& a, const MatmulAxis& b) { return a.of_lhs > b.of_lhs; });
  MatmulShape shape;
  shape.dtype = dtype;
  shape.batch = Merged(batch);
  if (!MergeToOne(rows, shape.rows) || !MergeToOne(columns, shape.columns) ||
      !MergeToOne(depth, shape.depth) || shape.Multiplications() == 0) {
    return std::nullopt;
  }
  return shape;
}

bool HasFastMatmul(const MatmulShape& shape) {
  if (!IsFasterThanXla(shape)) return false;
  try {
    const OneThread one_thread;
    const Tile all{{0, InnermostBatch(shape).size}, {0, shape.rows.size}, {0, shape.columns.size}};
    return !absl::StartsWith(MakePrimitive(shape, all, /*describe_only=*/true).implementation,
                             "ref");
  } catch (const dnnl::error&) {
    return false;
  }
}

absl::Status RunMatmul(ffi::ThreadPool& pool, const MatmulShape& s, void* lhs, void* rhs,
                       void* out) {
  const OneThread one_thread;
  const Call call{s, static_cast<char*>(lhs), static_cast<char*>(rhs), static_cast<char*>(out)};
  const int64_t batch = s.BatchSize(), inner = InnermostBatch(s).size;
  const int64_t pieces =
      std::clamp<int64_t>(s.Multiplications() / kLeastOfPiece, 1, MaxPieces(pool));
  const bool by_rows = s.rows.size >= s.columns.size;
  const int64_t longer = by_rows ? s.rows.size : s.columns.size;
  const bool whole = batch % pieces == 0 || batch >= kManyProducts * pieces;
  const int64_t cuts = whole ? 1
                             : std::clamp<int64_t>(s.Multiplications() / batch / kLeastOfPiece, 1,
                                                   std::min(longer, pieces));
  const int64_t shares = whole ? pieces : batch;
  return ForEachPiece(pool, shares * cuts, [&](int64_t index) {
    Tile tile{{}, {0, s.rows.size}, {0, s.columns.size}};
    (by_rows ? tile.rows : tile.columns) = RowsOf(longer, cuts, index % cuts);
    const Rows share = RowsOf(batch, shares, index / cuts);
    for (int64_t first = share.begin; first < share.end; first += tile.batch.size()) {
      tile.batch = {0, std::min(share.end - first, inner - first % inner)};
      call.Run(tile, first);
    }
    return absl::OkStatus();
  });
}

std::vector<runtime::Kernel> MatmulKernels() {
  return {{kMatmulTarget, reinterpret_cast<void*>(+kMatmulHandler)}};
}

std::vector<KernelCost> MatmulCosts() {
  // 2 batch rows depth columns.
  return {{kMatmulTarget, 2, [](const KernelCall& call) {
             double flops = 2 * static_cast<double>(call.results[0].shape.num_elements());
             for (const int64_t axis : call.Ints("lhs_contracting")) {
               const base::Shape& lhs = call.operands[0].shape;
               if (axis < lhs.rank()) flops *= static_cast<double>(lhs.dim(static_cast<int>(axis)));
             }
             return flops;
           }}};
}

}  // namespace penstock::kernels
