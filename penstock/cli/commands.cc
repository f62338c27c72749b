#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/options.h"
#include "penstock/cli/standard_streams.h"
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

// Prints the error of a command.
int ExitCode(absl::string_view command, const absl::Status& status, int failure_code = kFailed) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "penstock%s: %s\n", std::string(command).c_str(),
               Legible(status.message()).c_str());
  return failure_code;
}

}  // namespace

int Main(int argc, const char* const* argv) {
  OpenClosedStreams();
  Program program;
  if (const std::optional<int> done = program.line.Parse(argc, argv)) {
    return *done != 0 ? *done : ExitCode("", FlushOutput());
  }
  for (const Program::Added& added : program.commands) {
    if (!added.options.parsed()) continue;
    const absl::Status status = added.command->Run();
    const std::string name = absl::StrCat(" ", added.row.name);
    return status.ok() ? ExitCode(name, FlushOutput())
                       : ExitCode(name, status, added.command->failure_code());
  }
  return kFailed;  // unreachable: the parser requires a command
}

std::vector<OptionInfo> AllOptions() { return Program().line.AllOptions(); }

absl::Status CheckArguments(const std::vector<std::string>& arguments) {
  return Program().line.Parse(arguments);
}

}  // namespace penstock::cli
