#include "penstock/kernels/column_sum.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"

#include "penstock/base/status.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/scratch.h"
#include "penstock/kernels/typed_call.h"
#include "penstock/kernels/vector_loops.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;

template <typename T>
struct ColumnsArgs {
  const T* x;
  int64_t rows, features;
  float* part;  // [features]: partial sums of a few rows
  float* sums;  // [features], total; initially zero
};

struct Columns {
  // Rows per partial sum, so that the error grows with this number instead of that of all rows.
  static constexpr int64_t kRows = 128;

  template <typename T>
  PENSTOCK_INLINE static void Run(const ColumnsArgs<T>& args) {
    for (int64_t begin = 0; begin < args.rows; begin += kRows) {
      const int64_t end = std::min(args.rows, begin + kRows);
      std::fill_n(args.part, args.features, 0.0f);
      int64_t row = begin;
      for (; row + 4 <= end; row += 4) AddRows<4>(args, row);
      for (; row < end; ++row) AddRows<1>(args, row);
      for (int64_t f = 0; f < args.features; ++f) args.sums[f] += args.part[f];
    }
  }

  template <int kCount, typename T>
  PENSTOCK_INLINE static void AddRows(const ColumnsArgs<T>& args, int64_t row) {
    const T* x = args.x + row * args.features;
    int64_t f = 0;
    for (; f + kLanes <= args.features; f += kLanes) AddPart<kCount>(args, x, f, kLanes);
    if (f < args.features) AddPart<kCount>(args, x, f, args.features - f);
  }

  template <int kCount, typename T>
  PENSTOCK_INLINE static void AddPart(const ColumnsArgs<T>& args, const T* x, int64_t f,
                                      int64_t lanes) {
    Floats sum, value;
    LoadLanes(args.part + f, lanes, sum);
    for (int r = 0; r < kCount; ++r) {
      LoadLanes(x + r * args.features + f, lanes, value);
      sum += value;
    }
    StoreLanes(sum, lanes, args.part + f);
  }
};

template <typename T>
absl::Status SumColumns(ffi::ThreadPool& pool, const T* x, int64_t rows, int64_t features,
                        float* out) {
  const int64_t pieces = std::min(rows, MaxPieces(pool));
  const Scratch memory(static_cast<size_t>(2 * pieces * features) * sizeof(float));
  float* const sums = memory.as<float>();
  std::fill_n(sums, pieces * features, 0.0f);
  PENSTOCK_RETURN_IF_ERROR(ForEachPiece(pool, pieces, [&](int64_t index) {
    const Rows part = RowsOf(rows, pieces, index);
    Dispatch<Columns>(ColumnsArgs<T>{x + part.begin * features, part.size(), features,
                                     sums + (pieces + index) * features, sums + index * features});
    return absl::OkStatus();
  }));
  for (int64_t f = 0; f < features; ++f) {
    out[f] = 0;
    for (int64_t p = 0; p < pieces; ++p) out[f] += sums[p * features + f];
  }
  return absl::OkStatus();
}

ffi::Error ColumnSum(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> sums) {
  const int64_t features = x.dimensions().back();
  const auto rows = static_cast<int64_t>(x.element_count()) / features;
  return Typed(x, [&](auto zero) {
    using T = decltype(zero);
    return SumColumns(pool, static_cast<const T*>(x.untyped_data()), rows, features,
                      static_cast<float*>(sums->untyped_data()));
  });
}

XLA_FFI_DEFINE_HANDLER(
    kColumnSumHandler, ColumnSum,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

}  // namespace

std::vector<runtime::Kernel> ColumnSumKernels() {
  return {{kColumnSumTarget, reinterpret_cast<void*>(kColumnSumHandler)}};
}

std::vector<KernelCost> ColumnSumCosts() {
  return {{kColumnSumTarget, 1, [](const KernelCall& call) { return call.Elements(0); }}};
}

}  // namespace penstock::kernels
