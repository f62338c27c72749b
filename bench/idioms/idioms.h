// The trainings of `bench/run idioms`: the same two networks, written in each idiom.
//
// Work "resnet20": ResNet-20 for CIFAR, batches of 128 images from one uint8 batch in memory, SGD
// with momentum; items are images. Work "iris": an MLP 4-10-3 on one batch of 16 flowers;
// "iris_rows": on a row at a time, which the program passes to each step; items are steps.
// "run_cost": the steps of "iris" on one row by Session::Run, alternating with their program alone.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"

namespace penstock::idioms {

class Training {
 public:
  virtual ~Training() = default;
  // Runs this number of steps, returns when the last one is done: the time that they took in
  // seconds.
  virtual absl::StatusOr<double> Run(int64_t steps) = 0;
  // Of the last Run, in microseconds: what a step took longer than its program alone. 0: not
  // measured.
  virtual double cost_us_per_step() const { return 0; }
};
// Seconds since `began` on the same clock.
double SecondsSince(double began);

// A measurement takes about this time, and at least this number of steps.
inline constexpr double kSecondsOfRound = 1.0;
inline constexpr int64_t kMinSteps = 2;
// Number of steps of a measurement.
int64_t StepsOfRound(double seconds_a_step);
// CPU time of this process: what a step costs, also while other processes run.
double CpuSeconds();

using MakeTraining = absl::StatusOr<std::unique_ptr<Training>> (*)();

inline constexpr int64_t kImages = 128, kSide = 32, kClasses = 10;
inline constexpr double kLearningRate = 0.01, kMomentum = 0.9, kIrisLearningRate = 0.5;

// Random values, the same ones each time: float32 from 0 to 1, uint8. int64[size]: 0, 1, ... classes - 1, 0, ...
base::Array Numbers(base::Shape shape);
base::Array Pixels(base::Shape shape);
base::Array Cycle(int64_t size, int64_t classes);

// uint8[128,32,32,3], and in PyTorch's order of axes; their labels, int64[128].
base::Array Images();
base::Array ImagesChannelsFirst();
base::Array Labels();
// Measurements of 16 flowers, float32[16,4], and their classes, int64[16]: the time of a step does
// not depend on the values.
base::Array Flowers();
base::Array FlowerClasses();

absl::StatusOr<std::unique_ptr<Training>> KerasResNet20();
absl::StatusOr<std::unique_ptr<Training>> KerasIris();
absl::StatusOr<std::unique_ptr<Training>> LazyResNet20();
absl::StatusOr<std::unique_ptr<Training>> LazyIris();
absl::StatusOr<std::unique_ptr<Training>> LazyIrisRows();
absl::StatusOr<std::unique_ptr<Training>> SessionResNet20();  // a Callable
absl::StatusOr<std::unique_ptr<Training>> SessionIris();      // a Callable
absl::StatusOr<std::unique_ptr<Training>> SessionIrisRows();  // Session::Run
absl::StatusOr<std::unique_ptr<Training>> SessionRunCost();   // Session::Run
absl::StatusOr<std::unique_ptr<Training>> EstimatorResNet20();

}  // namespace penstock::idioms
