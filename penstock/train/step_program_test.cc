// What the printed programs of steps look like.
#include "penstock/train/step_program.h"

#include <set>
#include <string>

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

// Each argument and result of an execution costs about half a microsecond, and a frozen network has
// hundreds.
TEST(TrainStep, DoesNotPassOnWhatItLeavesAsItIs) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Layer frozen = nn::Dense({.units = 4, .name = "frozen"});
  frozen.SetTrainable(false);
  const Objective objective{
      .network = nn::Network({x}, {nn::Dense({.units = 3, .name = "head"})(frozen(x))}),
      .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}},
      .optimizer = nn::SGD()};
  const StateLayout layout = StateLayout::Make(objective);
  const std::set<std::string> kept = {"frozen/kernel", "frozen/bias", "optimizer/learning_rate",
                                      "random/key", "halted"};
  for (const int64_t depth : {1, 4}) {
    for (const bool halt_on_nan : {false, true}) {
      const auto program = TrainStep(
          objective, layout,
          {.inputs = {{DType::kF32, {8, 4}}}, .labels = {{DType::kI64, {8}}}, .depth = depth},
          /*num_replicas=*/1, halt_on_nan);
      ASSERT_TRUE(program.ok()) << program.status();
      int results = 0;
      for (int i = 0; i < layout.size(); ++i) {
        const std::string& name = layout.entries[i].name;
        const bool stays = kept.contains(name) && !(halt_on_nan && name == "halted");
        EXPECT_EQ(program->alias[i], stays ? -1 : results++) << name;
      }
      EXPECT_EQ(program->results.size(), static_cast<size_t>(results + 1));  // and the report
    }
  }
}

}  // namespace step_program_test
}  // namespace penstock::train
