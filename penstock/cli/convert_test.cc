// Tests of the command `penstock convert`.
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/io/file_system.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace convert_test {

using base::Array;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Penstock;

class ConvertTest : public testing::CommandFixture {
 protected:
  io::FileSystem& fs() const { return *io::FileSystem::Default(); }

  void Write(const std::string& name, const save::Weights& weights) const {
    const absl::Status status = save::WriteWeights(fs(), Path(name), weights);
    ASSERT_TRUE(status.ok()) << status;
  }
  save::Weights Read(const std::string& name) const {
    const absl::StatusOr<save::Weights> weights = save::ReadWeights(fs(), Path(name));
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.value_or(save::Weights());
  }
  static save::Weights Small() {
    return {.arrays = {{"conv.weight", Array::Of<float>({2, 2}, {1, 2, 3, 4})},
                       {"step", Array::Scalar<int64_t>(7)}},
            .metadata = {{"epoch", "3"}}};
  }
};

TEST_F(ConvertTest, KeepsEveryTensorThroughAllFormats) {
  Write("a.safetensors", Small());
  std::string from = "a.safetensors";
  for (const std::string to :
       {"b.npz", "c.pt", "d.pth", "e.bin", "f.xser", "g.safetensors.index.json", "h.safetensors"}) {
    const CommandResult result = Penstock({"convert", Path(from), Path(to)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("wrote 2 tensors"));
    const save::Weights weights = Read(to);
    ASSERT_EQ(weights.arrays.size(), 2u) << to;
    for (const auto& [name, array] : Small().arrays) {
      EXPECT_TRUE(BitwiseEqual(*weights.arrays.Find(name), array)) << to << " " << name;
    }
    const CommandResult shown = Penstock({"inspect", Path(to)});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("conv.weight float32[2,2]")) << to;
    from = to;
  }
}

TEST_F(ConvertTest, KeepsMetadataOrReportsItsLoss) {
  Write("a.safetensors", Small());
  const CommandResult kept =
      Penstock({"convert", Path("a.safetensors"), Path("b.safetensors.index.json")});
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.err, Not(HasSubstr("metadata")));
  EXPECT_EQ(Read("b.safetensors.index.json").metadata.at("epoch"), "3");
  const CommandResult lost = Penstock({"convert", Path("a.safetensors"), Path("b.npz")});
  EXPECT_EQ(lost.code, 0) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("1 entries of metadata are left out"));
}

TEST_F(ConvertTest, SplitsAtMaximumShardSize) {
  save::Weights weights;
  for (const char* name : {"a", "b", "c"}) {
    weights.arrays.Append(name, Array::Zeros(base::DType::kU8, {600'000}));
  }
  Write("a.safetensors", weights);
  const CommandResult result = Penstock({"convert", Path("a.safetensors"), "--max-shard-size",
                                         "1MB", Path("net/b.safetensors.index.json")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Folder("net").size(), 4u);  // three shards and the index
}

TEST_F(ConvertTest, ReplacesFilesOnlyWithOverwrite) {
  Write("a.safetensors", Small());
  Write("b.npz", {.arrays = {{"old", Array::Scalar<float>(1)}}});
  const CommandResult refused = Penstock({"convert", Path("a.safetensors"), Path("b.npz")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite"));
  EXPECT_NE(Read("b.npz").arrays.Find("old"), nullptr);
  const CommandResult replaced =
      Penstock({"convert", Path("a.safetensors"), Path("b.npz"), "--overwrite"});
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(Read("b.npz").arrays.size(), 2u);
}

TEST_F(ConvertTest, RejectsSourceAsDestination) {
  Write("a.safetensors", Small());
  std::filesystem::create_symlink(Path("a.safetensors"), Path("link.safetensors"));
  for (const std::string& out : {Path("a.safetensors"), Path("./a.safetensors"),
                                 Path("link.safetensors"), "file://" + Path("a.safetensors")}) {
    const CommandResult result = Penstock({"convert", Path("a.safetensors"), out, "--overwrite"});
    EXPECT_EQ(result.code, 1) << out;
    EXPECT_THAT(result.err, HasSubstr("is the file to read")) << out;
  }
  EXPECT_EQ(Read("a.safetensors").arrays.size(), 2u);
}

// Replacing an index removes its old shards, and replacing an xser folder its old files.
TEST_F(ConvertTest, KeepsSourceThatIsPartOfTheDestination) {
  Write("net.safetensors.index.json", Small());
  Write("net.xser", {.arrays = Small().arrays});
  std::filesystem::create_symlink(Path("net-00001-of-00001.safetensors"), Path("link.safetensors"));
  const std::pair<const char*, const char*> kCases[] = {
      {"net-00001-of-00001.safetensors", "net.safetensors.index.json"},
      {"link.safetensors", "net.safetensors.index.json"},
      {"net.xser.tensors/tensor_0.pt", "net.xser"}};
  for (const auto& [in, out] : kCases) {
    ASSERT_TRUE(std::filesystem::exists(Path(in))) << in;
    const CommandResult result = Penstock({"convert", Path(in), Path(out), "--overwrite"});
    EXPECT_EQ(result.code, 1) << in;
    EXPECT_THAT(result.err, HasSubstr("is one of the files of")) << in;
    EXPECT_TRUE(std::filesystem::exists(Path(in))) << in;
    EXPECT_EQ(Read(out).arrays.size(), 2u);
  }
  // A file beside the index that is none of its shards.
  Write("other.safetensors", Small());
  const CommandResult result = Penstock(
      {"convert", Path("other.safetensors"), Path("net.safetensors.index.json"), "--overwrite"});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(ConvertTest, ChecksDestinationBeforeReading) {
  std::ofstream(folder_ / "file") << "kept";
  // The source does not exist either; the destination is checked first.
  const CommandResult unwritable = Penstock({"convert", Path("none"), Path("file/b.npz")});
  EXPECT_EQ(unwritable.code, 1);
  EXPECT_THAT(unwritable.err, HasSubstr("b.npz"));
  const CommandResult unknown = Penstock({"convert", Path("none"), Path("b.xyz")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("the known formats are"));
  const CommandResult missing = Penstock({"convert", Path("none"), Path("b.npz")});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none"));
}

TEST_F(ConvertTest, ReportsCorruptSourceAndWritesNothing) {
  std::ofstream(folder_ / "a.pt") << "PK\3\4 not an archive";
  const CommandResult result = Penstock({"convert", Path("a.pt"), Path("b.npz")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("a.pt"));
  EXPECT_FALSE(std::filesystem::exists(Path("b.npz")));
}

}  // namespace convert_test
}  // namespace penstock::cli
