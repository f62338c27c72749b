// Exchanges files of weights with PyTorch: every type, both formats, views, nested objects, xser.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/save/save.h"

#include "tests/interop/tensors_of_types.h"
#include "tests/python.h"

namespace penstock::tests::pytorch_test {
namespace {

using base::Array;
using base::DType;

constexpr DType kTypes[] = {DType::kF64, DType::kF32,  DType::kF16, DType::kBF16,
                            DType::kI64, DType::kI32,  DType::kI16, DType::kI8,
                            DType::kU8,  DType::kBool, DType::kC64};

// The tensors of pytorch_files.py.
base::NamedArrays Wanted() { return TensorsOfTypes(kTypes, "."); }

io::FileSystem& Files() { return *io::FileSystem::Default(); }

// One run of PyTorch for all files.
TEST(PyTorch, FilesOfPyTorchAreRead) {
  const TemporaryFolder folder;
  const absl::Status written =
      RunDebianPython("interop/pytorch_files.py", {"write", folder.path().string()});
  ASSERT_TRUE(written.ok()) << written;

  const base::NamedArrays want = Wanted();
  for (const char* name : {"zip.pt", "stream.pt"}) {
    const auto got = save::ReadWeights(Files(), folder / name);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->arrays.size(), want.size());
    for (const auto& [tensor, array] : want) ExpectArray(*got, tensor, array);
    const auto contents = save::Inspect(Files(), folder / name);
    ASSERT_TRUE(contents.ok()) << contents.status();
    const std::string bytes = *io::ReadFile(Files(), folder / name);
    for (const save::TensorInfo& tensor : contents->tensors) {
      const Array& array = *want.Find(tensor.name);
      EXPECT_EQ(
          bytes.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.num_bytes)),
          absl::string_view(static_cast<const char*>(array.raw()),
                            static_cast<size_t>(array.num_bytes())))
          << tensor.name;
    }
  }

  for (const char* name : {"views.pt", "views_stream.pt"}) {
    const auto views = save::ReadWeights(Files(), folder / name);
    ASSERT_TRUE(views.ok()) << views.status();
    Array base = Array::Uninitialized(DType::kI32, {4, 6});
    Array transposed = Array::Uninitialized(DType::kI32, {6, 4});
    for (int i = 0; i < 24; ++i) {
      base.mutable_data<int32_t>()[i] = i;
      transposed.mutable_data<int32_t>()[i % 6 * 4 + i / 6] = i;
    }
    ExpectArray(*views, "base", base);
    ExpectArray(*views, "tied", base);
    EXPECT_EQ(views->arrays.Find("tied")->raw(), views->arrays.Find("base")->raw());
    ExpectArray(*views, "transposed", transposed);
    ExpectArray(*views, "column", Array::Of<int32_t>({4}, {2, 8, 14, 20}));
    ExpectArray(*views, "block", Array::Of<int32_t>({2, 2}, {7, 9, 13, 15}));
    ExpectArray(*views, "expanded", Array::Of<int32_t>({3, 2}, {7, 8, 7, 8, 7, 8}));
  }

  const auto nested = save::ReadWeights(Files(), folder / "nested.pt");
  ASSERT_TRUE(nested.ok()) << nested.status();
  ExpectArray(*nested, "model/w", Array::Of<float>({2}, {0, 0}));
  ExpectArray(*nested, "optimizer/state/0/exp_avg", Array::Of<float>({2}, {1, 1}));
  ExpectArray(*nested, "weight", Array::Of<float>({1}, {1}));
  const std::map<std::string, std::string> metadata = {{"best", "true"},
                                                       {"epoch", "4"},
                                                       {"name", "net"},
                                                       {"optimizer/param_groups/0/lr", "0.5"},
                                                       {"optimizer/param_groups/0/params/0", "0"},
                                                       {"optimizer/state/0/step", "3"},
                                                       {"size/0", "2"},
                                                       {"size/1", "3"}};
  EXPECT_EQ(nested->metadata, metadata);

  const auto module = save::ReadWeights(Files(), folder / "module.pt");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->arrays.size(), 7u);
  EXPECT_EQ(module->arrays.Find("conv.weight")->shape(), (base::Shape{4, 3, 2, 2}));
  ExpectArray(*module, "bn.num_batches_tracked", Array::Scalar<int64_t>(0));

  const auto one = save::ReadWeights(Files(), folder / "one.pt");
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectArray(*one, "tensor", Array::Of<int64_t>({3}, {0, 1, 2}));

  const auto xser = save::ReadWeights(Files(), folder / "xla.pt");
  ASSERT_TRUE(xser.ok()) << xser.status();
  ASSERT_EQ(xser->arrays.size(), 2u);
  for (const auto& [tensor, array] : xser->arrays) ExpectArray(*xser, tensor, *want.Find(tensor));
  EXPECT_EQ(save::Inspect(Files(), folder / "xla.pt")->format, "xser");
  std::filesystem::remove(folder.path() / "xla.pt.tensors" / "tensor_1.pt");
  EXPECT_FALSE(save::ReadWeights(Files(), folder / "xla.pt").ok());
}

TEST(PyTorch, ReadsOurFiles) {
  const TemporaryFolder folder;
  const auto write = [&](absl::string_view name, const base::NamedArrays& arrays) {
    const absl::Status written = save::WriteWeights(Files(), folder / name, {.arrays = arrays});
    EXPECT_TRUE(written.ok()) << written;
  };
  write("ours.pt", Wanted());
  write("ours.xser", Wanted());
  write("linear.pt", {{"weight", Array::Of<float>({3, 2}, {0, 1, 2, 3, 4, 5})},
                      {"bias", Array::Of<float>({3}, {0, 0, 0})}});
  const Array shared = Array::Of<float>({2}, {1, 2});
  write("tied.pt", {{"a", shared}, {"b", shared}});
  const absl::Status checked =
      RunDebianPython("interop/pytorch_files.py", {"check", folder.path().string()});
  EXPECT_TRUE(checked.ok()) << checked;
}

}  // namespace
}  // namespace penstock::tests::pytorch_test
