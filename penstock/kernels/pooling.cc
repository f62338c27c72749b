#include "penstock/kernels/pooling.h"

#include <utility>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/pooling_loops.h"
#include "penstock/kernels/scratch.h"
#include "penstock/kernels/typed_call.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;
using Pair = ffi::Span<const int64_t>;
using Buffer = ffi::AnyBuffer;
using Out = ffi::Result<Buffer>;

struct Call {
  ffi::ThreadPool pool;
  int64_t images = 0;
  PoolShape shape = {};

  int64_t input_elements() const { return shape.input[0] * shape.input[1] * shape.features; }
  int64_t output_elements() const { return shape.output[0] * shape.output[1] * shape.features; }

  // Calls run(image) for each image, distributed over threads.
  template <typename Run>
  absl::Status ForEachImage(const Run& run) {
    const int64_t pieces = std::min(images, MaxPieces(pool));
    return ForEachPiece(pool, pieces, [&](int64_t index) {
      const Rows rows = RowsOf(images, pieces, index);
      for (int64_t image = rows.begin; image < rows.end; ++image) run(image);
      return absl::OkStatus();
    });
  }
};

Call MakeCall(ffi::ThreadPool pool, const Buffer& x, const Buffer& y, Pair dilation, Pair low,
              Pair size, Pair strides) {
  const auto in = x.dimensions(), out = y.dimensions();
  Call call{.pool = pool, .images = in[0]};
  call.shape.features = in[3];
  for (int i = 0; i < 2; ++i) {
    call.shape.input[i] = in[i + 1];
    call.shape.output[i] = out[i + 1];
    call.shape.size[i] = size[i];
    call.shape.strides[i] = strides[i];
    call.shape.dilation[i] = dilation[i];
    call.shape.low[i] = low[i];
  }
  return call;
}

// For each pixel along an axis: the windows that contain it, and its index in each.
std::vector<std::vector<WindowElement>> WindowsOfPixels(const PoolShape& shape, int axis) {
  std::vector<std::vector<WindowElement>> windows(shape.input[axis]);
  for (int64_t o = 0; o < shape.output[axis]; ++o) {
    const auto inside = shape.Inside(axis, o);
    for (int64_t k = inside[0]; k < inside[1]; ++k) {
      windows[shape.At(axis, o, k)].push_back({o, k});
    }
  }
  return windows;
}

template <typename T>
absl::Status RunPool(Call& call, bool max, const T* x, T* y) {
  return call.ForEachImage([&](int64_t image) {
    Dispatch<Pool>(PoolArgs<T>{call.shape, max, x + image * call.input_elements(),
                               y + image * call.output_elements()});
  });
}

template <typename T>
absl::Status RunMaxPoolGradient(Call& call, const T* x, const T* y, const T* cotangent, T* of_x) {
  const auto rows = WindowsOfPixels(call.shape, 0), columns = WindowsOfPixels(call.shape, 1);
  return call.ForEachImage([&](int64_t image) {
    const int64_t windows = call.output_elements(), first = image * windows;
    const Scratch winners((windows + kLanes) * sizeof(uint16_t));
    const int64_t pixel = image * call.input_elements();
    Dispatch<Winners>(WinnersArgs<T>{call.shape, x + pixel, y + first, winners.as<uint16_t>()});
    Dispatch<MaxPoolGradient>(MaxPoolGradientArgs<T>{
        call.shape, &rows, &columns, winners.as<uint16_t>(), cotangent + first, of_x + pixel});
  });
}

template <bool kMax>
ffi::Error PoolCall(ffi::ThreadPool pool, Buffer x, Out y, Pair dilation, Pair low, Pair size,
                    Pair strides) {
  Call call = MakeCall(pool, x, *y, dilation, low, size, strides);
  return Typed(x, [&](auto zero) {
    using T = decltype(zero);
    return RunPool<T>(call, kMax, static_cast<const T*>(x.untyped_data()),
                      static_cast<T*>(y->untyped_data()));
  });
}

ffi::Error GradientCall(ffi::ThreadPool pool, Buffer x, Buffer y, Buffer cotangent, Out of_x,
                        Pair dilation, Pair low, Pair size, Pair strides) {
  Call call = MakeCall(pool, x, y, dilation, low, size, strides);
  return Typed(x, [&](auto zero) {
    using T = decltype(zero);
    return RunMaxPoolGradient<T>(
        call, static_cast<const T*>(x.untyped_data()), static_cast<const T*>(y.untyped_data()),
        static_cast<const T*>(cotangent.untyped_data()), static_cast<T*>(of_x->untyped_data()));
  });
}

template <typename Binding>
auto WithWindow(Binding binding) {
  return std::move(binding)
      .template Attr<Pair>("dilation")
      .template Attr<Pair>("low")
      .template Attr<Pair>("size")
      .template Attr<Pair>("strides");
}

auto PoolBinding() {
  return WithWindow(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Buffer>().Ret<Buffer>());
}

XLA_FFI_DEFINE_HANDLER(kSumPoolHandler, PoolCall<false>, PoolBinding());
XLA_FFI_DEFINE_HANDLER(kMaxPoolHandler, PoolCall<true>, PoolBinding());
XLA_FFI_DEFINE_HANDLER(kGradientHandler, GradientCall,
                       WithWindow(ffi::Ffi::Bind()
                                      .Ctx<ffi::ThreadPool>()
                                      .Arg<Buffer>()
                                      .Arg<Buffer>()
                                      .Arg<Buffer>()
                                      .Ret<Buffer>()));

}  // namespace

std::vector<runtime::Kernel> PoolingKernels() {
  return {{kSumPoolTarget, reinterpret_cast<void*>(kSumPoolHandler)},
          {kMaxPoolTarget, reinterpret_cast<void*>(kMaxPoolHandler)},
          {kMaxPoolGradientTarget, reinterpret_cast<void*>(kGradientHandler)}};
}

std::vector<KernelCost> PoolingCosts() {
  // One addition or comparison for each element of each window.
  static constexpr auto kFlops = [](const KernelCall& call, const ir::TensorType& windows) {
    auto flops = static_cast<double>(windows.shape.num_elements());
    for (const int64_t extent : call.Ints("size")) flops *= static_cast<double>(extent);
    return flops;
  };
  const auto forward = [](const KernelCall& call) { return kFlops(call, call.results[0]); };
  return {{kSumPoolTarget, 1, forward},
          {kMaxPoolTarget, 1, forward},
          {kMaxPoolGradientTarget, 2,
           [](const KernelCall& call) { return kFlops(call, call.operands[1]); }}};
}

}  // namespace penstock::kernels
