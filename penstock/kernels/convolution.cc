#include "penstock/kernels/convolution.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <oneapi/dnnl/dnnl.hpp>

#include "penstock/base/float16.h"
#include "penstock/base/status.h"
#include "penstock/kernels/calls_at_exit.h"
#include "penstock/kernels/huge_pages.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/scratch.h"
#include "penstock/kernels/typed_call.h"
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
          dilation[1]};
}

namespace {

namespace ffi = xla::ffi;
using dnnl::memory;

dnnl::engine& Engine() {
  static auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type TypeOf(base::DType dtype) {
  return dtype == base::DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// How the program holds its tensors.
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
          s.groups == 1 ? memory::format_tag::hwio : memory::format_tag::hwigo};
}

// A primitive for one thread, in the kernel layout that it likes best.
struct Plan {
  dnnl::primitive primitive;
  memory::desc kernel;  // for kKernelGradient: of f32
  size_t scratch_bytes = 0;
  std::string implementation;
};

template <typename PrimitiveDesc>
void Describe(const PrimitiveDesc& desc, Plan& plan) {
  plan.scratch_bytes = desc.scratchpad_desc().get_size();
  plan.implementation = desc.impl_info_str();
}

// Throws dnnl::error where oneDNN has nothing for it. With `describe_only`, the primitive's code is
// not generated.
Plan MakePlan(const ConvolutionShape& s, bool describe_only = false) {
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
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  Plan plan;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, input, any(TypeOf(s.dtype)), output, strides,
       dilates, low, high},
      attr, Engine());
  switch (s.direction) {
    case Direction::kForward: {
      Describe(forward, plan);
      plan.kernel = forward.weights_desc();
      if (!describe_only) plan.primitive = dnnl::convolution_forward(forward);
      return plan;
    }
    case Direction::kInputGradient: {
      const dnnl::convolution_backward_data::primitive_desc desc(
          {kDirect, input, any(TypeOf(s.dtype)), output, strides, dilates, low, high}, attr,
          Engine(), forward);
      Describe(desc, plan);
      plan.kernel = desc.weights_desc();
      if (!describe_only) plan.primitive = dnnl::convolution_backward_data(desc);
      return plan;
    }
    case Direction::kKernelGradient: {
      const dnnl::convolution_backward_weights::primitive_desc desc(
          {kDirect, input, any(memory::data_type::f32), output, strides, dilates, low, high}, attr,
          Engine(), forward);
      Describe(desc, plan);
      plan.kernel = desc.diff_weights_desc();
      if (!describe_only) plan.primitive = dnnl::convolution_backward_weights(desc);
      return plan;
    }
  }
  return plan;
}

// Primitives by shape. Making one takes milliseconds, once. Programs have tens of shapes; beyond
// kMaxPlans all are forgotten, which is no loss: oneDNN has a cache of its own.
class Plans {
 public:
  static Plans& Instance() {
    static auto& plans = *new Plans;
    return plans;
  }

  std::shared_ptr<const Plan> Get(const ConvolutionShape& shape) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (plans_.size() >= kMaxPlans) plans_.clear();
    std::shared_ptr<const Plan>& plan = plans_[shape.Key()];
    if (plan == nullptr) plan = std::make_shared<const Plan>(MakePlan(shape));
    return plan;
  }

 private:
  static constexpr size_t kMaxPlans = 1024;

  std::mutex mutex_;
  absl::flat_hash_map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans_;
};

void Reorder(const memory::desc& from_desc, void* from, const memory::desc& to_desc, void* to) {
  memory source(from_desc, Engine(), from), destination(to_desc, Engine(), to);
  dnnl::stream stream(Engine());
  dnnl::reorder(source, destination).execute(stream, source, destination);
  stream.wait();
}

void Execute(const Plan& plan, std::unordered_map<int, memory> arguments) {
  const Scratch::Block scratch = Scratch::Instance().Borrow(plan.scratch_bytes);
  arguments[DNNL_ARG_SCRATCHPAD] = memory(
      {{static_cast<int64_t>(plan.scratch_bytes)}, memory::data_type::u8, memory::format_tag::a},
      Engine(), scratch.data());
  dnnl::stream stream(Engine());
  plan.primitive.execute(stream, arguments);
  stream.wait();
}

// One call, split over the batch.
struct Call {
  ConvolutionShape shape;  // of the whole batch
  void *a = nullptr, *b = nullptr, *out = nullptr;
  int64_t pieces = 1;

  ConvolutionShape ShapeOf(Rows rows) const {
    ConvolutionShape part = shape;
    part.batch = rows.size();
    return part;
  }
  // The examples of a piece in a tensor of the whole batch.
  void* PartOf(void* data, const memory::desc& whole, Rows rows) const {
    const size_t bytes_of_example = whole.get_size() / static_cast<size_t>(shape.batch);
    return static_cast<char*>(data) + bytes_of_example * static_cast<size_t>(rows.begin);
  }
};

// Forward and the input's gradient: a batch is a batch of independent examples.
absl::Status RunOverExamples(ffi::ThreadPool& pool, const Call& call) {
  const bool forward = call.shape.direction == Direction::kForward;
  // The kernel, in the layout of the first piece's plan; others mostly want the same.
  const auto first = Plans::Instance().Get(call.ShapeOf(RowsOf(call.shape.batch, call.pieces, 0)));
  const memory::desc given = KernelDesc(call.shape, TypeOf(call.shape.dtype));
  const Scratch::Block reordered = Scratch::Instance().Borrow(first->kernel.get_size());
  if (first->kernel != given) Reorder(given, call.b, first->kernel, reordered.data());
  return ForEachPiece(pool, call.pieces, [&](int64_t index) {
    const Rows rows = RowsOf(call.shape.batch, call.pieces, index);
    const ConvolutionShape part = call.ShapeOf(rows);
    const auto plan = Plans::Instance().Get(part);
    void* kernel = call.b;
    const bool as_first = plan->kernel == first->kernel;
    const Scratch::Block own = Scratch::Instance().Borrow(as_first ? 0 : plan->kernel.get_size());
    if (plan->kernel != given) {
      kernel = as_first ? reordered.data() : own.data();
      if (!as_first) Reorder(given, call.b, plan->kernel, kernel);
    }
    const memory::desc input = InputDesc(part), output = OutputDesc(part);
    void* of_input = call.PartOf(forward ? call.a : call.out, InputDesc(call.shape), rows);
    void* of_output = call.PartOf(forward ? call.out : call.a, OutputDesc(call.shape), rows);
    Execute(*plan, {{forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, {input, Engine(), of_input}},
                    {DNNL_ARG_WEIGHTS, {plan->kernel, Engine(), kernel}},
                    {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, {output, Engine(), of_output}}});
    return absl::OkStatus();
  });
}

// The kernel's gradient is a sum over examples: each piece makes its own, in f32, and these are
// added in order.
absl::Status RunOverSums(ffi::ThreadPool& pool, const Call& call) {
  const memory::desc wide = KernelDesc(call.shape, memory::data_type::f32);
  const size_t elements = wide.get_size() / sizeof(float);
  const Scratch::Block sums =
      Scratch::Instance().Borrow(wide.get_size() * static_cast<size_t>(call.pieces));
  PENSTOCK_RETURN_IF_ERROR(ForEachPiece(pool, call.pieces, [&](int64_t index) {
    const Rows rows = RowsOf(call.shape.batch, call.pieces, index);
    const ConvolutionShape part = call.ShapeOf(rows);
    const auto plan = Plans::Instance().Get(part);
    float* sum = sums.as<float>() + elements * static_cast<size_t>(index);
    const bool in_place = plan->kernel == wide;
    const Scratch::Block liked = Scratch::Instance().Borrow(in_place ? 0 : plan->kernel.get_size());
    void* into = in_place ? static_cast<void*>(sum) : liked.data();
    Execute(*plan,
            {{DNNL_ARG_SRC,
              {InputDesc(part), Engine(), call.PartOf(call.a, InputDesc(call.shape), rows)}},
             {DNNL_ARG_DIFF_WEIGHTS, {plan->kernel, Engine(), into}},
             {DNNL_ARG_DIFF_DST,
              {OutputDesc(part), Engine(), call.PartOf(call.b, OutputDesc(call.shape), rows)}}});
    if (!in_place) Reorder(plan->kernel, into, wide, sum);
    return absl::OkStatus();
  }));
  const float* first = sums.as<float>();
  for (size_t i = 0; i < elements; ++i) {
    float sum = first[i];
    for (int64_t p = 1; p < call.pieces; ++p) sum += first[i + elements * static_cast<size_t>(p)];
    if (call.shape.dtype == base::DType::kBF16) {
      static_cast<base::bfloat16*>(call.out)[i] = sum;
    } else {
      static_cast<float*>(call.out)[i] = sum;
    }
  }
  return absl::OkStatus();
}

// Every piece of a kernel's gradient has a copy of the kernel.
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

template <Direction kDirection>
ffi::Error Convolution(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b,
                       ffi::Result<ffi::AnyBuffer> out, Pair dilation, int64_t groups, Pair low,
                       Pair strides) {
  const ffi::AnyBuffer& result = *out;
  const ffi::AnyBuffer& input = kDirection == Direction::kInputGradient ? result : a;
  const ffi::AnyBuffer& kernel = kDirection == Direction::kKernelGradient ? result : b;
  const ffi::AnyBuffer& output = kDirection == Direction::kForward         ? result
                                 : kDirection == Direction::kInputGradient ? a
                                                                           : b;
  const auto i = input.dimensions(), k = kernel.dimensions(), o = output.dimensions();
  if (i.size() != 4 || k.size() != 4 || o.size() != 4 || strides.size() != 2 || low.size() != 2 ||
      dilation.size() != 2) {
    return ffi::Error::InvalidArgument("a convolution kernel wants images");
  }
  Call call{
      .shape = {.direction = kDirection,
                .dtype = input.element_type() == ffi::BF16 ? base::DType::kBF16 : base::DType::kF32,
                .batch = i[0],
                .channels = i[3],
                .filters = o[3],
                .groups = groups,
                .input = {i[1], i[2]},
                .kernel = {k[0], k[1]},
                .output = {o[1], o[2]},
                .strides = {strides[0], strides[1]},
                .low = {low[0], low[1]},
                .dilation = {dilation[0], dilation[1]}},
      .a = a.untyped_data(),
      .b = b.untyped_data(),
      .out = result.untyped_data()};
  const LibraryCall library;
  if (!library.allowed()) return ffi::Error::Internal("the process is ending");
  return Answer([&] {
    PreferHugePages(call.out, result.size_bytes());
    if (IsForWinograd(call.shape)) return RunWinograd(pool, call.shape, call.a, call.b, call.out);
    const OneThread one_thread;
    call.pieces = PiecesOf(call.shape, MaxPieces(pool));
    return kDirection == Direction::kKernelGradient ? RunOverSums(pool, call)
                                                    : RunOverExamples(pool, call);
  });
}

#define PENSTOCK_CONVOLUTION(name, direction)          \
  XLA_FFI_DEFINE_HANDLER(name, Convolution<direction>, \
                         ffi::Ffi::Bind()              \
                             .Ctx<ffi::ThreadPool>()   \
                             .Arg<ffi::AnyBuffer>()    \
                             .Arg<ffi::AnyBuffer>()    \
                             .Ret<ffi::AnyBuffer>()    \
                             .Attr<Pair>("dilation")   \
                             .Attr<int64_t>("groups")  \
                             .Attr<Pair>("low")        \
                             .Attr<Pair>("strides"))

PENSTOCK_CONVOLUTION(kForwardHandler, Direction::kForward);
PENSTOCK_CONVOLUTION(kInputGradientHandler, Direction::kInputGradient);
PENSTOCK_CONVOLUTION(kKernelGradientHandler, Direction::kKernelGradient);

}  // namespace

bool HasFastConvolution(const ConvolutionShape& shape) {
  if (IsForWinograd(shape)) return true;
  try {
    const OneThread one_thread;
    return !absl::StartsWith(MakePlan(shape, /*describe_only=*/true).implementation, "ref");
  } catch (const dnnl::error&) {
    return false;
  }
}

const char* ConvolutionTarget(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "penstock.convolution";
    case Direction::kInputGradient:
      return "penstock.convolution_input_gradient";
    case Direction::kKernelGradient:
      return "penstock.convolution_kernel_gradient";
  }
  return "";
}

std::vector<runtime::Kernel> ConvolutionKernels() {
  return {{ConvolutionTarget(Direction::kForward), reinterpret_cast<void*>(+kForwardHandler)},
          {ConvolutionTarget(Direction::kInputGradient),
           reinterpret_cast<void*>(+kInputGradientHandler)},
          {ConvolutionTarget(Direction::kKernelGradient),
           reinterpret_cast<void*>(+kKernelGradientHandler)}};
}

}  // namespace penstock::kernels
