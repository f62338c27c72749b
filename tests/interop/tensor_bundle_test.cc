// Exchanges checkpoints with TensorFlow: every type, objects, slots, several data files, partitioned
// variables, Keras's networks.
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/save/leveldb_table.h"
#include "penstock/save/save.h"

#include "tests/interop/tensors_of_types.h"
#include "tests/python.h"

namespace penstock::tests::tensor_bundle_test {
namespace {

using base::Array;
using base::DType;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr DType kTypes[] = {DType::kF64,  DType::kF32, DType::kF16,    DType::kBF16,
                            DType::kI64,  DType::kI32, DType::kI16,    DType::kI8,
                            DType::kU64,  DType::kU32, DType::kU16,    DType::kU8,
                            DType::kBool, DType::kC64, DType::kF8E4M3, DType::kF8E5M2};

// The tensors of tensor_bundle_files.py.
base::NamedArrays Wanted() { return TensorsOfTypes(kTypes, "/"); }

Array Range(DType dtype, const base::Shape& shape) {
  Array array = Array::Uninitialized(DType::kI32, shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    array.mutable_data<int32_t>()[i] = static_cast<int32_t>(i);
  }
  return *array.Cast(dtype);
}

io::FileSystem& Files() { return *io::FileSystem::Default(); }

save::Weights Read(const std::string& prefix) {
  const absl::StatusOr<save::Weights> weights = save::ReadWeights(Files(), prefix);
  EXPECT_TRUE(weights.ok()) << weights.status();
  return weights.value_or(save::Weights());
}

// One run of TensorFlow writes all files, and one reads ours.
class TensorFlowCheckpoint : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const absl::Status written =
        RunPython("interop/tensor_bundle_files.py", {"write", folder_->path().string()});
    ASSERT_TRUE(written.ok()) << written;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string Path(absl::string_view name) { return *folder_ / name; }
  static TemporaryFolder* folder_;
};
TemporaryFolder* TensorFlowCheckpoint::folder_ = nullptr;

TEST_F(TensorFlowCheckpoint, EveryTypeIsRead) {
  const save::Weights weights = Read(Path("types"));
  const base::NamedArrays wanted = Wanted();
  EXPECT_EQ(weights.arrays.size(), wanted.size());
  for (const auto& [name, array] : wanted) ExpectArray(weights, name, array);
  EXPECT_THAT(weights.skipped, ::testing::ElementsAre("tensor 'words': strings"));
  const absl::StatusOr<save::Contents> contents = save::Inspect(Files(), Path("types"));
  ASSERT_TRUE(contents.ok()) << contents.status();
  const std::string bytes = *io::ReadFile(Files(), Path("types.data-00000-of-00001"));
  for (const save::TensorInfo& tensor : contents->tensors) {
    const Array& array = *wanted.Find(tensor.name);
    EXPECT_EQ(
        bytes.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.num_bytes)),
        absl::string_view(static_cast<const char*>(array.raw()),
                          static_cast<size_t>(array.num_bytes())))
        << tensor.name;
  }
}

TEST_F(TensorFlowCheckpoint, ObjectsAreReadByTheirPlaces) {
  const save::Weights weights = Read(Path("objects"));
  ExpectArray(weights, "net/kernel", Range(DType::kF32, {2, 3}));
  ExpectArray(weights, "net/sub/bias.x", Array::Of<int32_t>({2}, {1, 2}));
  ExpectArray(weights, "net/by_name/a/b", Array::Scalar<float>(8));
  ExpectArray(weights, "step", Array::Scalar<int64_t>(5));
  ASSERT_NE(weights.arrays.Find("net/kernel/.OPTIMIZER_SLOT/optimizer/momentum"), nullptr);
  EXPECT_EQ(weights.variables.at("net/kernel"), "conv/kernel");
  EXPECT_THAT(weights.skipped, Contains(HasSubstr("iterator")));
}

TEST_F(TensorFlowCheckpoint, KerasNetworkIsReadByItsVariables) {
  save::Weights weights = Read(Path("keras"));
  EXPECT_GT(save::UseVariableNames(weights), 0);
  ExpectArray(weights, "net/conv/kernel", Range(DType::kF32, {3, 3, 1, 2}));
  ExpectArray(weights, "net/norm/moving_variance", Range(DType::kF32, {2}));
  ASSERT_NE(weights.arrays.Find("adam/net_conv_kernel_momentum"), nullptr);
}

TEST_F(TensorFlowCheckpoint, SeveralDataFilesAndPartitionedVariablesAreRead) {
  const save::Weights sharded = Read(Path("sharded"));
  ExpectArray(sharded, "a0", Array::Of<int32_t>({2}, {0, 10}));
  ExpectArray(sharded, "a1", Array::Of<int32_t>({2}, {1, 11}));
  EXPECT_TRUE(std::filesystem::exists(Path("sharded.data-00001-of-00002")));
  const save::Weights slices = Read(Path("slices"));
  ExpectArray(slices, "table", Range(DType::kI32, {200, 3}));
  ExpectArray(slices, "columns", Range(DType::kF32, {2, 300, 2}));
}

TEST_F(TensorFlowCheckpoint, DamageIsFoundAndPlaced) {
  const std::string file = Path("slices.data-00000-of-00001");
  std::string bytes = *io::ReadFile(Files(), file);
  const save::Contents contents = *save::Inspect(Files(), Path("slices"));
  bytes[static_cast<size_t>(contents.tensors[0].offset) + 1] ^= 1;
  const TemporaryFolder own;
  ASSERT_TRUE(io::WriteFile(Files(), own / "slices.data-00000-of-00001", bytes).ok());
  ASSERT_TRUE(
      io::WriteFile(Files(), own / "slices.index", *io::ReadFile(Files(), Path("slices.index")))
          .ok());
  const absl::Status status = save::ReadWeights(Files(), own / "slices").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("tensor '", contents.tensors[0].name,
                                     "': slices.data-00000-of-00001, offset ",
                                     contents.tensors[0].offset, ": wrong checksum")));
}

// Ours are read by tf.train.load_checkpoint and restored by tf.train.Checkpoint.
TEST_F(TensorFlowCheckpoint, OursAreReadAndRestored) {
  const TemporaryFolder own;
  const auto write = [&](const char* name, const save::Weights& weights,
                         const save::WriteOptions& options = {}) {
    const absl::Status status = save::WriteWeights(Files(), own / name, weights, options);
    ASSERT_TRUE(status.ok()) << status;
  };
  const base::NamedArrays wanted = Wanted();
  write("ours.index", {.arrays = wanted});
  write("ours_sharded.index", {.arrays = wanted}, {.max_shard_bytes = 100});
  // What TensorFlow wrote, through our hands.
  for (const char* name : {"objects", "slices"}) {
    write(absl::StrCat(name, ".ckpt").c_str(), Read(Path(name)));
  }
  // An index with compressed blocks.
  const std::string index = *io::ReadFile(Files(), own / "ours.index");
  ASSERT_TRUE(io::WriteFile(Files(), own / "snappy.index",
                            save::WriteTable(*save::ReadTable(index), {.snappy = true}))
                  .ok());
  std::filesystem::copy(own / "ours.data-00000-of-00001", own / "snappy.data-00000-of-00001");
  const save::Weights snappy = Read(own / "snappy");
  for (const auto& [name, array] : snappy.arrays) ExpectArray(snappy, name, *wanted.Find(name));
  EXPECT_EQ(snappy.arrays.size(), wanted.size());
  const absl::Status checked =
      RunPython("interop/tensor_bundle_files.py", {"check", own.path().string()});
  EXPECT_TRUE(checked.ok()) << checked;
}

}  // namespace
}  // namespace penstock::tests::tensor_bundle_test
