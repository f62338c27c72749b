// Exchanges files with Keras: legacy HDF5 (weights, and a model with its optimizer), .weights.h5
// and .keras, read and written.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/save/save.h"

#include "tests/interop/tensors_of_types.h"
#include "tests/python.h"

namespace penstock::tests::keras_files_test {
namespace {

using base::Array;
using base::DType;
using ::testing::HasSubstr;

constexpr DType kTypes[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
                            DType::kU8,   DType::kU16, DType::kU32, DType::kU64, DType::kF16,
                            DType::kBF16, DType::kF32, DType::kF64};

io::FileSystem& Files() { return *io::FileSystem::Default(); }

// The weights and the optimizer's variables of the network `small` in keras_files.py: their names
// in a legacy file and in one of Keras 3.
struct Variable {
  const char *legacy, *path, *variable;
  base::Shape shape;
  DType dtype = DType::kF32;
};
const std::vector<Variable>& SmallNetwork() {
  static const auto* const variables = new std::vector<Variable>{
      {"hidden/kernel", "layers/dense/vars/0", "hidden/0", {3, 4}},
      {"hidden/bias", "layers/dense/vars/1", "hidden/1", {4}},
      {"first/kernel", "layers/dense_1/vars/0", "first/0", {4, 2}},
      {"first/bias", "layers/dense_1/vars/1", "first/1", {2}},
      {"adam/iteration", "optimizer/vars/0", "adam/0", {}, DType::kI64},
      {"adam/learning_rate", "optimizer/vars/1", "adam/1", {}},
      {"adam/hidden_kernel_momentum", "optimizer/vars/2", "adam/2", {3, 4}},
      {"adam/hidden_kernel_velocity", "optimizer/vars/3", "adam/3", {3, 4}},
      {"adam/hidden_bias_momentum", "optimizer/vars/4", "adam/4", {4}},
      {"adam/hidden_bias_velocity", "optimizer/vars/5", "adam/5", {4}},
      {"adam/first_kernel_momentum", "optimizer/vars/6", "adam/6", {4, 2}},
      {"adam/first_kernel_velocity", "optimizer/vars/7", "adam/7", {4, 2}},
      {"adam/first_bias_momentum", "optimizer/vars/8", "adam/8", {2}},
      {"adam/first_bias_velocity", "optimizer/vars/9", "adam/9", {2}},
  };
  return *variables;
}

Array Value(size_t number, const Variable& variable) {
  Array array = Array::Uninitialized(DType::kF32, variable.shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    array.mutable_data<float>()[i] = static_cast<float>(i % 7 + static_cast<int>(number) + 1) / 16;
  }
  return *array.Cast(variable.dtype);
}

save::Weights Legacy(bool with_optimizer) {
  save::Weights weights;
  for (size_t i = 0; i < SmallNetwork().size(); ++i) {
    const Variable& variable = SmallNetwork()[i];
    const bool is_slot = absl::StartsWith(variable.legacy, "adam/");
    if (is_slot && !with_optimizer) continue;
    weights.arrays.Append(absl::StrCat(is_slot ? "optimizer_weights/" : "", variable.legacy),
                          Value(i, variable));
  }
  return weights;
}

save::Weights Keras3() {
  save::Weights weights;
  for (size_t i = 0; i < SmallNetwork().size(); ++i) {
    const Variable& variable = SmallNetwork()[i];
    weights.arrays.Append(variable.path, Value(i, variable));
    weights.variables[variable.path] = variable.variable;
  }
  return weights;
}

// A file in testdata/, which keras_files.py made.
std::string Description(absl::string_view name) {
  return *io::ReadFile(
      Files(), absl::StrCat(PENSTOCK_SOURCE_DIR, "/tests/interop/testdata/keras_files/", name));
}

// Keras reads ours and writes its own in one run.
class KerasFiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    WriteOurs();
    const absl::Status run = RunPython("interop/keras_files.py", {"run", folder_->path().string()});
    ASSERT_TRUE(run.ok()) << run;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static void WriteOurs() {
    Write("types.h5", {.arrays = TensorsOfTypes(kTypes, "/")});
    Write("types.weights.h5", {.arrays = TensorsOfTypes(kTypes, "/vars/")});
    Write("ours.h5", Legacy(/*with_optimizer=*/false));
    save::Weights model = Legacy(/*with_optimizer=*/true);
    model.metadata = {{"model_config", Description("model_config.json")},
                      {"training_config", Description("training_config.json")},
                      {"layer_names", R"(["input","hidden","relu","first"])"}};
    Write("ours_model.h5", model);
    save::Weights keras3 = Keras3();
    Write("ours.weights.h5", keras3);
    keras3.metadata = {{"config.json", Description("config.json")},
                       {"metadata.json", R"({"keras_version": "3.15.1"})"}};
    Write("ours.keras", keras3);
    save::Weights many;
    for (int i = 0; i < 3000; ++i) {
      many.arrays.Append(absl::StrCat("a_layer_with_a_long_name_", i, "/kernel"),
                         Array::Zeros(DType::kF32, {}));
    }
    Write("many.h5", many);
  }

  static void Write(absl::string_view name, const save::Weights& weights) {
    const absl::Status status = save::WriteWeights(Files(), *folder_ / name, weights);
    ASSERT_TRUE(status.ok()) << status;
  }
  static save::Weights Read(absl::string_view name) {
    const absl::StatusOr<save::Weights> weights = save::ReadWeights(Files(), *folder_ / name);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.value_or(save::Weights());
  }
  static TemporaryFolder* folder_;
};
TemporaryFolder* KerasFiles::folder_ = nullptr;

// Files that Keras saved after it had loaded Penstock's.
TEST_F(KerasFiles, OursComeBackBitForBit) {
  const struct {
    const char* name;
    save::Weights want;
  } kFiles[] = {
      {"back.h5", Legacy(/*with_optimizer=*/true)},
      {"back.weights.h5", Keras3()},
      {"back.keras", Keras3()},
  };
  for (const auto& [name, want] : kFiles) {
    const save::Weights back = Read(name);
    EXPECT_EQ(back.arrays.size(), want.arrays.size()) << name;
    for (size_t i = 0; i < want.arrays.size(); ++i) {
      ExpectArray(back, want.arrays[i].first, want.arrays[i].second);
    }
    EXPECT_EQ(back.variables, want.variables) << name;
  }
  EXPECT_EQ(Read("back.h5").metadata.at("layer_names"), R"(["input","hidden","relu","first"])");
}

TEST_F(KerasFiles, LegacyFilesAreReadByTheNamesOfLayers) {
  const save::Weights want = Read("weights.npz");
  for (const char* name : {"weights.h5", "model.h5"}) {
    const save::Weights weights = Read(name);
    for (const auto& [array, value] : want.arrays) {
      const Array* found = weights.arrays.Find(array);
      ASSERT_NE(found, nullptr) << name << " " << array;
      EXPECT_TRUE(base::BitwiseEqual(*found, value)) << name << " " << array;
    }
  }
  EXPECT_EQ(Read("weights.h5").arrays.size(), want.arrays.size());
  const save::Weights model = Read("model.h5"), optimizer = Read("optimizer.npz");
  EXPECT_THAT(model.metadata.at("model_config"), HasSubstr("SeparableConv2D"));
  // The optimizer's variables are the last ones, in their order.
  ASSERT_EQ(model.arrays.size(), want.arrays.size() + optimizer.arrays.size());
  for (const auto& [number, value] : optimizer.arrays) {
    const auto& [name, array] = model.arrays[want.arrays.size() + std::stoul(number)];
    EXPECT_TRUE(base::BitwiseEqual(array, value)) << name;
  }
}

// The arrays of a layer have its name and their numbers, in the order of the layer's weights.
TEST_F(KerasFiles, Keras3IsReadByTheNamesAndNumbersOfLayers) {
  const save::Weights want = Read("weights.npz");
  for (const char* name : {"net.weights.h5", "net.keras"}) {
    save::Weights weights = Read(name);
    save::UseVariableNames(weights);
    std::map<std::string, int> numbers;  // of the layers
    for (const auto& [array, value] : want.arrays) {
      std::string layer = array.substr(0, array.rfind('/'));
      if (absl::StartsWith(layer, "inner/")) layer = layer.substr(6);
      const std::string numbered = absl::StrCat(layer, "/", numbers[layer]++);
      const Array* found = weights.arrays.Find(numbered);
      ASSERT_NE(found, nullptr) << name << " " << numbered;
      EXPECT_TRUE(base::BitwiseEqual(*found, value)) << name << " " << numbered;
    }
  }
  EXPECT_THAT(Read("net.keras").metadata.at("config.json"), HasSubstr("SeparableConv2D"));
  const save::Weights optimizer = Read("optimizer.npz"), weights = Read("net.weights.h5");
  for (const auto& [number, value] : optimizer.arrays) {
    ExpectArray(weights, absl::StrCat("optimizer/vars/", number), value);
  }
}

TEST_F(KerasFiles, Bfloat16IsRead) {
  save::Weights weights = Read("half.weights.h5");
  save::UseVariableNames(weights);
  const Array* kernel = weights.arrays.Find("half/0");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->TypeString(), "bfloat16[2,3]");
  EXPECT_TRUE(base::BitwiseEqual(*kernel->Cast(base::DType::kF32),
                                 *Read("half.npz").arrays.Find("kernel")));
}

}  // namespace
}  // namespace penstock::tests::keras_files_test
