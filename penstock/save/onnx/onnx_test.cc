// Structure, errors and files of exported models. tests/interop/onnx_test.cc runs them with ONNX
// Runtime.
#include "penstock/save/onnx/onnx.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/uri.h"
#include "penstock/ir/ops.h"
#include "penstock/save/onnx.pb.h"
#include "penstock/save/onnx/translations.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/save/testing/onnx_cases.h"

namespace penstock::save {
namespace onnx_test {

using base::Array;
using ir::DType;
using ir::Graph;
using ir::Value;
using ir::Values;
using onnx::proto::ModelProto;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kUri[] = "memory://bucket/net/model.onnx";
constexpr char kFolder[] = "memory://bucket/net";

ir::SymbolicBatch::Trace TraceOf(std::function<Values(Graph& graph, int64_t batch)> build) {
  return [build](int64_t batch) -> absl::StatusOr<std::unique_ptr<Graph>> {
    auto graph = std::make_unique<Graph>("program");
    graph->SetResults(build(*graph, batch), std::vector<std::string>{"scores"});
    return graph;
  };
}

// image[batch,4,4,3] through two convolutions with one kernel; w is a weight.
ir::SymbolicBatch::Trace Convolutions() {
  return TraceOf([](Graph& graph, int64_t batch) {
    const Value kernel = graph.Parameter({DType::kF32, {3, 3, 3, 3}}, "conv/kernel");
    const Value bias = graph.Parameter({DType::kF32, {3}}, "conv/bias");
    const Value image = graph.Parameter({DType::kF32, {batch, 4, 4, 3}}, "image");
    const ir::Scope scope(graph, "conv");
    const ir::ConvolutionOptions same{.padding = {{1, 1}, {1, 1}}};
    const Value y = ir::Relu(ir::Convolution(image, kernel, same) + bias);
    return Values{ir::Convolution(y, kernel, same)};
  });
}

base::NamedArrays ConvolutionWeights(float value) {
  Array kernel = Array::Zeros(DType::kF32, {3, 3, 3, 3});
  for (int i = 0; i < 81; ++i) kernel.mutable_data<float>()[i] = value + static_cast<float>(i);
  return {{"conv/kernel", kernel}, {"conv/bias", Array::Of<float>({3}, {value, 2, 3})}};
}

// x[batch,400] times the weight w, whose bytes go into a second file if they may not be embedded.
ir::SymbolicBatch::Trace Scaling() {
  return TraceOf([](Graph& graph, int64_t batch) {
    const Value x = graph.Parameter({DType::kF32, {batch, 400}}, "x");
    return Values{x * ir::BroadcastTo(graph.Parameter({DType::kF32, {400}}, "w"), x.shape())};
  });
}

ModelProto Read(io::FileSystem& fs, absl::string_view uri = kUri) {
  ModelProto model;
  const absl::StatusOr<std::string> bytes = io::ReadFile(fs, uri);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(bytes.ok() && model.ParseFromString(*bytes));
  return model;
}

ModelProto Exported(const ir::SymbolicBatch::Trace& trace, const base::NamedArrays& weights = {},
                    const OnnxOptions& options = {}) {
  const auto fs = io::MakeMemoryFileSystem();
  const absl::Status status = WriteOnnx(*fs, kUri, trace, weights, options);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? Read(*fs) : ModelProto();
}

std::string ErrorOf(const ir::SymbolicBatch::Trace& trace) {
  const auto fs = io::MakeMemoryFileSystem();
  const absl::Status status = WriteOnnx(*fs, kUri, trace, {});
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(*fs->Exists(kUri));
  return std::string(status.message());
}

int CountOf(const ModelProto& model, absl::string_view op) {
  int count = 0;
  for (const auto& node : model.graph().node()) count += node.op_type() == op ? 1 : 0;
  return count;
}

std::vector<std::string> FilesIn(io::FileSystem& fs) {
  std::vector<std::string> names;
  const std::vector<io::FileInfo> files = *fs.List(kFolder);
  for (const io::FileInfo& file : files) names.push_back(io::Basename(file.uri));
  return names;
}

void CollectOperations(const Graph& graph, std::set<std::string>& names) {
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (onnx::FindTranslation(graph.node(id)) != nullptr) {
      names.insert(std::string(ir::OpName(graph.node(id))));
    }
    for (const auto& region : graph.node(id).regions) CollectOperations(*region, names);
  }
}

// Every row of the tables is needed by a program that the interop test runs.
TEST(OnnxTranslations, AreAllTested) {
  std::set<std::string> names;
  for (const testing::OnnxCase& one : testing::OnnxCases()) {
    const auto graph = testing::GraphOf(one, 3);
    ASSERT_TRUE(graph->status().ok()) << one.name << ": " << graph->status();
    CollectOperations(*ir::Decompose(*graph), names);
    CollectOperations(*graph, names);
  }
  for (onnx::TranslationTable family :
       {onnx::ElementwiseTranslations(), onnx::ShapeTranslations(), onnx::ProductTranslations(),
        onnx::WindowTranslations(), onnx::OrderTranslations(), onnx::ControlFlowTranslations()}) {
    for (const onnx::Translation& row : family) {
      EXPECT_TRUE(names.contains(std::string(row.operation))) << row.operation;
    }
  }
}

TEST(Onnx, NamesInputsWeightsOutputsAndTheBatch) {
  const ModelProto model =
      Exported(Convolutions(), ConvolutionWeights(1), {.metadata = {{"class_names", "[\"cat\"]"}}});
  EXPECT_EQ(model.ir_version(), 8);
  ASSERT_THAT(model.opset_import(), SizeIs(1));
  EXPECT_EQ(model.opset_import(0).version(), 17);
  ASSERT_THAT(model.metadata_props(), SizeIs(1));
  EXPECT_EQ(model.metadata_props(0).value(), "[\"cat\"]");
  ASSERT_THAT(model.graph().input(), SizeIs(1));
  EXPECT_EQ(model.graph().input(0).name(), "image");
  const auto& shape = model.graph().input(0).type().tensor_type().shape();
  ASSERT_THAT(shape.dim(), SizeIs(4));
  EXPECT_EQ(shape.dim(0).dim_param(), "batch");
  EXPECT_EQ(shape.dim(3).dim_value(), 3);
  ASSERT_THAT(model.graph().output(), SizeIs(1));
  EXPECT_EQ(model.graph().output(0).name(), "scores");
  std::set<std::string> names;
  for (const auto& tensor : model.graph().initializer()) {
    EXPECT_TRUE(names.insert(tensor.name()).second) << tensor.name();
  }
  EXPECT_TRUE(names.contains("conv/kernel") && names.contains("conv/bias"));
  for (const auto& node : model.graph().node()) {
    if (node.op_type() != "Conv") continue;
    EXPECT_THAT(node.name(), ::testing::StartsWith("conv/Conv"));
  }
}

// The network is transposed at its ends only; the kernel, permuted here, is stored once.
TEST(Onnx, KeepsChannelsFirstBetweenConvolutions) {
  const ModelProto model = Exported(Convolutions(), ConvolutionWeights(1));
  EXPECT_EQ(CountOf(model, "Conv"), 2);
  EXPECT_EQ(CountOf(model, "Transpose"), 2);
  int kernels = 0;
  for (const auto& tensor : model.graph().initializer()) {
    if (!absl::StartsWith(tensor.name(), "conv/kernel")) continue;
    ++kernels;
    EXPECT_THAT(tensor.dims(), ElementsAre(3, 3, 3, 3));
    std::vector<float> values(81);
    ASSERT_EQ(tensor.raw_data().size(), sizeof(float) * 81);
    memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    // HWIO to OIHW: neighbors of the last axis were 9 elements apart.
    EXPECT_EQ(values[1] - values[0], 9);
    EXPECT_EQ(values[27] - values[0], 1);
  }
  EXPECT_EQ(kernels, 1);
}

// Names are unique: an output that is an input gets a number.
TEST(Onnx, NumbersAnOutputOfTheNameOfAnInput) {
  const ModelProto model = Exported(TraceOf([](Graph& graph, int64_t batch) {
    return Values{graph.Parameter({DType::kF32, {batch, 2}}, "scores")};
  }));
  EXPECT_EQ(model.graph().input(0).name(), "scores");
  EXPECT_EQ(model.graph().output(0).name(), "scores_1");
  EXPECT_EQ(CountOf(model, "Identity"), 1);
}

TEST(Onnx, RejectsWeightsOfAnotherShape) {
  const auto fs = io::MakeMemoryFileSystem();
  const absl::Status status = WriteOnnx(*fs, kUri, Convolutions(),
                                        {{"conv/kernel", Array::Zeros(DType::kF32, {3, 3})},
                                         {"conv/bias", Array::Zeros(DType::kF32, {3})}});
  EXPECT_THAT(status.message(), AllOf(HasSubstr("conv/kernel"), HasSubstr("f32[3,3,3,3]")));
}

// A constant stays one number, whatever the shape of the value.
TEST(Onnx, BroadcastsWithoutExpanding) {
  const ModelProto model = Exported(TraceOf([](Graph& graph, int64_t batch) {
    const Value x = graph.Parameter({DType::kF32, {batch, 1000}}, "x");
    const Value row = ir::Iota(graph, {DType::kF32, {1000}}, 0);
    return Values{ir::Exp(x * 2.0 + 1.0) + row};
  }));
  EXPECT_EQ(CountOf(model, "Expand"), 0);
  EXPECT_EQ(CountOf(model, "Shape"), 0);
}

TEST(Onnx, StoresFloat32ForNarrowFloats) {
  const auto trace = TraceOf([](Graph& graph, int64_t batch) {
    const Value w = graph.Parameter({DType::kBF16, {4}}, "w");
    const Value x = graph.Parameter({DType::kF32, {batch, 4}}, "x");
    return Values{ir::Convert(ir::Convert(x, DType::kBF16) * w, DType::kF32)};
  });
  const ModelProto model =
      Exported(trace, {{"w", *Array::Of<float>({4}, {1, 2, 3, 4}).Cast(DType::kBF16)}});
  EXPECT_EQ(CountOf(model, "Cast"), 0);
  ASSERT_THAT(model.graph().initializer(), SizeIs(1));
  EXPECT_EQ(model.graph().initializer(0).data_type(), 1);
}

TEST(Onnx, NamesTheOperationAndTheLayerThatCannotBeExported) {
  EXPECT_THAT(ErrorOf(TraceOf([](Graph& graph, int64_t batch) {
                const Value x = graph.Parameter({DType::kF32, {batch, 4, 4}}, "x");
                const ir::Scope scope(graph, "decoder/solve");
                return Values{ir::Cholesky(x)};
              })),
              AllOf(HasSubstr("model.onnx"), HasSubstr("layer \"decoder/solve\""),
                    HasSubstr("cholesky cannot be exported as ONNX")));
  EXPECT_THAT(ErrorOf(TraceOf([](Graph& graph, int64_t batch) {
                const Value x = graph.Parameter({DType::kI32, {batch}}, "x");
                return Values{ir::Xor(x, x)};
              })),
              HasSubstr("bitwise"));
}

TEST(Onnx, RejectsProgramsThatDependOnTheBatch) {
  EXPECT_THAT(ErrorOf(TraceOf([](Graph& graph, int64_t batch) {
                const Value x = graph.Parameter({DType::kF32, {batch, 4}}, "x");
                const ir::Scope scope(graph, "mean");
                return Values{x - ir::ReduceMean(x, {0}, true)};
              })),
              AllOf(HasSubstr("layer \"mean\""), HasSubstr("batch size")));
}

TEST(Onnx, RejectsABatchThatNoInputHas) {
  EXPECT_THAT(ErrorOf(TraceOf([](Graph& graph, int64_t batch) {
                const Value x = graph.Parameter({DType::kF32, {4}}, "x");
                return Values{ir::BroadcastTo(x, {batch, 4}) + 1.0};
              })),
              HasSubstr("no input has an axis of the batch size"));
}

TEST(Onnx, ChecksTheDestination) {
  const auto fs = io::MakeMemoryFileSystem();
  EXPECT_TRUE(CheckOnnxDestination(*fs, kUri).ok());
  EXPECT_FALSE(*fs->Exists(kUri));
  EXPECT_THAT(CheckOnnxDestination(*fs, "memory://bucket/a.pb").message(), HasSubstr(".onnx"));
}

// In a store, options are part of the URI, not of the data file's name.
class OnnxStores : public ::testing::TestWithParam<const char*> {};

TEST_P(OnnxStores, KeepBothFiles) {
  const bool gs = GetParam() == std::string("gs");
  const absl::StatusOr<io::Emulator*> emulator = gs ? io::Emulator::Gcs() : io::Emulator::S3();
  ASSERT_TRUE(emulator.ok()) << emulator.status();
  const auto fs = io::FileSystem::Default();
  const absl::StatusOr<std::string> bucket = (*emulator)->MakeBucket(*fs);
  ASSERT_TRUE(bucket.ok()) << bucket.status();
  const std::string uri = io::JoinPath(*bucket, "net/model.onnx");
  EXPECT_TRUE(IsOnnxName(uri));
  ASSERT_TRUE(CheckOnnxDestination(*fs, uri).ok());
  for (int i = 0; i < 2; ++i) {  // the second one replaces the first
    const absl::Status status =
        WriteOnnx(*fs, uri, Scaling(), {{"w", Array::Zeros(DType::kF32, {400})}},
                  {.metadata = {}, .max_embedded_bytes = 0});
    ASSERT_TRUE(status.ok()) << status;
  }
  const ModelProto model = Read(*fs, uri);
  ASSERT_THAT(model.graph().initializer(), SizeIs(1));
  const std::string& name = model.graph().initializer(0).external_data(0).value();
  EXPECT_THAT(name, ::testing::MatchesRegex("model.onnx[.0-9a-f]*.data"));
  const absl::StatusOr<std::string> data = io::ReadFile(*fs, io::JoinPath(io::Dirname(uri), name));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(*data, SizeIs(400 * sizeof(float)));
  EXPECT_THAT(*fs->List(io::JoinPath(*bucket, "net")), SizeIs(2));
}

INSTANTIATE_TEST_SUITE_P(All, OnnxStores, ::testing::Values("gs", "s3"),
                         [](const auto& info) { return std::string(info.param); });

// Larger tensors in a second file, at offsets of 64 bytes; small ones stay in the model.
TEST(Onnx, WritesTensorsBesideTheModel) {
  const auto fs = io::MakeMemoryFileSystem();
  const auto trace = TraceOf([](Graph& graph, int64_t batch) {
    const Value x = graph.Parameter({DType::kF32, {batch, 33}}, "x");
    const Value a = graph.Parameter({DType::kF32, {33, 33}}, "a"),
                b = graph.Parameter({DType::kF32, {33, 33}}, "b"),
                c = graph.Parameter({DType::kF32, {33}}, "c");
    return Values{ir::MatMul(ir::MatMul(x, a), b) + c};
  });
  Array b = Array::Zeros(DType::kF32, {33, 33});
  b.mutable_data<float>()[5] = 42;
  const base::NamedArrays weights{
      {"a", Array::Zeros(DType::kF32, {33, 33})}, {"b", b}, {"c", Array::Zeros(DType::kF32, {33})}};
  ASSERT_TRUE(WriteOnnx(*fs, kUri, trace, weights, {.max_embedded_bytes = 100}).ok());
  EXPECT_THAT(FilesIn(*fs), ElementsAre("model.onnx", "model.onnx.data"));
  const std::string data = *io::ReadFile(*fs, absl::StrCat(kUri, ".data"));
  const ModelProto model = Read(*fs);
  ASSERT_THAT(model.graph().initializer(), SizeIs(3));
  for (const auto& tensor : model.graph().initializer()) {
    if (tensor.name() == "c") {
      EXPECT_EQ(tensor.raw_data().size(), 33 * sizeof(float));
      continue;
    }
    EXPECT_EQ(tensor.data_location(), 1);
    ASSERT_THAT(tensor.external_data(), SizeIs(3));
    EXPECT_EQ(tensor.external_data(0).value(), "model.onnx.data");
    const auto offset = std::stoul(tensor.external_data(1).value());
    EXPECT_EQ(offset % 64, 0u);
    EXPECT_EQ(tensor.external_data(2).value(), absl::StrCat(33 * 33 * 4));
    float sixth = 0;
    memcpy(&sixth, data.data() + offset + 5 * sizeof(float), sizeof(float));
    EXPECT_EQ(sixth, tensor.name() == "b" ? 42 : 0);
  }
}

// Another model of the same name gets other data files, and the old ones are removed.
TEST(Onnx, ReplacesTheDataOfTheModelThatItReplaces) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, absl::StrCat(kFolder, "/model.onnx.other"), "mine").ok());
  std::set<std::string> seen;
  const auto trace = Scaling();
  const base::NamedArrays weights{{"w", Array::Zeros(DType::kF32, {400})}};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(WriteOnnx(*fs, kUri, trace, weights, {.max_embedded_bytes = 0}).ok());
    EXPECT_THAT(FilesIn(*fs), SizeIs(3));
    const ModelProto model = Read(*fs);
    const std::string& name = model.graph().initializer(0).external_data(0).value();
    EXPECT_TRUE(seen.insert(name).second || i == 2) << name;
    EXPECT_TRUE(*fs->Exists(absl::StrCat(kFolder, "/", name)));
  }
  ASSERT_TRUE(WriteOnnx(*fs, kUri, trace, weights).ok());
  EXPECT_THAT(FilesIn(*fs), ElementsAre("model.onnx", "model.onnx.other"));
}

// A fault at each change of the file system leaves the old model or the new one, with its data.
TEST(Onnx, LeavesAWholeModelAfterEveryFault) {
  const auto trace = Scaling();
  const auto weights = [](float value) {
    Array w = Array::Zeros(DType::kF32, {400});
    w.mutable_data<float>()[0] = value;
    return base::NamedArrays{{"w", w}};
  };
  const OnnxOptions apart{.metadata = {}, .max_embedded_bytes = 0};
  int faults = 0;
  for (const bool stays_down : {false, true}) {
    bool failed = true;
    for (int64_t at = 0; failed; ++at) {
      SCOPED_TRACE(absl::StrCat("change ", at));
      const auto inner = io::MakeMemoryFileSystem();
      ASSERT_TRUE(WriteOnnx(*inner, kUri, trace, weights(1), apart).ok());
      failed = false;
      FaultyFileSystem fs(inner, [&](int64_t change) {
        if (change != at && !(stays_down && change > at)) return absl::OkStatus();
        failed = true;
        ++faults;
        return absl::UnavailableError("no answer");
      });
      const absl::Status status = WriteOnnx(fs, kUri, trace, weights(2), apart);
      const ModelProto model = Read(*inner);
      const absl::StatusOr<std::string> data = io::ReadFile(
          *inner,
          absl::StrCat(kFolder, "/", model.graph().initializer(0).external_data(0).value()));
      ASSERT_TRUE(data.ok()) << data.status();
      float first = 0;
      memcpy(&first, data->data(), sizeof(float));
      EXPECT_TRUE(first == 2 || (first == 1 && !status.ok())) << first << " " << status;
    }
  }
  EXPECT_GT(faults, 10);
}

// Contents that `penstock inspect` shows. Models are not read back.
TEST(OnnxFormat, ShowsTensorsAndSignature) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteOnnx(*fs, kUri, Convolutions(), ConvolutionWeights(1),
                        {.metadata = {{"class_names", "[]"}}})
                  .ok());
  const auto contents = Inspect(*fs, kUri);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->format, "ONNX");
  const auto kernel = std::find_if(contents->tensors.begin(), contents->tensors.end(),
                                   [](const TensorInfo& one) { return one.name == "conv/kernel"; });
  ASSERT_NE(kernel, contents->tensors.end());
  EXPECT_EQ(kernel->shape, base::Shape({3, 3, 3, 3}));
  EXPECT_EQ(kernel->num_bytes, 324);
  EXPECT_EQ(contents->metadata.at("signature"),
            "image: float32[batch,4,4,3] -> scores: float32[batch,4,4,3]");
  EXPECT_EQ(contents->metadata.at("opset"), "17");
  EXPECT_EQ(contents->metadata.at("class_names"), "[]");
  EXPECT_THAT(std::string(ReadWeights(*fs, kUri).status().message()),
              HasSubstr("not read back; use the file"));
  EXPECT_THAT(std::string(WriteWeights(*fs, kUri, {.arrays = ConvolutionWeights(1)}).message()),
              HasSubstr("export a model"));
}

TEST(OnnxFormat, RejectsDamagedModels) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteOnnx(*fs, kUri, Convolutions(), ConvolutionWeights(1)).ok());
  const std::string bytes = *io::ReadFile(*fs, kUri);
  const auto error_of = [&](const std::string& damaged) {
    EXPECT_TRUE(io::WriteFile(*fs, kUri, damaged).ok());
    const absl::Status status = Inspect(*fs, kUri).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() / 2)), HasSubstr("model.onnx: is damaged"));
  ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  auto& tensors = *model.mutable_graph()->mutable_initializer();
  const auto kernel = std::find_if(tensors.begin(), tensors.end(),
                                   [](const auto& one) { return one.dims_size() == 4; });
  ASSERT_NE(kernel, tensors.end());
  kernel->set_dims(0, int64_t{1} << 62);
  EXPECT_THAT(error_of(model.SerializeAsString()), HasSubstr("shape [4611686018427387904,"));
  kernel->set_dims(0, -1);
  EXPECT_THAT(error_of(model.SerializeAsString()), HasSubstr("shape [-1,"));
  model.clear_graph();
  EXPECT_THAT(error_of(model.SerializeAsString()), HasSubstr("not an ONNX model"));
}

}  // namespace onnx_test
}  // namespace penstock::save
