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

// "FIRST-LAST", both ends included.
struct WholeRange {
  int64_t first = 0;
  int64_t last = 0;
};

// Description of an option, for the tests that walk all of them.
struct OptionFacts {
  enum class Kind { kFlag, kText, kWhole, kWholeRange, kNumber };
  std::string command = {};  // "bench data"; empty for the program itself
  std::string name = {};     // the first name: "--seed"
  Kind kind = Kind::kText;
  bool required = false;
  bool bytes = false;  // accepts a unit
  // Minimum and maximum. A text option with a range also accepts a word.
  std::optional<std::pair<int64_t, uint64_t>> whole = {};
  std::optional<std::pair<double, double>> number = {};
  uint64_t variable_most = 0;  // of whole numbers: maximum of the variable's type
};

// One option, to say more of it.
class Option {
 public:
  Option(CLI::Option* option, OptionFacts* facts) : option_(option), facts_(facts) {}

  Option& Required();
  Option& ShowDefault();                         // what the variable holds now, in the help
  Option& ShowDefault(const std::string& text);  // or this
  // Every numeric option has one of these. Both ends are inclusive, and the range holds for each of
  // several values and for both ends of a WholeRange, whose first must not exceed its last. Text, a
  // number that does not fit the variable's type and a number that is not finite are errors that
  // name the range.
  Option& Range(int64_t least, uint64_t most);
  Option& RangeOr(const std::string& word, int64_t least, uint64_t most);  // or this word
  Option& AnySeed();                                                       // 0 to 2^64 - 1
  Option& Between(double least, double most);
  Option& AboveZero(double most);
  Option& Count(int count);         // of values: --size 32 48
  Option& Separator(char between);  // of several values in one argument
  Option& Bytes();                  // a number may have a unit: 100MB, 1GiB
  Option& Needs(const std::string& other);
  Option& Excludes(const std::string& other);

 private:
  CLI::Option* option_;
  OptionFacts* facts_;
};

// Of a program or of one of its commands. What is added must outlive parsing.
class Options {
 public:
  using AllFacts = std::map<const CLI::Option*, OptionFacts>;

  Options(CLI::App* app, std::shared_ptr<AllFacts> facts, std::string command = "")
      : app_(app), facts_(std::move(facts)), command_(std::move(command)) {}

  // `names` as "--labels,--csv"; without dashes it is what stands there without a name. The types
  // are those of Target. Empty text is rejected: `--save "$MODEL"` without a value of MODEL.
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
                              std::vector<std::string>*, std::vector<int>*, WholeRange*>;
  Option AddTarget(const std::string& names, Target variable, const std::string& help);
  Option Known(CLI::Option* option, OptionFacts facts);

  CLI::App* app_;
  std::shared_ptr<AllFacts> facts_;
  std::string command_;
};

class CommandLine {
 public:
  CommandLine(const std::string& about, const std::string& name);
  ~CommandLine();

  Options& options() { return options_; }
  // --version prints what `text` returns.
  void SetVersion(std::string (*text)());
  // The exit code when there is nothing more to do: help or the version was asked for (0), or the command line is
  // wrong (2); what there is to say has been printed.
  std::optional<int> Parse(int argc, const char* const* argv);
  // Without the program's name.
  absl::Status Parse(const std::vector<std::string>& arguments);

  // Every option except --help and --version, of the program and of all commands, as CLI11 lists them.
  std::vector<OptionFacts> AllOptions() const;

 private:
  const std::unique_ptr<CLI::App> app_;
  const std::shared_ptr<Options::AllFacts> facts_;
  Options options_;
};

}  // namespace penstock::cli
