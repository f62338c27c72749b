// Room cli: the `penstock` command. It may use every room; nothing uses it.
//
//   penstock pack photos/ --out shards/        converts images to TFRecord shards
//   penstock reshard shards/ --out small/      changes the number of shards, image size or quality
//   penstock inspect shards/00-512.tfrec       shows a shard, a checkpoint or a model
//   penstock convert net.pth net.safetensors   converts weights between formats
//   penstock bench data shards/                measures an input pipeline and each of its steps
//   penstock doctor -- train ...               finds what starves the accelerator, and remedies
//   penstock devices                           lists the available devices
//   penstock worker --listen HOST:PORT         serves this machine's devices to clients elsewhere
//   penstock attach ADDRESS                    shows a worker's sessions and the end of its log
//   penstock models                            lists the networks that train knows
//   penstock train | evaluate | predict        trains, evaluates or applies a model
//   penstock monitor 127.0.0.1:6006            shows what a running training does
//
// Each command is one file with its options, help and work, and a row in the table below.
//
// Exit codes: 0 for success; 1 for a failure, which the last line of stderr explains together with
// the next step; 2 for an invalid command line; 75 for a training that SIGTERM has interrupted,
// which the same command resumes. Results go to stdout (as JSON with --json), everything else to
// stderr.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/cli/options.h"

namespace penstock::cli {

inline constexpr int kFailed = 1;
// sysexits.h's EX_TEMPFAIL, "try again later". A process that SIGTERM has ended before it could
// save has 143 (128 + SIGTERM) instead, so a scheduler can distinguish the two.
inline constexpr int kInterrupted = 75;

class Command {
 public:
  virtual ~Command() = default;
  // Declares options and help texts.
  virtual void Describe(Options& options) = 0;
  virtual absl::Status Run() = 0;
  // Exit code if Run has returned an error.
  virtual int failure_code() const { return kFailed; }
};

struct CommandRow {
  const char* name;
  const char* summary;
  std::unique_ptr<Command> (*make)();
};

// All commands. A new one adds its function and its row here.
std::unique_ptr<Command> PackCommand();
std::unique_ptr<Command> ReshardCommand();
std::unique_ptr<Command> InspectCommand();
std::unique_ptr<Command> ConvertCommand();
std::unique_ptr<Command> BenchCommand();
std::unique_ptr<Command> DoctorCommand();
std::unique_ptr<Command> DevicesCommand();
std::unique_ptr<Command> WorkerCommand();
std::unique_ptr<Command> AttachCommand();
std::unique_ptr<Command> ModelsCommand();
std::unique_ptr<Command> TrainCommand();
std::unique_ptr<Command> EvaluateCommand();
std::unique_ptr<Command> PredictCommand();
std::unique_ptr<Command> MonitorCommand();

inline constexpr CommandRow kCommands[] = {
    {"pack", "Pack images, or a data set in another format, into TFRecord shards", PackCommand},
    {"reshard", "Rewrite shards with another shard count, shard size, image size or quality",
     ReshardCommand},
    {"inspect", "Show the contents of a shard, a checkpoint folder or a model", InspectCommand},
    {"convert", "Convert a file of weights into another format", ConvertCommand},
    {"bench", "Measure an input pipeline", BenchCommand},
    {"doctor", "Find what starves the accelerator, and what to change", DoctorCommand},
    {"devices", "List the available devices", DevicesCommand},
    {"worker", "Serve this machine's devices to clients on other machines", WorkerCommand},
    {"attach", "Show the sessions of a worker and the end of its log", AttachCommand},
    {"models", "List the networks by name, with their size and cost", ModelsCommand},
    {"train", "Train a model from shards", TrainCommand},
    {"evaluate", "Evaluate a trained model on shards", EvaluateCommand},
    {"predict", "Predict the classes of images with a trained model", PredictCommand},
    {"monitor", "Show what a running training does, and what limits it", MonitorCommand},
};

// Runs the program and returns its exit code.
int Main(int argc, const char* const* argv);

// Functions for tests: all options of all commands, and the error for a command line (without the
// program's name), which is parsed but not run.
std::vector<OptionInfo> AllOptions();
absl::Status CheckArguments(const std::vector<std::string>& arguments);

}  // namespace penstock::cli
