// A reader may write to the elements of an iterator without changing the user's own arrays or the
// elements of a cache, whichever stages are in between.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"
#include "penstock/formats/npy.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace shared_memory_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using testing::PrintElement;
using testing::TestSource;

void Overwrite(const NamedArrays& element) {
  for (const auto& [name, array] : element) {
    Array own = array;
    if (own.dtype() == DType::kString) {
      for (int64_t i = 0; i < own.num_elements(); ++i) {
        own.mutable_data<absl::string_view>()[i] = "overwritten";
      }
    } else if (own.num_bytes() > 0) {
      std::memset(own.mutable_raw(), 0xab, static_cast<size_t>(own.num_bytes()));
    }
  }
}

// Reads all elements and overwrites each of them.
std::vector<std::string> ReadAndOverwrite(const Dataset& dataset) {
  std::vector<std::string> out;
  auto iterator = dataset.MakeIterator({.seed = 7});
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  if (!iterator.ok()) return out;
  for (NamedArrays element;;) {
    const auto more = (*iterator)->Next(&element);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return out;
    out.push_back(PrintElement(element));
    Overwrite(element);
  }
}

NamedArrays MakeArrays() {
  constexpr int64_t kRows = 24;
  Array x = Array::Uninitialized(DType::kI64, {kRows});
  Array v = Array::Uninitialized(DType::kF32, {kRows, 3});
  std::vector<std::string> s;
  for (int64_t i = 0; i < kRows; ++i) {
    x.mutable_data<int64_t>()[i] = i;
    for (int64_t k = 0; k < 3; ++k) v.mutable_data<float>()[3 * i + k] = static_cast<float>(i + k);
    s.push_back(absl::StrCat("row ", i));
  }
  return {{"x", x}, {"v", v}, {"s", Array::Strings({kRows}, s)}};
}

struct NamedStage {
  std::string name;
  std::function<Dataset(const Dataset&)> add;
};

Dataset AddColumn(const Dataset& d) {
  return d.Map(
      [](const NamedArrays&, NamedArrays* out) {
        out->Set("new", Array::Scalar<int64_t>(1));
        return absl::OkStatus();
      },
      {.name = "add", .reads = {"x"}, .makes = {{"new", DType::kI64, {}}}});
}

const std::vector<NamedStage> kStages = {
    {"nothing", [](const Dataset& d) { return d; }},
    {"Repeat", [](const Dataset& d) { return d.Repeat(3); }},
    {"Cache", [](const Dataset& d) { return d.Cache().Repeat(3); }},
    {"Shuffle", [](const Dataset& d) { return d.Shuffle(5, {.seed = 3}); }},
    {"Batch", [](const Dataset& d) { return d.Batch(4); }},
    {"Batch and Unbatch", [](const Dataset& d) { return d.Batch(4).Unbatch(); }},
    {"Rebatch", [](const Dataset& d) { return d.Batch(6).Rebatch(3); }},
    {"Window", [](const Dataset& d) { return d.Window(4, {.shift = 2, .drop_remainder = true}); }},
    {"Zip",
     [](const Dataset& d) {
       return Dataset::Zip({d, d}, {.prefixes = {"", "b"}});
     }},
    {"Map", AddColumn},
    {"Filter", [](const Dataset& d) { return d.Filter([](const NamedArrays&) { return true; }); }},
    {"Enumerate", [](const Dataset& d) { return d.Enumerate(0, {.column = "n"}); }},
    {"Prefetch", [](const Dataset& d) { return d.Prefetch(3); }},
    {"Shard", [](const Dataset& d) { return d.Shard(2, 1); }},
    {"Sample",
     [](const Dataset& d) {
       return Dataset::Sample({d, d}, {}, {.seed = 4});
     }},
    {"Concatenate", [](const Dataset& d) { return d.Concatenate(d); }},
    {"FlatMap", [](const Dataset& d) {
       return d.FlatMap([](const NamedArrays& in) -> absl::StatusOr<Dataset> {
         NamedArrays rows;
         for (const auto& [name, array] : in) {
           rows.Set(name, *array.Reshape(array.shape().Prepend(1)));
         }
         return Dataset::FromArrays(std::move(rows)).Repeat(2);
       });
     }}};

TEST(SharedMemory, OfTheUsersArraysIsNotWrittenTo) {
  for (const NamedStage& first : kStages) {
    for (const NamedStage& second : kStages) {
      SCOPED_TRACE(first.name + ", then " + second.name);
      NamedArrays arrays = MakeArrays();
      const Dataset dataset = second.add(first.add(Dataset::FromArrays(arrays)));
      if (!dataset.status().ok()) continue;  // duplicate column names
      const auto once = ReadAndOverwrite(dataset);
      EXPECT_FALSE(once.empty());
      EXPECT_EQ(PrintElement(arrays), PrintElement(MakeArrays()));
      EXPECT_EQ(ReadAndOverwrite(dataset), once);
    }
  }
}

// Cached elements were computed, so only the cache holds them.
TEST(SharedMemory, OfACacheIsNotWrittenTo) {
  for (const NamedStage& first : kStages) {
    for (const NamedStage& second : kStages) {
      SCOPED_TRACE(first.name + ", a cache, then " + second.name);
      const auto make = [&] { return second.add(first.add(TestSource({.rows = 24})).Cache()); };
      const Dataset dataset = make();
      if (!dataset.status().ok()) continue;
      const auto untouched = testing::ReadAll(make(), {.seed = 7});
      ASSERT_TRUE(untouched.ok()) << untouched.status();
      EXPECT_FALSE(untouched->empty());
      for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(ReadAndOverwrite(dataset), *untouched);
    }
  }
}

TEST(SharedMemory, OfAFolderOrAFileIsNotWrittenTo) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/shared_memory_", absl::Hex(base::EntropySeed()));
  const Dataset source = TestSource({.rows = 24});
  const auto once = ReadAndOverwrite(source);
  const Dataset cache = source.Cache(folder + "/cache");
  const Dataset snapshot = source.Snapshot(folder + "/snapshot");
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(ReadAndOverwrite(cache), once);
    EXPECT_EQ(ReadAndOverwrite(snapshot), once);
  }
  EXPECT_EQ(ReadAndOverwrite(Dataset::FromSnapshot(folder + "/snapshot")), once);
  const auto fs = io::FileSystem::Default();
  const std::string path = folder + "/v.npy";
  const Array v = MakeArrays()[1].second;
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs, path, v));
  const std::string bytes = *io::ReadFile(*fs, path);
  for (const NpyAccess access : {NpyAccess::kMap, NpyAccess::kLoad, NpyAccess::kStream}) {
    const Dataset npy = Dataset::FromNpy(path, {.access = access});
    EXPECT_EQ(ReadAndOverwrite(npy), ReadAndOverwrite(npy));
    EXPECT_EQ(ReadAndOverwrite(npy), ReadAndOverwrite(Dataset::FromArrays({{"v", v}})));
    EXPECT_EQ(*io::ReadFile(*fs, path), bytes);
  }
  std::filesystem::remove_all(folder);
}

// Every pass starts with the initial state, even if a function writes to it.
TEST(SharedMemory, OfTheStateOfAScanIsNotWrittenTo) {
  const Array zero = Array::Scalar<int64_t>(0);
  const Dataset sums = Dataset::Range(1, 5).Scan(
      {{"sum", zero}}, [](const NamedArrays& in, NamedArrays* state, NamedArrays* out) {
        Array sum = *state->Find("sum");
        sum.mutable_data<int64_t>()[0] += in.Find("value")->item<int64_t>();
        out->Set("value", sum);
        return absl::OkStatus();
      });
  const auto once = ReadAndOverwrite(sums);
  ASSERT_EQ(once.size(), 4u);
  EXPECT_EQ(once[3], "value=int64[] {10}");
  EXPECT_EQ(ReadAndOverwrite(sums), once);
  EXPECT_EQ(zero.item<int64_t>(), 0);
}

}  // namespace shared_memory_test
}  // namespace penstock::data
