#include "penstock/cli/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <istream>
#include <limits>
#include <ostream>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/cli/config_file.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/usage_error.h"
#include "penstock/io/uri.h"
#include "penstock/nn/names.h"

namespace penstock::cli {

// CLI11 uses these operators for options of type IntegerRange.
static std::ostream& operator<<(std::ostream& out, const IntegerRange& range) {
  return out << range.first << '-' << range.last;
}
static std::istream& operator>>(std::istream& in, IntegerRange& range) {
  char separator = 0;
  return in >> range.first >> separator >> range.last;
}

namespace {

constexpr int kWrongUsage = 2;

// CLI11 takes an integer that begins with 0 for an octal one, and none with spaces around it.
std::string WithoutLeadingZeros(const std::string& given) {
  std::string text(absl::StripAsciiWhitespace(given));
  const size_t first = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  size_t digit = first;
  while (digit + 1 < text.size() && text[digit] == '0' &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[digit + 1]))) {
    ++digit;
  }
  return text.erase(first, digit - first);
}

// Each of these functions returns an error message, or "" if the text is valid.

// Parses 64-bit integers, so that the value of no option overflows.
std::string CheckInteger(absl::string_view text, int64_t min, uint64_t max) {
  int64_t low = 0;
  uint64_t high = 0;
  const bool negative = absl::SimpleAtoi(text, &low) && low < 0;
  if (negative ? low >= min
               : absl::SimpleAtoi(text, &high) && high <= max &&
                     (min <= 0 || high >= static_cast<uint64_t>(min))) {
    return "";
  }
  return absl::StrCat("'", text, "' is not an integer from ", min, " to ", max);
}

std::string CheckIntegerRange(absl::string_view text, int64_t min, uint64_t max) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  uint64_t first = 0, last = 0;
  if (CheckInteger(ends.first, min, max).empty() && CheckInteger(ends.second, min, max).empty() &&
      absl::SimpleAtoi(ends.first, &first) && absl::SimpleAtoi(ends.second, &last) &&
      first <= last) {
    return "";
  }
  return absl::StrCat("'", text, "' is not FIRST-LAST, two integers from ", min, " to ", max,
                      " with FIRST <= LAST");
}

std::string CheckNumber(absl::string_view text, double min, bool allow_min, double max) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number) && number <= max &&
      (allow_min ? number >= min : number > min)) {
    return "";
  }
  return absl::StrCat("'", text, "' is not a number ", allow_min ? "from " : "above ", min,
                      allow_min ? " to " : " and up to ", max);
}

template <typename T>
OptionInfo InfoOf(const T*) {
  using Kind = OptionInfo::Kind;
  if constexpr (std::is_integral_v<T>) {
    return {.kind = Kind::kInteger,
            .variable_max = static_cast<uint64_t>(std::numeric_limits<T>::max())};
  } else {
    return {.kind = std::is_floating_point_v<T> ? Kind::kNumber : Kind::kText};
  }
}
OptionInfo InfoOf(const IntegerRange*) {
  return {.kind = OptionInfo::Kind::kIntegerRange,
          .variable_max = static_cast<uint64_t>(std::numeric_limits<int64_t>::max())};
}
template <typename T>
OptionInfo InfoOf(const std::vector<T>*) {
  return InfoOf(static_cast<const T*>(nullptr));
}

// Rejects empty text, which a script passes for an unset variable: `--checkpoints "$FOLDER"` would
// train without checkpoints.
void RejectEmptyText(CLI::Option& option) {
  option.check([](const std::string& text) {
    return text.empty() ? std::string(
                              "the value is empty; omit the option, or set the variable that "
                              "the value comes from")
                        : std::string();
  });
}

}  // namespace

Option& Option::Required() {
  option_->required();
  info_->required = true;
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

Option& Option::Range(int64_t min, uint64_t max) {
  info_->integer = {min, max};
  if (info_->kind == OptionInfo::Kind::kInteger) option_->transform(WithoutLeadingZeros);
  const auto check =
      info_->kind == OptionInfo::Kind::kIntegerRange ? CheckIntegerRange : CheckInteger;
  option_->check([=](const std::string& text) { return check(text, min, max); },
                 absl::StrCat(min, " to ", max));
  return *this;
}

Option& Option::RangeOr(const std::string& word, int64_t min, uint64_t max) {
  info_->integer = {min, max};
  info_->word = word;
  option_->check(
      [=](const std::string& text) {
        const std::string error = text == word ? "" : CheckInteger(text, min, max);
        return error.empty() ? error : absl::StrCat(error, ", nor '", word, "'");
      },
      absl::StrCat(word, ", or ", min, " to ", max));
  return *this;
}

Option& Option::AnySeed() { return Range(0, std::numeric_limits<uint64_t>::max()); }

Option& Option::Between(double min, double max) {
  info_->number = {min, max};
  option_->check([=](const std::string& text) { return CheckNumber(text, min, true, max); },
                 absl::StrCat(min, " to ", max));
  return *this;
}

Option& Option::AboveZero(double max) {
  info_->number = {std::numeric_limits<double>::denorm_min(), max};
  option_->check([=](const std::string& text) { return CheckNumber(text, 0, false, max); },
                 absl::StrCat("above 0, up to ", max));
  return *this;
}

Option& Option::Count(int count) {
  option_->expected(count);
  info_->count = count;
  return *this;
}

Option& Option::Separator(char separator) {
  option_->delimiter(separator);
  return *this;
}

Option& Option::Bytes() {
  option_->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  option_->transform(WithoutLeadingZeros);  // runs first
  info_->bytes = true;
  return *this;
}

Option& Option::Needs(const std::string& other) {
  option_->needs(other);
  info_->needs = other;
  return *this;
}

Option& Option::Excludes(const std::string& other) {
  option_->excludes(other);
  return *this;
}

Option Options::AddTarget(const std::string& names, Target variable, const std::string& help) {
  return std::visit(
      [&](auto* target) {
        return Register(app_->add_option(names, *target, help), InfoOf(target));
      },
      variable);
}

Option Options::AddFlag(const std::string& names, bool& variable, const std::string& help) {
  return Register(app_->add_flag(names, variable, help),
                  {.kind = OptionInfo::Kind::kFlag, .negated = absl::StartsWith(names, "!")});
}

Option Options::Register(CLI::Option* option, OptionInfo info) {
  info.command = command_;
  info.name = option->get_name();
  if (info.kind == OptionInfo::Kind::kText) RejectEmptyText(*option);
  return Option(option, &infos_->insert_or_assign(option, std::move(info)).first->second);
}

Options Options::Subcommand(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  return Options(app_->add_subcommand(name, summary), infos_,
                 command_.empty() ? name : absl::StrCat(command_, " ", name));
}

bool Options::parsed() const { return app_->parsed(); }

std::vector<OptionValues> Options::Values() const {
  std::vector<OptionValues> all;
  for (const CLI::Option* option : app_->get_options()) {
    const auto info = infos_->find(option);
    if (info == infos_->end()) continue;
    const bool flag = info->second.kind == OptionInfo::Kind::kFlag;
    // --flag=false says what leaving it out says.
    if (flag && option->count() > 0 && option->as<bool>() == info->second.negated) continue;
    if (option->count() > 0) {
      all.push_back({info->second, flag ? std::vector<std::string>() : option->reduced_results()});
    } else if (!flag && info->second.needs.empty() && !option->get_default_str().empty()) {
      all.push_back({info->second, {option->get_default_str()}});
    }
  }
  return all;
}

CommandLine::CommandLine(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)),
      infos_(std::make_shared<Options::AllInfos>()),
      options_(app_.get(), infos_) {}

CommandLine::~CommandLine() = default;

void CommandLine::SetVersion(std::string (*text)()) {
  app_->set_version_flag("--version", text, "Print the version, its commit and the plugins found");
}

namespace {

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The innermost command that the arguments name, or the program.
struct NamedCommand {
  const CLI::App* app;
  std::string name;  // "penstock bench data"
  size_t first = 0;  // argument after it
};
NamedCommand FindCommand(const CLI::App& root, absl::Span<const std::string> arguments) {
  NamedCommand named{.app = &root, .name = root.get_name()};
  for (bool found = true; found && named.first < arguments.size();) {
    found = false;
    for (const CLI::App* sub : Commands(*named.app)) {
      if (sub->get_name() != arguments[named.first]) continue;
      named.app = sub;
      absl::StrAppend(&named.name, " ", sub->get_name());
      ++named.first;
      found = true;
      break;
    }
  }
  return named;
}

// CLI11's error in plain words.
std::string UsageError(const CLI::ParseError& error, const CLI::App& root,
                       const std::vector<std::string>& arguments) {
  const NamedCommand named = FindCommand(root, arguments);
  if (std::vector<std::string> names; !Commands(*named.app).empty()) {
    for (const CLI::App* sub : Commands(*named.app)) names.push_back(sub->get_name());
    const bool has_word = named.first < arguments.size();
    return NoCommandError(named.name, has_word ? arguments[named.first] : "", names);
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    std::vector<std::string> names;
    for (const CLI::Option* option : named.app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    for (size_t i = named.first; i < arguments.size() && arguments[i] != "--"; ++i) {
      const std::string option = arguments[i].substr(0, arguments[i].find('='));
      if (!absl::StartsWith(option, "--") || named.app->get_option_no_throw(option) != nullptr)
        continue;
      return NoOptionError(named.name, option, names);
    }
    return UnexpectedWordError(named.name, error.what());
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ConversionError)) {
    return FlagValueError(error.what());
  }
  return NumberOfValuesError(error.what());
}

}  // namespace

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (const absl::Status status = AddConfig(arguments); !status.ok()) {
    std::fprintf(stderr, "%s\n", Legible(status.message()).c_str());
    return kWrongUsage;
  }
  try {
    app_->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app_->exit(e);  // prints the help or the version
    std::fprintf(stderr, "%s\nRun with --help for more information.\n",
                 Legible(UsageError(e, *app_, arguments)).c_str());
    return kWrongUsage;
  }
  return std::nullopt;
}

namespace {

void AddOptions(const CLI::App& app, const Options::AllInfos& infos, const std::string& command,
                std::vector<OptionInfo>& out) {
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option == app.get_version_ptr()) continue;
    const auto known = infos.find(option);
    out.push_back(known != infos.end()
                      ? known->second
                      : OptionInfo{.command = command, .name = option->get_name()});
  }
  for (const CLI::App* sub : Commands(app)) {
    AddOptions(*sub, infos, command.empty() ? sub->get_name() : command + " " + sub->get_name(),
               out);
  }
}

}  // namespace

namespace {

constexpr char kConfig[] = "--config";

// The value of --config in the arguments of a command; empty if there is none.
std::string ConfigOf(absl::Span<const std::string> arguments) {
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] == kConfig && i + 1 < arguments.size()) return arguments[i + 1];
    if (absl::StartsWith(arguments[i], absl::StrCat(kConfig, "="))) {
      return arguments[i].substr(sizeof(kConfig));
    }
  }
  return "";
}

bool Given(const CLI::Option& option, absl::Span<const std::string> arguments) {
  for (const std::string& name : option.get_lnames()) {
    for (const std::string& argument : arguments) {
      if (argument == "--" + name || absl::StartsWith(argument, absl::StrCat("--", name, "="))) {
        return true;
      }
    }
  }
  return false;
}

// The arguments of one option of a file.
absl::StatusOr<std::vector<std::string>> ToArguments(const ConfigEntry& entry, bool flag) {
  const std::string name = "--" + entry.key;
  const auto invalid = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("'", entry.key, "' ", what));
  };
  if (flag) {
    if (entry.is_list || (entry.values[0] != "true" && entry.values[0] != "false")) {
      return invalid("is a flag: true or false");
    }
    return entry.values[0] == "true" ? std::vector<std::string>{name} : std::vector<std::string>{};
  }
  if (entry.values.empty()) return invalid("is an empty list; omit the option");
  std::vector<std::string> arguments = {absl::StrCat(name, "=", entry.values[0])};
  for (size_t i = 1; i < entry.values.size(); ++i) {
    if (absl::StartsWith(entry.values[i], "-")) {
      return invalid("has a value that begins with '-' after the first one");
    }
    arguments.push_back(entry.values[i]);
  }
  return arguments;
}

}  // namespace

absl::Status CommandLine::AddConfig(std::vector<std::string>& arguments) const {
  const NamedCommand named = FindCommand(*app_, arguments);
  const CLI::App* const app = named.app;
  if (app->get_option_no_throw(kConfig) == nullptr) return absl::OkStatus();
  const std::vector<std::string> given(arguments.begin() + static_cast<int64_t>(named.first),
                                       arguments.end());
  const std::string uri = ConfigOf(given);
  if (uri.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<ConfigEntry>> entries = ReadConfigFile(uri, app->get_name());
  if (!entries.ok()) return base::WithContext(entries.status(), kConfig);
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_lnames().empty()) continue;
    if (option->get_lnames()[0] == kConfig + 2) continue;  // a file names no other one
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  const std::string where = absl::StrCat(kConfig, ": ", io::DisplayName(uri));
  for (const ConfigEntry& entry : *entries) {
    const CLI::Option* option = app->get_option_no_throw("--" + entry.key);
    const auto info = infos_->find(option);
    if (entry.key == "config" || info == infos_->end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": '", entry.key, "' is not an option of ", app->get_name(),
                       " for a file; the most similar are ", nn::SimilarNames(entry.key, names)));
    }
    if (Given(*option, given)) continue;
    absl::StatusOr<std::vector<std::string>> more =
        ToArguments(entry, info->second.kind == OptionInfo::Kind::kFlag);
    if (!more.ok()) return base::WithContext(more.status(), where);
    arguments.insert(arguments.end(), more->begin(), more->end());
  }
  return absl::OkStatus();
}

std::vector<OptionInfo> CommandLine::AllOptions() const {
  std::vector<OptionInfo> out;
  AddOptions(*app_, *infos_, "", out);
  return out;
}

absl::Status CommandLine::Parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  PENSTOCK_RETURN_IF_ERROR(AddConfig(all));
  try {
    app_->parse(std::vector<std::string>(all.rbegin(), all.rend()));
  } catch (const CLI::ParseError& e) {
    return absl::InvalidArgumentError(
        absl::StrCat(app_->get_description(), ": ", UsageError(e, *app_, all)));
  }
  return absl::OkStatus();
}

}  // namespace penstock::cli
