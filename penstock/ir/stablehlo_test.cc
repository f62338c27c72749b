#include "penstock/ir/stablehlo.h"

#include "absl/strings/str_split.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace stablehlo_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;

TEST(StableHlo, PrintsOneOperationPerLine) {
  Graph graph("step", 2);
  const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
  const Value y = graph.Parameter({DType::kF32, {3}}, "y");
  Exp(x);  // dead code
  const Value loss = AllReduce(ReduceSum(x * y));
  graph.SetResults({loss, x}, {"loss"});
  const auto program = PrintStableHlo(graph, {.donate = {{0, 1}}, .locations = false});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(
      program->text,
      R"(module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(
      %arg0: tensor<2x3xf32> {tf.aliasing_output = 1 : i32},
      %arg1: tensor<3xf32>
  ) -> (tensor<f32>, tensor<2x3xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<2x3xf32>
    %2 = stablehlo.constant dense<0.00000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %4 = "stablehlo.all_reduce"(%3) ({
      ^bb0(%5: tensor<f32>, %6: tensor<f32>):
      %7 = stablehlo.add %5, %6 : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<f32>) -> tensor<f32>
    return %4, %arg0 : tensor<f32>, tensor<2x3xf32>
  }
}
)");
  EXPECT_EQ(program->name, "step");
  EXPECT_EQ(program->num_replicas, 2);
  EXPECT_THAT(program->alias, ElementsAre(1, -1));
  EXPECT_THAT(program->parameter_names, ElementsAre("x", "y"));
  EXPECT_THAT(program->result_names, ElementsAre("loss", "result1"));
  EXPECT_EQ(program->results[0].ToString(), "f32[]");
  EXPECT_TRUE(testing::Executable::Compile(*program).ok());
}

// A graph with two layers, one of which contains a loop.
void Build(Graph& graph, const char* file_scope) {
  const Value x = graph.Parameter({DType::kF32, {2}}, "odd \"name\"\n");
  Value h;
  {
    const Scope layer(graph, file_scope, base::SourceLocation::Current());
    h = Tanh(x);
  }
  const Scope layer(graph, "loop");
  h = For(3, {h}, [](Graph& g, Value, const Values& s) {
    const Scope inner(g, "inner");
    return Values{s[0] * 2.0};
  })[0];
  graph.SetResults({h});
}

TEST(StableHlo, RecordsOriginOfEveryLine) {
  Graph graph("lines");
  Build(graph, "first \"layer\"\\");
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<std::string> lines = absl::StrSplit(program->text, '\n');
  ASSERT_EQ(lines.size(), program->line_origins.size() + 1) << "and the text ends with a line feed";
  int loops = 0;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const Origin& origin = program->line_origins[i];
    if (lines[i].find("tanh") != std::string::npos) {
      EXPECT_EQ(origin.scope, "first \"layer\"\\");
      EXPECT_THAT(origin.file, HasSubstr("stablehlo_test.cc"));
      EXPECT_GT(origin.line, 1);
    }
    if (lines[i].find("multiply") != std::string::npos) {
      EXPECT_EQ(origin.scope, "loop/inner");
    }
    if (lines[i].find("stablehlo.while") != std::string::npos) {
      EXPECT_EQ(origin.scope, "loop");
      ++loops;
    }
  }
  EXPECT_EQ(loops, 1);
  EXPECT_THAT(program->text, HasSubstr("loc(\"first \\22layer\\22\\5C\"(\""));
  EXPECT_THAT(program->text, HasSubstr("loc(\"loop/inner\")"));
  const auto executable = testing::Executable::Compile(*program);
  ASSERT_TRUE(executable.ok()) << executable.status();
}

TEST(StableHlo, TextWithoutLocationsDependsOnComputationOnly) {
  Graph a("same"), b("same");
  Build(a, "one");
  Build(b, "another");
  const PrintOptions options{.locations = false};
  EXPECT_EQ(PrintStableHlo(a, options)->text, PrintStableHlo(b, options)->text);
  EXPECT_NE(PrintStableHlo(a)->text, PrintStableHlo(b)->text);
  EXPECT_THAT(PrintStableHlo(a, options)->text, Not(HasSubstr("loc(")));
  // Dead code is not printed and does not affect value numbering.
  const std::string before = PrintStableHlo(a)->text;
  Exp(a.parameters()[0]);
  EXPECT_EQ(PrintStableHlo(a)->text, before);
}

TEST(StableHlo, RemovesLocationsFromText) {
  for (const char* layer : {"plain", "first \"layer\"\\", "a) loc(b", ""}) {
    Graph graph("step");
    Build(graph, layer);
    const absl::StatusOr<Program> program = PrintStableHlo(graph);
    EXPECT_EQ(TextWithoutLocations(*program), PrintStableHlo(graph, {.locations = false})->text);
  }
  // Handwritten: text within a string that resembles a location is kept; strings may contain
  // quotes.
  Program program;
  program.text = R"mlir(%0 = custom "a \" loc(1)" loc("b \") (c"("f.cc":1:2)), %1)mlir";
  EXPECT_EQ(TextWithoutLocations(program), R"mlir(%0 = custom "a \" loc(1)", %1)mlir");
}

TEST(StableHlo, ReportsLargestValuesWithLayers) {
  Graph graph("step");
  const Value x = graph.Parameter({DType::kF32, {8}}, "x");
  Value sum = ReduceSum(x);
  {
    const Scope scope(graph, "wide", base::SourceLocation{"net.cc", 7});
    const Value big = BroadcastInDim(x, {1000, 8}, {1});  // fused into its consumer
    sum = sum + ReduceSum(Tanh(Exp(big)));
  }
  {
    const Scope scope(graph, "loop");
    sum = For(3, {sum}, [&](Graph& body, Value, const Values& carried) {
      const Scope inner(body, "body");
      return Values{carried[0] + ReduceSum(Exp(BroadcastInDim(carried[0], {500}, {})))};
    })[0];
  }
  Exp(BroadcastInDim(x, {5000, 8}, {1}));  // dead code
  graph.SetResults({sum});
  const absl::StatusOr<Program> program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_GE(program->large_values.size(), 2u);
  const LargeValue& first = program->large_values[0];
  EXPECT_EQ(first.type.ToString(), "f32[1000,8]");
  EXPECT_EQ(first.bytes(), 32000);
  EXPECT_EQ(first.count, 2);
  EXPECT_EQ(first.operation, "stablehlo.exponential");
  EXPECT_EQ(first.origin.ToString(), "layer \"wide\" (net.cc:7)");
  EXPECT_EQ(program->large_values[1].type.ToString(), "f32[500]");
  EXPECT_THAT(program->large_values[1].origin.scope, HasSubstr("body"));
}

TEST(StableHlo, RejectsInvalidDonations) {
  Graph graph("donate");
  const Value x = graph.Parameter({DType::kF32, {2}}, "weights"),
              y = graph.Parameter({DType::kF32, {2}}, "y");
  graph.SetResults({x + y, ReduceSum(x), x * y});
  const auto error = [&](std::vector<std::pair<int, int>> donate) {
    return std::string(PrintStableHlo(graph, {.donate = std::move(donate)}).status().message());
  };
  EXPECT_EQ(error({{0, 0}, {1, 2}}), "");
  EXPECT_THAT(
      error({{0, 1}}),
      HasSubstr("parameter 'weights' is f32[2] and cannot be donated to result 1, which is f32[]"));
  EXPECT_THAT(error({{0, 0}, {0, 2}}), HasSubstr("donated twice"));
  EXPECT_THAT(error({{0, 0}, {1, 0}}), HasSubstr("donated twice"));
}

TEST(StableHlo, RejectsGraphWithError) {
  Graph graph("error");
  Tanh(graph.Parameter({DType::kI32, {}}, "x"));
  EXPECT_THAT(std::string(PrintStableHlo(graph).status().message()),
              HasSubstr("tanh: expects floats"));
}

TEST(StableHlo, PrintsProgramsWithoutParametersResultsOrPlainNames) {
  for (const char* name : {"", "3 digits", "m\xc3\xa9tier"}) {
    Graph graph(name);
    graph.SetResults({Constant(graph, Array::Scalar(1.5f))});
    const auto results = testing::Run(graph);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*results)[0].item<float>(), 1.5f);
  }
  Graph none("none");
  none.SetResults({});
  const auto program = PrintStableHlo(none);
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(testing::Executable::Compile(*program).ok());
}

TEST(StableHlo, PreservesLargeConstants) {
  // MLIR prints longer constants in hexadecimal; the byte order must be right for each type.
  Graph graph("constants");
  Values results;
  std::vector<Array> wants;
  for (DType dtype : {DType::kI8, DType::kU16, DType::kI32, DType::kI64, DType::kF16, DType::kBF16,
                      DType::kF32, DType::kF64}) {
    wants.push_back(testing::RandomArray({10, 13}, 5, 0, 100, dtype));
    results.push_back(Constant(graph, wants.back()));
  }
  graph.SetResults(results);
  const auto got = testing::Run(graph);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < wants.size(); ++i)
    EXPECT_TRUE(base::BitwiseEqual((*got)[i], wants[i])) << wants[i].TypeString();
}

}  // namespace stablehlo_test
}  // namespace penstock::ir
