// Benchmark of training, which `bench/run train` runs beside its peers:
//
//   bench_train make FOLDER               writes ten shards of 1,000 images of CIFAR's size, PNG
//   bench_train serve WORK [FOLDER]       for each line of stdin, trains for about a second (at
//                                         least two steps) and prints
//                                         {"items_per_second": 3072.0, "idle_percent": 0.4,
//                                         "peak_rss": 104857600}
//   bench_train first_step WORK [FOLDER]  trains, and prints {"fit_seconds": 1.7} after the first
//                                         step: the time since the call of Fit in seconds
//
// WORK is a workload of the table below, with the suffix "_checked" to train with TerminateOnNan;
// or iris_K, iris_auto: an MLP 4-10-3 on shuffled batches of 16 of 150 flowers with K steps per
// execution; or iris_fixed_K, which trains on one batch repeatedly, without an input pipeline.
// Items are images, or steps of iris. FOLDER contains the shards.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include <sys/resource.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/models/models.h"
#include "penstock/nn/layers.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"
#include "penstock/runtime/client.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

using base::Array;
using base::DType;
using data::Dataset;

constexpr double kSeconds = 1.0;
constexpr int64_t kMinSteps = 2;
constexpr int64_t kEndless = int64_t{1} << 40;

struct Work {
  const char* name = "";
  const char* model = "iris";  // or a name for models::ByName
  const char* policy = "float32";
  int64_t batch = 16;
  int64_t side = 0;  // height and width of the images
  int64_t classes = 10;
  bool from_shards = false;  // false: one batch in memory, repeated
  int replicas = 1;          // each on a separate CPU device
  int64_t steps_per_execution = 1;
  const char* device = "cpu";
  bool checked = false;  // with TerminateOnNan
};

constexpr int64_t kCifarSide = 32;
constexpr const char* kMixed = "mixed_bfloat16";
constexpr Work kTable[] = {
    {"resnet20", "resnet20", "float32", 128, kCifarSide, 10, true},
    {"resnet20_bf16", "resnet20", kMixed, 128, kCifarSide, 10, true},
    {"resnet20_8_replicas", "resnet20", "float32", 128, kCifarSide, 10, true, 8},
    {"resnet50", "resnet50", "float32", 16, 224, 1000},
    {"resnet50_bf16", "resnet50", kMixed, 16, 224, 1000},
    {"resnet50_64", "resnet50", "float32", 32, 64, 1000},
    {"resnet101_64", "resnet101", "float32", 32, 64, 1000},
    {"resnet152_64", "resnet152", "float32", 32, 64, 1000},
    {"resnet50_64_f16", "resnet50", "mixed_float16", 32, 64, 1000},
    {"decoder6", "decoder", "float32", 8},
    {"decoder24", "decoder", "float32", 8},
    {"mobilenet_v2", "mobilenet_v2", "float32", 32, 96, 1000},
    {"mobilenet_v2_bf16", "mobilenet_v2", kMixed, 32, 96, 1000},
    {"resnet50_gpu", "resnet50", "float32", 256, 224, 1000, false, 1, train::kAutoSteps, "gpu"},
    {"resnet50_gpu_bf16", "resnet50", kMixed, 256, 224, 1000, false, 1, train::kAutoSteps, "gpu"},
};

// ---- Data ----

constexpr int kShards = 10;
constexpr int kImagesPerShard = 1000;

// Writes shards with crops of photographs, which are as expensive to decode as real images.
absl::Status MakeShards(const std::string& folder) {
  io::FileSystem& fs = *io::FileSystem::Default();
  std::vector<Array> photos;
  for (const char* name : {"china", "flower"}) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::string file,
        io::ReadFile(fs, absl::StrCat("third_party/unpacked/photos/", name, ".jpg")));
    PENSTOCK_ASSIGN_OR_RETURN(photos.emplace_back(), image::Decode(file));
  }
  base::Random random(0);
  for (int shard = 0; shard < kShards; ++shard) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto writer, record::TfRecordWriter::Create(
                                                     fs, absl::StrFormat("%s/%02d-%d.tfrec", folder,
                                                                         shard, kImagesPerShard)));
    for (int i = 0; i < kImagesPerShard; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView photo, image::ViewOf(photos[i % 2]));
      PENSTOCK_ASSIGN_OR_RETURN(const image::Box box,
                                image::RandomCrop(photo.size(), {kCifarSide, kCifarSide}, random));
      PENSTOCK_ASSIGN_OR_RETURN(const std::string png, image::EncodePng(photo.Crop(box)));
      record::ExampleBuilder example;
      example.SetBytes("image", png);
      example.SetInt64("class", i % 10);
      PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
    }
    PENSTOCK_RETURN_IF_ERROR(writer->Close());
  }
  return absl::OkStatus();
}

// Reads shards like `penstock train`.
Dataset FromShards(const Work& work, const std::string& folder) {
  const int side = static_cast<int>(work.side);
  return Dataset::FromTfRecords({folder + "/*.tfrec"}, {.shuffle_files = true})
      .Shuffle(10000)
      .Repeat()
      .ParseExample({.features = {{.name = "image", .dtype = DType::kString},
                                  {.name = "class", .dtype = DType::kI64}}})
      .DecodeImage({.channels = 3, .height = side, .width = side})
      .Batch(work.batch)
      .Prefetch(2);
}

// Repeats one element that is a whole batch; reading it returns a view.
Dataset Fixed(const base::NamedArrays& batch) {
  base::NamedArrays rows;
  for (const auto& [name, array] : batch) {
    rows.Append(name, array.Reshape(array.shape().Prepend(1)).value());
  }
  return Dataset::FromArrays(rows).Repeat();
}

base::NamedArrays Noise(const Work& work) {
  Array pixels = Array::Uninitialized(DType::kU8, {work.batch, work.side, work.side, 3});
  base::Random random(1);
  std::generate_n(pixels.mutable_data<uint8_t>(), pixels.num_elements(),
                  [&] { return static_cast<uint8_t>(random.Next()); });
  return {{"image", pixels}, {"class", Array::Zeros(DType::kI64, {work.batch})}};
}

constexpr int64_t kTokens = 64, kVocabulary = 256;

base::NamedArrays Text(const Work& work) {
  Array tokens = Array::Uninitialized(DType::kI32, {work.batch, kTokens});
  base::Random random(1);
  std::generate_n(tokens.mutable_data<int32_t>(), tokens.num_elements(),
                  [&] { return static_cast<int32_t>(random.Next() % kVocabulary); });
  return {{"image", tokens}, {"class", tokens}};
}

// Returns random measurements of 150 flowers of three classes, the size of Fisher's iris data; the
// time of a step does not depend on the values.
base::NamedArrays Flowers() {
  base::Random random(1);
  Array x = Array::Uninitialized(DType::kF32, {150, 4}),
        y = Array::Uninitialized(DType::kI64, {150});
  for (int64_t i = 0; i < 150; ++i) {
    const int64_t label = i / 50;
    y.mutable_data<int64_t>()[i] = label;
    for (int64_t j = 0; j < 4; ++j) {
      x.mutable_data<float>()[4 * i + j] =
          static_cast<float>(label) + static_cast<float>(random.Uniform());
    }
  }
  return {{"image", x}, {"class", y}};
}

Dataset ShuffledFlowers(int64_t batch) {
  return Dataset::FromArrays(Flowers())
      .Repeat()
      .Shuffle(150)
      .Batch(batch, {.drop_remainder = true})
      .Prefetch();
}

Dataset OneBatchOfFlowers(int64_t batch) {
  base::NamedArrays rows;
  for (const auto& [name, array] : Flowers()) rows.Append(name, array.Slice(0, batch));
  return Fixed(rows);
}

// ---- Training ----

nn::Network IrisNetwork() {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "image"});
  const nn::Symbol hidden = nn::Dense({.units = 10, .activation = "sigmoid"})(x);
  return nn::Network({x}, {nn::Dense({.units = 3})(hidden)});
}

absl::StatusOr<nn::Network> NetworkOf(const Work& work) {
  const absl::string_view model = work.model;
  if (model == "iris") return IrisNetwork();
  if (model == "decoder") {
    return models::Gpt({.vocabulary_size = kVocabulary,
                        .sequence_length = kTokens,
                        .dim = 128,
                        .depth = absl::EndsWith(work.name, "24") ? 24 : 6});
  }
  return models::ByName(model, {.input_shape = {work.side, work.side, 3},
                                .classes = work.classes,
                                .input_dtype = base::DType::kU8,
                                .rescale = 1 / 255.0});
}

absl::StatusOr<std::unique_ptr<train::Trainer>> MakeTrainer(const Work& work) {
  const bool iris = work.model == absl::string_view("iris");
  const absl::StatusOr<nn::Network> network = NetworkOf(work);
  PENSTOCK_RETURN_IF_ERROR(network.status());
  PENSTOCK_ASSIGN_OR_RETURN(
      auto client, runtime::OpenClient({.device = work.device, .cpu_devices = work.replicas}));
  PENSTOCK_ASSIGN_OR_RETURN(
      train::Strategy strategy,
      train::Strategy::Create(std::move(client), {.replicas = work.replicas}));
  return train::Trainer::Create(
      {.objective = {.network = network->WithPolicy(work.policy),
                     .targets = {{.loss =
                                      nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                     .optimizer =
                         nn::SGD({.learning_rate = iris ? 0.5 : 0.01, .momentum = iris ? 0 : 0.9})},
       .strategy = std::move(strategy),
       .columns = {.inputs = {"image"}, .labels = {"class"}},
       .steps_per_execution = work.steps_per_execution});
}

// Measures the steps from the first BatchEnd to the last, without compilation and filling of
// buffers.
class Speed : public train::Callback {
 public:
  // Stops the training after `stop_after` seconds; 0: does not stop it.
  explicit Speed(double stop_after) : stop_after_(stop_after) {}

  absl::Status BatchEnd(train::TrainingContext& run, const train::Position& position,
                        const train::Logs&) override {
    const double now = base::Clock::Real()->Seconds();
    if (steps_ == 0) {
      began_ = now;
      first_ = position.total_steps;
    }
    steps_ = position.total_steps;
    seconds_ = now - began_;
    if (stop_after_ > 0 && seconds_ >= stop_after_) run.Stop("measured");
    return absl::OkStatus();
  }

  double steps_per_second() const { return static_cast<double>(steps_ - first_) / seconds_; }

 private:
  const double stop_after_;
  double began_ = 0, seconds_ = 0;
  int64_t first_ = 0, steps_ = 0;
};

// Runs consecutive trainings of about a second each.
class Rounds {
 public:
  Rounds(const Work& work, std::unique_ptr<train::Trainer> trainer, Dataset dataset)
      : work_(work), trainer_(std::move(trainer)), dataset_(std::move(dataset)) {}

  absl::StatusOr<std::string> operator()() {
    const bool iris = work_.model == absl::string_view("iris");
    // Stopping has to wait for the steps in flight, which is too long if a step takes a second.
    // Therefore the number of steps is computed from the speed of the previous round.
    const int64_t steps = static_cast<int64_t>(steps_per_second_ * kSeconds);
    const auto speed = std::make_shared<Speed>(iris ? kSeconds : 0);
    std::vector<std::shared_ptr<train::Callback>> callbacks{speed};
    if (work_.checked) callbacks.push_back(train::TerminateOnNan());
    PENSTOCK_ASSIGN_OR_RETURN(
        const train::History history,
        trainer_->Fit(dataset_, {.epochs = iris ? 1 : 2,
                                 .callbacks = callbacks,
                                 .steps_per_epoch = iris ? kEndless : std::max(kMinSteps, steps)}));
    steps_per_second_ = speed->steps_per_second();
    double items_per_second = steps_per_second_;
    double idle_percent = 0;
    if (!iris) {
      // Uses the second epoch, which does not include the start of the training.
      const train::FitStats& stats = history.stats.back();
      items_per_second = static_cast<double>(work_.batch * stats.steps) / stats.seconds;
      idle_percent = 100 * stats.idle_seconds() / stats.seconds;
    }
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return absl::StrFormat("{\"items_per_second\": %.2f, \"idle_percent\": %.3f, \"peak_rss\": %d}",
                           items_per_second, idle_percent, usage.ru_maxrss * 1024);
  }

 private:
  const Work work_;
  std::unique_ptr<train::Trainer> trainer_;
  const Dataset dataset_;
  double steps_per_second_ = 0;
};

class PrintFirstStep : public train::Callback {
  absl::Status BatchEnd(train::TrainingContext&, const train::Position&,
                        const train::Logs&) override {
    std::cout << absl::StrFormat("{\"fit_seconds\": %.3f}", base::Clock::Real()->Seconds() - begin_)
              << std::endl;
    return absl::OkStatus();
  }

  const double begin_ = base::Clock::Real()->Seconds();
};

// ---- The command line ----

absl::StatusOr<Work> FindWork(absl::string_view name) {
  const bool checked = absl::ConsumeSuffix(&name, "_checked");
  for (Work work : kTable) {
    work.checked = checked;
    if (name == work.name) return work;
  }
  absl::string_view steps = name;
  Work iris;
  iris.checked = checked;
  iris.name = "iris";
  if (absl::ConsumePrefix(&steps, "iris_fixed_")) {
    iris.name = "iris_fixed";
  } else if (!absl::ConsumePrefix(&steps, "iris_")) {
    steps = "";
  }
  if (steps == "auto") {
    iris.steps_per_execution = train::kAutoSteps;
  } else if (!absl::SimpleAtoi(steps, &iris.steps_per_execution)) {
    return absl::NotFoundError(absl::StrCat("unknown workload '", name, "'"));
  }
  return iris;
}

Dataset DataOf(const Work& work, const std::string& folder) {
  if (work.from_shards) return FromShards(work, folder);
  if (work.model == absl::string_view("decoder")) return Fixed(Text(work));
  if (work.model != absl::string_view("iris")) return Fixed(Noise(work));
  const bool fixed = work.name == absl::string_view("iris_fixed");
  return fixed ? OneBatchOfFlowers(work.batch) : ShuffledFlowers(work.batch);
}

absl::Status Serve(const Work& work, const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(auto trainer, MakeTrainer(work));
  Rounds round(work, std::move(trainer), DataOf(work, folder));
  for (std::string line; std::getline(std::cin, line);) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string answer, round());
    std::cout << answer << std::endl;
  }
  return absl::OkStatus();
}

absl::Status FirstStep(const Work& work, const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(auto trainer, MakeTrainer(work));
  std::vector<std::shared_ptr<train::Callback>> callbacks{std::make_shared<PrintFirstStep>()};
  if (work.checked) callbacks.push_back(train::TerminateOnNan());
  return trainer
      ->Fit(DataOf(work, folder), {.callbacks = std::move(callbacks), .steps_per_epoch = 1})
      .status();
}

absl::Status Main(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what == "make" && arguments.size() == 2) return MakeShards(arguments[1]);
  if ((what == "serve" || what == "first_step") &&
      (arguments.size() == 2 || arguments.size() == 3)) {
    PENSTOCK_ASSIGN_OR_RETURN(const Work work, FindWork(arguments[1]));
    if (work.from_shards && arguments.size() != 3) {
      return absl::InvalidArgumentError("this workload requires a FOLDER with shards");
    }
    return (what == "serve" ? Serve : FirstStep)(work, arguments.back());
  }
  return absl::InvalidArgumentError(
      "usage: bench_train make FOLDER | serve WORK [FOLDER] | first_step WORK [FOLDER]");
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const absl::Status status = penstock::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "bench_train: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
