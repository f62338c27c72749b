// Exports programs, layers and networks as ONNX models, which onnx's checker accepts and ONNX
// Runtime computes as Penstock does, for batches of 1, 3 and 7 examples.
#include "penstock/save/onnx/onnx.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/ir/testing/run.h"
#include "penstock/models/models.h"
#include "penstock/nn/inference_graph.h"
#include "penstock/nn/layers.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/onnx_cases.h"

#include "tests/python.h"

namespace penstock::tests::onnx_test {
namespace {

using base::Array;
using base::DType;
using Json = nlohmann::ordered_json;

constexpr int64_t kBatch = 7;

// Random numbers from `low` to `high`; whole ones for integers.
Array Random(const ir::TensorType& type, uint64_t seed, double low, double high) {
  base::Random random(seed);
  Array array = Array::Uninitialized(DType::kF64, type.shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    const double x = low + (high - low) * random.Uniform();
    array.mutable_data<double>()[i] = base::IsFloat(type.dtype) ? x : std::floor(x);
  }
  return *array.Cast(type.dtype);
}

// A program to compare: for a batch size, with its weights and inputs for kBatch examples.
struct Exported {
  std::string what;
  ir::SymbolicBatch::Trace trace;
  base::NamedArrays weights, inputs;
  double tolerance = 1e-5;
  save::OnnxOptions options = {};
  std::vector<int64_t> batches = {1, 3, kBatch};
};

// Exports programs, computes them in Penstock, many in one program of the device, and has ONNX
// Runtime compare.
class Comparison {
 public:
  // The error of exporting, which is reported with the differences.
  void Add(const Exported& one) {
    const std::string name = absl::StrCat("model_", models_.size());
    const absl::Status written =
        save::WriteOnnx(*fs_, folder_ / (name + ".onnx"), one.trace, one.weights, one.options);
    if (!written.ok()) {
      ADD_FAILURE() << one.what << ": " << written;
      return;
    }
    const auto program = ir::SymbolicBatch::Of(one.trace);
    const auto graph = one.trace(kBatch);
    if (!graph.ok() || !program.ok()) {
      ADD_FAILURE() << one.what << ": " << graph.status() << program.status();
      return;
    }
    Json model = {{"name", name}, {"what", one.what}, {"tolerance", one.tolerance}};
    model["batches"] = one.batches;
    if (!one.options.metadata.empty()) model["metadata"] = one.options.metadata;
    Pending pending{.name = name, .tensors = {}, .results = {}};
    ir::Values arguments;
    for (size_t i = 0; i < (*graph)->parameters().size(); ++i) {
      const ir::Value& parameter = (*graph)->parameters()[i];
      const std::string& of = (*graph)->parameter_names()[i];
      const Array* weight = one.weights.Find(of);
      const Array& value = weight != nullptr ? *weight : *one.inputs.Find(of);
      arguments.push_back(device_->Parameter(parameter.type(), of));
      values_.push_back(value);
      if (weight != nullptr) continue;
      pending.tensors.Append("input/" + of, value);
      model["batch_axis"]["input/" + of] = BatchAxis(program->graph(), *program, of);
    }
    const ir::Values results = device_->Inline(**graph, arguments);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& of = (*graph)->result_names()[i];
      pending.results.push_back("output/" + of);
      results_.push_back(results[i]);
      model["batch_axis"]["output/" + of] = AxisOf(program->ShapeOf(program->graph().results()[i]));
    }
    pending_.push_back(std::move(pending));
    models_.push_back(std::move(model));
    if (results_.size() >= 150 || device_->num_nodes() >= 8000) Flush();
  }

  // The file of the model added last.
  std::string LastFile() const {
    return folder_ / absl::StrCat("model_", models_.size() - 1, ".onnx");
  }

  void Run() {
    Flush();
    ASSERT_TRUE(io::WriteFile(*fs_, folder_ / "models.json", models_.dump()).ok());
    const absl::Status ran =
        RunPython("interop/onnx_models.py", {"check", folder_.path().string()});
    ASSERT_TRUE(ran.ok()) << ran;
    const auto text = io::ReadFile(*fs_, folder_ / "differences.json");
    ASSERT_TRUE(text.ok()) << text.status();
    const Json differences = Json::parse(*text);
    for (const auto& [what, difference] : differences.items()) {
      ADD_FAILURE() << what << ": " << difference.get<std::string>();
    }
  }

 private:
  struct Pending {
    std::string name;
    base::NamedArrays tensors;
    std::vector<std::string> results;
  };

  static int64_t AxisOf(const std::vector<ir::Extent>& shape) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].batches != 0) return static_cast<int64_t>(i);
    }
    return -1;
  }
  static int64_t BatchAxis(const ir::Graph& graph, const ir::SymbolicBatch& program,
                           const std::string& name) {
    for (size_t i = 0; i < graph.parameters().size(); ++i) {
      if (graph.parameter_names()[i] == name) return AxisOf(program.ShapeOf(graph.parameters()[i]));
    }
    return -1;
  }

  // Computes what was added.
  void Flush() {
    device_->SetResults(results_);
    const auto got = ir::testing::Run(*device_, values_);
    EXPECT_TRUE(got.ok()) << got.status();
    size_t next = 0;
    for (Pending& pending : pending_) {
      if (!got.ok()) break;
      for (const std::string& name : pending.results) {
        pending.tensors.Append(name, (*got)[next++]);
      }
      const absl::Status written = save::WriteWeights(
          *fs_, folder_ / (pending.name + ".safetensors"), {.arrays = pending.tensors});
      EXPECT_TRUE(written.ok()) << written;
    }
    pending_.clear();
    results_.clear();
    values_.clear();
    device_ = std::make_unique<ir::Graph>("reference");
  }

  const std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
  const TemporaryFolder folder_;
  Json models_ = Json::array();
  std::unique_ptr<ir::Graph> device_ = std::make_unique<ir::Graph>("reference");
  std::vector<Array> values_;
  ir::Values results_;
  std::vector<Pending> pending_;
};

}  // namespace

TEST(Onnx, RuntimeComputesEveryOperation) {
  Comparison comparison;
  for (const save::testing::OnnxCase& one : save::testing::OnnxCases()) {
    Exported exported{.what = one.name,
                      .trace = [one](int64_t batch) -> absl::StatusOr<std::unique_ptr<ir::Graph>> {
                        return save::testing::GraphOf(one, batch);
                      },
                      .weights = {},
                      .inputs = {}};
    const auto graph = save::testing::GraphOf(one, kBatch);
    for (size_t i = 0; i < graph->parameters().size(); ++i) {
      exported.inputs.Append(graph->parameter_names()[i],
                             Random(graph->parameters()[i].type(), i + 1, one.low, one.high));
    }
    comparison.Add(exported);
  }
  comparison.Run();
}

namespace {

// Weights of a network: initial values, of which those of at most this rank are disturbed, so that
// no bias is 0, no scale is 1, and variances are above 0.
base::NamedArrays WeightsOf(const nn::Network& network, int disturbed_rank) {
  base::NamedArrays weights;
  const auto initial = network.Initialize(1);
  EXPECT_TRUE(initial.ok()) << initial.status();
  if (!initial.ok()) return weights;
  uint64_t seed = 1;
  for (const auto& [name, array] : *initial) {
    if (!base::IsFloat(array.dtype()) || array.rank() > disturbed_rank) {
      weights.Append(name, array);
      continue;
    }
    const Array noise = Random({DType::kF64, array.shape()}, ++seed, 0, 0.1);
    Array sum = *array.Cast(DType::kF64);
    for (int64_t i = 0; i < sum.num_elements(); ++i) {
      sum.mutable_data<double>()[i] += noise.data<double>()[i];
    }
    weights.Append(name, *sum.Cast(array.dtype()));
  }
  return weights;
}

Exported Predicting(std::string what, const nn::Network& network, double low, double high,
                    int disturbed_rank = base::kMaxRank) {
  Exported exported{
      .what = std::move(what),
      .trace = [network](int64_t batch) { return nn::InferenceGraph(network, batch); },
      .weights = WeightsOf(network, disturbed_rank),
      .inputs = {}};
  for (const nn::Network::Port& input : network.inputs()) {
    ir::TensorType type = input.type;
    type.shape.set_dim(0, kBatch);
    exported.inputs.Append(
        input.name, Random(type, exported.inputs.size() + 1, base::IsFloat(type.dtype) ? low : 0,
                           base::IsFloat(type.dtype) ? std::min(high, 2.0) : high));
  }
  return exported;
}

std::vector<Json> LayerRows() {
  const TemporaryFolder folder;
  const absl::Status ran = RunPython("interop/onnx_models.py", {"rows", folder / "rows.json"});
  EXPECT_TRUE(ran.ok()) << ran;
  const auto text = io::ReadFile(*io::FileSystem::Default(), folder / "rows.json");
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? Json::parse(*text).get<std::vector<Json>>() : std::vector<Json>();
}

// Uses its second input as the mask of the first.
nn::Layer WithMask() {
  return nn::Lambda([](nn::CallContext& ctx, const ir::Values& inputs) -> nn::Outputs {
    ctx.SetOutputMask(ir::Convert(inputs[1], DType::kBool));
    return inputs[0];
  });
}

std::string ClassOf(const Json& row) {
  const auto name = row["class"].get<std::string>();
  return name == "GroupQueryAttention" ? "GroupedQueryAttention" : name;  // Keras's name
}

// A network of the layer of a row; masks are further inputs.
absl::StatusOr<nn::Network> NetworkOfRow(const Json& row) {
  Json config = row["config"];
  config.update(row.value("call", Json::object()));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Layer layer, nn::LayerFromConfig(ClassOf(row), "layer", config));
  std::vector<nn::Symbol> inputs, given;
  const Json types = row.value("dtype", Json("float32")), masks = row.value("masks", Json::array());
  const auto add = [&](const std::vector<int64_t>& shape, DType dtype) {
    inputs.push_back(
        nn::Input({.shape = shape, .dtype = dtype, .name = absl::StrCat("input_", inputs.size())}));
    return inputs.back();
  };
  for (size_t i = 0; i < row["shapes"].size(); ++i) {
    auto shape = row["shapes"][i].get<std::vector<int64_t>>();
    shape.erase(shape.begin());
    PENSTOCK_ASSIGN_OR_RETURN(
        const DType dtype,
        base::DTypeFromName((types.is_array() ? types[i] : types).get<std::string>()));
    given.push_back(add(shape, dtype));
    if (i >= masks.size() || masks[i].is_null()) continue;
    given.back() = WithMask()({given.back(), add({shape[0]}, DType::kU8)});
  }
  nn::Network network(inputs, layer.Outputs(given));
  PENSTOCK_RETURN_IF_ERROR(network.status());
  return network;
}

}  // namespace

// Every layer with every setting that is compared with Keras.
TEST(Onnx, RuntimeComputesEveryLayer) {
  Comparison comparison;
  std::set<std::string> classes;
  for (const Json& row : LayerRows()) {
    const std::string what =
        ClassOf(row) + " " + row["config"].dump() + row.value("masks", Json()).dump();
    const auto network = NetworkOfRow(row);
    if (!network.ok()) {
      ADD_FAILURE() << what << ": " << network.status();
      continue;
    }
    classes.insert(ClassOf(row));
    Exported exported = Predicting(what, *network, -2, row.value("high", 200.0));
    // 16-bit floats are computed in float32.
    if (row["config"].contains("dtype")) exported.tolerance = row.value("tolerance", 1e-5);
    comparison.Add(exported);
  }
  comparison.Run();
  classes.insert({"Sequential", "Functional"});  // in RuntimeComputesNetworks
  for (const std::string& name : nn::LayerClassNames()) {
    EXPECT_TRUE(classes.contains(name)) << name << " is exported in no row";
  }
}

// Networks in networks, several inputs and outputs, a layer that is used twice.
nn::Network Nested() {
  const nn::Symbol a = nn::Input({.shape = {8, 8, 3}, .name = "a"}),
                   b = nn::Input({.shape = {8, 8, 3}, .name = "b"});
  const nn::Symbol in = nn::Input({.shape = {8, 8, 3}});
  const nn::Layer tower = nn::Nested(nn::Network(
      {in}, {nn::GlobalMaxPooling2D()(
                nn::Conv2D({.filters = 40, .kernel_size = 3, .activation = "relu"})(in))}));
  const nn::Symbol x = tower(a), y = tower(b);
  const nn::Symbol scores = nn::Dense({.units = 40, .name = "scores"})(nn::Concatenate()({x, y}));
  return nn::Network({a, b}, {scores, nn::Subtract({.name = "difference"})({x, y}),
                              nn::Identity({.name = "copy"})(a)});
}

// One network of each family.
TEST(Onnx, RuntimeComputesNetworks) {
  Comparison comparison;
  struct Row {
    const char* name;
    models::ImageNetOptions options;
  };
  for (const Row& row : std::vector<Row>{
           {"resnet50", {.input_shape = {32, 45, 3}, .classes = 7}},
           {"resnet50_v2", {.input_shape = {45, 37, 3}, .classes = 6}},
           {"vgg16", {.input_shape = {32, 32, 3}, .include_top = false, .pooling = "avg"}},
           {"densenet121", {.input_shape = {39, 32, 3}, .classes = 3}},
           {"xception", {.input_shape = {75, 71, 3}, .classes = 4}},
           {"inception_v3", {.input_shape = {79, 75, 3}, .classes = 5}},
           {"inception_resnet_v2", {.input_shape = {75, 76, 3}, .classes = 4}},
           {"mobilenet", {.input_shape = {45, 32, 3}, .classes = 5, .alpha = 0.25}},
           {"mobilenet_v2", {.input_shape = {45, 32, 3}, .classes = 5, .alpha = 0.5}},
           {"mobilenet_v3_small", {.input_shape = {45, 32, 3}, .classes = 5}},
           {"nasnet_mobile", {.input_shape = {32, 41, 3}, .classes = 6}},
           {"efficientnet_b0", {.input_shape = {45, 32, 3}, .classes = 5}},
           {"efficientnet_v2_b0", {.input_shape = {45, 32, 3}, .classes = 5}},
           {"efficientnet_lite0", {.input_shape = {45, 32, 3}, .classes = 5}},
           {"convnext_tiny", {.input_shape = {45, 37, 3}, .classes = 5}},
       }) {
    const auto network = models::ByName(row.name, row.options);
    ASSERT_TRUE(network.ok()) << network.status();
    comparison.Add(Predicting(row.name, *network, 0, 255, /*disturbed_rank=*/1));
  }
  comparison.Add(Predicting("resnet8", models::ResNetCifar({.depth = 8}), 0, 1, 1));
  comparison.Add(Predicting("vision transformer", models::VisionTransformer(), 0, 1, 1));
  comparison.Add(Predicting(
      "gpt", models::Gpt({.vocabulary_size = 40, .sequence_length = 9, .dim = 16}), 0, 40, 1));
  comparison.Add(Predicting(
      "mlp of bytes", models::Mlp({.input_shape = {4, 4, 3}, .input_dtype = DType::kU8}), 0, 255));
  Exported nested = Predicting("nested networks", Nested(), -1, 1);
  nested.options = {.metadata = {{"class_names", R"(["cat","dog"])"}}, .max_embedded_bytes = 1000};
  comparison.Add(nested);
  EXPECT_TRUE(std::filesystem::exists(comparison.LastFile() + ".data"));
  comparison.Run();
}

}  // namespace penstock::tests::onnx_test
