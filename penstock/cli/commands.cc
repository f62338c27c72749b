#include <cstdio>
#include <optional>
#include <utility>

#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/options.h"
#include "penstock/cli/version.h"

namespace penstock::cli {
namespace {

// Command line of the program with all commands.
struct Program {
  struct Added {
    Options options;
    const CommandRow& row;
    std::unique_ptr<Command> command;
  };

  Program() {
    line.SetVersion(Version);
    for (const CommandRow& row : kCommands) {
      commands.push_back({line.options().Subcommand(row.name, row.summary), row, row.make()});
      commands.back().command->Describe(commands.back().options);
    }
  }

  CommandLine line{
      "Penstock trains image models on TPUs, GPUs and CPUs from packed data.\n"
      "See `penstock COMMAND --help` for the options of a command.",
      "penstock"};
  std::vector<Added> commands;
};

}  // namespace

int Main(int argc, const char* const* argv) {
  Program program;
  if (const std::optional<int> done = program.line.Parse(argc, argv)) return *done;
  for (const Program::Added& added : program.commands) {
    if (!added.options.parsed()) continue;
    const absl::Status status = added.command->Run();
    if (status.ok()) return 0;
    std::fprintf(stderr, "penstock %s: %s\n", added.row.name, Legible(status.message()).c_str());
    return added.command->failure_code();
  }
  return kFailed;  // unreachable: the parser requires a command
}

std::vector<OptionInfo> AllOptions() { return Program().line.AllOptions(); }

absl::Status CheckArguments(const std::vector<std::string>& arguments) {
  return Program().line.Parse(arguments);
}

}  // namespace penstock::cli
