// Options: declares the options of a command line. Parsing uses CLI11, which only options.cc
// includes, since its templates add ten seconds to the compile time of a file.
//
//   void Describe(Options& options) override {
//     options.Add("--model", model_, "Model file written by `penstock train --save`").Required();
//     options.Add("--epochs", epochs_, "Number of epochs").Range(1, 1000000).ShowDefault();
//     options.AddFlag("--json", json_, "Print JSON");
//   }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

// Inclusive range of integers, written "FIRST-LAST".
struct IntegerRange {
  int64_t first = 0;
  int64_t last = 0;
};

// Description of an option, for tests that check all options.
struct OptionInfo {
  enum class Kind { kFlag, kText, kInteger, kIntegerRange, kNumber };
  std::string command = {};  // "bench data"; empty for the program itself
  std::string name = {};     // first name: "--seed"
  Kind kind = Kind::kText;
  bool required = false;
  bool bytes = false;      // accepts a unit
  bool negated = false;    // kFlag: given, it sets its variable to false
  int count = 1;           // number of values
  std::string word = {};   // word that a text option with an integer range accepts as well
  std::string needs = {};  // option that must be given with it
  // Minimum and maximum.
  std::optional<std::pair<int64_t, uint64_t>> integer = {};
  std::optional<std::pair<double, double>> number = {};
  uint64_t variable_max = 0;  // kInteger, kIntegerRange: maximum of the variable's type
};

// An option with its values, for a record of a command line.
struct OptionValues {
  OptionInfo info;
  std::vector<std::string> values;  // none for a flag
};

// Handle to a declared option, to set its properties.
class Option {
 public:
  Option(CLI::Option* option, OptionInfo* info) : option_(option), info_(info) {}

  Option& Required();
  Option& ShowDefault();                         // shows the variable's value in the help
  Option& ShowDefault(const std::string& text);  // shows `text` in the help
  // Every numeric option has one of these. Both ends are inclusive. The range applies to each of
  // several values and to both ends of an IntegerRange, whose first must not exceed its last. Text,
  // a number that does not fit the variable's type and a number that is not finite are errors that
  // contain the range.
  Option& Range(int64_t min, uint64_t max);
  Option& RangeOr(const std::string& word, int64_t min, uint64_t max);  // or this word
  Option& AnySeed();                                                    // 0 to 2^64 - 1
  Option& Between(double min, double max);
  Option& AboveZero(double max);
  Option& Count(int count);           // number of values: --size 32 48
  Option& Separator(char separator);  // separator of several values in one argument
  Option& Bytes();                    // accepts a unit: 100MB, 1GiB
  Option& Needs(const std::string& other);
  Option& Excludes(const std::string& other);

 private:
  CLI::Option* option_;
  OptionInfo* info_;
};

// Options of a program or of one of its commands. The variables must outlive parsing.
class Options {
 public:
  using AllInfos = std::map<const CLI::Option*, OptionInfo>;

  Options(CLI::App* app, std::shared_ptr<AllInfos> infos, std::string command = "")
      : app_(app), infos_(std::move(infos)), command_(std::move(command)) {}

  // Adds an option with the names "--labels,--csv"; a name without dashes adds a positional
  // argument. The supported types are those of Target. Empty text is rejected: `--save "$MODEL"`
  // with an empty MODEL.
  template <typename T>
  Option Add(const std::string& names, T& variable, const std::string& help) {
    return AddTarget(names, &variable, help);
  }
  // Adds a flag that sets `variable` to true; "!--no-compare" sets it to false.
  Option AddFlag(const std::string& names, bool& variable, const std::string& help);

  // Adds a command. A command line must contain one of the commands that were added.
  Options Subcommand(const std::string& name, const std::string& summary);
  bool parsed() const;  // whether the command line contained this command

  // The options that the command line has given, and those with a default that the help shows
  // and that need no other option.
  std::vector<OptionValues> Values() const;

 private:
  using Target = std::variant<int*, int64_t*, uint64_t*, double*, std::string*,
                              std::vector<std::string>*, std::vector<int>*, IntegerRange*>;
  Option AddTarget(const std::string& names, Target variable, const std::string& help);
  Option Register(CLI::Option* option, OptionInfo info);

  CLI::App* app_;
  std::shared_ptr<AllInfos> infos_;
  std::string command_;
};

// Parser of a command line. The options of a file (config_file.h) are added to a command that has
// the option --config, except those that the command line gives.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& name);
  ~CommandLine();

  Options& options() { return options_; }
  // Adds --version, which prints the return value of `text`.
  void SetVersion(std::string (*text)());
  // Parses a command line. Returns an exit code if the program should exit: 0 after it printed the
  // help or the version, 2 after it printed the error of an invalid command line.
  std::optional<int> Parse(int argc, const char* const* argv);
  // Parses arguments without the program's name.
  absl::Status Parse(const std::vector<std::string>& arguments);

  // Returns all options of the program and its commands, except --help and --version.
  std::vector<OptionInfo> AllOptions() const;

 private:
  // Adds the options of the command's --config file to its arguments.
  absl::Status AddConfig(std::vector<std::string>& arguments) const;

  const std::unique_ptr<CLI::App> app_;
  const std::shared_ptr<Options::AllInfos> infos_;
  Options options_;
};

}  // namespace penstock::cli
