// Tests of the command `penstock convert`.
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace convert_test {

using base::Array;
using ::testing::AllOf;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Penstock;
using ::testing::StartsWith;

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
       {"b.npz", "c.pt", "d.pth", "e.bin", "f.xser", "g.safetensors.index.json", "h.safetensors",
        "i.ckpt", "j.index", "k.npz"}) {
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
  EXPECT_THAT(lost.err, HasSubstr("1 entry of metadata is left out"));
}

// Legacy files take any names of two parts, Keras 3's its own paths; the model is kept.
TEST_F(ConvertTest, KeepsKerasFiles) {
  const Array kernel = Array::Of<float>({2, 2}, {1, 2, 3, 4});
  Write("a.safetensors", {.arrays = {{"conv/kernel", kernel}}, .metadata = {{"epoch", "3"}}});
  std::string from = "a.safetensors";
  for (const std::string to : {"b.h5", "c.hdf5", "d.npz"}) {
    const CommandResult result = Penstock({"convert", Path(from), Path(to)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(BitwiseEqual(*Read(to).arrays.Find("conv/kernel"), kernel)) << to;
    from = to;
  }
  const std::string path = "layers/conv2d/vars/0";
  Write("a.keras", {.arrays = {{path, kernel}},
                    .metadata = {{"config.json", "{}"}, {"metadata.json", "{}"}},
                    .variables = {{path, "conv/0"}}});
  from = "a.keras";
  for (const std::string to : {"b.keras", "c.weights.h5"}) {
    const CommandResult result = Penstock({"convert", Path(from), Path(to)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err.empty(), to == "b.keras") << result.err;  // metadata is left out
    EXPECT_TRUE(BitwiseEqual(*Read(to).arrays.Find(path), kernel)) << to;
    const CommandResult shown = Penstock({"inspect", Path(to)});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr(path + " float32[2,2]")) << to;
    from = to;
  }
  const CommandResult wrong = Penstock({"convert", Path("c.weights.h5"), Path("e.h5")});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("is a path of Keras 3"));
  const CommandResult named =
      Penstock({"convert", "--variable-names", Path("b.keras"), Path("e.h5")});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_TRUE(BitwiseEqual(*Read("e.h5").arrays.Find("conv/0"), kernel));
}

// A model stays a model: the same predictions from each form, and the way back.
TEST_F(ConvertTest, KeepsModelsInEveryForm) {
  const nn::Symbol x = nn::Input({.shape = {3}, .name = "x"});
  keras::Model model(x, nn::Dense({.units = 2, .name = "scores"})(x));
  ASSERT_TRUE(model.Compile({.optimizer = "adam", .loss = "mse"}).ok());
  model.SetClassNames({"cat", "dog"});
  ASSERT_TRUE(model.Save(Path("a.safetensors")).ok());
  const Array input = Array::Of<float>({2, 3}, {1, 2, 3, -4, 5, 6});
  const Array expected = *model.Predict(input);
  std::string from = "a.safetensors";
  for (const std::string to : {"b.keras", "c.h5", "d.safetensors", "e.h5", "f.keras"}) {
    const CommandResult result = Penstock({"convert", Path(from), Path(to)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("wrote the model, 8 parameters")) << to;
    EXPECT_EQ(result.err, "") << to;
    auto loaded = keras::Model::Load(Path(to));
    ASSERT_TRUE(loaded.ok()) << to << ": " << loaded.status();
    EXPECT_TRUE(BitwiseEqual(*loaded->Predict(input), expected)) << to;
    EXPECT_THAT(loaded->class_names(), ::testing::ElementsAre("cat", "dog")) << to;
    from = to;
  }
  // Keras has no such optimizer: the model is still converted, for prediction.
  ASSERT_TRUE(model.Compile({.optimizer = "lars", .loss = "mse"}).ok());
  ASSERT_TRUE(model.Save(Path("lars.safetensors")).ok());
  const CommandResult lars = Penstock({"convert", Path("lars.safetensors"), Path("lars.keras")});
  EXPECT_EQ(lars.code, 0) << lars.err;
  EXPECT_THAT(lars.err, AllOf(HasSubstr("left out"), HasSubstr("LARS")));
  auto predicts = keras::Model::Load(Path("lars.keras"));
  ASSERT_TRUE(predicts.ok()) << predicts.status();
  EXPECT_TRUE(BitwiseEqual(*predicts->Predict(input), expected));
}

TEST_F(ConvertTest, ExportsASavedModelAndReadsItsWeights) {
  const nn::Symbol x = nn::Input({.shape = {3}, .name = "x"});
  keras::Model model(x, nn::Dense({.units = 2, .name = "scores"})(x));
  ASSERT_TRUE(model.Compile({}).ok());
  ASSERT_TRUE(model.Save(Path("a.safetensors")).ok());
  const CommandResult result = Penstock({"convert", Path("a.safetensors"), Path("a.savedmodel")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("exported the model"));
  const CommandResult shown = Penstock({"inspect", Path("a.savedmodel")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("SavedModel"), HasSubstr("scores/kernel float32[3,2]"),
                               HasSubstr("x: float32[?,3] -> scores: float32[?,2]")));
  // Nor is a TensorFlow checkpoint at the place of its variables.
  ASSERT_EQ(Penstock({"convert", Path("a.safetensors"), Path("c/variables/variables.ckpt")}).code,
            0);
  std::filesystem::rename(Path("c/variables/variables.ckpt.index"),
                          Path("c/variables/variables.index"));
  std::filesystem::rename(Path("c/variables/variables.ckpt.data-00000-of-00001"),
                          Path("c/variables/variables.data-00000-of-00001"));
  const CommandResult checkpoint = Penstock({"convert", Path("a.safetensors"), Path("c")});
  EXPECT_EQ(checkpoint.code, 1);
  EXPECT_THAT(checkpoint.err, HasSubstr("--overwrite"));
  // It is not replaced without --overwrite.
  const CommandResult again = Penstock({"convert", Path("a.safetensors"), Path("a.savedmodel")});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--overwrite"));
  EXPECT_EQ(Penstock({"convert", Path("a.safetensors"), Path("a.savedmodel"), "--overwrite"}).code,
            0);
  // In several files.
  const CommandResult split =
      Penstock({"convert", Path("a.safetensors"), Path("b"), "--max-shard-size", "24"});
  EXPECT_EQ(split.code, 0) << split.err;
  EXPECT_EQ(Folder("b/variables").size(), 4u);  // kernel, bias, description of objects, index
  // The weights alone, as of every format.
  ASSERT_EQ(Penstock({"convert", Path("a.savedmodel"), Path("b.npz")}).code, 0);
  EXPECT_TRUE(BitwiseEqual(*Read("b.npz").arrays.Find("scores/kernel"),
                           *Read("a.safetensors").arrays.Find("scores/kernel")));
}

TEST_F(ConvertTest, ExportsAnOnnxModel) {
  const nn::Symbol x = nn::Input({.shape = {3}, .name = "x"});
  keras::Model model(x, nn::Dense({.units = 2, .name = "scores"})(x));
  ASSERT_TRUE(model.Compile({}).ok());
  model.SetClassNames({"cat", "dog"});
  ASSERT_TRUE(model.Save(Path("a.safetensors")).ok());
  const CommandResult result = Penstock({"convert", Path("a.safetensors"), Path("a.onnx")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("exported the model"));
  const std::string bytes = *io::ReadFile(fs(), Path("a.onnx"));
  EXPECT_THAT(bytes, HasSubstr("scores/kernel"));
  EXPECT_THAT(bytes, HasSubstr(R"(["cat","dog"])"));
  // It is not replaced without --overwrite.
  const CommandResult again = Penstock({"convert", Path("a.safetensors"), Path("a.onnx")});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--overwrite"));
  const CommandResult named =
      Penstock({"convert", Path("a.safetensors"), Path("b.onnx"), "--variable-names"});
  EXPECT_EQ(named.code, 1);
  EXPECT_THAT(named.err, HasSubstr("--variable-names"));
  const CommandResult apart = Penstock(
      {"convert", Path("a.safetensors"), Path("a.onnx"), "--overwrite", "--max-shard-size", "1"});
  EXPECT_EQ(apart.code, 0) << apart.err;
}

TEST_F(ConvertTest, RejectsExportOfWeightsAlone) {
  Write("a.npz", {.arrays = Small().arrays});
  for (const char* name : {"x.savedmodel", "x.onnx"}) {
    const CommandResult result = Penstock({"convert", Path("a.npz"), Path(name)});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err,
                HasSubstr("a.npz: the file holds weights but no description of a model"));
    EXPECT_FALSE(*fs().Exists(Path(name)));
  }
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

TEST_F(ConvertTest, ReadsAndWritesPrefixesOfCheckpoints) {
  Write("run/net.ckpt", {.arrays = Small().arrays});
  ASSERT_EQ(Folder("run").size(), 2u);
  const CommandResult read = Penstock({"convert", Path("run/net.ckpt"), Path("a.npz")});
  EXPECT_EQ(read.code, 0) << read.err;
  EXPECT_THAT(read.err, Not(HasSubstr("left out")));
  // The index names any prefix.
  for (const char* out : {"variables.index", "model.ckpt-1000.index"}) {
    const CommandResult written = Penstock({"convert", Path("a.npz"), Path(out)});
    ASSERT_EQ(written.code, 0) << written.err;
  }
  EXPECT_EQ(Read("variables").arrays.size(), 2u);
  EXPECT_EQ(Read("model.ckpt-1000").arrays.size(), 2u);
  const CommandResult split = Penstock(
      {"convert", Path("a.npz"), Path("run/net.ckpt"), "--overwrite", "--max-shard-size", "16"});
  EXPECT_EQ(split.code, 0) << split.err;
  EXPECT_GT(Folder("run").size(), 3u);
  EXPECT_EQ(Read("run/net.ckpt").arrays.size(), 2u);
  // Both names of one checkpoint, and its data file.
  const std::pair<const char*, const char*> kSame[] = {{"run/net.ckpt", "run/net.ckpt"},
                                                       {"run/net.ckpt", "run/net.ckpt.index"},
                                                       {"run/net.ckpt.index", "run/net.ckpt"}};
  for (const auto& [in, out] : kSame) {
    const CommandResult same = Penstock({"convert", Path(in), Path(out), "--overwrite"});
    EXPECT_EQ(same.code, 1) << in;
    EXPECT_THAT(same.err, HasSubstr("is the file to read")) << in;
  }
  const auto contents = save::Inspect(fs(), Path("run/net.ckpt"));
  ASSERT_TRUE(contents.ok()) << contents.status();
  const std::string data = "run/" + contents->tensors[0].file;
  const CommandResult part = Penstock({"convert", Path(data), Path("run/net.ckpt"), "--overwrite"});
  EXPECT_EQ(part.code, 1);
  EXPECT_THAT(part.err, HasSubstr("is one of the files of"));
}

TEST_F(ConvertTest, InspectsPrefixesOfCheckpoints) {
  Write("run/net.ckpt", {.arrays = Small().arrays});
  for (const char* what : {"run/net.ckpt", "run/net.ckpt.index", "run/*.index"}) {
    const CommandResult shown = Penstock({"inspect", Path(what)});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("TensorFlow checkpoint, 2 tensors, 5 elements")) << what;
    EXPECT_THAT(shown.out, HasSubstr("conv.weight float32[2,2]\n")) << what;
  }
  const CommandResult json = Penstock({"inspect", "--json", Path("run/net.ckpt")});
  EXPECT_EQ(json.code, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed[0]["tensors"][0]["variable"], parsed[0]["tensors"][0]["name"]);
  EXPECT_TRUE(parsed[0]["skipped"].empty());
  EXPECT_EQ(Penstock({"inspect", Path("run/other.ckpt")}).code, 1);
  // A damaged index is named, not looked for as shards.
  ASSERT_TRUE(io::WriteFile(fs(), Path("bad.index"), "not a table").ok());
  for (const char* const name : {"bad", "bad.index"}) {
    const CommandResult bad = Penstock({"inspect", Path(name)});
    EXPECT_EQ(bad.code, 1);
    EXPECT_THAT(bad.err, StartsWith(absl::StrCat("penstock inspect: ", Path("bad.index"),
                                                 ": offset 0: is not a table")));
  }
}

// A checkpoint with a string and an object graph, as TensorFlow writes it: checkpoint.py beside it.
TEST_F(ConvertTest, TakesVariableNamesAndReportsWhatIsLeftOut) {
  const std::string prefix =
      std::string(PENSTOCK_SOURCE_DIR) + "/penstock/save/testdata/tensor_bundle/keras.ckpt";
  const CommandResult shown = Penstock({"inspect", prefix});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("variable conv/kernel\n"));
  EXPECT_THAT(shown.out, HasSubstr("left out: tensor 'words"));
  const CommandResult places = Penstock({"convert", prefix, Path("places.npz")});
  EXPECT_EQ(places.code, 0) << places.err;
  EXPECT_THAT(places.err, HasSubstr("convert: left out: tensor 'words"));
  EXPECT_EQ(Read("places.npz").arrays.Find("conv/kernel"), nullptr);
  const CommandResult names = Penstock({"convert", prefix, Path("names.npz"), "--variable-names"});
  EXPECT_EQ(names.code, 0) << names.err;
  EXPECT_NE(Read("names.npz").arrays.Find("conv/kernel"), nullptr);
  const CommandResult none =
      Penstock({"convert", Path("names.npz"), Path("c.safetensors"), "--variable-names"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.err, HasSubstr("has no other names of variables"));
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
