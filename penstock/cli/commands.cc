#include <cstdio>

#include "CLI/CLI.hpp"

#include "penstock/cli/command.h"

namespace penstock::cli {
namespace {

constexpr CommandRow kCommands[] = {
    {"pack", "Pack images, or a data set of another format, into TFRecord shards", PackCommand},
    {"reshard", "Rewrite shards: another number, size, image size or quality", ReshardCommand},
    {"inspect", "Show what a shard, a folder of checkpoints or a model holds", InspectCommand},
    {"bench", "Measure an input pipeline", BenchCommand},
    {"doctor", "Say what starves the accelerator, and what to change", DoctorCommand},
    {"devices", "List the devices there are to run on", DevicesCommand},
    {"train", "Train a model from shards", TrainCommand},
    {"evaluate", "Measure a trained model on shards", EvaluateCommand},
    {"predict", "Show what a trained model says of images", PredictCommand},
};

constexpr int kFailed = 1, kWrongUsage = 2;

}  // namespace

int Main(int argc, const char* const* argv) {
  CLI::App app(
      "Penstock trains image models on TPUs, GPUs and CPUs, from data packed for speed.\n"
      "`penstock COMMAND --help` says what each command takes.",
      "penstock");
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands;
  for (const CommandRow& row : kCommands) {
    CLI::App* sub = app.add_subcommand(row.name, row.summary);
    commands.emplace_back(sub, row.make());
    commands.back().second->Describe(*sub);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUsage;
  }
  for (const auto& [sub, command] : commands) {
    if (!sub->parsed()) continue;
    const absl::Status status = command->Run();
    if (status.ok()) return 0;
    std::fprintf(stderr, "penstock %s: %s\n", sub->get_name().c_str(),
                 std::string(status.message()).c_str());
    return kFailed;
  }
  return kWrongUsage;
}

}  // namespace penstock::cli
