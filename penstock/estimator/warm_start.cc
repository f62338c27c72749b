#include "penstock/estimator/warm_start.h"

#include <regex>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/session/train/saver.h"
#include "penstock/session/variable.h"

namespace penstock::estimator {
namespace {

// std::regex takes stack for each nested group.
constexpr size_t kMaxExpression = 1000;

// Whether the expression matches the beginning of `text`, as Python's re.match.
absl::StatusOr<bool> MatchesBeginning(const std::string& text, const std::string& expression) {
  if (expression.size() > kMaxExpression) {
    return absl::InvalidArgumentError(
        absl::StrCat("WarmStartSettings.vars_to_warm_start has ", expression.size(),
                     " characters, but must have at most ", kMaxExpression));
  }
  const absl::StatusOr<bool> matches = base::CatchExceptions([&]() -> absl::StatusOr<bool> {
    return std::regex_search(text, std::regex(expression), std::regex_constants::match_continuous);
  });
  if (matches.ok()) return matches;
  return absl::InvalidArgumentError(
      absl::StrCat("WarmStartSettings.vars_to_warm_start: '", expression,
                   "' is not a regular expression: ", matches.status().message()));
}

}  // namespace

absl::Status WarmStart(io::FileSystem& fs, session::Session& session,
                       const WarmStartSettings& settings) {
  const std::string& path = settings.ckpt_to_initialize_from;
  if (path.empty()) {
    return absl::InvalidArgumentError("WarmStartSettings needs ckpt_to_initialize_from");
  }
  absl::StatusOr<base::NamedArrays> arrays = session::train::LoadCheckpoint(path, &fs);
  if (!arrays.ok()) return base::WithContext(arrays.status(), "warm start");
  const auto scope = session.graph()->AsDefault();
  std::map<std::string, std::string> renamed = settings.var_name_to_prev_var_name;
  int matched = 0;
  for (const session::Variable& variable : session::TrainableVariables()) {
    const session::VariableDef& def = *variable.def();
    PENSTOCK_ASSIGN_OR_RETURN(const bool matches,
                              MatchesBeginning(def.name, settings.vars_to_warm_start));
    const auto previous = renamed.find(def.name);
    const std::string name = previous == renamed.end() ? def.name : previous->second;
    if (previous != renamed.end()) renamed.erase(previous);
    if (!matches) continue;
    ++matched;
    const base::Array* value = arrays->Find(name);
    if (value == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("warm start: ", io::DisplayName(path), " has no variable '", name, "'"));
    }
    if (!(value->shape() == def.shape) || value->dtype() != def.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("warm start: variable '", def.name, "' is ", base::DTypeName(def.dtype),
                       def.shape.ToString(), ", but '", name, "' of ", io::DisplayName(path),
                       " is ", value->TypeString()));
    }
    PENSTOCK_RETURN_IF_ERROR(session.SetVariableValue(def.name, *value));
  }
  if (!renamed.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("WarmStartSettings.var_name_to_prev_var_name names '", renamed.begin()->first,
                     "', which is not a trainable variable of the model"));
  }
  if (matched == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("WarmStartSettings.vars_to_warm_start = '", settings.vars_to_warm_start,
                     "' matches none of the model's trainable variables"));
  }
  return absl::OkStatus();
}

}  // namespace penstock::estimator
