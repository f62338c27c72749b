#include "penstock/kernels/testing/compare.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/kernels/fusion_limit.h"

namespace penstock::kernels {
namespace {

using base::Array;
using base::DType;

std::vector<double> Widened(const Array& array) {
  const Array wide = *array.Cast(DType::kF64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

std::vector<Array> RandomArguments(const ir::Graph& graph, const Comparison& comparison) {
  base::Random random(comparison.seed);
  std::vector<Array> arguments;
  for (const ir::Value& parameter : graph.parameters()) {
    std::vector<double> values(parameter.shape().num_elements());
    for (double& v : values) {
      v = comparison.low + (comparison.high - comparison.low) * random.Uniform();
    }
    arguments.push_back(*Array::Of<double>(parameter.shape(), values).Cast(parameter.dtype()));
  }
  return arguments;
}

// Number of calls of kernels, excluding those that only store a value and compute nothing.
int CallsIn(const std::string& text) {
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  return count("custom_call\"") - count(absl::StrCat("call_target_name = \"", kInMemoryTarget));
}

}  // namespace

runtime::Client& TestClient() {
  static const auto client = [] {
    auto opened = runtime::OpenClient({.device = "cpu", .cpu_devices = 8});
    PENSTOCK_CHECK_OK(opened.status());
    return *std::move(opened);
  }();
  return *client;
}

absl::StatusOr<std::vector<Array>> RunProgram(const ir::Program& program,
                                              const std::vector<Array>& arguments) {
  runtime::Client& client = TestClient();
  PENSTOCK_ASSIGN_OR_RETURN(const auto executable, client.Compile(program));
  std::vector<runtime::Buffers> in;
  for (int replica = 0; replica < program.num_replicas; ++replica) {
    PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffers buffers,
                              client.PutAll(arguments, client.devices()[replica]));
    in.push_back(std::move(buffers));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto out, executable->Execute(in));
  std::vector<Array> results;
  for (const runtime::Buffer& buffer : out[0]) {
    PENSTOCK_ASSIGN_OR_RETURN(Array array, buffer.Get());
    results.push_back(std::move(array));
  }
  return results;
}

const Lowering& TestLowering() {
  static const auto& lowering = *new Lowering(Lowering::For(TestClient()));
  return lowering;
}

bool Uses(dnnl::cpu_isa instructions) {
  const int wanted = static_cast<int>(instructions);  // a bit for each extension
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

void ExpectSameWithAndWithout(const ir::Graph& graph, const Comparison& comparison) {
  ExpectSame(graph, graph, comparison);
}

void ExpectSame(const ir::Graph& graph, const ir::Graph& reference, const Comparison& comparison) {
  const Lowering& lowering = TestLowering();
  ASSERT_TRUE(lowering.uses_kernels()) << lowering.reason();
  const auto plain = ir::PrintStableHlo(reference), lowered = lowering.Print(graph);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const int calls = CallsIn(lowered->text);
  if (comparison.calls >= 0) {
    EXPECT_EQ(calls, comparison.calls) << lowered->text;
  } else if (comparison.calls == -1) {
    EXPECT_GT(calls, 0) << lowered->text;
  }
  const std::vector<Array> arguments = RandomArguments(graph, comparison);
  const auto want = RunProgram(*plain, arguments), got = RunProgram(*lowered, arguments);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << lowered->text;
  for (size_t i = 0; i < want->size(); ++i) {
    const std::vector<double> w = Widened((*want)[i]), g = Widened((*got)[i]);
    double largest = 1;
    for (double v : w) largest = std::max(largest, std::abs(v));
    for (size_t k = 0; k < w.size(); ++k) {
      if (g[k] == w[k]) continue;  // infinities, too
      const double error = std::abs(g[k] - w[k]);
      EXPECT_LE(error, comparison.tolerance * largest)
          << "result " << i << ", element " << k << " of " << (*want)[i].TypeString() << ": "
          << g[k] << " with kernels, " << w[k] << " without";
      if (!(error <= comparison.tolerance * largest)) break;
    }
  }
}

}  // namespace penstock::kernels
