// Programs for every batch size: what they print, and whether they compute at each batch size what
// the program of that size computes.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/module_text.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/symbolic_batch.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace dynamic_batch_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Build = std::function<Values(Value x, Value y)>;

// The program of inputs x, f32[batch,4,6], and y, i32[batch,4].
absl::StatusOr<std::unique_ptr<Graph>> Trace(const Build& build, int64_t batch) {
  auto graph = std::make_unique<Graph>("program");
  const Value x = graph->Parameter({DType::kF32, {batch, 4, 6}}, "x");
  const Value y = graph->Parameter({DType::kI32, {batch, 4}}, "y");
  const Scope scope(*graph, "middle");
  graph->SetResults(build(x, y));
  return graph;
}

absl::StatusOr<Program> Dynamic(const Build& build) {
  PENSTOCK_ASSIGN_OR_RETURN(const SymbolicBatch batch,
                            SymbolicBatch::Of([&](int64_t size) { return Trace(build, size); }));
  return PrintStableHlo(batch, {.locations = false});
}

std::vector<Array> Inputs(int64_t batch) {
  Array x = Array::Uninitialized(DType::kF32, {batch, 4, 6});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.mutable_data<float>()[i] = static_cast<float>((i * 37) % 101) / 50.0f - 1.0f;
  }
  Array y = Array::Uninitialized(DType::kI32, {batch, 4});
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    y.mutable_data<int32_t>()[i] = static_cast<int32_t>((i * 7) % 6);
  }
  return {x, y};
}

// StableHLO does not allow results of unknown extents for these operations; the CPU plugin sees
// known extents only.
void ExpectDynamicForms(const Program& program) {
  for (const absl::string_view line : absl::StrSplit(program.text, '\n')) {
    const absl::string_view result = line.substr(line.rfind("tensor<") + 1);
    if (!absl::StrContains(result.substr(0, result.find(" //")), "?")) continue;
    for (const char* fixed : {"constant", "iota", "reshape", "broadcast_in_dim", "slice",
                              "dynamic_slice", "custom_call"}) {
      EXPECT_FALSE(absl::StrContains(line, absl::StrCat(" stablehlo.", fixed, " "))) << line;
    }
  }
}

// Compares the dynamic program with the program of each batch size.
void Check(const char* what, const Build& build) {
  const absl::StatusOr<Program> dynamic = Dynamic(build);
  ASSERT_TRUE(dynamic.ok()) << what << ": " << dynamic.status();
  ExpectDynamicForms(*dynamic);
  for (const int64_t batch : {1, 5}) {
    const auto graph = Trace(build, batch);
    ASSERT_TRUE(graph.ok() && (*graph)->status().ok()) << what << ": " << (*graph)->status();
    const std::vector<Array> inputs = Inputs(batch);
    const auto program = SpecializeModule(dynamic->text, batch);
    ASSERT_TRUE(program.ok()) << what << ": " << program.status();
    const auto executable = testing::Executable::Compile(*program);
    ASSERT_TRUE(executable.ok()) << what << ", batch " << batch << ": " << executable.status()
                                 << program->text;
    const auto got = executable->Run(inputs), expected = testing::Run(**graph, inputs);
    ASSERT_TRUE(got.ok() && expected.ok()) << what << ": " << got.status() << expected.status();
    ASSERT_EQ(got->size(), expected->size());
    for (size_t i = 0; i < got->size(); ++i) {
      EXPECT_TRUE(base::BitwiseEqual((*got)[i], (*expected)[i]))
          << what << ", batch " << batch << ", result " << i << dynamic->text;
    }
  }
}

int64_t Rows(Value x) { return x.shape().dim(0); }

TEST(DynamicBatch, ComputesAtEveryBatchSizeWhatItsProgramComputes) {
  Check("arithmetic", [](Value x, Value) { return Values{Tanh(x) * 2.0 + 1.0}; });
  Check("constants, bias", [](Value x, Value) {
    const Value bias = Constant(*x.graph(), Array::Of<float>({6}, {1, 2, 3, 4, 5, 6}));
    return Values{x + bias, Splat(*x.graph(), {DType::kF32, {Rows(x), 2}}, 3)};
  });
  Check("reshape to multiples of the batch", [](Value x, Value) {
    const Value flat = Reshape(x, {Rows(x) * 4, 6});
    return Values{Reshape(Softmax(flat, -1), {Rows(x), 2, 12}), flat};
  });
  Check("matrix product, transpose", [](Value x, Value) {
    return Values{MatMul(x, Transpose(x, {0, 2, 1})), Transpose(x, {2, 0, 1})};
  });
  Check("iota", [](Value x, Value) {
    return Values{Iota(*x.graph(), {DType::kI32, {Rows(x), 3}}, 1),
                  Iota(*x.graph(), {DType::kI32, {Rows(x), 3}}, 0)};
  });
  Check("slice, split, pad, concatenate, reverse", [](Value x, Value) {
    const Values parts = Split(x, 2, -1);
    return Values{SliceAxis(x, 1, 1, 3),
                  SliceAxis(x, 2, 0, 6, 2),
                  parts[1],
                  Pad(x, 0.5, {{}, {.low = 1}, {.high = 2, .interior = 1}}),
                  Concatenate({x, x}, 0),
                  Concatenate({x, x}, 1),
                  Reverse(x, {1})};
  });
  Check("dynamic slice and update", [](Value x, Value) {
    const Value zero = Splat(*x.graph(), {DType::kI64, {}}, 0);
    const Value two = Splat(*x.graph(), {DType::kI64, {}}, 2);
    const Value part = DynamicSlice(x, {zero, two, zero}, {Rows(x), 1, 6});
    return Values{part, DynamicUpdateSlice(x, part * 2.0, {zero, zero, zero})};
  });
  Check("gather rows, one of each row, scatter", [](Value x, Value y) {
    const Value table = Constant(*x.graph(), Array::Of<float>({6, 1}, {1, 2, 3, 4, 5, 6}));
    const GatherDimensions rows{.offset_dims = {2},
                                .collapsed_slice_dims = {0},
                                .start_index_map = {0},
                                .index_vector_dim = 2};
    return Values{Gather(table, y, rows, {1, 1}), TakeAlongAxis(x, ExpandDims(y, 2), 2),
                  OneHot(y, 6, DType::kF32)};
  });
  Check("columns of all examples", [](Value x, Value) {
    const Value columns = Constant(*x.graph(), Array::Of<int32_t>({2}, {5, 1}));
    const GatherDimensions dims{.offset_dims = {0, 1},
                                .collapsed_slice_dims = {2},
                                .start_index_map = {2},
                                .index_vector_dim = 1};
    return Values{Gather(x, columns, dims, {Rows(x), 4, 1})};
  });
  Check("reductions, sort, cumulative", [](Value x, Value) {
    return Values{ReduceSum(x, {1}), ReduceMax(x, {1, 2}), ArgMax(x, -1),
                  Sort(x, 2),        TopK(x, 2).values,    CumSum(x, 1)};
  });
  Check("comparison, select, conversion", [](Value x, Value) {
    return Values{Select(Greater(x, SplatLike(x, 0)), x, SplatLike(x, 7)),
                  Convert(x, DType::kBF16)};
  });
  Check("convolution, pooling", [](Value x, Value) {
    const Value images = ExpandDims(x, 3);
    const Value kernel = Constant(*x.graph(), Array::Of<float>({2, 2, 1, 1}, {1, 2, 3, 4}));
    return Values{
        ReduceMean(images, {1, 2}),
        MatMul(Reshape(images, {Rows(x), 24}), Splat(*x.graph(), {DType::kF32, {24, 3}}, 2)),
        Convolution(images, kernel, {.padding = {{1, 0}, {0, 0}}}),
        ReduceWindow(images, WindowReducer::kMax, {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}})};
  });
  Check("loops over steps", [](Value x, Value) {
    const Value steps = Transpose(x, {1, 0, 2});
    const Value start = Splat(*x.graph(), {DType::kF32, {Rows(x), 6}}, 0);
    const ScanOut scanned = Scan({start}, {steps}, {x}, [](Graph&, const ScanIn& in) {
      const Value first = Reshape(SliceAxis(in.constants[0], 1, 0, 1), in.state[0].shape());
      return ScanOut{.state = {Tanh(in.state[0] + in.x[0]) + first}, .y = {in.x[0] * 2.0}};
    });
    return Values{scanned.state[0], scanned.y[0]};
  });
  Check("real Fourier transform", [](Value x, Value) { return Values{Rfft(x).real}; });
}

TEST(DynamicBatch, PrintsUnknownExtentsAndDynamicForms) {
  const auto program = Dynamic([](Value x, Value) {
    return Values{x * Splat(*x.graph(), x.type(), 2), Reshape(x, {Rows(x) * 24})};
  });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(
      program->text,
      R"(module @program attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32, jax.uses_shape_polymorphism = true} {
  func.func public @main(
      %arg0: tensor<?x4x6xf32>,
      %arg1: tensor<?x4xi32>
  ) -> (tensor<?x4x6xf32>, tensor<?xf32>) { // ?: 1 24
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4x6xf32>) -> tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.constant dense<2.00000000e+00> : tensor<f32>
    %3 = stablehlo.constant dense<[4, 6]> : tensor<2xi32>
    %4 = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
    %5 = stablehlo.dynamic_broadcast_in_dim %2, %4, dims = [] : (tensor<f32>, tensor<3xi32>) -> tensor<?x4x6xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<?x4x6xf32>
    %7 = stablehlo.constant dense<24> : tensor<1xi32>
    %8 = stablehlo.multiply %1, %7 : tensor<1xi32>
    %9 = stablehlo.dynamic_reshape %arg0, %8 : (tensor<?x4x6xf32>, tensor<1xi32>) -> tensor<?xf32> // ?: 1 24
    return %6, %9 : tensor<?x4x6xf32>, tensor<?xf32> // ?: 1 24
  }
}
)");
}

std::string ErrorOf(const Build& build) {
  const absl::StatusOr<Program> program = Dynamic(build);
  return program.ok() ? "no error" : std::string(program.status().message());
}

TEST(DynamicBatch, NamesTheLayerOfAnOperationWithoutADynamicForm) {
  EXPECT_THAT(ErrorOf([](Value x, Value) {
                return Values{Pad(x, 0, {{.high = Rows(x)}, {}, {}})};
              }),
              AllOf(HasSubstr("\"middle\""), HasSubstr("pad"), HasSubstr("'high'")));
  EXPECT_THAT(ErrorOf([](Value x, Value) {
                return Values{Rfft(Transpose(x, {1, 2, 0})).real};
              }),
              HasSubstr("\"middle\""));
  EXPECT_THAT(
      ErrorOf([](Value x, Value) { return CustomCall(*x.graph(), "kernel", {x}, {x.type()}); }),
      AllOf(HasSubstr("\"middle\""), HasSubstr("custom_call")));
}

TEST(DynamicBatch, NeedsAParameterWithTheBatch) {
  const auto batch = SymbolicBatch::Of([&](int64_t size) -> absl::StatusOr<std::unique_ptr<Graph>> {
    auto graph = std::make_unique<Graph>("program");
    graph->Parameter({DType::kF32, {3, size}}, "x");
    graph->SetResults({Splat(*graph, {DType::kF32, {size}}, 1)});
    return graph;
  });
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_FALSE(PrintStableHlo(*batch).ok());
}

constexpr char kModule[] = R"(module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func private @"helper}"(%a: tensor<f32>) -> tensor<f32> {
    return %a : tensor<f32>
  }
  func.func public @main(%p: tensor<i32> {jax.global_constant = "_platform_index"},
      %x: tensor<?x2xf32> {note = ") -> {"} loc("x")) -> (tensor<?x2xf32> {jax.result_info = ""}) {
    %0 = stablehlo.add %x, %x : tensor<?x2xf32>
    return %0 : tensor<?x2xf32>
  }
}
)";

TEST(ModuleText, ReadsTheTypesOfMain) {
  const auto signature = ReadModuleSignature(kModule);
  ASSERT_TRUE(signature.ok()) << signature.status();
  ASSERT_EQ(signature->arguments.size(), 2u);
  EXPECT_EQ(signature->arguments[0].type.ToString(), "i32[]");
  EXPECT_EQ(signature->arguments[0].attributes, "{jax.global_constant = \"_platform_index\"}");
  EXPECT_EQ(signature->arguments[1].type.ToString(), "f32[?,2]");
  ASSERT_EQ(signature->results.size(), 1u);
  EXPECT_EQ(signature->results[0].type.ToString(), "f32[?,2]");
}

TEST(ModuleText, TakesTheBatchForUnknownExtents) {
  const auto program = SpecializeModule(kModule, 3);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->parameters[1].ToString(), "f32[3,2]");
  EXPECT_EQ(program->results[0].ToString(), "f32[3,2]");
  EXPECT_FALSE(absl::StrContains(program->text, "?"));
  EXPECT_FALSE(SpecializeModule(kModule, 0).ok());
  EXPECT_FALSE(SpecializeModule(kModule, int64_t{1} << 40).ok());
}

TEST(ModuleText, TakesMultiplesFromTheComment) {
  const std::string main = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n";
  const auto program =
      SpecializeModule(main + "%0 = f %a : (tensor<?xf32>) -> tensor<2x?xf32> // ?: 1 4\n}", 3);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, HasSubstr("(tensor<3xf32>) -> tensor<2x12xf32>"));
  for (const char* comment :
       {" // ?: 1", " // ?: 1 0", " // ?: 1 -4", " // ?: 1 x", " // ?: 1 99999999999"}) {
    EXPECT_FALSE(
        SpecializeModule(main + "%0 = f %a : (tensor<?xf32>) -> tensor<2x?xf32>" + comment, 3).ok())
        << comment;
  }
}

TEST(ModuleText, RejectsWhatIsCutOffAnywhere) {
  const std::string text = kModule;
  const size_t end = text.find("\n    %0");
  for (size_t size = 0; size < end; ++size) {
    EXPECT_FALSE(ReadModuleSignature(text.substr(0, size)).ok()) << size;
  }
  for (const char* broken :
       {"func.func @main", "func.func @main(", "func.func @main() ->",
        "func.func @main(%a: tensor<2xf32) {}", "func.func @main(%a: tensor<2xx2xf32>) {}",
        "func.func @main(%a: tensor<-3xf32>) {}", "func.func @main(%a: i32) {}",
        "func.func @main(%a: tensor<9x9x9x9x9x9x9x9x9xf32>) {}", "@main() {}"}) {
    EXPECT_FALSE(ReadModuleSignature(broken).ok()) << broken;
  }
}

}  // namespace dynamic_batch_test
}  // namespace penstock::ir
