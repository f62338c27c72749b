// Tests of every option of `penstock train`, each by a visible effect.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include <sys/stat.h>

#include "penstock/base/array.h"
#include "penstock/cli/testing/command_fixture.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::cli {
namespace train_options_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;
using Arguments = std::vector<std::string>;

class TrainOptionsTest : public testing::CommandFixture {
 protected:
  void SetUp() override {
    MakeImages("images", 12);
    ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("shards")}).code, 0);
  }

  // Runs a short training with these options, which override the defaults.
  CommandResult Run(const Arguments& options) const {
    Arguments all{"train", "--data", Path("shards/*.tfrec"), "--json"};
    const auto add = [&](const std::string& option, const std::string& value) {
      if (std::find(options.begin(), options.end(), option) == options.end()) {
        all.insert(all.end(), {option, value});
      }
    };
    add("--model", "mlp"), add("--epochs", "2"), add("--batch-size", "8");
    all.insert(all.end(), options.begin(), options.end());
    return Penstock(all);
  }
  // Returns the history that a training prints.
  Json History(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? Json::parse(result.out)["epochs"] : Json();
  }
  std::string Error(const Arguments& options) const {
    const CommandResult result = Run(options);
    EXPECT_NE(result.code, 0) << result.out;
    return result.err;
  }
  keras::Model Saved(Arguments options) const {
    options.insert(options.end(), {"--save", Path("saved.safetensors")});
    const CommandResult result = Run(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return Loaded(Path("saved.safetensors"));
  }
  keras::Model Loaded(const std::string& file) const {
    auto model = keras::Model::Load(file, {.client = runtime::TestClient(1)});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  std::string SavedBytes(const Arguments& options) const {
    Saved(options);
    return Bytes(Path("saved.safetensors"));
  }
  // A trained model of the shards' classes.
  std::string Weights() const {
    const std::string file = Path("weights.safetensors");
    if (!std::filesystem::exists(file)) {
      EXPECT_EQ(Run({"--epochs", "8", "--save", file}).code, 0);
    }
    return file;
  }
  static int KernelsThatDiffer(const keras::Model& a, const keras::Model& b) {
    const auto weights = a.GetWeights(), others = b.GetWeights();
    EXPECT_TRUE(weights.ok() && others.ok());
    int different = 0;
    for (const auto& [name, array] : *weights) {
      if (!absl::EndsWith(name, "/kernel")) continue;
      different += base::BitwiseEqual(array, *others->Find(name)) ? 0 : 1;
    }
    return different;
  }
  size_t FilesIn(const std::string& folder) const {
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(folder))) {
      files += entry.is_regular_file() ? 1 : 0;
    }
    return files;
  }

  // All bytes of the files of a folder.
  std::string BytesIn(const std::string& folder) const {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(Path(folder))) {
      all += Bytes(entry.path().string());
    }
    return all;
  }
  static int CountIn(const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }

  // Returns for each option a function that tests its effect.
  std::map<std::string, std::function<void()>> Effects() {
    const Json base = History({});
    // What TensorBoard shows of a training; an epoch has 3 steps.
    EXPECT_EQ(History({"--tensorboard", Path("board"), "--histogram-freq", "1", "--write-grads",
                       "--write-images", "--update-freq", "2", "--steps-per-execution", "1",
                       "--write-steps-per-second", "--profile-batch", "2-3"}),
              base)
        << "the training stays the same";
    const std::string board = BytesIn("board/train");
    const auto differs = [this, base](const std::string& option, const std::string& value) {
      return [this, base, option, value] { EXPECT_NE(History({option, value}), base) << option; };
    };
    return {
        {"--data",
         [this] {
           EXPECT_THAT(Error({"--data", Path("no/*.tfrec")}), HasSubstr("no/*.tfrec"));
         }},
        {"--batch-size", differs("--batch-size", "3")},
        {"--device",
         [this, base] {
           EXPECT_EQ(History({"--device", "cpu"}), base);
           EXPECT_THAT(Error({"--device", "abacus"}), HasSubstr("abacus"));
         }},
        {"--detach",  // tests/remote/detached_training_test.cc, training/detached_test.cc
         [this] {
           EXPECT_THAT(Error({"--device", "cpu", "--detach"}),
                       HasSubstr("--detach needs a worker"));
         }},
        {"--take-over",
         [this] {
           EXPECT_THAT(Error({"--device", "cpu", "--take-over"}),
                       HasSubstr("--take-over is for workers"));
         }},
        {"--cpu-devices",
         [this] {
           EXPECT_THAT(Error({"--cpu-devices", "1", "--replicas", "2"}),
                       HasSubstr("--replicas 2 needs as many devices, but --cpu-devices is 1"));
         }},
        {"--replicas",
         [this, base] {
           const Json two = History({"--replicas", "2"});
           EXPECT_NEAR(two[1]["loss"].get<double>(), base[1]["loss"].get<double>(), 1e-3);
         }},
        {"--model",
         [this] {
           EXPECT_THAT(Error({"--model", "abacus"}), AllOf(HasSubstr("abacus"), HasSubstr("mlp")));
           EXPECT_EQ(Saved({}).network().name(), "mlp");
           // A network that preprocesses images itself gets the pixels from 0 to 255.
           const nn::Network inside =
               Saved({"--model", "mobilenet_v3_small", "--image-size", "32", "32", "--epochs", "1"})
                   .network();
           std::vector<double> scales;
           for (const auto& use : inside.uses()) {
             if (!use.layer.valid() || use.layer.class_name() != "Rescaling") continue;
             scales.push_back(nn::LayerConfig(use.layer)["scale"].get<double>());
           }
           EXPECT_THAT(scales, ElementsAre(1, 1 / 127.5));
         }},
        {"--classes",
         [this] {
           const keras::Model model = Saved({"--classes", "5"});
           EXPECT_EQ(model.network().outputs()[0].type.shape.dim(-1), 5);
           EXPECT_TRUE(model.class_names().empty()) << "the shards have names for two classes only";
         }},
        {"--image-size",
         [this] {
           EXPECT_EQ(Saved({"--image-size", "4", "6"}).network().inputs()[0].type.shape,
                     base::Shape({-1, 4, 6, 1}));
         }},
        {"--validation",
         [this] {
           EXPECT_TRUE(History({"--validation", Path("shards/*.tfrec")})[0].contains("val_loss"));
         }},
        {"--optimizer",
         [this, base] {
           EXPECT_NE(History({"--optimizer", "adamw"}), base);
           EXPECT_THAT(Error({"--optimizer", "abacus"}), HasSubstr("abacus"));
         }},
        {"--schedule",
         [this] {
           std::set<std::string> histories;
           for (const char* name : {"cosine", "constant", "linear", "step", "onecycle"}) {
             histories.insert(History({"--schedule", name, "--epochs", "4"}).dump());
           }
           EXPECT_EQ(histories.size(), 5u);
           EXPECT_THAT(Error({"--schedule", "abacus"}), HasSubstr("cosine"));
         }},
        {"--warmup", differs("--warmup", "0.5")},
        {"--momentum", differs("--momentum", "0.5")},
        {"--weight-decay", differs("--weight-decay", "0.5")},
        {"--clip-norm", differs("--clip-norm", "0.01")},
        {"--label-smoothing", differs("--label-smoothing", "0.2")},
        {"--class-weight",
         [this, base] {
           // Both classes have as many images.
           EXPECT_EQ(History({"--class-weight", "balanced"}), base);
           EXPECT_THAT(Error({"--class-weight", "heavy"}), HasSubstr("'heavy'"));
         }},
        {"--ema",
         [this] {
           EXPECT_NE(SavedBytes({"--ema", "0.9"}), SavedBytes({}));
         }},
        {"--metrics",
         [this] {
           EXPECT_TRUE(History({"--metrics", "f1"})[0].contains("f1"));
           EXPECT_TRUE(History({"--metrics", "top5", "f1", "--classes", "7"})[0].contains("top5"));
           EXPECT_THAT(Error({"--metrics", "top5"}), HasSubstr("at least 6 classes, got 2"));
           EXPECT_THAT(Error({"--metrics", "abacus"}), HasSubstr("top5, f1"));
         }},
        {"--early-stopping",
         [this] {
           // A rate at which nothing is learned.
           const Json history =
               History({"--early-stopping", "2", "--epochs", "9", "--learning-rate", "1e-30"});
           EXPECT_EQ(history.size(), 3u);
           // The weights before unfreezing, if it makes the loss higher.
           const Arguments worse{"--freeze",          "hidden1", "--unfreeze-after", "1",
                                 "--unfreeze-factor", "900",     "--early-stopping", "3"};
           const CommandResult kept = Run(worse);
           EXPECT_THAT(kept.err, HasSubstr("loss was lower before unfreezing"));
           // The averages of --ema are what is kept.
           EXPECT_NE(SavedBytes({"--early-stopping", "1", "--ema", "0.9"}),
                     SavedBytes({"--early-stopping", "1"}));
         }},
        {"--augment",
         [this, base] {
           const std::string all =
               Saved({"--augment", "flip", "crop", "rotate", "erase", "--epochs", "1"})
                   .network()
                   .ToJson()
                   .dump();
           for (const char* layer : {"RandomFlip", "RandomZoom", "RandomRotation", "RandomErasing"})
             EXPECT_THAT(all, HasSubstr(layer));
           for (const char* name : {"mixup", "cutmix"})
             EXPECT_NE(History({"--augment", name}), base);
           EXPECT_THAT(Error({"--augment", "flip", "abacus"}), HasSubstr("abacus"));
           EXPECT_THAT(Error({"--augment", "flip", "color"}),
                       HasSubstr("--augment color changes colors, but the images of --data are "
                                 "grayscale"));
         }},
        {"--weights",
         [this, base] {
           const Json history = History({"--weights", Weights()});
           EXPECT_LT(history[0]["loss"], base[0]["loss"]) << "trained before";
           EXPECT_THAT(Error({"--weights", Weights(), "--classes", "5"}), HasSubstr("--new-head"));
           EXPECT_THAT(Error({"--weights", Path("missing.npz")}), HasSubstr("missing.npz"));
         }},
        {"--new-head",
         [this] {
           Saved({"--weights", Weights(), "--new-head", "--classes", "5"});
           EXPECT_NE(SavedBytes({"--weights", Weights(), "--new-head"}),
                     SavedBytes({"--weights", Weights()}));
           EXPECT_THAT(Error({"--model", "resnet8", "--weights", Weights(), "--new-head"}),
                       HasSubstr("lacks weights of this network"));
           EXPECT_THAT(Error({"--new-head"}), HasSubstr("--weights"));
         }},
        {"--freeze",
         [this] {
           // The same first layer after training.
           const keras::Model before = Loaded(Weights());
           const keras::Model after = Saved({"--weights", Weights(), "--freeze", "backbone"});
           EXPECT_EQ(KernelsThatDiffer(before, after), 1);
           EXPECT_THAT(Error({"--freeze", "*"}), HasSubstr("no layer to train"));
           EXPECT_THAT(Error({"--freeze", "abacus"}), HasSubstr("abacus"));
         }},
        {"--cache-features",
         [this] {
           // The same classifier as without it, and the images pass through the network once.
           const Arguments frozen{"--weights", Weights(), "--freeze", "backbone", "--shuffle", "0"};
           Arguments cached = frozen;
           cached.insert(cached.end(), {"--cache-features", Path("features")});
           const keras::Model before = Loaded(Weights()), plain = Saved(frozen);
           for (const char* run : {"first", "second"}) {
             const keras::Model after = Saved(cached);
             EXPECT_EQ(KernelsThatDiffer(before, after), 1) << run;
             EXPECT_EQ(FilesIn("features"), 3u) << run << ": manifest, lock and a shard";
             for (const auto& [name, array] : *plain.GetWeights()) {
               const base::Array mine = *after.GetWeights()->Get(name);
               for (int64_t i = 0; i < array.num_elements(); ++i) {
                 EXPECT_NEAR(mine.data<float>()[i], array.data<float>()[i], 1e-4) << name;
               }
             }
           }
           EXPECT_THAT(Error({"--cache-features", Path("f")}), HasSubstr("--freeze"));
           cached.insert(cached.end(), {"--augment", "flip"});
           EXPECT_THAT(Error(cached), HasSubstr("leave out --augment"));
           EXPECT_THAT(Error({"--freeze", "backbone", "--cache-features", "/proc/none"}),
                       HasSubstr("--cache-features"));
         }},
        {"--unfreeze-after",
         [this] {
           const Arguments options{"--weights", Weights(),          "--freeze",
                                   "backbone",  "--unfreeze-after", "1"};
           const keras::Model before = Loaded(Weights());
           EXPECT_EQ(KernelsThatDiffer(before, Saved(options)), 2);
           EXPECT_EQ(History(options).size(), 2u);
           EXPECT_THAT(Error({"--freeze", "backbone", "--unfreeze-after", "2"}),
                       HasSubstr("not below --epochs 2"));
           EXPECT_THAT(Error({"--unfreeze-after", "1"}), HasSubstr("--freeze"));
           // A restart after the second stage has begun keeps the rows of the first one.
           Arguments logged = options;
           logged.insert(logged.end(), {"--checkpoints", Path("stages"), "--csv-log",
                                        Path("stages.csv"), "--epochs", "3"});
           History(logged);
           const std::string rows = Bytes(Path("stages.csv"));
           EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 4);  // header, three epochs
           const CommandResult restarted = Run(logged);
           EXPECT_THAT(restarted.err, HasSubstr("resuming from the checkpoint of step 6 in"));
           EXPECT_EQ(Bytes(Path("stages.csv")), rows);
           // Another boundary is another second stage.
           logged[5] = "2";
           EXPECT_THAT(Run(logged).err, HasSubstr("resuming from the checkpoint of step 3 in"));
         }},
        {"--unfreeze-factor",
         [this] {
           const auto factor = [this](const char* value) {
             return History(
                 {"--freeze", "backbone", "--unfreeze-after", "1", "--unfreeze-factor", value})[1];
           };
           EXPECT_NE(factor("1"), factor("0.01"));
         }},
        {"--config",
         [this, base] {
           std::ofstream(Path("a.yaml")) << "epochs: 3\nseed: 5\n";
           EXPECT_EQ(History({"--config", Path("a.yaml")}), History({"--seed", "5"}))
               << "--epochs is on the command line";
           // A run repeats itself from its record.
           const Json first = History({"--checkpoints", Path("recorded"), "--seed", "7"});
           std::filesystem::rename(Path("recorded/options.json"), Path("again.json"));
           std::filesystem::remove_all(Path("recorded"));
           const CommandResult again =
               Penstock({"train", "--config", Path("again.json"), "--json"});
           EXPECT_EQ(again.code, 0) << again.err;
           EXPECT_EQ(Json::parse(again.out)["epochs"], first);
           EXPECT_EQ(Bytes(Path("recorded/options.json")), Bytes(Path("again.json")));
         }},
        {"--epochs",
         [this] {
           EXPECT_EQ(History({"--epochs", "3"}).size(), 3u);
         }},
        {"--learning-rate", differs("--learning-rate", "0.5")},
        {"--steps", differs("--steps", "1000")},
        {"--steps-per-execution",
         [this, base] {
           EXPECT_EQ(History({"--steps-per-execution", "3"}), base);
           EXPECT_THAT(Error({"--steps-per-execution", "0"}), HasSubstr("auto"));
         }},
        {"--policy",
         [this] {
           EXPECT_EQ(Saved({"--policy", "mixed_bfloat16"}).network().policy().name,
                     "mixed_bfloat16");
         }},
        {"--matmul-precision",
         [this, base] {
           EXPECT_EQ(History({"--matmul-precision", "highest"}), base) << "CPUs have one precision";
           EXPECT_THAT(Error({"--matmul-precision", "lowest"}), HasSubstr("lowest"));
         }},
        {"--shift",
         [this] {
           EXPECT_THAT(Saved({"--model", "resnet8", "--shift", "0.25"}).network().ToJson().dump(),
                       HasSubstr("RandomTranslation"));
         }},
        {"--shuffle", differs("--shuffle", "0")},
        {"--seed", differs("--seed", "5")},
        {"--save",
         [this] {
           EXPECT_THAT(Saved({}).class_names(), ElementsAre("bright", "dark"));
           // Keras's formats hold whole models, too, with the preprocessing as layers.
           const keras::Model same = Loaded(Path("saved.safetensors"));
           for (const char* name : {"saved.keras", "saved.h5"}) {
             History({"--save", Path(name)});
             EXPECT_EQ(KernelsThatDiffer(Loaded(Path(name)), same), 0) << name;
           }
           EXPECT_THAT(Error({"--save", Path("saved.keras"), "--schedule", "onecycle"}),
                       HasSubstr("OneCycle"));
           // Programs for other systems.
           for (const char* name : {"saved.onnx", "saved.savedmodel"}) {
             const CommandResult exported = Run({"--save", Path(name)});
             EXPECT_EQ(exported.code, 0) << exported.err;
             EXPECT_THAT(exported.err, HasSubstr("holds a program that predicts"));
             EXPECT_TRUE(std::filesystem::exists(Path(name))) << name;
           }
           // Formats that hold weights only.
           const CommandResult npz = Run({"--save", Path("saved.npz")});
           EXPECT_EQ(npz.code, 0) << npz.err;
           EXPECT_THAT(npz.err, HasSubstr("holds the weights alone"));
           History({"--weights", Path("saved.npz")});
           EXPECT_THAT(Error({"--save", Path("saved.abacus")}), HasSubstr("saved.abacus"));
         }},
        {"--checkpoints",
         [this] {
           const Json first = History({"--checkpoints", Path("run")});
           const CommandResult resumed =
               Run({"--checkpoints", Path("run"), "--epochs", "3", "--steps", "6"});
           EXPECT_THAT(resumed.err, HasSubstr("checkpoint of step 6 in " + Path("run") + "\n"));
           EXPECT_EQ(Json::parse(resumed.out)["epochs"].size(), 3u);
           EXPECT_EQ(first.size(), 2u);
         }},
        {"--checkpoint-every",
         [this] {
           const auto saved = [this](const char* run, const char* every) {
             History({"--checkpoints", Path(run), "--checkpoint-every", every});
             return Penstock({"inspect", Path(run)}).out;
           };
           // An epoch has 3 steps; the newest 3 checkpoints are kept.
           EXPECT_THAT(saved("by_steps", "2"),
                       AllOf(HasSubstr("step 3:"), HasSubstr("step 4:"), HasSubstr("step 6:")));
           EXPECT_THAT(saved("by_time", "1h30m"), ::testing::Not(HasSubstr("step 4:")));
           for (const char* wrong : {"0", "-1", "soon", "-5m", "0s", "inf"}) {
             EXPECT_THAT(Error({"--checkpoints", Path("run"), "--checkpoint-every", wrong}),
                         HasSubstr("--checkpoint-every must be a number of steps (500) or a time"));
           }
         }},
        {"--checkpoint-place",
         [this] {
           // Of a worker: tests/remote. Devices of this process: no difference.
           const Json here =
               History({"--checkpoints", Path("here"), "--checkpoint-place", "client"});
           EXPECT_EQ(
               History({"--checkpoints", Path("there"), "--checkpoint-place", "worker"}).size(),
               here.size());
           EXPECT_THAT(Penstock({"inspect", Path("there")}).out, HasSubstr("step 6:"));
           EXPECT_THAT(Error({"--checkpoints", Path("run"), "--checkpoint-place", "moon"}),
                       HasSubstr("--checkpoint-place must be 'client' or 'worker', got 'moon'"));
         }},
        {"--csv-log",
         [this] {
           History({"--csv-log", Path("log.csv")});
           const std::vector<std::string> lines = absl::StrSplit(Bytes(Path("log.csv")), '\n');
           EXPECT_EQ(lines.size(), 4u);  // header, two epochs, empty rest
           EXPECT_THAT(lines[0], HasSubstr("loss"));
           EXPECT_THAT(Error({"--csv-log", "/dev/full"}),  // a device
                       HasSubstr("the training is complete, but CsvLogger: /dev/full lacks its "
                                 "last 3 lines"));
           const std::string error = Error({"--csv-log", "s3://KEY:TOPSECRET@bucket/log.csv"});
           EXPECT_THAT(error, AllOf(HasSubstr("log.csv"), ::testing::Not(HasSubstr("TOPSECRET"))));
         }},
        {"--tensorboard",
         [this, board] {
           EXPECT_THAT(board, AllOf(HasSubstr("epoch_loss"), HasSubstr("VarHandleOp"),
                                    HasSubstr("graph_run_metadata_graph")));
           // Known before the training: a file, or a FIFO, where a folder has to be.
           std::ofstream(Path("file")) << "kept";
           std::filesystem::create_directory(Path("blocked"));
           std::ofstream(Path("blocked/train")) << "kept";
           ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
           for (const char* folder : {"file", "file/board", "blocked", "fifo", "fifo/board"}) {
             EXPECT_THAT(Error({"--tensorboard", Path(folder), "--model", "none"}),
                         HasSubstr("--tensorboard: cannot create"))
                 << folder;
           }
         }},
        {"--histogram-freq",
         [this, board] {
           EXPECT_EQ(CountIn(board, "hidden1/kernel/histogram"), 2);
           EXPECT_THAT(Error({"--histogram-freq", "1"}), HasSubstr("--tensorboard"));
         }},
        {"--write-grads",
         [this, board] {
           EXPECT_EQ(CountIn(board, "hidden1/kernel_grad/histogram"), 2);
           EXPECT_THAT(
               Error({"--tensorboard", Path("b"), "--histogram-freq", "0", "--write-grads"}),
               HasSubstr("need a --histogram-freq of 1 or more"));
         }},
        {"--write-images", [board] { EXPECT_THAT(board, HasSubstr("hidden1/kernel/image/0")); }},
        {"--no-write-graph",
         [this] {
           History({"--log-dir", Path("plain"), "--no-write-graph"});
           const std::string plain = BytesIn("plain/train");
           EXPECT_THAT(plain, HasSubstr("epoch_loss"));
           for (const char* part : {"VarHandleOp", "graph_run", "/histogram", "batch_loss"}) {
             EXPECT_EQ(CountIn(plain, part), 0) << part;
           }
         }},
        {"--update-freq",
         [board] {
           EXPECT_EQ(CountIn(board, "batch_loss"), 3) << "every second one of six steps";
         }},
        {"--write-steps-per-second",
         [board] { EXPECT_EQ(CountIn(board, "epoch_steps_per_second"), 2); }},
        {"--profile-batch",
         [this] {
           EXPECT_TRUE(std::filesystem::exists(Path("board/plugins/profile")));
           EXPECT_THAT(Error({"--tensorboard", Path("b"), "--profile-batch", "2-3", "--profile",
                              Path("p")}),
                       HasSubstr("excludes"));
         }},
        {"--confusion-matrix",
         [this] {
           EXPECT_THAT(Error({"--tensorboard", Path("b"), "--confusion-matrix"}),
                       HasSubstr("--confusion-matrix needs --validation"));
           History({"--log-dir", Path("matrix"), "--validation", Path("shards/*.tfrec"),
                    "--confusion-matrix", "--epochs", "8"});
           EXPECT_THAT(BytesIn("matrix/validation"),
                       AllOf(HasSubstr("confusion/image"), HasSubstr("| bright | 12 | 0 |"),
                             HasSubstr("| dark | 0 | 12 |")));
         }},
        {"--dump-hlo",
         [this] {
           History({"--dump-hlo", Path("hlo")});
           EXPECT_GT(FilesIn("hlo"), 0u);
         }},
        {"--profile",
         [this] {
           History({"--profile", Path("profile")});
           EXPECT_TRUE(std::filesystem::exists(Path("profile/summary.txt")));
         }},
        {"--profile-steps",
         [this] {
           History({"--profile", Path("steps"), "--profile-steps", "2-3"});
           EXPECT_TRUE(std::filesystem::exists(Path("steps/trace.json")));
           EXPECT_THAT(Error({"--profile-steps", "2-3"}), HasSubstr("--profile"));
         }},
        {"--find-learning-rate",
         [this] {
           const CommandResult found =
               Run({"--find-learning-rate", "--save", Path("none.safetensors"), "--checkpoints",
                    Path("none")});
           ASSERT_EQ(found.code, 0) << found.err;
           const Json json = Json::parse(found.out);
           EXPECT_GT(json["curve"].size(), 50u);
           EXPECT_EQ(json["curve"][0]["learning_rate"], 1e-7);
           EXPECT_GT(json["proposed_learning_rate"].get<double>(), 1e-6);
           EXPECT_FALSE(std::filesystem::exists(Path("none.safetensors")));
           EXPECT_FALSE(std::filesystem::exists(Path("none")));
           const CommandResult drawn = Penstock({"train", "--data", Path("shards/*.tfrec"),
                                                 "--model", "mlp", "--find-learning-rate"});
           EXPECT_THAT(drawn.out, AllOf(HasSubstr("proposed: --learning-rate "), HasSubstr("*"),
                                        HasSubstr("1e-5"), HasSubstr("smoothed loss")));
         }},
        {"--learning-rate-curve",
         [this] {
           const Arguments draw{"--find-learning-rate", "--learning-rate-curve"};
           const auto to = [&](const std::string& file) {
             Arguments all = draw;
             all.push_back(file);
             return all;
           };
           EXPECT_EQ(Run(to(Path("curve.svg"))).code, 0);
           EXPECT_THAT(Bytes(Path("curve.svg")), AllOf(HasSubstr("<svg"), HasSubstr("proposed:")));
           EXPECT_THAT(Error(to(Path("shards"))), HasSubstr("--learning-rate-curve"));
           EXPECT_THAT(Error({"--learning-rate-curve", "x.svg"}),
                       HasSubstr("--find-learning-rate"));
         }},
        {"--monitor",
         [this] {
           EXPECT_THAT(Run({"--monitor", "127.0.0.1:0"}).err,
                       HasSubstr("monitor: http://127.0.0.1:"));
           for (const char* wrong : {"nowhere", "nowhere.invalid:6006", "127.0.0.1"}) {
             EXPECT_THAT(Error({"--monitor", wrong, "--model", "none"}),
                         HasSubstr("--monitor: \"" + std::string(wrong) + "\" is no address"));
           }
         }},
        {"--monitor-profiler",
         [this] {
           EXPECT_THAT(Run({"--monitor-profiler", "127.0.0.1:0"}).err,
                       HasSubstr("profiler service: port "));
           EXPECT_THAT(Error({"--monitor-profiler", "nowhere"}), HasSubstr("--monitor-profiler: "));
         }},
        {"--json",
         [this] {
           const CommandResult plain =
               Penstock({"train", "--data", Path("shards/*.tfrec"), "--model", "mlp", "--epochs",
                         "1", "--batch-size", "8"});
           EXPECT_EQ(plain.code, 0) << plain.err;
           EXPECT_EQ(plain.out.find("\"epochs\""), std::string::npos);
         }},
    };
  }
};

TEST_F(TrainOptionsTest, CountsTheImagesOfShardsWithOtherNames) {
  const Json want = History({});
  std::filesystem::create_directory(Path("tf"));
  std::filesystem::copy(Path("shards/classes.txt"), Path("tf"));
  int number = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path("shards"))) {
    if (entry.path().extension() != ".tfrec") continue;
    std::filesystem::copy(entry.path(),
                          Path(absl::StrCat("tf/train-0000", number++, "-of-00001.tfrecord")));
  }
  ASSERT_EQ(number, 1);
  // The learning rate's decay depends on the number of steps.
  const CommandResult other = Penstock({"train", "--data", Path("tf/*.tfrecord"), "--json",
                                        "--model", "mlp", "--epochs", "2", "--batch-size", "8"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(Json::parse(other.out)["epochs"], want);
}

TEST_F(TrainOptionsTest, HaveTheirEffects) {
  const auto effects = Effects();
  const std::string help = Penstock({"train", "--help"}).out;
  const std::regex option("^  (?:-h,)?(--[a-z-]+)", std::regex::multiline);
  std::set<std::string> options, tested{"--help"};
  for (std::sregex_iterator i(help.begin(), help.end(), option), end; i != end; ++i) {
    options.insert((*i)[1]);
  }
  for (const auto& [name, effect] : effects) tested.insert(name);
  EXPECT_EQ(options, tested) << "add a test of the option here";
  for (const auto& [name, effect] : effects) {
    SCOPED_TRACE(name);
    effect();
  }
}

TEST_F(TrainOptionsTest, PredictPrintsClassNames) {
  ASSERT_EQ(Run({"--epochs", "8", "--save", Path("m.safetensors")}).code, 0);
  const Arguments predict{
      "predict", "--model", Path("m.safetensors"), "--images", Path("images/dark/*.png"),
      "--count", "2"};
  const auto with = [&](const Arguments& more) {
    Arguments all = predict;
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = Penstock(all);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(with({}), ::testing::MatchesRegex("dark \\([0-9]+ %\\) .*\ndark .*\n"));
  EXPECT_THAT(with({"--top", "5"}),
              ::testing::MatchesRegex("dark \\([0-9]+ %\\), bright \\([0-9]+ %\\) .*\n.*\n"));
  const Json rows = Json::parse(with({"--top", "2", "--json"}));
  EXPECT_EQ(rows[0]["name"], "dark");
  EXPECT_EQ(rows[0]["class"], 1);
  ASSERT_EQ(rows[0]["top"].size(), 2u);
  EXPECT_EQ(rows[0]["top"][0]["probability"], rows[0]["probability"]);
  EXPECT_NEAR(rows[0]["top"][0]["probability"].get<double>() +
                  rows[0]["top"][1]["probability"].get<double>(),
              1, 1e-9);
  const CommandResult shards = Penstock({"predict", "--model", Path("m.safetensors"), "--data",
                                         Path("shards/*.tfrec"), "--count", "3"});
  EXPECT_THAT(shards.out, HasSubstr(" right"));
  // A model without class names prints numbers.
  ASSERT_EQ(Run({"--classes", "3", "--epochs", "8", "--save", Path("m.safetensors")}).code, 0);
  EXPECT_THAT(with({}), HasSubstr("1 ("));
}

}  // namespace train_options_test
}  // namespace penstock::cli
