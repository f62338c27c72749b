// Benchmark of the cost of a monitor, which `bench/run monitor` runs:
//
//   bench_monitor WORK    for each line of stdin, trains for about four seconds without and with a
//                         monitor, alternating (off on on off), and prints the speed with it as a
//                         share of the speed without it: {"speed": 0.9991, "cpu": 0.9987}
//
// "cpu" is the share by CPU time, which other processes disturb less: the time without a monitor over
// that time and the CPU time that the monitor adds to the thread that trains and to its reader. (The
// CPU time of the process depends on how long the compiler's threads spin between two steps.) The
// monitor has its HTTP server and a reader that takes a snapshot every second. WORK is resnet20 (batches of 128) or iris
// (an MLP 4-10-3, batches of 16), with one step per execution.
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/models/models.h"
#include "penstock/monitor/server.h"
#include "penstock/monitor/training_monitor.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/client.h"
#include "penstock/train/trainer.h"

#include "bench/idioms/idioms.h"

namespace penstock {
namespace {

// CPU time of the calling thread.
double ThreadCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Takes a snapshot every second, as a page does.
class Reader {
 public:
  explicit Reader(monitor::Registry& registry)
      : thread_([this, &registry] {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) {
            registry.Take().ToJson();
          }
          cpu_ = ThreadCpuSeconds();
        }) {}
  ~Reader() { Stop(); }
  // Ends it; the CPU time that it used.
  double Stop() {
    if (!thread_.joinable()) return cpu_;
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
    return cpu_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  double cpu_ = 0;
  std::thread thread_;
};

struct Times {
  double seconds = 0, cpu = 0;
};

class Benchmark {
 public:
  static absl::StatusOr<std::unique_ptr<Benchmark>> Create(const std::string& work) {
    if (work != "resnet20" && work != "iris") {
      return absl::InvalidArgumentError("usage: bench_monitor resnet20|iris");
    }
    const bool iris = work == "iris";
    PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient());
    PENSTOCK_ASSIGN_OR_RETURN(train::Strategy strategy,
                              train::Strategy::Create(std::move(client), {.replicas = 1}));
    auto benchmark = std::unique_ptr<Benchmark>(
        new Benchmark(iris ? Repeated(idioms::Flowers(), idioms::FlowerClasses())
                           : Repeated(idioms::Images(), idioms::Labels())));
    PENSTOCK_ASSIGN_OR_RETURN(
        benchmark->trainer_,
        train::Trainer::Create(
            {.objective = {.network = iris ? IrisNet() : ResNet20(),
                           .targets = {{.loss = nn::SparseCategoricalCrossentropy(
                                            {.from_logits = true})}},
                           .optimizer = nn::SGD({.learning_rate = idioms::kLearningRate})},
             .strategy = std::move(strategy),
             .columns = {.inputs = {"x"}, .labels = {"y"}},
             .steps_per_execution = 1}));
    PENSTOCK_ASSIGN_OR_RETURN(
        benchmark->server_,
        monitor::Server::Start(benchmark->registry_, {.address = "127.0.0.1:0"}));
    PENSTOCK_RETURN_IF_ERROR(benchmark->Run(idioms::kMinSteps, false).status());  // compiles
    PENSTOCK_ASSIGN_OR_RETURN(const Times times, benchmark->Run(idioms::kMinSteps, false));
    benchmark->step_seconds_ = times.seconds / idioms::kMinSteps;
    return benchmark;
  }

  absl::Status Round() {
    const int64_t steps = idioms::StepsOfRound(step_seconds_);
    Times off, on;
    for (const bool monitored : {false, true, true, false}) {
      PENSTOCK_ASSIGN_OR_RETURN(const Times times, Run(steps, monitored));
      Times& sum = monitored ? on : off;
      sum.seconds += times.seconds;
      sum.cpu += times.cpu;
    }
    step_seconds_ = off.seconds / 2 / static_cast<double>(steps);
    std::cout << absl::StrFormat("{\"speed\": %.5f, \"cpu\": %.5f}", off.seconds / on.seconds,
                                 off.seconds / (off.seconds + on.cpu - off.cpu))
              << std::endl;
    return absl::OkStatus();
  }

 private:
  explicit Benchmark(data::Dataset batches) : batches_(std::move(batches)) {}

  // One batch, again and again; reading it returns a view.
  static data::Dataset Repeated(const base::Array& x, const base::Array& y) {
    return data::Dataset::FromArrays({{"x", x.Reshape(x.shape().Prepend(1)).value()},
                                      {"y", y.Reshape(y.shape().Prepend(1)).value()}})
        .Repeat();
  }
  static nn::Network IrisNet() {
    const nn::Symbol x = nn::Input({.shape = {4}});
    const nn::Symbol hidden = nn::Dense({.units = 10, .activation = "sigmoid"})(x);
    return nn::Network({x}, {nn::Dense({.units = 3})(hidden)});
  }
  static nn::Network ResNet20() {
    return models::ResNetCifar(
        {.depth = 20, .input_dtype = base::DType::kU8, .rescale = 1 / 255.0});
  }

  absl::StatusOr<Times> Run(int64_t steps, bool monitored) {
    train::FitOptions fit{.epochs = 1, .steps_per_epoch = steps};
    std::unique_ptr<Reader> reader;
    if (monitored) {
      fit.callbacks.push_back(monitor::TrainingMonitor(registry_));
      reader = std::make_unique<Reader>(registry_);
    }
    const double cpu = ThreadCpuSeconds();
    PENSTOCK_ASSIGN_OR_RETURN(const train::History history, trainer_->Fit(batches_, fit));
    return Times{.seconds = history.stats.back().seconds,
                 .cpu = ThreadCpuSeconds() - cpu + (reader != nullptr ? reader->Stop() : 0)};
  }

  const data::Dataset batches_;
  monitor::Registry registry_;
  std::unique_ptr<monitor::Server> server_;
  std::unique_ptr<train::Trainer> trainer_;
  double step_seconds_ = 1;
};

absl::Status Main(const std::string& work) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto benchmark, Benchmark::Create(work));
  for (std::string line; std::getline(std::cin, line);) {
    PENSTOCK_RETURN_IF_ERROR(benchmark->Round());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const absl::Status status = penstock::Main(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::fprintf(stderr, "bench_monitor: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
