// Benchmark of the CPU kernels beside XLA's own code, with the operations of ResNet-20 for CIFAR
// and other operations of training: each program is compiled with and without kernels, and both run
// alternately.
//
//   bench_kernels [--batch 128] [--rounds 15] [--only TEXT] [--alone 1]
//
// The ratio is the median over rounds of (time without) / (time with): above 1 the kernel is
// faster. --only selects the rows whose name contains TEXT; --alone skips XLA.
#include "penstock/kernels/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/median.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"

namespace penstock {
namespace {

using base::Array;
using base::DType;
using ir::Value;
using ir::Values;

double Now() { return base::Clock::Real()->Seconds(); }

// Compiled program with its arguments on the device.
struct Side {
  std::shared_ptr<runtime::Executable> executable;
  runtime::Buffers arguments;

  double Seconds(int calls) {
    const double begin = Now();
    for (int i = 0; i < calls; ++i) {
      auto out = executable->Execute({arguments});
      PENSTOCK_CHECK_OK(out.status());
      for (const runtime::Buffer& buffer : (*out)[0]) PENSTOCK_CHECK_OK(buffer.Await());
    }
    return (Now() - begin) / calls;
  }
};

Side MakeSide(runtime::Client& client, const ir::Program& program) {
  auto executable = client.Compile(program);
  PENSTOCK_CHECK_OK(executable.status());
  Side side{*executable, {}};
  base::Random random(1);
  for (const ir::TensorType& type : program.parameters) {
    std::vector<float> values(type.shape.num_elements());
    for (float& v : values) v = static_cast<float>(random.Uniform() - 0.5);
    const auto array = Array::Of<float>(type.shape, values).Cast(type.dtype);
    PENSTOCK_CHECK_OK(array.status());
    auto buffer = client.Put(*array, client.devices()[0]);
    PENSTOCK_CHECK_OK(buffer.status());
    side.arguments.push_back(*std::move(buffer));
  }
  return side;
}

struct Work {
  std::string name;
  std::function<void(ir::Graph&)> build;
};

void Compare(runtime::Client& client, const kernels::Lowering& lowering, const Work& work,
             int rounds, bool alone) {
  ir::Graph graph("bench");
  work.build(graph);
  const auto with = lowering.Print(graph), without = ir::PrintStableHlo(graph);
  PENSTOCK_CHECK_OK(with.status());
  PENSTOCK_CHECK_OK(without.status());
  Side ours = MakeSide(client, *with);
  if (alone) {
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) seconds.push_back(ours.Seconds(1));
    std::printf("%-56s %8.2f ms %8.2f ms minimum\n", work.name.c_str(), 1e3 * base::Median(seconds),
                1e3 * *std::min_element(seconds.begin(), seconds.end()));
    return;
  }
  Side xla = MakeSide(client, *without);
  const int calls = std::max(1, static_cast<int>(0.02 / std::max(1e-6, ours.Seconds(1))));
  xla.Seconds(1);
  std::vector<double> with_seconds, without_seconds, ratios;
  for (int i = 0; i < rounds; ++i) {
    with_seconds.push_back(ours.Seconds(calls));
    without_seconds.push_back(xla.Seconds(calls));
    ratios.push_back(without_seconds.back() / with_seconds.back());
  }
  std::printf("%-56s %8.3f ms %8.3f ms   %5.2f\n", work.name.c_str(),
              1e3 * base::Median(with_seconds), 1e3 * base::Median(without_seconds),
              base::Median(ratios));
  std::fflush(stdout);
}

struct Layer {
  int64_t size, channels, filters, kernel, stride, groups = 1;
};

// Returns the forward convolution (0) or the gradient of one operand (1: input, 2: kernel).
Work ConvolutionWork(const Layer& l, DType dtype, int64_t batch, int which) {
  static constexpr const char* kNames[] = {"forward", "input gradient", "kernel gradient"};
  return {absl::StrCat(base::DTypeName(dtype), " ", l.groups > 1 ? "depthwise " : "conv ", l.kernel,
                       "x", l.kernel, " ", l.size, "x", l.size, "x", l.channels, "->", l.filters,
                       l.stride > 1 ? " /2 " : " ", kNames[which]),
          [=](ir::Graph& graph) {
            const Value x = graph.Parameter({dtype, {batch, l.size, l.size, l.channels}}, "x");
            const Value w = graph.Parameter(
                {dtype, {l.kernel, l.kernel, l.channels / l.groups, l.filters}}, "w");
            const auto padding = ir::SamePadding(l.size, l.kernel, l.stride);
            const Value y = ir::Convolution(x, w,
                                            {.strides = {l.stride, l.stride},
                                             .padding = {padding, padding},
                                             .feature_group_count = l.groups});
            if (which == 0) return graph.SetResults({y});
            const Value cotangent = graph.Parameter(y.type(), "cotangent");
            graph.SetResults(ir::Gradients(y, {which == 1 ? x : w}, cotangent));
          }};
}

// Returns a convolution of 256 steps and 64 channels with a kernel of size 5, in the form that
// Conv1D emits: as an image of height 1.
Work SequenceWork(int64_t stride, int64_t groups, DType dtype, int which) {
  static constexpr const char* kNames[] = {"forward", "input gradient", "kernel gradient"};
  return {absl::StrCat(base::DTypeName(dtype), " conv1d 5 256x64", groups > 1 ? " depthwise" : "",
                       stride > 1 ? " /2 " : " ", kNames[which]),
          [=](ir::Graph& graph) {
            const Value x = graph.Parameter({dtype, {32, 1, 256, 64}}, "x");
            const Value w = graph.Parameter({dtype, {1, 5, 64 / groups, 64}}, "w");
            const Value y = ir::Convolution(x, w,
                                            {.strides = {1, stride},
                                             .padding = {{0, 0}, ir::SamePadding(256, 5, stride)},
                                             .feature_group_count = groups});
            if (which == 0) return graph.SetResults({y});
            const Value cotangent = graph.Parameter(y.type(), "cotangent");
            graph.SetResults(ir::Gradients(y, {which == 1 ? x : w}, cotangent));
          }};
}

// Returns a 3x3 depthwise convolution, forward and backward.
Work DepthwiseWork(int64_t size, int64_t channels, int64_t stride, DType dtype, int64_t batch) {
  return {absl::StrCat(base::DTypeName(dtype), " depthwise ", size, "x", size, "x", channels,
                       stride > 1 ? " /2" : "", " forward and backward, batch ", batch),
          [=](ir::Graph& graph) {
            const Value x = graph.Parameter({dtype, {batch, size, size, channels}}, "x");
            const Value w = graph.Parameter({dtype, {3, 3, 1, channels}}, "w");
            const Value y = ir::Convolution(x, w,
                                            {.strides = {stride, stride},
                                             .padding = {{1, 1}, {1, 1}},
                                             .feature_group_count = channels});
            Values results = ir::Gradients(y, {x, w}, graph.Parameter(y.type(), "cotangent"));
            results.push_back(y);
            graph.SetResults(results);
          }};
}

// Returns a max pooling with 3x3 windows and stride 2, as after the stem of ResNet-50.
Work MaxPoolWork(int64_t size, int64_t channels, DType dtype, int64_t batch) {
  return {absl::StrCat(base::DTypeName(dtype), " max pool ", size, "x", size, "x", channels,
                       " forward and backward, batch ", batch),
          [=](ir::Graph& graph) {
            const Value x = graph.Parameter({dtype, {batch, size, size, channels}}, "x");
            const Value y = ir::ReduceWindow(x, ir::WindowReducer::kMax,
                                             {.size = {1, 3, 3, 1},
                                              .strides = {1, 2, 2, 1},
                                              .padding = {{0, 0}, {1, 1}, {1, 1}, {0, 0}}});
            Values results = ir::Gradients(y, {x}, graph.Parameter(y.type(), "cotangent"));
            results.push_back(y);
            graph.SetResults(results);
          }};
}

Work BatchNormWork(int64_t size, int64_t channels, DType dtype, int64_t batch) {
  return {absl::StrCat(base::DTypeName(dtype), " batch norm + relu ", size, "x", size, "x",
                       channels, " forward and backward"),
          [=](ir::Graph& graph) {
            const Value x = graph.Parameter({dtype, {batch, size, size, channels}}, "x");
            const Value scale = graph.Parameter({DType::kF32, {channels}}, "scale");
            const Value offset = graph.Parameter({DType::kF32, {channels}}, "offset");
            const ir::BatchNormResult out = ir::BatchNormTraining(x, scale, offset, Value());
            const Value y = ir::Relu(out.y);
            const Value cotangent = graph.Parameter(y.type(), "cotangent");
            Values results = ir::Gradients(y, {x, scale, offset}, cotangent);
            results.insert(results.end(), {y, out.mean, out.variance});
            graph.SetResults(results);
          }};
}

// Matrix product [batch, m, k] x [batch, k, n], or without a batch dimension (0). The operands'
// gradients are products of the cotangent with the other operand, transposed.
struct ProductSize {
  int64_t batch, rows, depth, columns;
};

Work ProductWork(const ProductSize& p, DType dtype, int which) {
  static constexpr const char* kNames[] = {"product", "gradient of lhs", "gradient of rhs"};
  return {absl::StrCat(base::DTypeName(dtype), " product ",
                       p.batch > 0 ? absl::StrCat(p.batch, "x") : "", p.rows, "x", p.depth, "x",
                       p.columns, " ", kNames[which]),
          [=](ir::Graph& graph) {
            const auto matrix = [&](int64_t rows, int64_t columns, const char* name) {
              return graph.Parameter({dtype, p.batch > 0 ? base::Shape{p.batch, rows, columns}
                                                         : base::Shape{rows, columns}},
                                     name);
            };
            const Value a = matrix(p.rows, p.depth, "a"), b = matrix(p.depth, p.columns, "b");
            const Value y = ir::MatMul(a, b);
            if (which == 0) return graph.SetResults({y});
            const Value cotangent = graph.Parameter(y.type(), "cotangent");
            graph.SetResults(ir::Gradients(y, {which == 1 ? a : b}, cotangent));
          }};
}

// Training step of ResNet-20 for CIFAR (He et al., 2015) with SGD and momentum. Convolutions and
// activations compute in `dtype`; variables, statistics and the loss are float32.
class ResNetStep {
 public:
  // The inputs are new parameters of the graph, or `inputs` if it is not empty.
  ResNetStep(ir::Graph& graph, DType dtype, int64_t batch, Values inputs = {})
      : graph_(graph), dtype_(dtype), batch_(batch), inputs_(std::move(inputs)) {}

  // Returns the new values of the inputs after the step.
  Values Build() {
    const Value image = Input({DType::kF32, {batch_, 32, 32, 3}});
    const Value label = Input({DType::kF32, {batch_, 10}});
    mask_ = Input({DType::kF32, {batch_}});
    Value x = ir::Relu(Normalized(Convolved(ir::Convert(image, dtype_), 16, 3, 1)));
    for (int64_t filters : {16, 32, 64}) {
      for (int block = 0; block < 3; ++block) {
        const int64_t stride = filters > 16 && block == 0 ? 2 : 1;
        const Value inner = ir::Relu(Normalized(Convolved(x, filters, 3, stride)));
        const Value outer = Normalized(Convolved(inner, filters, 3, 1));
        x = ir::Relu(outer + (stride == 1 ? x : Convolved(x, filters, 1, stride)));
      }
    }
    const Value mean = ir::ReduceMean(ir::Convert(x, DType::kF32), {1, 2});
    const Value scores = ir::MatMul(mean, Variable({64, 10}));
    const Value loss =
        -(ir::ReduceSum(label * ir::LogSoftmax(scores)) / static_cast<double>(batch_));
    const Values gradients = ir::Gradients(loss, variables_);
    Values after{image, label, mask_};
    for (size_t i = 0; i < variables_.size(); ++i) {
      const Value velocity = velocities_[i] * 0.9 - gradients[i] * 0.1;
      after.insert(after.end(), {variables_[i] + velocity, velocity});
    }
    return after;
  }

 private:
  Value Input(const ir::TensorType& type) {
    if (inputs_.empty()) return graph_.Parameter(type, "input");
    return inputs_[next_++];
  }
  Value Variable(const base::Shape& shape) {
    variables_.push_back(Input({DType::kF32, shape}));
    velocities_.push_back(Input({DType::kF32, shape}));
    return variables_.back();
  }
  Value Convolved(Value x, int64_t filters, int64_t size, int64_t stride) {
    const Value kernel = Variable({size, size, x.shape().dim(3), filters});
    const auto padding = ir::SamePadding(x.shape().dim(1), size, stride);
    return ir::Convolution(x, ir::Convert(kernel, dtype_),
                           {.strides = {stride, stride}, .padding = {padding, padding}});
  }
  Value Normalized(Value x) {
    const base::Shape features{x.shape().dim(3)};
    const Value scale = Variable(features), offset = Variable(features);
    return ir::BatchNormTraining(x, scale, offset, mask_).y;
  }

  ir::Graph& graph_;
  const DType dtype_;
  const int64_t batch_;
  const Values inputs_;
  size_t next_ = 0;
  Value mask_;
  Values variables_, velocities_;
};

// Returns one or several training steps in one execution; an execution allocates its temporary
// memory once.
Work ResNetWork(DType dtype, int64_t batch, int64_t steps) {
  const std::string type(base::DTypeName(dtype));
  return {steps == 1 ? type + " ResNet-20 training step"
                     : absl::StrCat(type, " ", steps, " steps of ResNet-20 in one execution"),
          [=](ir::Graph& graph) {
            if (steps == 1) return graph.SetResults(ResNetStep(graph, dtype, batch).Build());
            ir::Graph once("once");
            ResNetStep(once, dtype, batch).Build();
            Values inputs;
            for (const Value& parameter : once.parameters()) {
              inputs.push_back(graph.Parameter(parameter.type(), "input"));
            }
            graph.SetResults(ir::For(steps, inputs, [&](ir::Graph& body, Value, const Values& in) {
              return ResNetStep(body, dtype, batch, in).Build();
            }));
          }};
}

int Main(int argc, char** argv) {
  int64_t batch = 128;
  int rounds = 15;
  std::string only;
  bool alone = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--batch") batch = std::atoll(argv[i + 1]);
    if (std::string(argv[i]) == "--rounds") rounds = std::atoi(argv[i + 1]);
    if (std::string(argv[i]) == "--only") only = argv[i + 1];
    if (std::string(argv[i]) == "--alone") alone = std::string(argv[i + 1]) == "1";
  }
  const auto client = runtime::OpenClient({.device = "cpu"});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  const auto lowering = kernels::Lowering::For(**client);
  if (!lowering.uses_kernels()) {
    std::fprintf(stderr, "CPU kernels are disabled: %s\n", lowering.reason().c_str());
    return 1;
  }
  std::printf("batch %lld, %d rounds\n%-56s %11s %11s   %s\n", static_cast<long long>(batch),
              rounds, "work", "kernel", "XLA", "XLA / kernel");
  const std::vector<Layer> layers = {{32, 3, 16, 3, 1},  {32, 16, 16, 3, 1}, {32, 16, 32, 3, 2},
                                     {32, 16, 32, 1, 2}, {16, 32, 32, 3, 1}, {16, 32, 64, 3, 2},
                                     {16, 32, 64, 1, 2}, {8, 64, 64, 3, 1}};
  std::vector<Work> works;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Layer& layer : layers) {
      for (int which : {0, 1, 2}) works.push_back(ConvolutionWork(layer, dtype, batch, which));
    }
    for (const auto& [size, channels] : {std::pair<int64_t, int64_t>{32, 16}, {16, 32}, {8, 64}}) {
      works.push_back(BatchNormWork(size, channels, dtype, batch));
    }
    for (const auto& [size, channels, stride] : {std::tuple<int64_t, int64_t, int64_t>{112, 32, 1},
                                                 {112, 64, 2},
                                                 {56, 128, 1},
                                                 {56, 128, 2},
                                                 {28, 256, 1},
                                                 {28, 256, 2},
                                                 {14, 512, 1},
                                                 {14, 512, 2},
                                                 {7, 512, 1}}) {
      works.push_back(DepthwiseWork(size, channels, stride, dtype, 16));
    }
    for (const ProductSize& size : {ProductSize{0, 128, 64, 10},
                                    {0, 128, 256, 256},
                                    {0, 128, 2048, 1000},
                                    {0, 1024, 1024, 1024},
                                    {0, 4096, 256, 1024},
                                    {0, 65536, 64, 64},
                                    {512, 16, 16, 16},
                                    {96, 128, 64, 128},
                                    {96, 128, 128, 64}}) {
      for (int which : {0, 1, 2}) works.push_back(ProductWork(size, dtype, which));
    }
    for (int64_t groups : {1, 64}) {
      for (int which : {0, 1, 2}) works.push_back(SequenceWork(2, groups, dtype, which));
    }
    works.push_back(MaxPoolWork(112, 64, dtype, 16));
    for (int64_t steps : {1, 8}) works.push_back(ResNetWork(dtype, batch, steps));
  }
  for (const Work& work : works) {
    if (absl::StrContains(work.name, only)) Compare(**client, lowering, work, rounds, alone);
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
