#include "penstock/save/saved_model/saved_model.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/save.h"
#include "penstock/save/saved_model.pb.h"
#include "penstock/save/testing/faulty_file_system.h"

namespace penstock::save {
namespace saved_model_test {

using base::Array;
using base::DType;
using savedmodel::MetaGraph;
using savedmodel::Node;
using savedmodel::SavedModel;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kFolder[] = "memory://bucket/net";
constexpr char kIndex[] = "memory://bucket/net/variables/variables.index";
constexpr char kProgram[] = "memory://bucket/net/saved_model.pb";

// Inputs and outputs are not in alphabetical order. Every value depends on `value`.
SavedModelContents Small(float value, const char* module = "module @m {}") {
  SavedModelContents contents;
  contents.function.inputs = {{"z in", DType::kF32, {-1, 2}}, {"a", DType::kI32, {-1}}};
  contents.function.outputs = {{"y", DType::kF32, {-1, 3}}, {"b", DType::kBool, {}}};
  contents.function.module = module;
  contents.function.version = 9;
  contents.function.platforms = {"CPU", "TPU"};
  contents.variables = {{"dense/kernel", Array::Of<float>({2}, {value, value}), true},
                        {"norm/moving_mean", Array::Of<float>({1}, {value}), false}};
  return contents;
}

std::string NamesOf(const std::vector<ServingTensor>& tensors) {
  std::string names;
  for (const ServingTensor& tensor : tensors) {
    absl::StrAppend(&names, tensor.name, " ", base::DTypeName(tensor.dtype),
                    tensor.shape.ToString(), ";");
  }
  return names;
}

TEST(SavedModel, IsReadAsItWasWritten) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(5)).ok());
  const auto function = ReadServingFunction(*fs, kFolder);
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_EQ(function->module, "module @m {}");
  EXPECT_EQ(function->version, 9);
  EXPECT_THAT(function->platforms, ElementsAre("CPU", "TPU"));
  EXPECT_EQ(NamesOf(function->inputs), "z in float32[?,2];a int32[?];");
  EXPECT_EQ(NamesOf(function->outputs), "y float32[?,3];b bool[];");
  // The module takes the variables, then the inputs in the writer's order.
  ASSERT_EQ(function->arguments.size(), 4u);
  EXPECT_EQ(function->arguments[0].variable, "dense/kernel");
  EXPECT_EQ(function->arguments[1].variable, "norm/moving_mean");
  EXPECT_EQ(function->arguments[2].input, 0);
  EXPECT_EQ(function->arguments[3].input, 1);
  EXPECT_THAT(function->results, ElementsAre(0, 1));
  const auto weights = ReadWeights(*fs, kFolder);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->arrays.size(), 2u);
  const auto kernel = FindVariable(*weights, "dense/kernel");
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE(BitwiseEqual(*kernel, Array::Of<float>({2}, {5, 5})));
  EXPECT_TRUE(absl::IsNotFound(FindVariable(*weights, "other").status()));
}

TEST(SavedModel, IsInspectedWithoutItsElements) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(5)).ok());
  const auto contents = Inspect(*fs, kFolder);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->format, "SavedModel");
  EXPECT_EQ(contents->tensors.size(), 2u);
  EXPECT_THAT(contents->metadata,
              Contains(Pair("signature serving_default",
                            "z in: float32[?,2], a: int32[?] -> y: float32[?,3], b: bool[]")));
}

TEST(SavedModel, WithoutVariablesIsReadAsItWasWritten) {
  const auto fs = io::MakeMemoryFileSystem();
  SavedModelContents contents = Small(1);
  contents.variables.clear();
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, contents).ok());
  EXPECT_TRUE(ReadServingFunction(*fs, kFolder).ok());
  EXPECT_TRUE(ReadWeights(*fs, kFolder)->arrays.empty());
}

// The value of the SavedModel in the folder if it is complete, 0 if there is none.
float ValueIn(io::FileSystem& fs, const char* module_of_1, const char* module_of_2) {
  const auto function = ReadServingFunction(fs, kFolder);
  if (absl::IsNotFound(function.status())) return 0;
  const auto weights = ReadWeights(fs, kFolder);
  EXPECT_TRUE(function.ok() && weights.ok()) << function.status() << weights.status();
  if (!function.ok() || !weights.ok()) return -1;
  const float value = FindVariable(*weights, "dense/kernel")->data<float>()[0];
  EXPECT_EQ(FindVariable(*weights, "norm/moving_mean")->data<float>()[0], value);
  EXPECT_EQ(function->module, value == 1 ? module_of_1 : module_of_2);
  return value;
}

// Fails every change in turn with `error` while the second model replaces the first. Returns the
// number of changes.
int FailEveryChange(const char* module_of_1, const char* module_of_2, bool may_be_missing,
                    const absl::Status& error = absl::UnavailableError("store is unavailable")) {
  bool failed = true;
  int faults = 0;
  for (int64_t at = 0; failed; ++at) {
    failed = false;
    const auto inner = io::MakeMemoryFileSystem();
    EXPECT_TRUE(WriteSavedModel(*inner, kFolder, Small(1, module_of_1)).ok());
    const std::string index = *io::ReadFile(*inner, kIndex);
    FaultyFileSystem fs(inner, [&](int64_t change) {
      if (change != at) return absl::OkStatus();
      failed = true;
      ++faults;
      return error;
    });
    const absl::Status status = WriteSavedModel(fs, kFolder, Small(2, module_of_2));
    const float value = ValueIn(*inner, module_of_1, module_of_2);
    if (status.ok()) {
      EXPECT_EQ(value, 2) << at;
    } else if (!may_be_missing) {
      EXPECT_TRUE(value == 1 || value == 2) << at;
    } else if (absl::IsResourceExhausted(error) && *io::ReadFile(*inner, kIndex) == index) {
      EXPECT_EQ(value, 1) << at;  // the old weights have their program again
    }
    // Another attempt succeeds.
    EXPECT_TRUE(WriteSavedModel(*inner, kFolder, Small(2, module_of_2)).ok());
    EXPECT_EQ(ValueIn(*inner, module_of_1, module_of_2), 2);
  }
  return faults;
}

TEST(SavedModel, OfTheSameProgramIsOldOrNewAtEveryFault) {
  EXPECT_GT(FailEveryChange("module @m {}", "module @m {}", /*may_be_missing=*/false), 5);
}

TEST(SavedModel, OfAnotherProgramIsOldNewOrMissingAtEveryFault) {
  EXPECT_GT(FailEveryChange("module @m {}", "module @n {}", /*may_be_missing=*/true), 8);
}

TEST(SavedModel, OnAFullDiskIsTheOldOneUntilTheNewWeightsAreThere) {
  EXPECT_GT(FailEveryChange("module @m {}", "module @n {}", /*may_be_missing=*/true,
                            absl::ResourceExhaustedError("disk is full")),
            8);
}

TEST(SavedModel, ExportedAgainKeepsItsProgramsFile) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(1)).ok());
  const std::string before = *io::ReadFile(*fs, kProgram);
  const auto version = (*fs->OpenRandomAccess(kProgram))->version();
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(2)).ok());
  EXPECT_EQ(*io::ReadFile(*fs, kProgram), before);
  EXPECT_EQ((*fs->OpenRandomAccess(kProgram))->version(), version);
  EXPECT_FALSE(*fs->Exists("memory://bucket/net/variables/variables.data-00000-of-00001"));
}

// TensorFlow writes hashes of its program beside it.
TEST(SavedModel, LeavesNoFingerprintOfTheProgramThatItReplaces) {
  const auto fs = io::MakeMemoryFileSystem();
  constexpr char kFingerprint[] = "memory://bucket/net/fingerprint.pb";
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(1)).ok());
  ASSERT_TRUE(io::WriteFile(*fs, kFingerprint, "hashes").ok());
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(2)).ok());
  EXPECT_TRUE(*fs->Exists(kFingerprint));  // the same program
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(2, "module @other {}")).ok());
  EXPECT_FALSE(*fs->Exists(kFingerprint));
}

TEST(SavedModel, RejectsPortsOfTheSameName) {
  const auto fs = io::MakeMemoryFileSystem();
  SavedModelContents contents = Small(1);
  contents.function.outputs[1].name = "y";
  EXPECT_THAT(std::string(WriteSavedModel(*fs, kFolder, contents).message()),
              HasSubstr("two outputs have the name 'y'"));
  contents = Small(1);
  contents.function.inputs[0].name = "";
  EXPECT_FALSE(WriteSavedModel(*fs, kFolder, contents).ok());
  EXPECT_FALSE(*fs->Exists(kProgram));
}

TEST(SavedModel, NeedsAProgramToBeWritten) {
  const auto fs = io::MakeMemoryFileSystem();
  const absl::Status written =
      WriteWeights(*fs, "memory://bucket/net.savedmodel", {.arrays = {{"a", Array::Scalar(1)}}});
  EXPECT_THAT(std::string(written.message()), HasSubstr("Model::Export"));
  EXPECT_FALSE(CheckWeightsDestination(*fs, "memory://bucket/net.savedmodel").ok());
}

TEST(SavedModel, DestinationIsCheckedInAdvance) {
  const auto fs = io::MakeMemoryFileSystem();
  EXPECT_TRUE(CheckSavedModelDestination(*fs, kFolder).ok());
  EXPECT_FALSE(*fs->Exists(kProgram));
  FaultyFileSystem full(fs, [](int64_t) { return absl::PermissionDeniedError("read-only"); });
  EXPECT_TRUE(absl::IsPermissionDenied(CheckSavedModelDestination(full, kFolder)));
}

// ---- Hostile programs ----

// A SavedModel whose signature returns the tensor "out:0" of x.
SavedModel Program(const std::vector<std::vector<std::string>>& nodes) {
  SavedModel model;
  MetaGraph& meta = *model.add_meta_graphs();
  savedmodel::NamedSignatureDef& signature = *meta.add_signature_def();
  signature.set_key("serving_default");
  savedmodel::NamedTensorInfo& x = *signature.mutable_value()->add_inputs();
  x.set_key("x");
  x.mutable_value()->set_name("x:0");
  x.mutable_value()->set_dtype(1);
  savedmodel::NamedTensorInfo& y = *signature.mutable_value()->add_outputs();
  y.set_key("y");
  y.mutable_value()->set_name("out:0");
  y.mutable_value()->set_dtype(1);
  for (const auto& parts : nodes) {
    Node& node = *meta.mutable_graph_def()->add_node();
    node.set_name(parts[0]);
    node.set_op(parts[1]);
    for (size_t i = 2; i < parts.size(); ++i) node.add_input(parts[i]);
  }
  return model;
}

absl::Status Read(const SavedModel& model) {
  const auto fs = io::MakeMemoryFileSystem();
  EXPECT_TRUE(io::WriteFile(*fs, kProgram, model.SerializeAsString()).ok());
  return ReadServingFunction(*fs, kFolder).status();
}

TEST(SavedModel, RejectsProgramsThatAreNoModule) {
  const std::vector<std::vector<std::string>> placeholder = {{"x", "Placeholder"}};
  const auto with = [&](std::vector<std::vector<std::string>> nodes) {
    nodes.insert(nodes.end(), placeholder.begin(), placeholder.end());
    return Read(Program(nodes));
  };
  EXPECT_TRUE(absl::IsUnimplemented(with({{"out", "MatMul", "x", "x"}})));
  EXPECT_TRUE(absl::IsDataLoss(with({})));                                 // no such tensor
  EXPECT_TRUE(absl::IsDataLoss(with({{"out", "Identity", "gone"}})));      // nor this one
  EXPECT_TRUE(absl::IsUnimplemented(with({{"out", "Identity", "out"}})));  // a cycle
  EXPECT_TRUE(absl::IsUnimplemented(with({{"out", "Identity"}})));
  EXPECT_TRUE(absl::IsUnimplemented(with({{"out", "Identity", "x"}})));  // no module
  EXPECT_TRUE(absl::IsDataLoss(with({{"out", "StatefulPartitionedCall", "x"}})));
  EXPECT_TRUE(absl::IsDataLoss(with({{"out", "XlaCallModule", "x"}})));  // without a module
  EXPECT_TRUE(absl::IsNotFound(Read([] {
    SavedModel model = Program({});
    model.mutable_meta_graphs(0)->mutable_signature_def(0)->set_key("other");
    return model;
  }())));
  EXPECT_TRUE(absl::IsDataLoss(Read(SavedModel())));
}

TEST(SavedModel, RejectsFunctionsThatCallThemselves) {
  SavedModel model = Program({{"x", "Placeholder"}, {"out", "PartitionedCall", "x"}});
  savedmodel::Graph& graph = *model.mutable_meta_graphs(0)->mutable_graph_def();
  const auto call = [](Node& node) {
    savedmodel::Attr& attr = *node.add_attr();
    attr.set_key("f");
    attr.mutable_value()->mutable_func()->set_name("loop");
  };
  call(*graph.mutable_node(1));
  savedmodel::Function& loop = *graph.mutable_library()->add_function();
  loop.mutable_signature()->set_name("loop");
  loop.mutable_signature()->add_input_arg()->set_name("a");
  loop.mutable_signature()->add_output_arg()->set_name("b");
  Node& again = *loop.add_node_def();
  again.set_name("again");
  again.set_op("PartitionedCall");
  again.add_input("a");
  call(again);
  savedmodel::Text& returned = *loop.add_ret();
  returned.set_key("b");
  returned.set_value("again:output:0");
  EXPECT_TRUE(absl::IsUnimplemented(Read(model))) << Read(model);
}

TEST(SavedModel, RejectsShapesBeyondTheLimits) {
  SavedModel model = Program({{"x", "Placeholder"}});
  savedmodel::Shape& shape = *model.mutable_meta_graphs(0)
                                  ->mutable_signature_def(0)
                                  ->mutable_value()
                                  ->mutable_inputs(0)
                                  ->mutable_value()
                                  ->mutable_tensor_shape();
  shape.add_dim()->set_size(-2);
  EXPECT_TRUE(absl::IsDataLoss(Read(model)));
  shape.Clear();
  for (int i = 0; i < 9; ++i) shape.add_dim()->set_size(1);
  EXPECT_TRUE(absl::IsUnimplemented(Read(model)));
}

TEST(SavedModel, CutOffAnywhereIsAnErrorOrNoModule) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteSavedModel(*fs, kFolder, Small(1)).ok());
  const std::string bytes = *io::ReadFile(*fs, kProgram);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_TRUE(io::WriteFile(*fs, kProgram, bytes.substr(0, size)).ok());
    EXPECT_FALSE(ReadServingFunction(*fs, kFolder).ok()) << size;
    // The weights do not depend on the program.
    EXPECT_TRUE(ReadWeights(*fs, kFolder).ok()) << size;
  }
}

}  // namespace saved_model_test
}  // namespace penstock::save
