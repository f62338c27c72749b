// What the printed programs of steps look like.
#include "penstock/train/step_program.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"

namespace penstock::train {
namespace step_program_test {

using base::DType;

nn::Network Deep(int layers) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  nn::Symbol y = x;
  for (int i = 0; i < layers; ++i) y = nn::Dense({.units = 4})(y);
  return nn::Network({x}, {y});
}

int Ands(int layers) {
  const Objective objective{
      .network = Deep(layers),
      .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}},
      .optimizer = nn::SGD({.momentum = 0.9})};
  const StateLayout layout = StateLayout::Make(objective);
  const auto program = TrainStep(
      objective, layout, {.inputs = {{DType::kF32, {8, 4}}}, .labels = {{DType::kI64, {8}}}},
      /*num_replicas=*/1, /*halt_on_nan=*/true);
  PENSTOCK_CHECK_OK(program);
  int ands = 0;
  for (absl::string_view line : absl::StrSplit(program->text, '\n')) {
    ands += absl::StrContains(line, "= stablehlo.and ");
  }
  return ands;
}

// XLA repeats scalar operations where they are used, and every entry of the state uses the outcome:
// a chain over all gradients made it compile a large network for a minute.
TEST(TrainStep, LooksForNanWithoutAChainOverAllGradients) { EXPECT_EQ(Ands(2), Ands(20)); }

}  // namespace step_program_test
}  // namespace penstock::train
