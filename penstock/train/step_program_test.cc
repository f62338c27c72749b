// The text of the training step's program.
#include "penstock/train/step_program.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/client.h"
#include "penstock/train/testing/files.h"

namespace penstock::train {
namespace step_program_test {

using base::DType;

nn::Network Deep(int layers) {
  const nn::Symbol x = nn::Input({.shape = {80}, .name = "x"});
  nn::Symbol y = x;
  for (int i = 0; i < layers; ++i) y = nn::Dense({.units = 80})(y);
  return nn::Network({x}, {y});
}

struct Checked {
  int layers = 8;
  bool kernels = false;
  bool halt_on_nan = true;
  int replicas = 1;
  int64_t depth = 1;
  nn::Optimizer optimizer = nn::SGD({.momentum = 0.9});
};

// Number of lines of the training step after XLA's fusion.
int64_t LinesOfOptimizedStep(const Checked& step) {
  const std::string folder = testing::NewPath("_step");
  const auto client = runtime::OpenClient({.device = "cpu",
                                           .cpu_devices = step.replicas,
                                           .kernels = step.kernels,
                                           .compile_cache = "0",
                                           .dump_hlo = folder,
                                           .log_path = folder + ".log"});
  PENSTOCK_CHECK_OK(client);
  const Objective objective{
      .network = Deep(step.layers),
      .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}},
      .optimizer = step.optimizer};
  const auto program = TrainStep(
      objective, StateLayout::Make(objective),
      {.inputs = {{DType::kF32, {8, 80}}}, .labels = {{DType::kI64, {8}}}, .depth = step.depth},
      step.replicas, step.halt_on_nan,
      step.kernels ? kernels::Lowering::For(**client) : kernels::Lowering());
  PENSTOCK_CHECK_OK(program);
  EXPECT_EQ(absl::StrContains(program->text, "penstock.all_finite"),
            step.kernels && (step.halt_on_nan || step.optimizer.has_loss_scaling()));
  PENSTOCK_CHECK_OK((*client)->Compile(*program));
  int64_t lines = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (!absl::StrContains(file.path().string(), "train_step") ||
        !absl::EndsWith(file.path().string(), "optimized.hlo.txt")) {
      continue;
    }
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) ++lines;
  }
  std::filesystem::remove_all(folder);
  std::filesystem::remove(folder + ".log");
  EXPECT_GT(lines, 0);
  return lines;
}

// Every entry of the state depends on the result of the check. XLA fuses cheap operations into each
// consumer: as a chain of scalars, one per gradient, the program grew quadratically in the number
// of layers, and a ResNet-101 took a minute and a half to compile.
TEST(TrainStep, NanCheckGrowsLinearlyWithLayers) {
  const std::vector<Checked> steps{
      {},
      {.kernels = true, .replicas = 2, .depth = 4},
      {.optimizer = nn::Adam({.global_clipnorm = 1.0, .use_ema = true})},
      {.halt_on_nan = false, .optimizer = nn::LossScaleOptimizer(nn::SGD({.momentum = 0.9}))}};
  for (size_t i = 0; i < steps.size(); ++i) {
    Checked step = steps[i];
    const int64_t one = LinesOfOptimizedStep(step);
    step.layers *= 2;
    EXPECT_LT(LinesOfOptimizedStep(step), 2.3 * static_cast<double>(one)) << "step " << i;
    if (i > 0) continue;
    Checked unchecked;
    unchecked.halt_on_nan = false;
    EXPECT_LT(one, 3 * static_cast<double>(LinesOfOptimizedStep(unchecked)));
  }
}

// Each argument and result of an execution costs about half a microsecond, and a frozen network has
// hundreds.
TEST(TrainStep, DoesNotReturnLoopInvariantState) {
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
      EXPECT_EQ(program->results.size(), static_cast<size_t>(results + 1));  // plus the report
    }
  }
}

int64_t Occurrences(absl::string_view text, absl::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != absl::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// A trained layer has three products: forward, gradient of its kernel, gradient of its input. The
// step of a frozen layer below all trained ones has only the first.
TEST(TrainStep, FrozenLayersHaveNeitherGradientsNorSlots) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Layer a = nn::Dense({.units = 4, .activation = "tanh", .name = "a"}),
                  b = nn::Dense({.units = 4, .activation = "tanh", .name = "b"}),
                  head = nn::Dense({.units = 3, .name = "head"});
  const nn::Network network({x}, {head(b(a(x)))});
  struct Case {
    std::vector<std::string> frozen;
    int64_t products, slots;
  };
  const std::vector<Case> cases = {{{}, 3 + 3 + 2, 12},
                                   {{"a"}, 3 + 2 + 1, 8},
                                   {{"a", "b"}, 3 + 1, 4},
                                   // The gradient passes through a frozen layer to those below.
                                   {{"b"}, 3 + 2 + 2, 8},
                                   {{"head"}, 3 + 2 + 2, 8},
                                   {{"*"}, 3, 0}};
  for (const Case& one : cases) {
    ASSERT_TRUE(network.SetTrainable(true).ok());
    ASSERT_TRUE(network.SetTrainable(false, one.frozen).ok());
    const Objective objective{
        .network = network.Refreshed(),
        .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}},
        .optimizer = nn::Adam()};
    const StateLayout layout = StateLayout::Make(objective);
    const auto program =
        TrainStep(objective, layout,
                  {.inputs = {{DType::kF32, {8, 4}}}, .labels = {{DType::kI64, {8}}}, .depth = 1},
                  /*num_replicas=*/1, /*halt_on_nan=*/false);
    ASSERT_TRUE(program.ok()) << program.status();
    const std::string frozen = absl::StrJoin(one.frozen, ", ");
    EXPECT_EQ(Occurrences(program->text, "stablehlo.dot_general"), one.products) << frozen;
    EXPECT_EQ(layout.first_shared - layout.num_variables, one.slots) << frozen;
  }
}

}  // namespace step_program_test
}  // namespace penstock::train
