#include <cctype>
#include <cmath>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/io/uri.h"
#include "penstock/keras/keras.h"
#include "penstock/save/save.h"
#include "penstock/train/callbacks/monitored.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::keras {
namespace {

// A number by a format of Python's: "02d", ".3f", ".2e", or none.
absl::StatusOr<std::string> Formatted(double value, absl::string_view format, bool whole) {
  const std::string given(format);
  char type = whole ? 'd' : 'g';
  if (!format.empty() && std::isalpha(static_cast<unsigned char>(format.back()))) {
    type = format.back();
    format.remove_suffix(1);
  }
  int width = 0, precision = -1;
  const bool zeros = absl::ConsumePrefix(&format, "0");
  while (!format.empty() && absl::ascii_isdigit(format.front()) && width < 100) {
    width = 10 * width + (format.front() - '0');
    format.remove_prefix(1);
  }
  if (absl::ConsumePrefix(&format, ".")) {
    precision = 0;
    while (!format.empty() && absl::ascii_isdigit(format.front()) && precision < 100) {
      precision = 10 * precision + (format.front() - '0');
      format.remove_prefix(1);
    }
  }
  std::string text;
  if (type == 'd' && whole && precision < 0) {
    text = absl::StrCat(static_cast<int64_t>(value));
  } else if (type == 'f') {
    text = absl::StrFormat("%.*f", precision < 0 ? 6 : precision, value);
  } else if (type == 'e') {
    text = absl::StrFormat("%.*e", precision < 0 ? 6 : precision, value);
  } else if (type == 'g') {
    text = absl::StrFormat("%.*g", precision < 0 ? 17 : precision, value);
  } else {
    format = "?";
  }
  if (!format.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the format '", given,
                     "' is not supported; use d for the epoch, and f, e or g, as in .2f"));
  }
  while (static_cast<int>(text.size()) < width) text.insert(0, 1, zeros ? '0' : ' ');
  return text;
}

class ModelCheckpointCallback : public Callback {
 public:
  ModelCheckpointCallback(const Model& model, const ModelCheckpointOptions& options)
      : model_(model),
        options_(options),
        monitored_(options.monitor, options.mode),
        best_(options.initial_value_threshold) {}

  absl::Status Check(const train::TrainingContext& context) const override {
    PENSTOCK_RETURN_IF_ERROR(train::CheckNotEmpty(kWho, "filepath", options_.filepath));
    PENSTOCK_RETURN_IF_ERROR(train::CheckAtLeast(kWho, "save_freq", options_.save_freq, 1));
    if (std::isnan(options_.initial_value_threshold.value_or(0))) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWho, "'s initial_value_threshold is not a number"));
    }
    if (options_.save_best_only) {
      PENSTOCK_RETURN_IF_ERROR(
          train::Monitored::Resolve(context, kWho, options_.monitor, options_.mode).status());
    }
    if (!options_.save_weights_only)
      PENSTOCK_RETURN_IF_ERROR(model_.CheckSavable(options_.filepath));
    return base::WithContext(CheckPath(context), kWho);
  }

  absl::Status TrainBegin(train::TrainingContext& context) override {
    if (options_.save_best_only) {
      PENSTOCK_ASSIGN_OR_RETURN(
          monitored_, train::Monitored::Begin(context, kWho, options_.monitor, options_.mode));
    }
    return absl::OkStatus();
  }

  absl::Status EpochEnd(train::TrainingContext&, const train::Position& at,
                        const Logs& logs) override {
    if ((at.epoch + 1) % options_.save_freq != 0) return absl::OkStatus();
    if (options_.save_best_only) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::optional<double> value,
                                monitored_.Value(logs, at.epoch));
      if (!value.has_value() || !monitored_.Better(*value, best())) return absl::OkStatus();
      best_ = *value;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path,
                              Filled(options_.filepath, at.epoch,
                                     [&](absl::string_view name) { return logs.Get(name); }));
    return options_.save_weights_only ? model_.SaveWeights(path) : model_.Save(path);
  }

  // The best value is restored after a restart. It is the best one of this number, in this file.
  std::string state_name() const override {
    if (!options_.save_best_only) return std::string(kWho);
    return absl::StrCat(kWho, "(", options_.monitor, ", ", options_.filepath, ")");
  }
  std::string Save() const override {
    return nlohmann::ordered_json{{"best", absl::StrFormat("%.17g", best())}}.dump();
  }
  absl::Status Restore(absl::string_view saved) override {
    const auto json = nlohmann::ordered_json::parse(saved.begin(), saved.end(), nullptr, false);
    if (!json.is_object() || !json.contains("best") || !json["best"].is_string()) {
      return absl::DataLossError("the checkpoint does not hold what ModelCheckpoint saved");
    }
    best_ = std::strtod(json["best"].get<std::string>().c_str(), nullptr);
    return absl::OkStatus();
  }

 private:
  static constexpr absl::string_view kWho = "ModelCheckpoint";
  using ValueOf = absl::FunctionRef<absl::StatusOr<double>(absl::string_view name)>;

  double best() const { return best_.value_or(monitored_.Worst()); }

  // Checks for a name that is never measured, or not in every saved epoch; an unknown format; and
  // whether files can be written.
  absl::Status CheckPath(const train::TrainingContext& context) const {
    const auto measured = [&](absl::string_view name) -> absl::StatusOr<double> {
      PENSTOCK_ASSIGN_OR_RETURN(const train::MonitorInfo measure, context.FindMonitor(name));
      const bool of_best = options_.save_best_only && absl::StartsWith(options_.monitor, "val_");
      if (options_.save_freq % measure.every_epochs == 0 || of_best) return 0.0;
      return absl::InvalidArgumentError(absl::StrCat(
          "the file's name contains {", name, "}, which is measured every ", measure.every_epochs,
          " epochs (validation_freq), but a file is saved every ", options_.save_freq,
          "; set save_freq to a multiple of it"));
    };
    const std::string& path = options_.filepath;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string filled, Filled(path, 0, measured));
    // Folders named after an epoch are created when it ends.
    const size_t field = path.find('{');
    const bool in_name = field == std::string::npos || path.find('/', field) == std::string::npos;
    const std::string trial =
        in_name ? filled
                : io::JoinPath(io::Dirname(path.substr(0, field) + "_"), io::Basename(filled));
    return save::CheckWeightsDestination(*io::FileSystem::Default(), trial,
                                         /*with_metadata=*/!options_.save_weights_only);
  }

  // The path with its fields substituted.
  static absl::StatusOr<std::string> Filled(const std::string& filepath, int epoch,
                                            ValueOf value_of) {
    std::string path;
    absl::string_view rest = filepath;
    for (;;) {
      const size_t open = rest.find('{'), close = rest.find('}');
      absl::StrAppend(&path, rest.substr(0, open));
      if (open == absl::string_view::npos) return path;
      if (close == absl::string_view::npos || close < open) {
        return absl::InvalidArgumentError(absl::StrCat("the '{' in ", filepath, " is not closed"));
      }
      const absl::string_view field = rest.substr(open + 1, close - open - 1);
      const size_t colon = field.find(':');
      const absl::string_view name = field.substr(0, colon);
      const absl::string_view format =
          colon == absl::string_view::npos ? absl::string_view() : field.substr(colon + 1);
      double value = epoch + 1;
      if (name != "epoch") {
        PENSTOCK_ASSIGN_OR_RETURN(value, value_of(name));
      }
      PENSTOCK_ASSIGN_OR_RETURN(const std::string text, Formatted(value, format, name == "epoch"));
      absl::StrAppend(&path, text);
      rest.remove_prefix(close + 1);
    }
  }

  const Model& model_;
  ModelCheckpointOptions options_;
  train::Monitored monitored_;
  std::optional<double> best_;  // no value: the first epoch is the best
};

}  // namespace

std::shared_ptr<Callback> ModelCheckpoint(const Model& model,
                                          const ModelCheckpointOptions& options) {
  return std::make_shared<ModelCheckpointCallback>(model, options);
}

}  // namespace penstock::keras
