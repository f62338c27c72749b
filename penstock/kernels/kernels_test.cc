#include "penstock/kernels/kernels.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace kernels_test {

using base::DType;
using ir::Value;
using ir::Values;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Loss of a convolution, with the gradients of both operands.
std::unique_ptr<ir::Graph> ConvolutionStep() {
  auto graph = std::make_unique<ir::Graph>("step");
  const Value x = graph->Parameter({DType::kF32, {4, 8, 8, 16}}, "x");
  const Value w = graph->Parameter({DType::kF32, {3, 3, 16, 16}}, "w");
  const Value loss = ir::ReduceSum(ir::Square(ir::Convolution(x, w)));
  graph->SetResults(ir::Gradients(loss, {x, w}));
  return graph;
}

std::string LogFile() {
  return absl::StrCat(::testing::TempDir(), "/kernels_test.", ::getpid(), ".log");
}

std::string LogOf(const runtime::ClientOptions& options) {
  std::remove(LogFile().c_str());
  runtime::ClientOptions with_log = options;
  with_log.log_path = LogFile();
  const auto client = runtime::OpenClient(with_log);
  EXPECT_TRUE(client.ok()) << client.status();
  Lowering::For(**client);
  std::ifstream file(LogFile());
  std::stringstream text;
  text << file.rdbuf();
  std::remove(LogFile().c_str());
  return text.str();
}

TEST(Lowering, CpuProgramsCallForwardAndGradientKernels) {
  const auto client = *runtime::OpenClient({.device = "cpu"});
  const Lowering lowering = Lowering::For(*client);
  ASSERT_TRUE(lowering.uses_kernels()) << lowering.reason();
  EXPECT_THAT(lowering.reason(), IsEmpty());
  const std::string text = lowering.Print(*ConvolutionStep())->text;
  for (const char* target : {"\"penstock.convolution\"", "\"penstock.convolution_input_gradient\"",
                             "\"penstock.convolution_kernel_gradient\""}) {
    EXPECT_THAT(text, HasSubstr(target));
  }
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.convolution")));
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.reverse")));
}

TEST(Lowering, OtherPlatformsPrintPlainStableHlo) {
  const auto graph = ConvolutionStep();
  const std::string plain = ir::PrintStableHlo(*graph)->text;
  EXPECT_THAT(plain, Not(HasSubstr("custom_call")));
  EXPECT_EQ(Lowering().Print(*graph)->text, plain);
}

TEST(Lowering, OptionTurnsKernelsOff) {
  const auto client = *runtime::OpenClient({.device = "cpu", .kernels = false});
  const Lowering lowering = Lowering::For(*client);
  EXPECT_FALSE(lowering.uses_kernels());
  EXPECT_THAT(lowering.reason(), HasSubstr("disabled"));
  EXPECT_THAT(lowering.Print(*ConvolutionStep())->text, Not(HasSubstr("custom_call")));
}

TEST(Lowering, LogsWhetherKernelsAreUsed) {
  EXPECT_THAT(LogOf({.device = "cpu"}), HasSubstr("penstock: using CPU kernels"));
  EXPECT_THAT(LogOf({.device = "cpu", .kernels = false}),
              HasSubstr("penstock: not using CPU kernels: they are disabled"));
}

TEST(Lowering, AppliesInsideLoops) {
  ir::Graph graph("loop");
  const Value x = graph.Parameter({DType::kF32, {1, 8, 8, 16}}, "x");
  const Value w = graph.Parameter({DType::kF32, {3, 3, 16, 16}}, "w");
  const Values out = ir::For(3, {x, w}, [](ir::Graph&, Value, const Values& s) {
    return Values{ir::Tanh(ir::Convolution(s[0], s[1], {.padding = {{1, 1}, {1, 1}}})), s[1]};
  });
  graph.SetResults({ir::Gradients(ir::ReduceSum(out[0]), {w})[0]});
  ExpectSameWithAndWithout(graph, {.calls = 3, .tolerance = 1e-4});
}

TEST(Lowering, LeavesUnsupportedCases) {
  ir::Graph graph("left");
  const Value f64 = graph.Parameter({DType::kF64, {1, 4, 4, 2}}, "f64");
  const Value image = graph.Parameter({DType::kF32, {1, 4, 4, 2}}, "image");
  const Value sound = graph.Parameter({DType::kF32, {2, 9, 3}}, "sound");
  const auto kernel = [&](DType dtype, const base::Shape& shape) {
    return ir::Splat(graph, {dtype, shape}, 0.5);
  };
  graph.SetResults(
      {ir::Convolution(f64, kernel(DType::kF64, {3, 3, 2, 2})),
       ir::Convolution(image, kernel(DType::kF32, {2, 2, 2, 2}), {.lhs_dilation = {2, 2}}),
       ir::Convolution(sound, kernel(DType::kF32, {3, 3, 4}))});
  ExpectSameWithAndWithout(graph, {.calls = 0, .tolerance = 0});
}

// Room ir has converted negative padding to a slice.
TEST(Lowering, AcceptsNegativePadding) {
  ir::Graph graph("cropped");
  const Value image = graph.Parameter({DType::kF32, {1, 4, 4, 2}}, "image");
  graph.SetResults({ir::Convolution(image, ir::Splat(graph, {DType::kF32, {1, 1, 2, 2}}, 0.5),
                                    {.padding = {{-1, 0}, {0, -1}}})});
  ExpectSameWithAndWithout(graph, {.calls = 1});
}

// A main() that returns while a program is running.
void EndInTheMiddleOfAProgram() {
  const auto client = *runtime::OpenClient({.device = "cpu", .cpu_devices = 8});
  const Lowering lowering = Lowering::For(*client);
  ir::Graph graph("long", /*num_replicas=*/8);
  const Value w = ir::Splat(graph, {DType::kF32, {3, 3, 16, 16}}, 0.01);
  const Value x = ir::Splat(graph, {DType::kF32, {8, 32, 32, 16}}, 1);
  const Values out = ir::For(1000000, {x, w}, [](ir::Graph&, Value, const Values& s) {
    return Values{ir::Convolution(s[0], s[1], {.padding = {{1, 1}, {1, 1}}}), s[1]};
  });
  graph.SetResults({out[0]});
  const auto executable = *client->Compile(*lowering.Print(graph));
  const std::vector<runtime::Buffers> nothing(8);
  new auto(executable->Execute(nothing));  // neither awaited nor destroyed
  new auto(client);
  std::exit(7);
}

TEST(LoweringDeathTest, ProcessExitsWhileProgramRuns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(EndInTheMiddleOfAProgram(), ::testing::ExitedWithCode(7), "");
}

}  // namespace kernels_test
}  // namespace penstock::kernels
