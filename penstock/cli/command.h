// Room cli: the `penstock` command. It may use every room; nothing uses it.
//
//   penstock pack photos/ --out shards/        images to TFRecord shards
//   penstock reshard shards/ --out small/      shards of another number, size or quality
//   penstock inspect shards/00-512.tfrec       what a shard, a checkpoint or a model holds
//   penstock bench data shards/                how fast a pipeline is, and each step of it
//   penstock doctor -- train ...               what starves the accelerator, and what to change
//   penstock devices                           what there is to run on
//   penstock train | evaluate | predict        a model, from shards
//
// A command is one file with its options, its help and its work, and a row in commands.cc.
//
// Exit codes: 0 all went well; 1 something failed, and the last line of stderr says what and what
// to do; 2 the command line is wrong. Results go to stdout (as JSON with --json), everything else
// to stderr.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/cli/options.h"

namespace penstock::cli {

class Command {
 public:
  virtual ~Command() = default;
  // Declares options and help texts.
  virtual void Describe(Options& options) = 0;
  virtual absl::Status Run() = 0;
};

struct CommandRow {
  const char* name;
  const char* summary;
  std::unique_ptr<Command> (*make)();
};

std::unique_ptr<Command> PackCommand();
std::unique_ptr<Command> ReshardCommand();
std::unique_ptr<Command> InspectCommand();
std::unique_ptr<Command> BenchCommand();
std::unique_ptr<Command> DoctorCommand();
std::unique_ptr<Command> DevicesCommand();
std::unique_ptr<Command> TrainCommand();
std::unique_ptr<Command> EvaluateCommand();
std::unique_ptr<Command> PredictCommand();

// Runs the program; the exit code.
int Main(int argc, const char* const* argv);

// For tests: every option of every command, and the error for a command line (without the program's
// name), which is parsed but not run.
std::vector<OptionFacts> AllOptions();
absl::Status CheckArguments(const std::vector<std::string>& arguments);

}  // namespace penstock::cli
