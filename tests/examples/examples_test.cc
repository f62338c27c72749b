// Runs the programs of examples/ as a user does, on small data.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/formats/npy.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/empty_home.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/scripted_s3.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"
#include "penstock/save/save.h"

#include "tests/examples/photo_patches.h"

namespace penstock::tests {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ExamplesTest : public ::testing::Test {
 protected:
  ExamplesTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "penstock-examples-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~ExamplesTest() override {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  std::string Path(absl::string_view name) const { return absl::StrCat(folder_, "/", name); }

  // Runs a program of examples/; `arguments` are a shell's words. Returns what it printed.
  std::string Run(absl::string_view program, const std::string& arguments, int expected_exit = 0) {
    return RunCommand(absl::StrCat(PENSTOCK_EXAMPLES, "/", program, " ", arguments), expected_exit);
  }

  std::string RunCommand(const std::string& line, int expected_exit) {
    const std::string command = absl::StrCat("cd ", folder_, " && ", line, " 2>&1");
    std::string output;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return "popen failed";
    std::array<char, 4096> block;
    for (size_t n; (n = fread(block.data(), 1, block.size(), pipe)) > 0;)
      output.append(block.data(), n);
    const int status = pclose(pipe);
    EXPECT_EQ(WEXITSTATUS(status), expected_exit) << command << "\n" << output;
    return output;
  }

  std::string Read(const std::string& uri) {
    absl::StatusOr<std::string> text = io::ReadFile(*io::FileSystem::Default(), uri);
    EXPECT_OK(text.status());
    return text.value_or("");
  }

  std::string folder_;
};

TEST_F(ExamplesTest, FlowersWithoutCloudStorage) {
  ASSERT_OK(WritePatchShard(Path("a.tfrec"), 0, 64, false));
  EXPECT_THAT(Run("dump_flowers", "'*.tfrec' flowers.npz --size 16"),
              HasSubstr("flowers.npz: 128 images of 16x16, 96 KiB"));
  const std::string trained = Run("train_flowers", "flowers.npz --batch-size 64 --epochs 3");
  EXPECT_THAT(trained, HasSubstr("8 replicas on cpu, 8 images each"));
  EXPECT_THAT(trained, ContainsRegex("accuracy: (0\\.[6-9]|1\\.)"));
  // Data that does not fit: one option.
  EXPECT_THAT(Run("train_flowers", "flowers.npz --batch-size 64 --epochs 1 --access stream"),
              HasSubstr("accuracy"));
}

TEST_F(ExamplesTest, FlowersWithoutCloudStorageSaysWhatIsWrong) {
  EXPECT_THAT(Run("dump_flowers", "'missing/*.tfrec' flowers.npz", 1), HasSubstr("missing"));
  EXPECT_THAT(Run("train_flowers", "missing.npz", 1), HasSubstr("missing.npz"));
  EXPECT_THAT(Run("train_flowers", "missing.npz --access often", 1), HasSubstr("often"));
  EXPECT_THAT(Run("train_flowers", "missing.npz --replicas none", 2), HasSubstr("usage"));
  EXPECT_THAT(Run("dump_flowers", "'*.tfrec' flowers.npz --size 9999999999999", 2),
              HasSubstr("usage"));
  EXPECT_THAT(Run("dump_flowers", "'*.tfrec' /dev/full", 1), HasSubstr("/dev/full"));
  // Arrays of other types than dump_flowers writes.
  ASSERT_OK(formats::WriteNpz(*io::FileSystem::Default(), Path("floats.npz"),
                              {{"image", base::Array::Zeros(base::DType::kF32, {2, 4, 4, 3})},
                               {"class", base::Array::Zeros(base::DType::kI64, {2})}}));
  EXPECT_THAT(Run("train_flowers", "floats.npz", 1),
              AllOf(HasSubstr("must have the arrays image, uint8"), HasSubstr("float32[4,4,3]")));
}

TEST_F(ExamplesTest, FastPipelinesPacksIntoAStore) {
  ASSERT_OK_AND_ASSIGN(io::Emulator * gcs, io::Emulator::Gcs());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, gcs->MakeBucket(*io::FileSystem::Default()));
  ASSERT_OK(WritePatchFiles(Path("photos"), 20));
  const std::string output =
      Run("fast_pipelines", absl::StrCat("photos '", io::JoinPath(bucket, "shards"), "' nine.png"));
  EXPECT_THAT(output, HasSubstr("40 images of 2 classes in 4 shards"));
  EXPECT_THAT(output, ContainsRegex("single files: [0-9]+ images/s, shards: [0-9]+ images/s"));
  ASSERT_OK_AND_ASSIGN(const base::Array nine, image::Decode(Read(Path("nine.png"))));
  EXPECT_EQ(nine.shape(), base::Shape({384, 384, 3}));
}

// The number of layers with this name in a model and in the networks within it.
int LayersNamed(const std::string& name, const std::string& file) {
  const auto model = keras::Model::Load(file);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return -1;
  int count = 0;
  const auto visit = [&](const auto& self, const nlohmann::ordered_json& json) -> void {
    if (json.is_object() && json.contains("name") && json["name"] == name) ++count;
    for (const auto& part : json) {
      if (part.is_structured()) self(self, part);
    }
  };
  visit(visit, model->network().ToJson());
  return count;
}

TEST_F(ExamplesTest, FlowersKaggleWritesASubmission) {
  ASSERT_OK_AND_ASSIGN(io::Emulator * gcs, io::Emulator::Gcs());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, gcs->MakeBucket(*io::FileSystem::Default()));
  ASSERT_OK(WritePatchShard(io::JoinPath(bucket, "train/0.tfrec"), 0, 48, false));
  ASSERT_OK(WritePatchShard(io::JoinPath(bucket, "val/0.tfrec"), 100, 16, false));
  ASSERT_OK(WritePatchShard(io::JoinPath(bucket, "test/0.tfrec"), 150, 8, true));
  const std::string copy = io::JoinPath(bucket, "flowers.safetensors");
  const std::string output = Run(
      "flowers_kaggle",
      absl::StrCat("--train '", io::JoinPath(bucket, "train/*.tfrec"), "' --valid '",
                   io::JoinPath(bucket, "val/*.tfrec"), "' --test '",
                   io::JoinPath(bucket, "test/*.tfrec"), "' --copy '", copy,
                   "' --model mobilenet_v3_small --size 32 --classes 2 --batch-size 32 --epochs 2"
                   " --replicas 2 --out out"));
  EXPECT_THAT(output, HasSubstr("epoch  1  learning rate 1.00e-05"));
  EXPECT_EQ(LayersNamed("preprocessing", Path("out/flowers.safetensors")), 0);  // within it
  EXPECT_THAT(output, ContainsRegex("macro F1: [01]\\.[0-9]+"));
  const std::vector<std::string> rows =
      absl::StrSplit(Read(Path("out/submission.csv")), '\n', absl::SkipEmpty());
  ASSERT_EQ(rows.size(), 17u);  // a header and 16 images
  EXPECT_EQ(rows[0], "id,label");
  EXPECT_THAT(rows[1], ContainsRegex("^id150_0,[01]$"));
  EXPECT_THAT(Read(Path("out/confusion.csv")), ContainsRegex("^[0-9]+,[0-9]+\n[0-9]+,[0-9]+\n$"));
  EXPECT_GT(Read(copy).size(), 1000u);
  EXPECT_THAT(Run("flowers_kaggle", "--train x", 2), HasSubstr("usage"));
  for (const char* wrong : {"--", "---- x", "-- x"}) {
    EXPECT_THAT(Run("flowers_kaggle", wrong, 2), HasSubstr("usage"));
  }
  // Before the training: where the model goes, and what the submission needs.
  const auto error = [&](const std::string& more) {
    const std::string train = io::JoinPath(bucket, "train/*.tfrec");
    return Run("flowers_kaggle",
               absl::StrCat("--train '", train, "' --valid '", train, "' --test '", train,
                            "' --model mobilenet_v2 --size 32 --classes 2 --out other ", more),
               1);
  };
  EXPECT_THAT(error("--copy out/submission.csv/x.safetensors"),
              AllOf(HasSubstr("x.safetensors"), Not(HasSubstr("loss"))));
  EXPECT_THAT(error(""), AllOf(HasSubstr("feature 'id' is missing"), Not(HasSubstr("loss"))));
}

// What a service with other keys answers to a request.
io::CannedResponse AccessDenied() {
  return {io::CannedHttp(
      "403 Forbidden", "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")};
}

TEST_F(ExamplesTest, FlowersKaggleTakesPretrainedWeightsAndAPrivateBucket) {
  const io::EmptyHome home;
  // Only requests that this key signs are answered.
  io::ScriptedS3 s3;
  s3.SetScript([](const io::ScriptedS3::Request& request) -> std::optional<io::CannedResponse> {
    if (absl::StrContains(request.authorization, "Credential=right/")) return std::nullopt;
    return AccessDenied();
  });
  const auto put = [&](const std::string& name, int begin, int count, bool ids) {
    ASSERT_OK(WritePatchShard(Path("shard"), begin, count, ids));
    ASSERT_OK(io::WriteFile(*s3.objects(), "memory://bucket/" + name, Read(Path("shard"))));
  };
  put("train/0.tfrec", 0, 48, false);
  put("val/0.tfrec", 100, 16, false);
  put("test/0.tfrec", 150, 8, true);
  const auto network = models::ByName(
      "mobilenet_v2", {.input_shape = {32, 32, 3}, .include_top = false, .pooling = "avg"});
  ASSERT_OK(network);
  keras::Model backbone(*network);
  ASSERT_OK(backbone.Compile({.seed = 5}));
  ASSERT_OK_AND_ASSIGN(const base::NamedArrays weights, backbone.GetWeights());
  ASSERT_OK(backbone.SaveWeights(Path("body.safetensors")));
  const auto arguments = [&](const std::string& file) {
    return absl::StrCat("--train '", s3.Uri("train/*.tfrec", ""), "' --valid '",
                        s3.Uri("val/*.tfrec", ""), "' --test '", s3.Uri("test/*.tfrec", ""),
                        "' --weights ", file,
                        " --model mobilenet_v2 --size 32 --classes 2 --batch-size 32 --epochs 1"
                        " --replicas 2 --out out");
  };

  ::setenv("AWS_ACCESS_KEY_ID", "right", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
  const std::string output = Run("flowers_kaggle", arguments("body.safetensors"));
  EXPECT_THAT(output,
              HasSubstr(absl::StrCat(weights.size(), " of ", weights.size(), " variables loaded")));
  EXPECT_THAT(output, ContainsRegex("macro F1: [01]\\.[0-9]+"));
  EXPECT_THAT(Read(Path("out/submission.csv")), HasSubstr("id150_0,"));
  EXPECT_EQ(LayersNamed("preprocessing", Path("out/flowers.safetensors")), 1);
  // The first epoch's learning rate is 1e-5: the kernels are still those of the file.
  ASSERT_OK_AND_ASSIGN(
      const save::Weights saved,
      save::ReadWeights(*io::FileSystem::Default(), Path("out/flowers.safetensors")));
  int64_t kernels = 0;
  for (const auto& [name, written] : weights) {
    if (!absl::EndsWith(name, "kernel")) continue;
    for (const auto& [own, array] : saved.arrays) {
      if (own != name && !absl::EndsWith(own, "/" + name)) continue;
      ++kernels;
      ASSERT_EQ(array.shape(), written.shape()) << own;
      const auto a = array.values<float>(), b = written.values<float>();
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << own;
    }
  }
  EXPECT_GT(kernels, 30);

  // One sentence for what is wrong, before anything is trained.
  ::setenv("AWS_ACCESS_KEY_ID", "wrong", 1);
  EXPECT_THAT(Run("flowers_kaggle", arguments("body.safetensors"), 1),
              AllOf(HasSubstr("s3://bucket/"), HasSubstr("permission denied"),
                    Not(HasSubstr("loss:")), Not(HasSubstr("hush"))));
  ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), Path("other.csv"), "a,b\n1,2\n"));
  EXPECT_THAT(Run("flowers_kaggle", arguments("missing.h5"), 1), HasSubstr("missing.h5"));
  EXPECT_THAT(Run("flowers_kaggle", arguments("other.csv"), 1), HasSubstr("other.csv"));
  base::NamedArrays others;
  others.Set("conv/kernel", base::Array::Zeros(base::DType::kF32, {3, 3}));
  ASSERT_OK(save::WriteWeights(*io::FileSystem::Default(), Path("others.safetensors"),
                               {.arrays = others}));
  EXPECT_THAT(Run("flowers_kaggle", arguments("others.safetensors"), 1),
              HasSubstr("others.safetensors has no weights of mobilenet_v2"));
}

// A token is asked for before the first request, and goes over TLS only: nothing but this machine is reached.
TEST_F(ExamplesTest, FlowersKaggleSaysWhatIsWrongWithCredentials) {
  const io::EmptyHome home;
  const io::CannedServer revoked(
      io::CannedHttp("400 Bad Request", R"({"error": "invalid_grant"})"));
  const std::string arguments =
      "--train 'gs://private/train/*.tfrec' --valid 'gs://private/val/*.tfrec' "
      "--test 'gs://private/test/*.tfrec' --model mobilenet_v2 --size 32 --classes 2 --out out";
  const struct {
    std::string file;
    const char* text;
  } kWrong[] = {
      {"/no/such/key.json", "/no/such/key.json"},
      {home.Put("page", "<html>"), "page"},
      {home.Put("revoked", io::EmptyHome::GoogleUser(revoked.port())), "invalid_grant"},
  };
  for (const auto& wrong : kWrong) {
    ::setenv("GOOGLE_APPLICATION_CREDENTIALS", wrong.file.c_str(), 1);
    const std::string output = Run("flowers_kaggle", arguments, 1);
    EXPECT_THAT(output, HasSubstr(wrong.text));
    EXPECT_THAT(output, Not(HasSubstr("loss:")));
  }
}

TEST_F(ExamplesTest, IrisSessionRecognizesHeldOutFlowers) {
  const std::string iris = absl::StrCat(PENSTOCK_SOURCE_DIR, "/third_party/unpacked/iris/iris.csv");
  const std::string output = Run("iris_session", iris);
  EXPECT_THAT(output, ContainsRegex("single rows: (9[5-9]|100)\\.[0-9] %"));
  EXPECT_THAT(output, ContainsRegex("eight shards: (9[5-9]|100)\\.[0-9] %"));
  EXPECT_THAT(output, HasSubstr("8 shards on 8 devices"));
  EXPECT_THAT(Run("iris_session", "missing.csv", 1), HasSubstr("missing.csv"));
  ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), Path("other.csv"), "a,b\n1,2\n"));
  EXPECT_THAT(Run("iris_session", "other.csv", 1),
              HasSubstr("other.csv must have four measurements"));
  ASSERT_OK(
      io::WriteFile(*io::FileSystem::Default(), Path("few.csv"), "a,b,c,d,e\n5.1,3.5,1.4,0.2,0\n"));
  EXPECT_THAT(Run("iris_session", "few.csv", 1), HasSubstr("few.csv has 1 flowers"));
  EXPECT_THAT(Run("iris_session", iris + " --target moon", 1), HasSubstr("moon"));
}

// The devices of a worker are listed before the data is read.
TEST_F(ExamplesTest, Cifar10ColabListsTheDevicesOfAnAddress) {
  ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), Path("script"), R"(
coproc worker { exec $1/penstock worker --device cpu --cpu-devices 8 --listen 127.0.0.1:0; }
pid=$worker_PID
read -r line <&"${worker[0]}"
address=$(sed 's/.*listening on \([^,]*\),.*/\1/' <<< "$line")
$1/cifar10_colab --tpu "grpc://$address" --train none --test none
code=$?
kill $pid
wait $pid
exit $code
)"));
  EXPECT_THAT(RunCommand("bash script " PENSTOCK_EXAMPLES, 1),
              AllOf(HasSubstr("device 0: cpu"), HasSubstr("device 7: cpu")));
}

// Sentences whose label is the group of most of their words, and one without words.
std::string Sentences() {
  const std::vector<std::vector<std::string>> words = {{"good", "fine", "great", "lovely"},
                                                       {"bad", "poor", "awful", "dull"}};
  std::string csv = "text,label\n\" \",1\n";
  base::Random random(1);
  for (int i = 0; i < 400; ++i) {
    const size_t label = random.Next() % 2;
    for (int w = 0; w < 5; ++w) {
      const auto& group = words[w < 4 ? label : 1 - label];
      absl::StrAppend(&csv, w == 0 ? "" : " ", group[random.Next() % group.size()]);
    }
    absl::StrAppend(&csv, ",", label, "\n");
  }
  return csv;
}

TEST_F(ExamplesTest, TextClassifierTrainsOnEightReplicas) {
  ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), Path("texts.csv"), Sentences()));
  const std::string output =
      Run("text_classifier", "texts.csv --nprocs 8 --epochs 4 --batch-size 5 --save net.pt");
  EXPECT_THAT(output, ContainsRegex("epoch 4 loss .* held-out accuracy (0\\.9[0-9]*|1)"));
  ASSERT_OK_AND_ASSIGN(const save::Weights saved,
                       save::ReadWeights(*io::FileSystem::Default(), Path("net.pt")));
  EXPECT_NE(saved.arrays.Find("head.weight"), nullptr);
  EXPECT_THAT(Run("text_classifier", "missing.csv", 1), HasSubstr("missing.csv"));
  EXPECT_THAT(Run("text_classifier", "texts.csv --nprocs 0", 2), HasSubstr("usage"));
  EXPECT_THAT(Run("text_classifier", "texts.csv --save /dev/full", 1), HasSubstr("/dev/full"));
  EXPECT_THAT(Run("text_classifier", "texts.csv --nprocs 1 --batch-size 1000", 1),
              HasSubstr("fewer texts than --nprocs times --batch-size"));
  ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), Path("labels.csv"),
                          "text,label\ngood,1000000000000\n"));
  EXPECT_THAT(Run("text_classifier", "labels.csv", 1), HasSubstr("a label is 1000000000000"));
}

}  // namespace
}  // namespace penstock::tests
