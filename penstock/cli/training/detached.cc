#include "penstock/cli/training/detached.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/training_setup.h"
#include "penstock/data/travel/allowed_paths.h"

namespace penstock::cli {
namespace {

constexpr char kPlain[] = "the same";
constexpr char kRead[] = "reads";
constexpr char kWrite[] = "writes";

// `role`: one of those above, else why the option cannot be used.
struct DetachedRow {
  const char* option;
  const char* role;
};

constexpr DetachedRow kDetachedRows[] = {
    {"--data", kRead},
    {"--validation", kRead},
    {"--weights", kRead},
    {"--checkpoints", kWrite},
    {"--save", kWrite},
    {"--csv-log", kWrite},
    {"--tensorboard", kWrite},
    {"--histogram-freq", kPlain},
    {"--write-grads", kPlain},
    {"--write-images", kPlain},
    {"--no-write-graph", kPlain},
    {"--update-freq", kPlain},
    {"--write-steps-per-second", kPlain},
    {"--profile-batch", kPlain},
    {"--confusion-matrix", kPlain},
    {"--profile", kWrite},
    {"--cache-features", kWrite},
    {"--batch-size", kPlain},
    {"--replicas", kPlain},
    {"--model", kPlain},
    {"--classes", kPlain},
    {"--image-size", kPlain},
    {"--new-head", kPlain},
    {"--freeze", kPlain},
    {"--unfreeze-after", kPlain},
    {"--unfreeze-factor", kPlain},
    {"--epochs", kPlain},
    {"--optimizer", kPlain},
    {"--learning-rate", kPlain},
    {"--schedule", kPlain},
    {"--warmup", kPlain},
    {"--momentum", kPlain},
    {"--weight-decay", kPlain},
    {"--clip-norm", kPlain},
    {"--label-smoothing", kPlain},
    {"--class-weight", kPlain},
    {"--ema", kPlain},
    {"--metrics", kPlain},
    {"--early-stopping", kPlain},
    {"--augment", kPlain},
    {"--shift", kPlain},
    {"--steps", kPlain},
    {"--steps-per-execution", kPlain},
    {"--policy", kPlain},
    {"--matmul-precision", kPlain},
    {"--shuffle", kPlain},
    {"--seed", kPlain},
    {"--checkpoint-every", kPlain},
    {"--profile-steps", kPlain},
    {"--json", kPlain},
    {"--device", "the devices are the worker's"},
    {"--take-over", "the client says it, not the training"},
    {"--detach", "the training is detached already"},
    {"--checkpoint-place", "the worker's own process writes the checkpoints"},
    {"--config", "the client reads the file"},
    {"--cpu-devices", "it is an option of the worker"},
    {"--monitor", "it would listen on the worker's machine; `penstock attach` follows a training"},
    {"--monitor-profiler", "it would listen on the worker's machine"},
    {"--dump-hlo", "programs are compiled by the worker; set PENSTOCK_DUMP_HLO for it"},
    {"--find-learning-rate", "it does not train; run it without --detach"},
    {"--learning-rate-curve", "it is for --find-learning-rate, which does not train"},
};

// More take the parser seconds of the worker's time.
constexpr size_t kMaxArguments = 5000;

bool IsUtf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

absl::Status CheckDetachedOption(const OptionValues& option, const data::AllowedPaths& allowed) {
  const std::string& name = option.info.name;
  const std::string role = DetachedRole(name);
  if (role == kPlain) return absl::OkStatus();
  if (role != kRead && role != kWrite) {
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        " cannot be used with --detach: ", role.empty() ? "the worker does not know it" : role));
  }
  for (const std::string& value : option.values) {
    const absl::Status status = allowed.Check(value, role == kWrite);
    if (status.ok()) continue;
    return base::WithContext(status,
                             absl::StrCat(name, ": a detached training ", role,
                                          " it on the worker's machine, where `penstock worker --",
                                          role == kWrite ? "write" : "read", "` allows it"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DetachedRole(const std::string& option) {
  for (const DetachedRow& row : kDetachedRows) {
    if (option == row.option) return row.role;
  }
  return "";
}

std::vector<std::string> ArgumentsOf(const std::vector<OptionValues>& options,
                                     const std::vector<std::string>& leave_out) {
  std::vector<std::string> out;
  for (const OptionValues& option : options) {
    const std::string& name = option.info.name;
    if (std::find(leave_out.begin(), leave_out.end(), name) != leave_out.end()) continue;
    out.push_back(name);
    out.insert(out.end(), option.values.begin(), option.values.end());
  }
  return out;
}

absl::StatusOr<std::pair<std::vector<std::string>, int>> CheckDetachedArguments(
    const std::vector<std::string>& arguments, const std::vector<std::string>& readable,
    const std::vector<std::string>& writable) {
  if (arguments.size() > kMaxArguments) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a detached training has at most ", kMaxArguments, " arguments, not ",
                     arguments.size(), "; name files by a pattern in quotes: 'gs://b/*.tfrec'"));
  }
  // Before the parser sees it: it would read the file.
  for (const std::string& word : arguments) {
    if (!IsUtf8(word)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the argument '", absl::CHexEscape(word),
                       "' is not UTF-8; the record of a detached training keeps text only"));
    }
    if (word == "--config" || absl::StartsWith(word, "--config=")) {
      return absl::InvalidArgumentError(
          absl::StrCat("--config cannot be used with --detach: ", DetachedRole("--config")));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<OptionValues> options, ParseTraining(arguments));
  const data::AllowedPaths allowed(readable, writable);
  int replicas = 1;
  bool saves = false;
  for (const OptionValues& option : options) {
    PENSTOCK_RETURN_IF_ERROR(CheckDetachedOption(option, allowed));
    saves = saves || option.info.name == "--checkpoints";
    if (option.info.name == "--replicas" && !absl::SimpleAtoi(option.values[0], &replicas)) {
      return absl::InvalidArgumentError("--replicas is no number");
    }
  }
  if (!saves) {
    return absl::InvalidArgumentError(
        "--detach needs --checkpoints: a folder that the worker may write to, from which the "
        "training resumes when the worker is started again");
  }
  return std::pair(ArgumentsOf(options, {}), replicas);
}

}  // namespace penstock::cli
