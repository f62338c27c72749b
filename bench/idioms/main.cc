// Benchmark of the idioms, which `bench/run idioms` runs beside each other and their peers:
//
//   bench_idioms IDIOM WORK    for each line of stdin, trains for about a second (at least two
//                              steps) and prints {"items_per_second": 3072.0, "cpu_us_per_step": 81000.0,
//                              "cost_us_per_step": 0}
//
// IDIOM and WORK are those of the table below; idioms.h says what they do.
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"

#include "bench/idioms/idioms.h"

namespace penstock::idioms {
namespace {

constexpr struct {
  absl::string_view idiom, work;
  int64_t items;  // of a step
  MakeTraining make;
} kTable[] = {
    {"keras", "resnet20", kImages, KerasResNet20},
    {"keras", "iris", 1, KerasIris},
    {"lazy", "resnet20", kImages, LazyResNet20},
    {"lazy", "iris", 1, LazyIris},
    {"lazy", "iris_rows", 1, LazyIrisRows},
    {"session", "resnet20", kImages, SessionResNet20},
    {"session", "iris", 1, SessionIris},
    {"session", "iris_rows", 1, SessionIrisRows},
    {"session", "run_cost", 1, SessionRunCost},
    {"estimator", "resnet20", kImages, EstimatorResNet20},
};

absl::Status Serve(Training& training, int64_t items) {
  PENSTOCK_RETURN_IF_ERROR(training.Run(1).status());  // compiles
  PENSTOCK_ASSIGN_OR_RETURN(double seconds, training.Run(kMinSteps));
  double seconds_a_step = seconds / kMinSteps;
  for (std::string line; std::getline(std::cin, line);) {
    const int64_t steps = StepsOfRound(seconds_a_step);
    const double cpu = CpuSeconds();
    PENSTOCK_ASSIGN_OR_RETURN(seconds, training.Run(steps));
    seconds_a_step = seconds / static_cast<double>(steps);
    std::cout << absl::StrFormat(
                     "{\"items_per_second\": %.2f, \"cpu_us_per_step\": %.1f, "
                     "\"cost_us_per_step\": %.3f}",
                     static_cast<double>(items) / seconds_a_step,
                     1e6 * (CpuSeconds() - cpu) / static_cast<double>(steps),
                     training.cost_us_per_step())
              << std::endl;
  }
  return absl::OkStatus();
}

absl::Status Main(absl::string_view idiom, absl::string_view work) {
  std::string known;
  for (const auto& row : kTable) {
    absl::StrAppend(&known, "\n  ", row.idiom, " ", row.work);
    if (row.idiom != idiom || row.work != work) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<Training> training, row.make());
    return Serve(*training, row.items);
  }
  return absl::InvalidArgumentError(absl::StrCat("usage: bench_idioms IDIOM WORK, one of", known));
}

}  // namespace
}  // namespace penstock::idioms

int main(int argc, char** argv) {
  const absl::Status status =
      penstock::idioms::Main(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "bench_idioms: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
