#include <algorithm>

#include <sys/resource.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"

#include "bench/idioms/idioms.h"

namespace penstock::idioms {

using base::Array;
using base::DType;

Array Numbers(base::Shape shape) {
  Array numbers = Array::Uninitialized(DType::kF32, std::move(shape));
  base::Random random(1);
  std::generate_n(numbers.mutable_data<float>(), numbers.num_elements(),
                  [&] { return static_cast<float>(random.Uniform()); });
  return numbers;
}

Array Pixels(base::Shape shape) {
  Array pixels = Array::Uninitialized(DType::kU8, std::move(shape));
  base::Random random(1);
  std::generate_n(pixels.mutable_data<uint8_t>(), pixels.num_elements(),
                  [&] { return static_cast<uint8_t>(random.Next()); });
  return pixels;
}

Array Cycle(int64_t size, int64_t classes) {
  Array labels = Array::Uninitialized(DType::kI64, {size});
  for (int64_t i = 0; i < size; ++i) labels.mutable_data<int64_t>()[i] = i % classes;
  return labels;
}

double SecondsSince(double began) { return base::Clock::Real()->Seconds() - began; }

Array Images() { return Pixels({kImages, kSide, kSide, 3}); }
Array ImagesChannelsFirst() { return Pixels({kImages, 3, kSide, kSide}); }
Array Labels() { return Cycle(kImages, kClasses); }

Array Flowers() { return Numbers({16, 4}); }
Array FlowerClasses() { return Cycle(16, 3); }

int64_t StepsOfRound(double seconds_a_step) {
  return std::max(kMinSteps, static_cast<int64_t>(kSecondsOfRound / seconds_a_step));
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace penstock::idioms
