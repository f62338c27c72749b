#include "penstock/cli/options.h"

#include <cmath>
#include <istream>
#include <limits>
#include <ostream>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace penstock::cli {

// For CLI11, which finds them by the type.
static std::ostream& operator<<(std::ostream& out, const WholeRange& range) {
  return out << range.first << '-' << range.last;
}
static std::istream& operator>>(std::istream& in, WholeRange& range) {
  char between = 0;
  return in >> range.first >> between >> range.last;
}

namespace {

constexpr int kWrongUsage = 2;

// Each check returns the error for the text, or "".

// Parses into a type wider than any option's, so that nothing wraps around.
std::string CheckWhole(absl::string_view text, int64_t least, uint64_t most) {
  int64_t low = 0;
  uint64_t high = 0;
  const bool negative = absl::SimpleAtoi(text, &low) && low < 0;
  if (negative ? low >= least
               : absl::SimpleAtoi(text, &high) && high <= most &&
                     (least <= 0 || high >= static_cast<uint64_t>(least))) {
    return "";
  }
  return absl::StrCat("'", text, "' is not a whole number from ", least, " to ", most);
}

std::string CheckWholeRange(absl::string_view text, int64_t least, uint64_t most) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  uint64_t first = 0, last = 0;
  if (CheckWhole(ends.first, least, most).empty() && CheckWhole(ends.second, least, most).empty() &&
      absl::SimpleAtoi(ends.first, &first) && absl::SimpleAtoi(ends.second, &last) &&
      first <= last) {
    return "";
  }
  return absl::StrCat("'", text, "' is not FIRST-LAST, two whole numbers from ", least, " to ",
                      most, " of which the first is not above the last");
}

std::string CheckNumber(absl::string_view text, double least, bool allow_least, double most) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number) && number <= most &&
      (allow_least ? number >= least : number > least)) {
    return "";
  }
  return absl::StrCat("'", text, "' is not a number ", allow_least ? "from " : "above ", least,
                      allow_least ? " to " : " and up to ", most);
}

template <typename T>
OptionFacts FactsOf(const T*) {
  using Kind = OptionFacts::Kind;
  if constexpr (std::is_integral_v<T>) {
    return {.kind = Kind::kWhole,
            .variable_most = static_cast<uint64_t>(std::numeric_limits<T>::max())};
  } else {
    return {.kind = std::is_floating_point_v<T> ? Kind::kNumber : Kind::kText};
  }
}
OptionFacts FactsOf(const WholeRange*) {
  return {.kind = OptionFacts::Kind::kWholeRange,
          .variable_most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max())};
}
template <typename T>
OptionFacts FactsOf(const std::vector<T>*) {
  return FactsOf(static_cast<const T*>(nullptr));
}

// Empty text is what a script's variable without a value becomes: `--checkpoints "$FOLDER"` would
// train for a week without checkpoints.
void RejectEmptyText(CLI::Option& option) {
  option.check([](const std::string& text) {
    return text.empty() ? std::string(
                              "the value is empty; leave the option out, or set the "
                              "variable that the value comes from")
                        : std::string();
  });
}

}  // namespace

Option& Option::Required() {
  option_->required();
  facts_->required = true;
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

Option& Option::Range(int64_t least, uint64_t most) {
  facts_->whole = {least, most};
  const auto check = facts_->kind == OptionFacts::Kind::kWholeRange ? CheckWholeRange : CheckWhole;
  option_->check([=](const std::string& text) { return check(text, least, most); },
                 absl::StrCat(least, " to ", most));
  return *this;
}

Option& Option::RangeOr(const std::string& word, int64_t least, uint64_t most) {
  facts_->whole = {least, most};
  option_->check(
      [=](const std::string& text) {
        const std::string wrong = text == word ? "" : CheckWhole(text, least, most);
        return wrong.empty() ? wrong : absl::StrCat(wrong, ", nor '", word, "'");
      },
      absl::StrCat(word, ", or ", least, " to ", most));
  return *this;
}

Option& Option::AnySeed() { return Range(0, std::numeric_limits<uint64_t>::max()); }

Option& Option::Between(double least, double most) {
  facts_->number = {least, most};
  option_->check([=](const std::string& text) { return CheckNumber(text, least, true, most); },
                 absl::StrCat(least, " to ", most));
  return *this;
}

Option& Option::AboveZero(double most) {
  facts_->number = {std::numeric_limits<double>::denorm_min(), most};
  option_->check([=](const std::string& text) { return CheckNumber(text, 0, false, most); },
                 absl::StrCat("above 0, up to ", most));
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
  facts_->bytes = true;
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
  return std::visit(
      [&](auto* target) { return Known(app_->add_option(names, *target, help), FactsOf(target)); },
      variable);
}

Option Options::AddFlag(const std::string& names, bool& variable, const std::string& help) {
  return Known(app_->add_flag(names, variable, help), {.kind = OptionFacts::Kind::kFlag});
}

Option Options::Known(CLI::Option* option, OptionFacts facts) {
  facts.command = command_;
  facts.name = option->get_name();
  if (facts.kind == OptionFacts::Kind::kText) RejectEmptyText(*option);
  return Option(option, &facts_->insert_or_assign(option, std::move(facts)).first->second);
}

Options Options::Subcommand(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  return Options(app_->add_subcommand(name, summary), facts_,
                 command_.empty() ? name : absl::StrCat(command_, " ", name));
}

bool Options::parsed() const { return app_->parsed(); }

CommandLine::CommandLine(const std::string& about, const std::string& name)
    : app_(std::make_unique<CLI::App>(about, name)),
      facts_(std::make_shared<Options::AllFacts>()),
      options_(app_.get(), facts_) {}

CommandLine::~CommandLine() = default;

void CommandLine::SetVersion(std::string (*text)()) {
  app_->set_version_flag("--version", text, "Print the version, its commit and the plugins found");
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app_->exit(e) == 0 ? 0 : kWrongUsage;
  }
  return std::nullopt;
}

namespace {

void AddOptions(const CLI::App& app, const Options::AllFacts& facts, const std::string& command,
                std::vector<OptionFacts>& out) {
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option == app.get_version_ptr()) continue;
    const auto known = facts.find(option);
    out.push_back(known != facts.end()
                      ? known->second
                      : OptionFacts{.command = command, .name = option->get_name()});
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    AddOptions(*sub, facts, command.empty() ? sub->get_name() : command + " " + sub->get_name(),
               out);
  }
}

}  // namespace

std::vector<OptionFacts> CommandLine::AllOptions() const {
  std::vector<OptionFacts> out;
  AddOptions(*app_, *facts_, "", out);
  return out;
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
