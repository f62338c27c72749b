#include "penstock/cli/options.h"

#include <cmath>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace penstock::cli {
namespace {

constexpr int kWrongUsage = 2;

// What is wrong with the text, else "".
std::string CheckAboveZero(const std::string& text) {
  double number = 0;
  const bool good = absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0;
  return good ? "" : absl::StrCat("'", text, "' is not a number above 0");
}

}  // namespace

Option& Option::Required() {
  option_->required();
  return *this;
}

Option& Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Option& Option::ShowDefault(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Option& Option::Range(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::Between(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::AboveZero() {
  option_->check(CheckAboveZero, "above 0");
  return *this;
}

Option& Option::Count(int count) {
  option_->expected(count);
  return *this;
}

Option& Option::Separator(char between) {
  option_->delimiter(between);
  return *this;
}

Option& Option::Bytes() {
  option_->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  return *this;
}

Option& Option::Needs(const std::string& other) {
  option_->needs(other);
  return *this;
}

Option& Option::Excludes(const std::string& other) {
  option_->excludes(other);
  return *this;
}

Option Options::AddTarget(const std::string& names, Target variable, const std::string& help) {
  return Option(
      std::visit([&](auto* target) { return app_->add_option(names, *target, help); }, variable));
}

Option Options::AddFlag(const std::string& names, bool& variable, const std::string& help) {
  return Option(app_->add_flag(names, variable, help));
}

Options Options::Subcommand(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  return Options(app_->add_subcommand(name, summary));
}

bool Options::parsed() const { return app_->parsed(); }

CommandLine::CommandLine(const std::string& about, const std::string& name)
    : app_(std::make_unique<CLI::App>(about, name)), options_(app_.get()) {}

CommandLine::~CommandLine() = default;

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app_->exit(e) == 0 ? 0 : kWrongUsage;
  }
  return std::nullopt;
}

absl::Status CommandLine::Parse(const std::vector<std::string>& arguments) {
  try {
    app_->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    return absl::InvalidArgumentError(absl::StrCat(app_->get_description(), ": ", e.what()));
  }
  return absl::OkStatus();
}

}  // namespace penstock::cli
