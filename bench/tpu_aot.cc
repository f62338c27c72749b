// Ahead-of-time compilation of ResNet-20's training step for TPUs, without a TPU, for
// `bench/run tpu_aot`:
//
//   bench_tpu_aot TOPOLOGY BATCH [POLICY]     (TOPOLOGY: v2:2x2x1; BATCH: global batch size)
//   {"optimal_seconds": 0.0031, "temporary": 98304000, "flops": ..., "bytes_accessed": ...}
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/models/models.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/optimizers.h"
#include "penstock/runtime/topology.h"
#include "penstock/train/step_program.h"

namespace penstock {
namespace {

using base::DType;

absl::StatusOr<ir::Program> Step(int64_t batch, int replicas, const std::string& policy) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const nn::Network network,
      models::ByName("resnet20", {.input_shape = {32, 32, 3}, .classes = 10}));
  const train::Objective objective{
      .network = network.WithPolicy(policy),
      .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}},
      .optimizer = nn::SGD({.learning_rate = 0.01, .momentum = 0.9})};
  const auto layout = train::StateLayout::Make(objective);
  const int64_t rows = batch / replicas;
  const train::BatchTypes types{.inputs = {{DType::kF32, {rows, 32, 32, 3}}},
                                .labels = {{DType::kI32, {rows}}}};
  return train::TrainStep(objective, layout, types, replicas, /*halt_on_nan=*/false);
}

absl::Status Main(const std::vector<std::string>& arguments) {
  int64_t batch = 0;
  if (arguments.size() < 2 || arguments.size() > 3 || !absl::SimpleAtoi(arguments[1], &batch)) {
    return absl::InvalidArgumentError("usage: bench_tpu_aot TOPOLOGY BATCH [POLICY]");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto topology,
                            runtime::Topology::Open({.device = "tpu", .name = arguments[0]}));
  const int replicas = static_cast<int>(topology->devices().size());
  PENSTOCK_ASSIGN_OR_RETURN(
      const ir::Program step,
      Step(batch, replicas, arguments.size() == 3 ? arguments[2] : "float32"));
  PENSTOCK_ASSIGN_OR_RETURN(const runtime::ProgramEstimate estimate, topology->Compile(step));
  std::printf(
      "{\"optimal_seconds\": %.9g, \"temporary\": %lld, \"flops\": %.9g, \"bytes_accessed\": "
      "%.9g}\n",
      estimate.cost.optimal_seconds, static_cast<long long>(estimate.memory.temporary),
      estimate.cost.flops, estimate.cost.bytes_accessed);
  return absl::OkStatus();
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const absl::Status status = penstock::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "bench_tpu_aot: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
