// Kernels beside XLA's own code, on the operations of ResNet-20 for CIFAR: each program is compiled
// with kernels and without, and both run in turns.
//
//   bench_kernels [--batch 128] [--rounds 15]
//
// The ratio is the median over rounds of (time without) / (time with): above 1 the kernel is
// faster.
#include "penstock/kernels/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
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

// A program with its arguments on the device.
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

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Work {
  std::string name;
  std::function<void(ir::Graph&)> build;
};

void Compare(runtime::Client& client, const kernels::Lowering& lowering, const Work& work,
             int rounds) {
  ir::Graph graph("bench");
  work.build(graph);
  const auto with = lowering.Print(graph), without = ir::PrintStableHlo(graph);
  PENSTOCK_CHECK_OK(with.status());
  PENSTOCK_CHECK_OK(without.status());
  Side ours = MakeSide(client, *with), xla = MakeSide(client, *without);
  const int calls = std::max(1, static_cast<int>(0.02 / std::max(1e-6, ours.Seconds(1))));
  xla.Seconds(1);
  std::vector<double> with_seconds, without_seconds, ratios;
  for (int i = 0; i < rounds; ++i) {
    with_seconds.push_back(ours.Seconds(calls));
    without_seconds.push_back(xla.Seconds(calls));
    ratios.push_back(without_seconds.back() / with_seconds.back());
  }
  std::printf("%-44s %8.2f ms %8.2f ms   %5.2f\n", work.name.c_str(), 1e3 * Median(with_seconds),
              1e3 * Median(without_seconds), Median(ratios));
  std::fflush(stdout);
}

struct Layer {
  int64_t size, channels, filters, kernel, stride, groups = 1;
};

// Forward (0) or the gradient of one operand (1: input, 2: kernel).
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

Work BatchNormWork(int64_t size, int64_t channels, DType dtype, int64_t batch) {
  return {absl::StrCat(base::DTypeName(dtype), " batch norm + relu ", size, "x", size, "x",
                       channels, " there and back"),
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

int Main(int argc, char** argv) {
  int64_t batch = 128;
  int rounds = 15;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--batch") batch = std::atoll(argv[i + 1]);
    if (std::string(argv[i]) == "--rounds") rounds = std::atoi(argv[i + 1]);
  }
  const auto client = runtime::OpenClient({.device = "cpu"});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  const auto lowering = kernels::Lowering::For(**client);
  if (!lowering.uses_kernels()) {
    std::fprintf(stderr, "kernels are not used: %s\n", lowering.reason().c_str());
    return 1;
  }
  std::printf("batch %lld, %d rounds\n%-44s %11s %11s   %s\n", static_cast<long long>(batch),
              rounds, "work", "kernel", "XLA", "XLA / kernel");
  const std::vector<Layer> layers = {
      {32, 3, 16, 3, 1},  {32, 16, 16, 3, 1}, {32, 16, 32, 3, 2},
      {32, 16, 32, 1, 2}, {16, 32, 32, 3, 1}, {16, 32, 64, 3, 2},
      {16, 32, 64, 1, 2}, {8, 64, 64, 3, 1},  {16, 64, 64, 3, 1, 64}};
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Layer& layer : layers) {
      for (int which : {0, 1, 2}) {
        Compare(**client, lowering, ConvolutionWork(layer, dtype, batch, which), rounds);
      }
    }
    for (const auto& [size, channels] : {std::pair<int64_t, int64_t>{32, 16}, {16, 32}, {8, 64}}) {
      Compare(**client, lowering, BatchNormWork(size, channels, dtype, batch), rounds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
