// The trainer's side of measurements beside its peers:
//
//   bench_train serve WORK      for each line of stdin trains for about a second and answers
//                               {"items_per_second": 30720.0, "peak_rss": 104857600}
//
// Items are steps. WORK is one of
//   iris_1, iris_32, iris_auto  an MLP 4-10-3 on batches of 16 of 150 flowers, shuffled, with so
//   many
//                               steps in an execution
//   iris_fixed_1, ...           the same on one batch again and again, without an input pipeline
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include <sys/resource.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/client.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

using base::Array;
using base::DType;
using data::Dataset;

constexpr double kSeconds = 1.0;
constexpr int64_t kBatch = 16;

// As many flowers as Fisher measured, of three kinds; the numbers are drawn, since a step's time
// does not depend on them.
base::NamedArrays Flowers() {
  base::Random random(1);
  Array x = Array::Uninitialized(DType::kF32, {150, 4}),
        y = Array::Uninitialized(DType::kI64, {150});
  for (int64_t i = 0; i < 150; ++i) {
    y.mutable_data<int64_t>()[i] = i / 50;
    for (int64_t j = 0; j < 4; ++j) {
      x.mutable_data<float>()[4 * i + j] =
          static_cast<float>(i / 50) + static_cast<float>(random.Uniform());
    }
  }
  return {{"x", x}, {"y", y}};
}

// One element that is a whole batch, for ever: reading it is a view.
Dataset FixedBatch() {
  base::NamedArrays rows;
  for (const auto& [name, array] : Flowers()) {
    const Array batch = array.Slice(0, kBatch);
    rows.Set(name, batch.Reshape(batch.shape().Prepend(1)).value());
  }
  return Dataset::FromArrays(rows).Repeat();
}

Dataset Shuffled() {
  return Dataset::FromArrays(Flowers())
      .Repeat()
      .Shuffle(150)
      .Batch(kBatch, {.drop_remainder = true})
      .Prefetch();
}

class StopAfter : public train::Callback {
 public:
  explicit StopAfter(double seconds) : end_(base::Clock::Real()->Seconds() + seconds) {}
  absl::Status BatchEnd(train::Run& run, const train::Position& position,
                        const train::Logs&) override {
    const double now = base::Clock::Real()->Seconds();
    if (steps_ == 0) began_ = now;
    steps_ = position.total_steps;
    if (first_ == 0) first_ = steps_;
    seconds_ = now - began_;
    if (now >= end_) run.Stop("measured");
    return absl::OkStatus();
  }
  double steps_per_second() const { return static_cast<double>(steps_ - first_) / seconds_; }

 private:
  const double end_;
  double began_ = 0, seconds_ = 0;
  int64_t first_ = 0, steps_ = 0;
};

absl::StatusOr<std::unique_ptr<train::Trainer>> IrisTrainer(int64_t steps_per_execution) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol hidden = nn::Dense({.units = 10, .activation = "sigmoid"})(x);
  PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = "cpu"}));
  PENSTOCK_ASSIGN_OR_RETURN(train::Strategy strategy, train::Strategy::Create(std::move(client)));
  return train::Trainer::Create(
      {.objective = {.network = nn::Network({x}, {nn::Dense({.units = 3})(hidden)}),
                     .loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                     .optimizer = nn::SGD({.learning_rate = 0.5})},
       .strategy = std::move(strategy),
       .columns = {.inputs = {"x"}, .label = "y"},
       .steps_per_execution = steps_per_execution});
}

int Serve(absl::string_view work) {
  absl::string_view steps = work;
  const bool fixed = absl::ConsumePrefix(&steps, "iris_fixed_");
  int64_t steps_per_execution = train::kAutoSteps;
  if ((!fixed && !absl::ConsumePrefix(&steps, "iris_")) ||
      (steps != "auto" && !absl::SimpleAtoi(steps, &steps_per_execution))) {
    std::fprintf(stderr, "bench_train: there is no such work\n");
    return 2;
  }
  auto trainer = IrisTrainer(steps_per_execution);
  PENSTOCK_CHECK_OK(trainer);
  const Dataset dataset = fixed ? FixedBatch() : Shuffled();
  constexpr int64_t kEndless = int64_t{1} << 40;
  for (std::string line; std::getline(std::cin, line);) {
    const auto stop = std::make_shared<StopAfter>(kSeconds);
    const auto history =
        (*trainer)->Fit(dataset, {.steps_per_epoch = kEndless, .callbacks = {stop}});
    PENSTOCK_CHECK_OK(history);
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << absl::StrFormat("{\"items_per_second\": %.1f, \"peak_rss\": %d}",
                                 stop->steps_per_second(), usage.ru_maxrss * 1024)
              << std::endl;
  }
  return 0;
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "serve") return Serve(argv[2]);
  std::fprintf(stderr, "usage: bench_train serve WORK\n");
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
