#include "penstock/kernels/convolution.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"

#include "penstock/base/status.h"
#include "penstock/kernels/calls_at_exit.h"
#include "penstock/kernels/onednn.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/pointwise.h"
#include "penstock/kernels/scratch.h"
#include "penstock/kernels/typed_call.h"
#include "penstock/kernels/vector_loops.h"
#include "penstock/kernels/winograd.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

std::vector<int64_t> ConvolutionShape::Key() const {
  return {static_cast<int64_t>(direction),
          static_cast<int64_t>(dtype),
          batch,
          channels,
          filters,
          groups,
          input[0],
          input[1],
          kernel[0],
          kernel[1],
          output[0],
          output[1],
          strides[0],
          strides[1],
          low[0],
          low[1],
          dilation[0],
          dilation[1],
          bias};
}

namespace {

namespace ffi = xla::ffi;
using dnnl::memory;

// Layouts of the tensors in the program.
memory::desc InputDesc(const ConvolutionShape& s) {
  return {{s.batch, s.channels, s.input[0], s.input[1]}, TypeOf(s.dtype), memory::format_tag::nhwc};
}

memory::desc OutputDesc(const ConvolutionShape& s) {
  return {
      {s.batch, s.filters, s.output[0], s.output[1]}, TypeOf(s.dtype), memory::format_tag::nhwc};
}

memory::dims KernelDims(const ConvolutionShape& s) {
  const int64_t channels = s.channels / s.groups;
  if (s.groups == 1) return {s.filters, channels, s.kernel[0], s.kernel[1]};
  return {s.groups, s.filters / s.groups, channels, s.kernel[0], s.kernel[1]};
}

memory::desc KernelDesc(const ConvolutionShape& s, memory::data_type type) {
  return {KernelDims(s), type,
          s.filters_first ? s.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw
          : s.groups == 1 ? memory::format_tag::hwio
                          : memory::format_tag::hwigo};
}

memory::desc BiasDesc(const ConvolutionShape& s) {
  return {{s.filters}, TypeOf(s.dtype), memory::format_tag::a};
}

// Throws dnnl::error if oneDNN does not support it. With `describe_only`, the primitive's code is
// not generated.
CachedPrimitive MakePrimitive(const ConvolutionShape& s, bool describe_only = false) {
  const memory::desc input = InputDesc(s), output = OutputDesc(s);
  const auto any = [&](memory::data_type type) {
    return memory::desc(KernelDims(s), type, memory::format_tag::any);
  };
  const memory::dims strides{s.strides[0], s.strides[1]};
  const memory::dims dilates{s.dilation[0] - 1, s.dilation[1] - 1};
  const memory::dims low{s.low[0], s.low[1]};
  memory::dims high(2);
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
    high[i] = (s.output[i] - 1) * s.strides[i] + reach - s.input[i] - s.low[i];
  }
  const dnnl::primitive_attr attr = UserScratchpad();
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  CachedPrimitive cached;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, input, any(TypeOf(s.dtype)),
       s.bias ? BiasDesc(s) : memory::desc(), output, strides, dilates, low, high},
      attr, Engine());
  switch (s.direction) {
    case Direction::kForward: {
      Describe(forward, cached);
      cached.kernel = forward.weights_desc();
      if (!describe_only) cached.primitive = dnnl::convolution_forward(forward);
      return cached;
    }
    case Direction::kInputGradient: {
      const dnnl::convolution_backward_data::primitive_desc desc(
          {kDirect, input, any(TypeOf(s.dtype)), output, strides, dilates, low, high}, attr,
          Engine(), forward);
      Describe(desc, cached);
      cached.kernel = desc.weights_desc();
      if (!describe_only) cached.primitive = dnnl::convolution_backward_data(desc);
      return cached;
    }
    case Direction::kKernelGradient: {
      const dnnl::convolution_backward_weights::primitive_desc desc(
          {kDirect, input, any(memory::data_type::f32), output, strides, dilates, low, high}, attr,
          Engine(), forward);
      Describe(desc, cached);
      cached.kernel = desc.diff_weights_desc();
      if (!describe_only) cached.primitive = dnnl::convolution_backward_weights(desc);
      return cached;
    }
  }
  return cached;
}

std::shared_ptr<const CachedPrimitive> PrimitiveFor(const ConvolutionShape& shape) {
  static auto& cache = *new PrimitiveCache;
  return cache.Get(shape.Key(), [&] { return MakePrimitive(shape); });
}

// A kernel call, split over the batch.
struct Call {
  ConvolutionShape shape;  // of the whole batch
  void *a = nullptr, *b = nullptr, *bias = nullptr, *out = nullptr;
  int64_t pieces = 1;

  ConvolutionShape ShapeOf(Rows rows) const {
    ConvolutionShape part = shape;
    part.batch = rows.size();
    return part;
  }
  // The examples of a piece within a tensor of the whole batch.
  void* PartOf(void* data, const memory::desc& whole, Rows rows) const {
    const size_t bytes_of_example = whole.get_size() / static_cast<size_t>(shape.batch);
    return static_cast<char*>(data) + bytes_of_example * static_cast<size_t>(rows.begin);
  }
};

// Forward and input gradient: the examples of a batch are independent.
absl::Status RunOverExamples(ffi::ThreadPool& pool, const Call& call) {
  const bool forward = call.shape.direction == Direction::kForward;
  // The kernel in the layout of the first piece's primitive; others mostly use the same.
  const auto first = PrimitiveFor(call.ShapeOf(RowsOf(call.shape.batch, call.pieces, 0)));
  const memory::desc given = KernelDesc(call.shape, TypeOf(call.shape.dtype));
  const Scratch reordered(first->kernel.get_size());
  if (first->kernel != given) Reorder(given, call.b, first->kernel, reordered.data());
  return ForEachPiece(pool, call.pieces, [&](int64_t index) {
    const Rows rows = RowsOf(call.shape.batch, call.pieces, index);
    const ConvolutionShape part = call.ShapeOf(rows);
    const auto cached = PrimitiveFor(part);
    void* kernel = call.b;
    const bool as_first = cached->kernel == first->kernel;
    const Scratch own(as_first ? 0 : cached->kernel.get_size());
    if (cached->kernel != given) {
      kernel = as_first ? reordered.data() : own.data();
      if (!as_first) Reorder(given, call.b, cached->kernel, kernel);
    }
    const memory::desc input = InputDesc(part), output = OutputDesc(part);
    void* of_input = call.PartOf(forward ? call.a : call.out, InputDesc(call.shape), rows);
    void* of_output = call.PartOf(forward ? call.out : call.a, OutputDesc(call.shape), rows);
    std::unordered_map<int, memory> arguments{
        {forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, {input, Engine(), of_input}},
        {DNNL_ARG_WEIGHTS, {cached->kernel, Engine(), kernel}},
        {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, {output, Engine(), of_output}}};
    if (part.bias) arguments[DNNL_ARG_BIAS] = {BiasDesc(part), Engine(), call.bias};
    Execute(*cached, std::move(arguments));
    return absl::OkStatus();
  });
}

// out[i] = sum of the i-th elements of `count` parts, in order.
template <typename T>
struct PartsArgs {
  const float* parts;
  int64_t elements, count;  // of a part; parts
  Rows range;
  T* out;
};

struct AddParts {
  template <typename T>
  PENSTOCK_INLINE static void Run(const PartsArgs<T>& args) {
    for (int64_t i = args.range.begin; i < args.range.end; i += kLanes) {
      const int64_t lanes = std::min(kLanes, args.range.end - i);
      Floats sum, more;
      LoadLanes(args.parts + i, lanes, sum);
      for (int64_t p = 1; p < args.count; ++p) {
        LoadLanes(args.parts + p * args.elements + i, lanes, more);
        sum += more;
      }
      StoreLanes(sum, lanes, args.out + i);
    }
  }
};

// Adding fewer elements is faster than waking a thread.
constexpr int64_t kLeastToAdd = 1 << 16;

// The kernel gradient is a sum over examples: each piece computes its own, in f32, and they are
// added in order.
absl::Status RunOverSums(ffi::ThreadPool& pool, const Call& call) {
  const memory::desc wide = KernelDesc(call.shape, memory::data_type::f32);
  const auto elements = static_cast<int64_t>(wide.get_size() / sizeof(float));
  const Scratch sums(wide.get_size() * static_cast<size_t>(call.pieces));
  PENSTOCK_RETURN_IF_ERROR(ForEachPiece(pool, call.pieces, [&](int64_t index) {
    const Rows rows = RowsOf(call.shape.batch, call.pieces, index);
    const ConvolutionShape part = call.ShapeOf(rows);
    const auto cached = PrimitiveFor(part);
    float* sum = sums.as<float>() + elements * index;
    const bool in_place = cached->kernel == wide;
    const Scratch liked(in_place ? 0 : cached->kernel.get_size());
    void* into = in_place ? static_cast<void*>(sum) : liked.data();
    Execute(*cached,
            {{DNNL_ARG_SRC,
              {InputDesc(part), Engine(), call.PartOf(call.a, InputDesc(call.shape), rows)}},
             {DNNL_ARG_DIFF_WEIGHTS, {cached->kernel, Engine(), into}},
             {DNNL_ARG_DIFF_DST,
              {OutputDesc(part), Engine(), call.PartOf(call.b, OutputDesc(call.shape), rows)}}});
    if (!in_place) Reorder(cached->kernel, into, wide, sum);
    return absl::OkStatus();
  }));
  const int64_t shares = std::min<int64_t>(MaxPieces(pool), CeilDiv(elements, kLeastToAdd));
  return ForEachPiece(pool, shares, [&](int64_t index) -> absl::Status {
    const Rows part = RowsOf(elements, shares, index);
    if (call.shape.dtype == base::DType::kBF16) {
      Dispatch<AddParts>(PartsArgs<Bf16>{sums.as<float>(), elements, call.pieces, part,
                                         static_cast<Bf16*>(call.out)});
    } else {
      Dispatch<AddParts>(PartsArgs<float>{sums.as<float>(), elements, call.pieces, part,
                                          static_cast<float*>(call.out)});
    }
    return absl::OkStatus();
  });
}

// Every piece of a kernel gradient has its own copy of the kernel.
constexpr size_t kMaxBytesOfSums = size_t{256} << 20;

int64_t PiecesOf(const ConvolutionShape& shape, int64_t max_pieces) {
  int64_t pieces = std::min(shape.batch, max_pieces);
  if (shape.direction == Direction::kKernelGradient) {
    const size_t bytes = KernelDesc(shape, memory::data_type::f32).get_size();
    pieces = std::min<int64_t>(pieces, std::max<size_t>(1, kMaxBytesOfSums / bytes));
  }
  return std::max<int64_t>(1, pieces);
}

using Pair = ffi::Span<const int64_t>;

ffi::Error Run(Direction direction, bool filters_first, ffi::ThreadPool& pool,
               const ffi::AnyBuffer& a, const ffi::AnyBuffer& b, const ffi::AnyBuffer* bias,
               const ffi::AnyBuffer& result, Pair dilation, int64_t groups, Pair low,
               Pair strides) {
  const ffi::AnyBuffer& input = direction == Direction::kInputGradient ? result : a;
  const ffi::AnyBuffer& kernel = direction == Direction::kKernelGradient ? result : b;
  const ffi::AnyBuffer& output = direction == Direction::kForward         ? result
                                 : direction == Direction::kInputGradient ? a
                                                                          : b;
  const auto i = input.dimensions(), k = kernel.dimensions(), o = output.dimensions();
  if (i.size() != 4 || k.size() != 4 || o.size() != 4 || strides.size() != 2 || low.size() != 2 ||
      dilation.size() != 2) {
    return ffi::Error::InvalidArgument("a convolution kernel expects images");
  }
  Call call{
      .shape = {.direction = direction,
                .dtype = input.element_type() == ffi::BF16 ? base::DType::kBF16 : base::DType::kF32,
                .batch = i[0],
                .channels = i[3],
                .filters = o[3],
                .groups = groups,
                .input = {i[1], i[2]},
                .kernel = {k[filters_first ? 2 : 0], k[filters_first ? 3 : 1]},
                .output = {o[1], o[2]},
                .strides = {strides[0], strides[1]},
                .low = {low[0], low[1]},
                .dilation = {dilation[0], dilation[1]},
                .bias = bias != nullptr,
                .filters_first = filters_first},
      .a = a.untyped_data(),
      .b = b.untyped_data(),
      .bias = bias == nullptr ? nullptr : bias->untyped_data(),
      .out = result.untyped_data()};
  const LibraryCall library;
  if (!library.allowed()) return ffi::Error::Internal("the process is exiting");
  return ToXlaError([&] {
    if (IsForWinograd(call.shape)) {
      return RunWinograd(pool, call.shape, {call.a, call.b, call.bias, call.out});
    }
    const OneThread one_thread;
    if (IsForPointwise(call.shape) && !filters_first)
      return RunPointwise(pool, call.shape, call.a, call.b, call.out);
    call.pieces = PiecesOf(call.shape, MaxPieces(pool));
    return direction == Direction::kKernelGradient ? RunOverSums(pool, call)
                                                   : RunOverExamples(pool, call);
  });
}

template <Direction kDirection, bool kFiltersFirst>
ffi::Error Convolution(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
                       ffi::Result<ffi::AnyBuffer> out, Pair dilation, int64_t groups, Pair low,
                       Pair strides) {
  return Run(kDirection, kFiltersFirst, pool, a, b, nullptr, *out, dilation, groups, low, strides);
}

template <bool kFiltersFirst>
ffi::Error BiasedConvolution(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
                             ffi::AnyBuffer bias, ffi::Result<ffi::AnyBuffer> out, Pair dilation,
                             int64_t groups, Pair low, Pair strides) {
  return Run(Direction::kForward, kFiltersFirst, pool, a, b, &bias, *out, dilation, groups, low,
             strides);
}

// Attributes after the buffers.
template <typename Binding>
auto WithAttributes(Binding binding) {
  return std::move(binding)
      .template Attr<Pair>("dilation")
      .template Attr<int64_t>("groups")
      .template Attr<Pair>("low")
      .template Attr<Pair>("strides");
}

auto Operands() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>();
}

#define PENSTOCK_CONVOLUTION(name, direction, filters_first)            \
  XLA_FFI_DEFINE_HANDLER(name, (Convolution<direction, filters_first>), \
                         WithAttributes(Operands().Ret<ffi::AnyBuffer>()))
#define PENSTOCK_BIASED_CONVOLUTION(name, filters_first)         \
  XLA_FFI_DEFINE_HANDLER(name, BiasedConvolution<filters_first>, \
                         WithAttributes(Operands().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>()))

PENSTOCK_CONVOLUTION(kForwardHandler, Direction::kForward, false);
PENSTOCK_CONVOLUTION(kInputGradientHandler, Direction::kInputGradient, false);
PENSTOCK_CONVOLUTION(kKernelGradientHandler, Direction::kKernelGradient, false);
PENSTOCK_BIASED_CONVOLUTION(kBiasedHandler, false);
PENSTOCK_CONVOLUTION(kForwardOihwHandler, Direction::kForward, true);
PENSTOCK_CONVOLUTION(kInputGradientOihwHandler, Direction::kInputGradient, true);
PENSTOCK_CONVOLUTION(kKernelGradientOihwHandler, Direction::kKernelGradient, true);
PENSTOCK_BIASED_CONVOLUTION(kBiasedOihwHandler, true);

// What a program calls.
struct Target {
  const char* name;
  Direction direction;
  bool bias, filters_first;
  XLA_FFI_Handler* handler;
};

constexpr Target kTargets[] = {
    {"penstock.convolution", Direction::kForward, false, false, kForwardHandler},
    {"penstock.convolution_input_gradient", Direction::kInputGradient, false, false,
     kInputGradientHandler},
    {"penstock.convolution_kernel_gradient", Direction::kKernelGradient, false, false,
     kKernelGradientHandler},
    {"penstock.convolution_bias", Direction::kForward, true, false, kBiasedHandler},
    {"penstock.convolution_oihw", Direction::kForward, false, true, kForwardOihwHandler},
    {"penstock.convolution_input_gradient_oihw", Direction::kInputGradient, false, true,
     kInputGradientOihwHandler},
    {"penstock.convolution_kernel_gradient_oihw", Direction::kKernelGradient, false, true,
     kKernelGradientOihwHandler},
    {"penstock.convolution_bias_oihw", Direction::kForward, true, true, kBiasedOihwHandler}};

// Whether a column of the kernel reads only padding.
bool HasColumnOfPadding(const ConvolutionShape& s) {
  for (int64_t column = 0; column < s.kernel[1]; ++column) {
    const int64_t first = column * s.dilation[1] - s.low[1];  // where it begins in the input
    const int64_t skipped = first >= 0 ? 0 : CeilDiv(-first, s.strides[1]);
    if (skipped >= s.output[1] || first + skipped * s.strides[1] >= s.input[1]) return true;
  }
  return false;
}

// Whether this is one of the bf16 gradients that oneDNN 2.6 computes wrong without reporting an
// error: from uninitialized memory, or sums of the wrong elements. Found with some 80,000 random
// shapes compared with plain loops, for each direction in f32 and bf16: every wrong result is in
// one of these cases, which also contain correct results.
bool IsMiscomputed(const ConvolutionShape& s, absl::string_view implementation) {
  if (s.dtype != base::DType::kBF16) return false;
  switch (s.direction) {
    case Direction::kForward:
      return false;
    case Direction::kInputGradient:
      return absl::StartsWith(implementation, "jit_bf16_1x1") && s.filters % 2 != 0;
    case Direction::kKernelGradient:
      // For every vector width: processors with AMX share this code.
      return absl::StrContains(implementation, "bf16") &&
             !absl::StartsWith(implementation, "jit_dw") &&
             !absl::StartsWith(implementation, "jit_bf16_1x1") &&
             ((s.dilation[0] > 1 && s.channels / s.groups % 16 != 0) || HasColumnOfPadding(s));
  }
  return false;
}

}  // namespace

bool HasFastConvolution(const ConvolutionShape& shape) {
  if (IsForWinograd(shape)) return true;
  try {
    const OneThread one_thread;
    const std::string implementation = MakePrimitive(shape, /*describe_only=*/true).implementation;
    return !absl::StartsWith(implementation, "ref") && !IsMiscomputed(shape, implementation);
  } catch (const dnnl::error&) {
    return false;
  }
}

const char* ConvolutionTarget(const ConvolutionShape& shape) {
  for (const Target& target : kTargets) {
    if (target.direction == shape.direction && target.bias == shape.bias &&
        target.filters_first == shape.filters_first) {
      return target.name;
    }
  }
  return "";
}

// The matrix product would write its columns as rows.
bool HasFiltersFirst(const ConvolutionShape& shape) { return !IsForPointwise(shape); }

std::vector<runtime::Kernel> ConvolutionKernels() {
  std::vector<runtime::Kernel> kernels;
  for (const Target& target : kTargets) {
    kernels.push_back({target.name, reinterpret_cast<void*>(target.handler)});
  }
  return kernels;
}

namespace {

// For each position of the output and of the kernel, over the input channels of a group: 2 N OH OW
// KH KW CI CO. `output` and `kernel`: the tensors in these roles; the kernel's filters are its
// first or its last axis.
template <bool kFiltersFirst>
double Flops(const ir::TensorType& output, const ir::TensorType& kernel) {
  const int64_t filters = kernel.shape.rank() == 4 ? kernel.shape.dim(kFiltersFirst ? 0 : 3) : 0;
  if (filters == 0) return 0.0;
  return 2 * static_cast<double>(output.shape.num_elements()) *
         static_cast<double>(kernel.shape.num_elements() / filters);
}

template <bool kFiltersFirst>
KernelCost CostOf(const Target& target) {
  if (target.bias) {
    return {target.name, 3, [](const KernelCall& call) {
              return Flops<kFiltersFirst>(call.results[0], call.operands[1]) +
                     static_cast<double>(call.results[0].shape.num_elements());
            }};
  }
  switch (target.direction) {
    case Direction::kForward:
      return {target.name, 2, [](const KernelCall& call) {
                return Flops<kFiltersFirst>(call.results[0], call.operands[1]);
              }};
    case Direction::kInputGradient:
      return {target.name, 2, [](const KernelCall& call) {
                return Flops<kFiltersFirst>(call.operands[0], call.operands[1]);
              }};
    case Direction::kKernelGradient:
      return {target.name, 2, [](const KernelCall& call) {
                return Flops<kFiltersFirst>(call.operands[1], call.results[0]);
              }};
  }
  return {};
}

}  // namespace

std::vector<KernelCost> ConvolutionCosts() {
  std::vector<KernelCost> costs;
  for (const Target& target : kTargets) {
    costs.push_back(target.filters_first ? CostOf<true>(target) : CostOf<false>(target));
  }
  return costs;
}

}  // namespace penstock::kernels
