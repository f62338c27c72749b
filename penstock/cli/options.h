// The options of a command line. CLI11 takes them apart; only options.cc sees it, since each file
// that includes its templates takes ten seconds more to compile.
//
//   void Describe(Options& options) override {
//     options.Add("--model", model_, "A model that `penstock train --save` wrote").Required();
//     options.Add("--epochs", epochs_, "Passes over the data").Range(1, 1000000).ShowDefault();
//     options.AddFlag("--json", json_, "Print JSON");
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

// One option, to say more of it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& Required();
  Option& ShowDefault();                         // what the variable holds now, in the help
  Option& ShowDefault(const std::string& text);  // or this
  // Both ends are allowed. Of each value, where there are several. Range is of whole numbers.
  Option& Range(int64_t least, int64_t most);
  Option& Between(double least, double most);
  Option& AboveZero();
  Option& Count(int count);         // of values: --size 32 48
  Option& Separator(char between);  // of several values in one argument
  Option& Bytes();                  // a number may have a unit: 100MB, 1GiB
  Option& Needs(const std::string& other);
  Option& Excludes(const std::string& other);

 private:
  CLI::Option* option_;
};

// Of a program or of one of its commands. What is added must outlive parsing.
class Options {
 public:
  explicit Options(CLI::App* app) : app_(app) {}

  // `names` as "--labels,--csv"; without dashes it is what stands there without a name. The types
  // are those of Target.
  template <typename T>
  Option Add(const std::string& names, T& variable, const std::string& help) {
    return AddTarget(names, &variable, help);
  }
  // "!--no-compare" sets it to false.
  Option AddFlag(const std::string& names, bool& variable, const std::string& help);

  // A command of its own; with one of them, one has to be given.
  Options Subcommand(const std::string& name, const std::string& summary);
  bool parsed() const;  // this command was given

 private:
  using Target = std::variant<int*, int64_t*, uint64_t*, double*, std::string*,
                              std::vector<std::string>*, std::vector<int>*>;
  Option AddTarget(const std::string& names, Target variable, const std::string& help);

  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& about, const std::string& name);
  ~CommandLine();

  Options& options() { return options_; }
  // The exit code when there is nothing more to do: help was asked for (0), or the command line is
  // wrong (2); what there is to say has been printed.
  std::optional<int> Parse(int argc, const char* const* argv);
  // Without the program's name.
  absl::Status Parse(const std::vector<std::string>& arguments);

 private:
  const std::unique_ptr<CLI::App> app_;
  Options options_;
};

}  // namespace penstock::cli
