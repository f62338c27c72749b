#include "penstock/cli/training/recipe.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace penstock::cli {
namespace recipe_test {

nn::Optimizer Optimizer(const std::vector<std::string>& arguments, int64_t steps,
                        double factor = 1) {
  Recipe recipe;
  CommandLine line("test", "test");
  recipe.Describe(line.options());
  EXPECT_TRUE(line.Parse(arguments).ok());
  const absl::StatusOr<nn::Optimizer> optimizer = recipe.Optimizer(steps, factor);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *optimizer;
}

// The shortest trainings have valid schedules.
TEST(Recipe, HasASchedule) {
  for (const char* schedule : {"cosine", "constant", "linear", "step", "onecycle"}) {
    for (const int64_t steps : {0, 1, 2, 3, 1000}) {
      for (const char* warmup : {"0", "0.05", "0.9"}) {
        const nn::Optimizer optimizer =
            Optimizer({"--schedule", schedule, "--warmup", warmup}, steps);
        EXPECT_TRUE(optimizer.Check().ok())
            << schedule << " " << steps << " " << warmup << " " << optimizer.Check();
      }
    }
  }
}

TEST(Recipe, WeightDecayIsThatOfEveryVariable) {
  const auto with = [](const char* name, std::vector<std::string> more) {
    more.insert(more.begin(), {"--optimizer", name});
    return Optimizer(more, 10);
  };
  EXPECT_EQ(with("AdamW", {}).options().weight_decay, 0.004);
  EXPECT_EQ(with("AdamW", {"--weight-decay", "0"}).options().weight_decay, 0) << "not the default";
  EXPECT_EQ(with("sgd", {}).options().weight_decay, std::nullopt);
  for (const char* const value : {"0", "0.25"}) {
    const double want = value == std::string("0") ? 0 : 0.25;
    const nn::Optimizer muon = with("Muon", {"--weight-decay", value});
    EXPECT_EQ(muon.options().weight_decay, want);
    EXPECT_EQ(muon.ToJson()["config"]["adam_weight_decay"], want) << "of convolutions";
  }
}

TEST(Recipe, SetsOptionsOfEveryOptimizer) {
  for (const std::string& name : nn::OptimizerNames()) {
    const nn::Optimizer optimizer =
        Optimizer({"--optimizer", name, "--weight-decay", "0.25", "--clip-norm", "2", "--ema",
                   "0.5", "--schedule", "constant", "--warmup", "0", "--learning-rate", "0.5"},
                  10, 0.5);
    EXPECT_EQ(optimizer.options().weight_decay, 0.25) << name;
    EXPECT_EQ(optimizer.options().global_clipnorm, 2) << name;
    EXPECT_TRUE(optimizer.options().use_ema) << name;
    EXPECT_EQ(optimizer.options().ema_momentum, 0.5) << name;
    EXPECT_EQ(optimizer.learning_rate().constant(), 0.25) << name;
  }
  const auto rate = [](const char* name) {
    return Optimizer({"--optimizer", name, "--schedule", "constant", "--warmup", "0"}, 10)
        .learning_rate()
        .constant();
  };
  EXPECT_EQ(rate("sgd"), 0.1);
  EXPECT_EQ(rate("adam"), 0.001);
  EXPECT_EQ(rate("AdamW"), 0.001);
}

}  // namespace recipe_test
}  // namespace penstock::cli
