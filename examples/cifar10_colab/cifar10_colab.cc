// ResNet on CIFAR-10 the way Colab notebooks for TPUs do it: the devices of an address are listed,
// the network is trained in the Keras way and in the estimator way, with 128 images for each device
// and a learning rate that grows with them, and the time of an epoch is printed for 1 and 8
// replicas.
//
//   cifar10_colab                                                 synthetic images, on the CPU
//   cifar10_colab --tpu tpu --train 'cifar10/train-*.tfrec' --test 'cifar10/test-*.tfrec'
//
// Records have the features `image` (PNG or JPEG) and `class`; `penstock pack` makes them of a
// folder with a subfolder for each class.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/exceptions.h"
#include "penstock/estimator/estimator.h"
#include "penstock/estimator/keras_interop.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"
#include "penstock/session/data.h"
#include "penstock/session/layers.h"
#include "penstock/session/losses.h"
#include "penstock/session/metrics.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/tpu.h"
#include "penstock/session/train/optimizer.h"

using namespace penstock;
using namespace penstock::estimator;
namespace tf = penstock::session;

constexpr int64_t kEvalBatch = 8;  // images for each replica

struct Settings {
  std::string tpu = "cpu";  // an address, or "cpu", "gpu", "tpu"
  std::string train = "", test = "";
  std::string model_dir = "";  // default: a temporary folder
  int64_t size = 32;           // of the images
  int64_t batch = 128;         // for each replica
  int64_t images = 50000;      // of an epoch
  int replicas = 8;
  int epochs = 2;
  int64_t depth = 20;
};

// Synthetic images: each class has a color and a direction of its stripes.
data::Dataset Synthetic(int64_t count, int64_t size) {
  base::Array images = base::Array::Zeros(base::DType::kU8, {count, size, size, 3});
  base::Array classes = base::Array::Zeros(base::DType::kI64, {count});
  uint8_t* pixel = images.mutable_data<uint8_t>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = i % 10;
    classes.mutable_data<int64_t>()[i] = label;
    for (int64_t y = 0; y < size; ++y) {
      for (int64_t x = 0; x < size; ++x) {
        const bool stripe = ((label % 2 == 0 ? x : y) + i) % 4 < 2;
        for (int64_t c = 0; c < 3; ++c) {
          *pixel++ = static_cast<uint8_t>(stripe ? 60 + 19 * ((label + 3 * c) % 10) : 40);
        }
      }
    }
  }
  return data::Dataset::FromArrays({{"image", images}, {"label", classes}});
}

// Images, shuffled and repeated for training.
data::Dataset Images(const Settings& settings, bool training) {
  const std::string& shards = training ? settings.train : settings.test;
  if (shards.empty()) {
    // At least one batch of the evaluation.
    const int64_t tested = std::max<int64_t>(40, kEvalBatch * settings.replicas);
    const data::Dataset images = Synthetic(training ? settings.images : tested, settings.size);
    return training ? images.Shuffle(settings.images) : images;
  }
  const data::Dataset records = data::Dataset::FromTfRecords({shards}, {.shuffle_files = training});
  return (training ? records.Shuffle(10000) : records)
      .ParseExample({.features = {{.name = "image", .dtype = base::DType::kString},
                                  {.name = "class", .dtype = base::DType::kI64}}})
      .DecodeImage({.height = static_cast<int>(settings.size),
                    .width = static_cast<int>(settings.size),
                    .random_flip = training})
      .Map(
          [](const base::NamedArrays& in, base::NamedArrays* out) {
            out->Set("label", in[0].second);
            return absl::OkStatus();
          },
          {.name = "label",
           .reads = {"class"},
           .makes = {{"label", base::DType::kI64, {}}},
           .drops = {"class"}});
}

// Translations of up to an eighth, on the device.
nn::Network ResNet(const Settings& settings) {
  return models::ResNetCifar({.depth = settings.depth,
                              .input_shape = {settings.size, settings.size, 3},
                              .input_dtype = base::DType::kU8,
                              .rescale = 1 / 255.0,
                              .height_shift = 0.125,
                              .width_shift = 0.125});
}

// The learning rate of one replica, times their number (Goyal et al. 2017).
double LearningRate(int replicas) { return 0.05 * replicas; }

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

absl::Status ListDevices(const Settings& settings) {
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  const tf::tpu::TPUClusterResolver resolver(settings.tpu);
  tf::Session session(resolver.GetMaster(), {.cpu_devices = settings.replicas});
  PENSTOCK_RETURN_IF_ERROR(session.status());
  for (const runtime::Device& device : session.ListDevices()) {
    std::printf("device %d: %s\n", device.id, device.kind.c_str());
  }
  return absl::OkStatus();
}

// model = keras_to_tpu_model(model, strategy); model.fit(...)
absl::Status TrainTheKerasWay(const Settings& settings, int replicas) {
  const keras::TPUDistributionStrategy strategy(
      tf::tpu::TPUClusterResolver(settings.tpu), /*using_single_core=*/false,
      {.num_replicas = replicas, .cpu_devices = settings.replicas});
  PENSTOCK_ASSIGN_OR_RETURN(keras::TPUModel model,
                            keras::KerasToTpuModel(keras::Model(ResNet(settings)), strategy));
  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = keras::SGD({.learning_rate = LearningRate(replicas), .momentum = 0.9}),
       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
       .metrics = {"accuracy"}}));
  const data::Dataset train = Images(settings, true).Batch(settings.batch * replicas);
  std::printf("keras, %d replicas: %d epochs\n", replicas, settings.epochs);
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const Stopwatch stopwatch;
    PENSTOCK_RETURN_IF_ERROR(
        model.Fit(train, {.epochs = epoch, .initial_epoch = epoch - 1}).status());
    std::printf("keras, %d replicas: epoch %d took %.2f s\n", replicas, epoch, stopwatch.Seconds());
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::Logs logs,
      model.Evaluate(Images(settings, false).Batch(settings.batch * replicas), {.verbose = 0}));
  std::printf("keras, %d replicas: accuracy %.1f %%\n", replicas, 100 * *logs.Find("accuracy"));
  return absl::OkStatus();
}

TPUEstimatorSpec ResNetModelFn(const NamedTensors& features, const NamedTensors& labels,
                               ModeKeys mode, const Params& params, const Settings& settings) {
  const bool training = mode == ModeKeys::kTrain;
  const tf::Tensor logits =
      tf::layers::Apply(ResNet(settings), {features["image"]}, {.training = training})[0];
  TPUEstimatorSpec spec{.mode = mode, .predictions = {{"class", tf::ArgMax(logits, -1)}}};
  if (mode == ModeKeys::kPredict) return spec;
  spec.loss = tf::losses::SparseSoftmaxCrossEntropy(labels, logits);
  if (training) {
    const double learning_rate = params["learning_rate"];
    tf::tpu::CrossShardOptimizer optimizer(tf::train::MomentumOptimizer(learning_rate, 0.9));
    // The moving averages of batch normalization.
    const tf::ControlDependencies updates(
        tf::Graph::Default()->GetCollectionOperations(tf::graph_keys::kUpdateOps));
    spec.train_op = optimizer.Minimize(spec.loss, tf::GetGlobalStep());
    return spec;
  }
  spec.eval_metrics = {.metric_fn = [](const NamedTensors& t) -> EvalMetricOps {
                         return {{"accuracy", tf::metrics::Accuracy(t["label"], t["class"])}};
                       },
                       .tensors = {{"label", labels}, {"class", spec.predictions["class"]}}};
  return spec;
}

absl::Status TrainTheEstimatorWay(const Settings& settings, int replicas) {
  const int64_t batch = settings.batch * replicas, steps = settings.images / batch;
  RunConfig config;
  config.master = tf::tpu::TPUClusterResolver(settings.tpu).GetMaster();
  config.session_config.cpu_devices = settings.replicas;
  config.tpu_config = {.iterations_per_loop = steps, .num_shards = replicas};
  config.save_checkpoints_secs = 0;
  config.log = nullptr;
  TPUEstimator estimator({.model_fn =
                              [&](const NamedTensors& features, const NamedTensors& labels,
                                  ModeKeys mode, const Params& params) {
                                return ResNetModelFn(features, labels, mode, params, settings);
                              },
                          .model_dir = settings.model_dir.empty()
                                           ? ""
                                           : settings.model_dir + "/" + std::to_string(replicas),
                          .config = config,
                          .params = {{"learning_rate", LearningRate(replicas)}},
                          .train_batch_size = batch,
                          .eval_batch_size = kEvalBatch * replicas});
  // One training; a hook measures its epochs.
  class EpochTimes : public SessionRunHook {
   public:
    explicit EpochTimes(int replicas) : replicas_(replicas) {}
    SessionRunArgs BeforeRun(RunContext&) override {
      stopwatch_ = std::make_unique<Stopwatch>();
      return {};
    }
    absl::Status AfterRun(RunContext&, const RunValues&) override {
      std::printf("estimator, %d replicas: epoch %d took %.2f s\n", replicas_, ++epoch_,
                  stopwatch_->Seconds());
      return absl::OkStatus();
    }

   private:
    const int replicas_;
    int epoch_ = 0;
    std::unique_ptr<Stopwatch> stopwatch_;
  };
  std::printf("estimator, %d replicas: %d epochs of %lld steps, each one run of the device\n",
              replicas, settings.epochs, static_cast<long long>(steps));
  PENSTOCK_RETURN_IF_ERROR(estimator.Train(
      [&](const Params& params) {
        return Images(settings, true).Repeat().Batch(params["batch_size"]);
      },
      {.hooks = {std::make_shared<EpochTimes>(replicas)}, .max_steps = steps * settings.epochs}));
  PENSTOCK_ASSIGN_OR_RETURN(const EvalResult result, estimator.Evaluate([&](const Params& params) {
    return Images(settings, false).Batch(params["batch_size"]);
  }));
  std::printf("estimator, %d replicas: accuracy %.1f %%\n", replicas, 100 * result.at("accuracy"));
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings) {
  if (settings.images < settings.batch * settings.replicas) {
    return absl::InvalidArgumentError("--images must be at least --batch times --replicas");
  }
  PENSTOCK_RETURN_IF_ERROR(ListDevices(settings));
  // A mistake in the names of the shards, before the training that they end.
  for (const bool training : {true, false}) {
    PENSTOCK_RETURN_IF_ERROR(Images(settings, training).MakeIterator().status());
  }
  for (const int replicas : {1, settings.replicas}) {
    PENSTOCK_RETURN_IF_ERROR(TrainTheKerasWay(settings, replicas));
    PENSTOCK_RETURN_IF_ERROR(TrainTheEstimatorWay(settings, replicas));
  }
  return absl::OkStatus();
}

// False: a mistake in the command line.
bool ReadArguments(int argc, char** argv, Settings* settings) {
  const std::map<std::string, std::string*> texts = {{"--tpu", &settings->tpu},
                                                     {"--train", &settings->train},
                                                     {"--test", &settings->test},
                                                     {"--model-dir", &settings->model_dir}};
  int64_t replicas = settings->replicas, epochs = settings->epochs;
  const std::map<std::string, int64_t*> numbers = {
      {"--size", &settings->size}, {"--batch", &settings->batch},
      {"--epochs", &epochs},       {"--images", &settings->images},
      {"--replicas", &replicas},   {"--depth", &settings->depth}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    if (const auto text = texts.find(argv[i]); text != texts.end()) {
      *text->second = argv[i + 1];
    } else if (const auto number = numbers.find(argv[i]); number != numbers.end()) {
      *number->second = std::atoll(argv[i + 1]);
      if (*number->second < 1 || *number->second > 10000000) return false;
    } else {
      return false;
    }
  }
  settings->replicas = static_cast<int>(replicas);
  settings->epochs = static_cast<int>(epochs);
  return settings->train.empty() == settings->test.empty() && settings->replicas <= 64;
}

int main(int argc, char** argv) {
  Settings settings;
  if (!ReadArguments(argc, argv, &settings)) {
    std::fprintf(stderr,
                 "usage: cifar10_colab [--tpu ADDRESS] [--train SHARDS --test SHARDS] "
                 "[--model-dir FOLDER] [--replicas 8] [--batch 128] [--epochs 2] [--images 50000] "
                 "[--size 32] [--depth 20]\n");
    return 2;
  }
  // Images that do not fit into memory are an error.
  const absl::Status status = base::CatchExceptions([&] { return Run(settings); });
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
