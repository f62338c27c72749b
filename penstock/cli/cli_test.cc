// Tests of the commands, run in this process.

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include <sys/stat.h>

#include "penstock/cli/report/terminal_image.h"
#include "penstock/cli/testing/command_fixture.h"
#include "penstock/io/file_system.h"
#include "penstock/io/testing/system_call_faults.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace cli_test {

using ::testing::HasSubstr;
using Json = nlohmann::json;

using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;
class CliTest : public testing::CommandFixture {};

TEST_F(CliTest, PrintsVersionCommitAndPlugins) {
  const CommandResult version = Penstock({"--version"});
  EXPECT_EQ(version.code, 0) << version.err;
  EXPECT_THAT(version.out, ::testing::MatchesRegex("penstock [0-9]+\\.[0-9]+\\.[0-9]+\n"
                                                   "commit ([0-9a-f]+|unknown)\n"
                                                   ".*cpu \\(/.*/xla_cpu_pjrt\\.so\\).*\n"));
}

TEST_F(CliTest, PacksTrainsEvaluatesAndPredicts) {
  MakeImages("images", 40);
  const CommandResult packed =
      Penstock({"pack", Path("images"), "--out", Path("shards"), "--shards", "2", "--json"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["shards"][0], Path("shards/00-40.tfrec"));
  EXPECT_EQ(Bytes(folder_ / "shards/classes.txt"), "bright\ndark\n");

  const CommandResult inspected = Penstock({"inspect", Path("shards/*.tfrec"), "--json"});
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_EQ(Json::parse(inspected.out)[1]["records"], 40);
  EXPECT_THAT(inspected.out, HasSubstr("one_hot_class float32[2], size int64[2]"));

  const CommandResult trained =
      Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "8",
                "--batch-size", "16", "--save", Path("m.safetensors"), "--json", "--checkpoints",
                Path("run"), "--dump-hlo", Path("hlo")});
  ASSERT_EQ(trained.code, 0) << trained.err;
  // Program 001 is the check for kernel support.
  EXPECT_THAT(Bytes(folder_ / "hlo/002-train_step.stablehlo.mlir"),
              HasSubstr("func.func public @main"));
  EXPECT_EQ(Json::parse(trained.out)["epochs"].size(), 8u);

  const CommandResult again =
      Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "8",
                "--batch-size", "16", "--json", "--checkpoints", Path("run")});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, trained.out) << "restarting a completed run must not train";

  const CommandResult checkpoints = Penstock({"inspect", Path("run")});
  EXPECT_EQ(checkpoints.code, 0) << checkpoints.err;
  EXPECT_THAT(checkpoints.out, HasSubstr("step 40: complete"));
  const CommandResult checkpoint = Penstock({"inspect", Path("run/step-00000040")});
  EXPECT_EQ(checkpoint.code, 0) << checkpoint.err;
  EXPECT_THAT(checkpoint.out, AllOf(HasSubstr("training checkpoint, "), HasSubstr("logits/kernel"),
                                    HasSubstr("metadata penstock.step: 40")));
  const CommandResult converted = Penstock({"convert", Path("run"), Path("run.safetensors")});
  EXPECT_EQ(converted.code, 0) << converted.err;
  EXPECT_THAT(converted.out, HasSubstr("wrote "));

  const CommandResult evaluated = Penstock(
      {"evaluate", "--model", Path("m.safetensors"), "--data", Path("shards/*.tfrec"), "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["accuracy"], 1.0);

  const CommandResult predicted = Penstock({"predict", "--model", Path("m.safetensors"), "--images",
                                            Path("images/bright/*.png"), "--count", "3", "--json"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const Json rows = Json::parse(predicted.out);
  ASSERT_EQ(rows.size(), 3u);
  for (const Json& row : rows) EXPECT_EQ(row["class"], 0);

  // JSON is UTF-8, a path need not be.
  std::filesystem::copy_file(Path("images/dark/0.png"), Path("caf\xe9.png"));
  const CommandResult other = Penstock(
      {"predict", "--model", Path("m.safetensors"), "--images", Path("caf\xe9.png"), "--json"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(Json::parse(other.out)[0]["path"].get<std::string>(), HasSubstr("caf\uFFFD.png"));
}

// A scheduler takes the machine away.
TEST_F(CliTest, SigtermSavesAndSameCommandResumes) {
  MakeImages("images", 12);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const auto train = [&](const char* run, const std::function<void()>& before = {},
                         const std::function<void()>& after = {}) {
    return Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "20",
                     "--batch-size", "8", "--json", "--checkpoints", Path(run), "--save",
                     Path(absl::StrCat(run, ".safetensors"))},
                    before, after);
  };
  const CommandResult whole = train("whole");
  ASSERT_EQ(whole.code, 0) << whole.err;
  // While the first checkpoint is published.
  const CommandResult interrupted = train(
      "run", [] { io::ArmSystemCalls({.call = "rename", .number = 1, .signal = SIGTERM}); },
      [] { EXPECT_TRUE(io::DisarmSystemCalls().hit); });
  EXPECT_EQ(interrupted.code, 75) << interrupted.err;
  EXPECT_THAT(interrupted.err, HasSubstr("SIGTERM was received; the checkpoint of step "));
  EXPECT_EQ(interrupted.out, "");
  EXPECT_FALSE(std::filesystem::exists(Path("run.safetensors")));
  const CommandResult resumed = train("run");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.out, whole.out);
  EXPECT_EQ(Bytes(Path("run.safetensors")), Bytes(Path("whole.safetensors")));
}

TEST_F(CliTest, ReadsEditedClassNames) {
  MakeImages("images", 8);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const auto train = [&](const char* classes) {
    std::ofstream(folder_ / "shards/classes.txt", std::ios::binary) << classes;
    return Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "1",
                     "--batch-size", "16", "--save", Path("m.safetensors")});
  };
  const auto predict = [&] {
    return Penstock({"predict", "--model", Path("m.safetensors"), "--images",
                     Path("images/dark/0.png"), "--top", "2"})
        .out;
  };
  const CommandResult windows = train("light\r\nshade\r\n");
  ASSERT_EQ(windows.code, 0) << windows.err;
  EXPECT_THAT(predict(), ::testing::AllOf(HasSubstr("light ("), HasSubstr("shade (")));
  const CommandResult damaged = train("light\n");
  ASSERT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_THAT(damaged.err, HasSubstr("classes.txt beside the shards has 1 names, but the records "
                                     "have 2 classes"));
  EXPECT_THAT(predict(), ::testing::Not(HasSubstr("light")));
}

// A class without images shifts the numbers of the classes after it: accuracies would be wrong.
TEST_F(CliTest, RejectsShardsWithOtherClassNumbers) {
  MakeImages("images", 8);
  std::filesystem::create_directories(folder_ / "test");
  std::filesystem::copy(folder_ / "images/dark", folder_ / "test/dark");
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  ASSERT_EQ(Penstock({"pack", Path("test"), "--out", Path("other")}).code, 0);
  const std::vector<std::string> train = {"train",   "--data",       Path("shards/*.tfrec"),
                                          "--model", "mlp",          "--epochs",
                                          "1",       "--batch-size", "16"};
  const auto with = [&](std::vector<std::string> arguments, std::vector<std::string> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Penstock(arguments);
  };
  ASSERT_EQ(with(train, {"--save", Path("m.safetensors")}).code, 0);
  const std::vector<std::string> kData = {"--data", Path("other/*.tfrec")};
  for (const CommandResult& result :
       {with(train, {"--validation", Path("other/*.tfrec")}),
        with(train, {"--data", Path("shards/*.tfrec"), Path("other/*.tfrec")}),
        with({"evaluate", "--model", Path("m.safetensors")}, kData),
        with({"predict", "--model", Path("m.safetensors")}, kData)}) {
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("class 'dark' has number 0 in " + Path("other/classes.txt")));
    EXPECT_THAT(result.err, HasSubstr("--classes bright,dark"));
  }
  // The way out that the message names.
  ASSERT_EQ(Penstock({"pack", Path("test"), "--out", Path("other"), "--classes", "bright,dark",
                      "--overwrite"})
                .code,
            0);
  EXPECT_EQ(with({"evaluate", "--model", Path("m.safetensors")}, kData).code, 0);
}

TEST_F(CliTest, TrainsInMixedPrecision) {
  MakeImages("images", 40);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const std::vector<std::string> train = {"train",
                                          "--data",
                                          Path("shards/*.tfrec"),
                                          "--model",
                                          "mlp",
                                          "--epochs",
                                          "8",
                                          "--policy",
                                          "mixed_bfloat16",
                                          "--batch-size",
                                          "16",
                                          "--save",
                                          Path("m.safetensors")};
  const CommandResult trained = Penstock(train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const CommandResult evaluated = Penstock(
      {"evaluate", "--model", Path("m.safetensors"), "--data", Path("shards/*.tfrec"), "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["accuracy"], 1.0);
  EXPECT_EQ(Penstock({"predict", "--model", Path("m.safetensors"), "--data", Path("shards/*.tfrec"),
                      "--json"})
                .code,
            0);
  const CommandResult wrong = Penstock(
      {"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--policy", "mixed_float8"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("float32, mixed_bfloat16, bfloat16"));
}

TEST_F(CliTest, PacksFilesAndLabelsIntoShards) {
  MakeImages("images", 3);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  auto reader = record::TfRecordReader::Open(*io::FileSystem::Default(), Path("shards/00-6.tfrec"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto block = (*reader)->ReadBlock();
  ASSERT_TRUE(block.ok()) << block.status();
  ASSERT_EQ(block->records.size(), 6u);
  std::set<std::string> images;
  for (absl::string_view bytes : block->records) {
    const auto features = record::ReadExample(bytes);
    ASSERT_TRUE(features.ok()) << features.status();
    const int64_t number = features->at("class").item<int64_t>();
    EXPECT_EQ(features->at("label").data<absl::string_view>()[0], number == 0 ? "bright" : "dark");
    EXPECT_EQ(features->at("one_hot_class").data<float>()[number], 1.0f);
    EXPECT_EQ(features->at("one_hot_class").num_elements(), 2);
    EXPECT_EQ(features->at("size").data<int64_t>()[0], 8);
    images.emplace(features->at("image").data<absl::string_view>()[0]);
  }
  EXPECT_EQ(images.count(Bytes(folder_ / "images/dark/2.png")), 1u);
}

TEST_F(CliTest, TrainWritesAProfile) {
  MakeImages("images", 20);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const CommandResult trained =
      Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "2",
                "--batch-size", "8", "--profile", Path("profile"), "--profile-steps", "2-6"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("trace of steps 2 to 6"));
  EXPECT_THAT(trained.err, HasSubstr("dot_general"));
  const Json trace = Json::parse(Bytes(folder_ / "profile/trace.json"));
  std::set<std::string> names;
  for (const Json& event : trace["traceEvents"]) names.insert(event["name"].get<std::string>());
  EXPECT_EQ(names.count("train_step"), 1u);
  EXPECT_THAT(Bytes(folder_ / "profile/pipeline.txt"), HasSubstr("DecodeImage"));
  EXPECT_THAT(Bytes(folder_ / "profile/operations.txt"), HasSubstr("everything else"));

  const CommandResult wrong = Penstock({"train", "--data", Path("shards/*.tfrec"), "--profile",
                                        Path("profile"), "--profile-steps", "6"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--profile-steps: '6' is not FIRST-LAST, two integers"));
}

TEST_F(CliTest, ExitsWithTwoForUsageErrorsAndOneForFailures) {
  EXPECT_EQ(Penstock({"no-such-command"}).code, 2);
  EXPECT_EQ(Penstock({"train"}).code, 2);
  EXPECT_EQ(Penstock({"--help"}).code, 0);
  const CommandResult missing = Penstock({"train", "--data", Path("*.tfrec")});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("penstock train: nothing matches"));
  const CommandResult steps =
      Penstock({"train", "--data", Path("shards/*.tfrec"), "--steps-per-execution", "0"});
  EXPECT_EQ(steps.code, 2);
  EXPECT_THAT(steps.err, HasSubstr("--steps-per-execution: '0' is not an integer from 1 to"));
}

// Without the check, each of these errors appeared after the last epoch, or never.
TEST_F(CliTest, TrainRejectsUnusableSettingsBeforeTheFirstStep) {
  MakeImages("images", 4);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  std::ofstream(folder_ / "file") << "kept";
  std::ofstream(folder_ / "log.csv") << "last week's";
  std::ofstream(folder_ / "empty.tfrec").close();
  ASSERT_EQ(::mkfifo(Path("fifo.safetensors").c_str(), 0600), 0);
  const auto failed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "1"};
    if (more[0] != "--csv-log") {
      arguments.insert(arguments.end(), {"--csv-log", Path("log.csv")});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = Penstock(arguments);
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("Epoch 1"))) << more[0];
    return result.err;
  };
  const std::string below = Path("file/below");
  EXPECT_THAT(failed({"--save", below + ".safetensors"}), HasSubstr("--save"));
  EXPECT_THAT(failed({"--save", Path("model.pkl")}), HasSubstr("formats are safetensors"));
  EXPECT_THAT(failed({"--save", Path("fifo.safetensors")}), HasSubstr("is a FIFO"));
  for (const char* option : {"--checkpoints", "--tensorboard", "--profile", "--dump-hlo"}) {
    EXPECT_THAT(failed({option, below}), HasSubstr(option));
  }
  EXPECT_THAT(failed({"--csv-log", Path("shards")}), HasSubstr("is a folder"));
  EXPECT_THAT(failed({"--validation", Path("none-*.tfrec")}), HasSubstr("--validation"));
  EXPECT_THAT(failed({"--validation", Path("empty.tfrec")}), HasSubstr("no records found"));
  EXPECT_THAT(failed({"--replicas", "257"}), HasSubstr("1 to 256 CPU devices"));
  EXPECT_THAT(failed({"--replicas", "3", "--cpu-devices", "2"}),
              HasSubstr("--replicas 3 needs as many devices, but --cpu-devices is 2"));
  EXPECT_THAT(failed({"--image-size", "65500", "65500", "--batch-size", "1000000"}),
              HasSubstr("use a smaller batch or smaller images"));
  EXPECT_THAT(failed({"--classes", "1000000000"}), HasSubstr("free"));
  EXPECT_EQ(Bytes(folder_ / "file"), "kept");
  EXPECT_EQ(Bytes(folder_ / "log.csv"), "last week's");
}

// The folder becomes unusable during training, after its check has passed.
TEST_F(CliTest, SavesTheModelToTheTemporaryFolderWhenSavingFails) {
  MakeImages("images", 4);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  std::filesystem::create_directory(folder_ / "models");
  std::filesystem::create_directory(folder_ / "tmp");
  ::setenv("TMPDIR", Path("tmp").c_str(), 1);
  // The TensorBoard log is created after --save was checked, and its folder
  // "models/m.safetensors/tb" puts a folder in the place of the model file.
  const CommandResult trained = Penstock(
      {"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs", "1", "--save",
       Path("models/m.safetensors"), "--tensorboard", Path("models/m.safetensors/tb")});
  ::unsetenv("TMPDIR");
  EXPECT_EQ(trained.code, 1);
  EXPECT_THAT(trained.err, HasSubstr("saving the model failed"));
  EXPECT_THAT(trained.err, HasSubstr("the trained model is in " + Path("tmp")));
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "tmp")) {
    ++files;
    EXPECT_EQ(Penstock({"evaluate", "--model", file.path().string(), "--data",
                        Path("shards/*.tfrec"), "--json"})
                  .code,
              0);
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(CliTest, RejectsFewerEpochsThanTrainedAndNotesEqualNumber) {
  MakeImages("images", 4);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const auto train = [&](const char* epochs) {
    return Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--steps", "9",
                     "--epochs", epochs, "--checkpoints", Path("run")});
  };
  ASSERT_EQ(train("2").code, 0);
  const CommandResult fewer = train("1"), same = train("2");
  EXPECT_EQ(fewer.code, 1);
  EXPECT_THAT(fewer.err, HasSubstr("the checkpoint is of epoch 2, and this run ends with epoch 1"));
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.err, HasSubstr("all 2 epochs are done already; there is nothing to train"));
  EXPECT_EQ(train("3").code, 0);
}

// A forgotten name and a shell's pattern: `--html shards/*.tfrec`.
TEST_F(CliTest, ReplacesNoBinaryFileByText) {
  MakeImages("images", 4);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const std::string shard = Path("shards/00-8.tfrec"), model = Path("m.safetensors");
  ASSERT_EQ(
      Penstock({"train", "--data", shard, "--model", "mlp", "--epochs", "1", "--save", model}).code,
      0);
  const std::string shard_bytes = Bytes(shard), model_bytes = Bytes(model);
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", shard, "--html", shard},
      {"evaluate", "--model", model, "--data", shard, "--confusion", model},
      {"predict", "--model", model, "--data", shard, "--csv", model},
      {"train", "--data", shard, "--model", "mlp", "--csv-log", shard},
      {"train", "--data", shard, "--find-learning-rate", "--learning-rate-curve", shard}};
  for (const std::vector<std::string>& command : commands) {
    const CommandResult result = Penstock(command);
    EXPECT_EQ(result.code, 1) << command[0];
    EXPECT_THAT(result.err, HasSubstr("exists and is not a text")) << command[0];
  }
  EXPECT_EQ(Bytes(shard), shard_bytes);
  EXPECT_EQ(Bytes(model), model_bytes);
}

TEST_F(CliTest, ReportsAnUnwritableDestinationBeforeReadingInputs) {
  std::ofstream(folder_ / "file") << "kept";
  const std::string below = Path("file/below");
  // The inputs do not exist either; the destination is checked first.
  const CommandResult packed = Penstock({"pack", Path("none"), "--out", below});
  EXPECT_EQ(packed.code, 1);
  EXPECT_THAT(packed.err, HasSubstr("output folder"));
  const CommandResult inspected = Penstock({"inspect", Path("none"), "--html", below});
  EXPECT_EQ(inspected.code, 1);
  EXPECT_THAT(inspected.err, HasSubstr("below"));
  const CommandResult benched = Penstock({"bench", "data", Path("none"), "--scratch", below});
  EXPECT_EQ(benched.code, 1);
  EXPECT_THAT(benched.err, HasSubstr("scratch folder"));
  MakeImages("images", 2);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  const CommandResult resharded = Penstock({"reshard", Path("shards"), "--out", below});
  EXPECT_EQ(resharded.code, 1);
  EXPECT_THAT(resharded.err, HasSubstr("output folder"));
}

TEST_F(CliTest, ShowsLabelsInUtf8WithoutControlCharacters) {
  MakeImages("images", 2);
  std::filesystem::rename(folder_ / "images/dark", folder_ / "images/grün\x1b[31m");
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  EXPECT_THAT(Penstock({"inspect", Path("shards/*.tfrec")}).out,
              HasSubstr("labels: bright 2, grün\\x1b[31m 2"));
}

// A file that is not a weights file may be a shard, unless its extension is .safetensors.
TEST_F(CliTest, InspectReportsACorruptModelAsAModelAndNotAsAShard) {
  std::ofstream(folder_ / "m.safetensors") << std::string(8, '\xff') << "{}";
  const CommandResult result = Penstock({"inspect", Path("m.safetensors")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("m.safetensors"));
  EXPECT_THAT(result.err, ::testing::Not(HasSubstr("TFRecord")));
  EXPECT_EQ(Penstock({"inspect", Path("no-such-file")}).code, 1);
  std::ofstream(folder_ / "empty.safetensors") << "";
  EXPECT_THAT(Penstock({"convert", Path("empty.safetensors"), Path("m.npz")}).err,
              HasSubstr("empty.safetensors: the file is empty"));
}

TEST_F(CliTest, ListsRequestedNumberOfDevices) {
  const CommandResult result =
      Penstock({"devices", "--device", "cpu", "--cpu-devices", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out).size(), 3u);
}

TEST(TerminalImage, DrawsDarkAsSpacesAndBrightAsAtSignsWithCaptionsBelow) {
  const base::Array image = base::Array::Of<uint8_t>({2, 2, 1}, {0, 255, 255, 0});
  EXPECT_EQ(DrawImages({image, image}, {"one", "two"}), "  @@     @@\n@@     @@\none    two\n\n");
}

}  // namespace cli_test
}  // namespace penstock::cli
