#include "penstock/train/loop/fit_progress.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/train/loop/model_fingerprint.h"

namespace penstock::train {
namespace {

using Json = nlohmann::ordered_json;

// Names of a checkpoint's arrays for the history and the callbacks. They have no size limit, so
// they are not in the manifest.
constexpr absl::string_view kHistory = "run/history/";
constexpr absl::string_view kHistoryHas = "run/history_has/";
constexpr absl::string_view kCallbacks = "run/callbacks/";

// Pairs instead of an object, so that the order of the names survives any JSON library.
Json LogsToJson(const Logs& logs) {
  Json json = Json::array();
  for (const auto& [name, value] : logs) {
    // JSON has no NaN and no infinity.
    json.push_back({name, std::isfinite(value) ? Json(value) : Json(absl::StrCat(value))});
  }
  return json;
}

double NumberOf(const Json& json) {
  if (json.is_number()) return json.get<double>();
  return std::strtod(json.get<std::string>().c_str(), nullptr);
}

Logs LogsFromJson(const Json& json) {
  Logs logs;
  for (const Json& pair : json) logs.Set(pair.at(0).get<std::string>(), NumberOf(pair.at(1)));
  return logs;
}

// In order of first appearance.
std::vector<std::string> HistoryNames(const std::vector<Logs>& epochs) {
  std::vector<std::string> names;
  for (const Logs& logs : epochs) {
    for (const auto& [name, value] : logs) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// One array per name, and one that says in which epochs it was measured.
void AppendHistory(const std::vector<Logs>& epochs, NamedArrays& out) {
  const auto rows = static_cast<int64_t>(epochs.size());
  for (const std::string& name : HistoryNames(epochs)) {
    Array values = Array::Zeros(DType::kF64, {rows}), has = Array::Zeros(DType::kBool, {rows});
    for (int64_t i = 0; i < rows; ++i) {
      const double* value = epochs[i].Find(name);
      if (value == nullptr) continue;
      values.mutable_data<double>()[i] = *value;
      has.mutable_data<bool>()[i] = true;
    }
    out.Set(absl::StrCat(kHistory, name), std::move(values));
    out.Set(absl::StrCat(kHistoryHas, name), std::move(has));
  }
}

absl::Status Unreadable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the checkpoint's progress cannot be read: ", what));
}

absl::Status CheckPipeline(const FitArguments& fit, absl::string_view saved) {
  // As read back from JSON: names of files in a pipeline need not be UTF-8.
  const std::string own = base::ReplaceInvalidUtf8(fit.dataset.ToString());
  if (saved == own) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the checkpoint was saved mid-epoch with a different input pipeline, and this one would "
      "continue with other elements; use the same pipeline, or train in another folder.\n"
      "The checkpoint's pipeline:\n",
      saved, "The pipeline of this run:\n", own));
}

// FAILED_PRECONDITION if the checkpoint belongs to another training than `fit`.
absl::Status CheckSameTraining(const FitArguments& fit, const Position& position, const Json& json,
                               const NamedArrays& arrays) {
  if (const uint64_t seed = json.at("seed"); seed != fit.model.options().seed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint was made with seed ", seed, ", this run has ", fit.model.options().seed,
        "; use the same seed, or another folder to start over"));
  }
  // An epoch that has begun must also be finished.
  if (position.epoch + (position.step > 0 ? 1 : 0) > fit.options.epochs) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint is of epoch ", position.epoch + (position.step > 0 ? 1 : 0),
                     ", and this run ends with epoch ", fit.options.epochs,
                     "; ask for more epochs, or train in another folder to start over"));
  }
  if (const int64_t steps = json.at("steps_per_epoch"); steps != fit.options.steps_per_epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint was made with steps_per_epoch = ", steps, ", this run has ",
                     fit.options.steps_per_epoch));
  }
  if (json.contains("model")) {
    PENSTOCK_RETURN_IF_ERROR(CheckFingerprint(json.at("model"), fit.model.objective()));
  }
  return CheckStateFits(fit.model.layout(), arrays);
}

absl::Status RestoreHistory(const Json& saved, const NamedArrays& arrays, History& history) {
  std::vector<Logs> epochs;
  if (saved.is_array()) {  // checkpoints of older versions have it in the manifest
    for (const Json& epoch : saved) epochs.push_back(LogsFromJson(epoch));
  } else {
    const int64_t rows = saved.at("epochs");
    for (const Json& json : saved.at("names")) {
      const std::string name = json.get<std::string>();
      const Array* values = arrays.Find(absl::StrCat(kHistory, name));
      const Array* has = arrays.Find(absl::StrCat(kHistoryHas, name));
      if (values == nullptr || has == nullptr || values->dtype() != DType::kF64 ||
          has->dtype() != DType::kBool || !(values->shape() == base::Shape({rows})) ||
          !(has->shape() == base::Shape({rows}))) {
        return Unreadable(absl::StrCat("the history of '", name, "' is missing"));
      }
      epochs.resize(rows);
      for (int64_t i = 0; i < rows; ++i) {
        if (has->data<bool>()[i]) epochs[i].Set(name, values->data<double>()[i]);
      }
    }
  }
  history.epochs = std::move(epochs);
  history.stats.assign(history.epochs.size(), FitStats());
  return absl::OkStatus();
}

absl::Status RestoreCallbacks(const CallbackList& callbacks, const Json& saved,
                              const NamedArrays& state) {
  const std::vector<std::string> keys = callbacks.StateKeys();
  // Older checkpoints have the states in the order of the callbacks, without names.
  std::vector<std::string> unnamed;
  if (saved.is_array()) {
    for (const Json& json : saved) {
      if (std::string text = json.get<std::string>(); !text.empty()) {
        unnamed.push_back(std::move(text));
      }
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < callbacks.size(); ++i) {
    std::string own;
    if (!saved.is_array()) {
      if (const auto found = saved.find(keys[i]); found != saved.end()) {
        own = found->get<std::string>();
      }
    } else if (next < unnamed.size() && !callbacks[i].Save().empty()) {
      own = unnamed[next++];
    }
    if (own.empty()) continue;
    NamedArrays arrays;
    const std::string prefix = absl::StrCat(kCallbacks, keys[i], "/");
    for (const auto& [name, array] : state) {
      absl::string_view bare = name;
      if (absl::ConsumePrefix(&bare, prefix)) arrays.Append(std::string(bare), array);
    }
    PENSTOCK_RETURN_IF_ERROR(callbacks[i].RestoreArrays(arrays));
    PENSTOCK_RETURN_IF_ERROR(callbacks[i].Restore(own));
  }
  return absl::OkStatus();
}

// On the same devices and pipeline, the measured number of steps per execution is reused.
void RestoreSteps(const FitArguments& fit, const Json& saved) {
  StepsTuner& tuner = fit.model.steps_tuner();
  if (!tuner.automatic() || tuner.found().has_value()) return;
  const auto found = saved.find("auto_steps");
  const Json* data = saved.contains("data") ? &saved.at("data") : nullptr;
  if (found != saved.end() && data != nullptr &&
      found->at("platform") == std::string(fit.model.strategy().client().platform()) &&
      found->at("replicas") == fit.model.strategy().num_replicas() &&
      data->at("pipeline") == fit.dataset.ToString()) {
    tuner.Restore({found->at("depth"), found->at("steps"), found->at("settled"),
                   found->value("attempts", 0)});
  }
}

}  // namespace

absl::StatusOr<NamedArrays> CheckpointArrays(const FitArguments& fit, const CallbackList& callbacks,
                                             const FitProgress& progress) {
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays arrays, fit.model.State());
  for (const auto& [name, array] : OtherArrays(callbacks, progress)) arrays.Set(name, array);
  return arrays;
}

NamedArrays OtherArrays(const CallbackList& callbacks, const FitProgress& progress) {
  NamedArrays arrays;
  AppendHistory(progress.history.epochs, arrays);
  const std::vector<std::string> keys = callbacks.StateKeys();
  for (size_t i = 0; i < callbacks.size(); ++i) {
    for (const auto& [name, array] : callbacks[i].SaveArrays()) {
      arrays.Set(absl::StrCat(kCallbacks, keys[i], "/", name), array);
    }
  }
  return arrays;
}

std::string SaveProgress(const FitArguments& fit, const CallbackList& callbacks,
                         const FitProgress& progress, const data::IteratorState& data) {
  DeviceModel& model = fit.model;
  Json json;
  json["epoch"] = progress.dispatched.epoch;
  json["step"] = progress.dispatched.step;
  json["total_steps"] = progress.dispatched.total_steps;
  json["trained"] = progress.epoch_trained;
  json["seed"] = model.options().seed;
  json["steps_per_epoch"] = fit.options.steps_per_epoch;
  json["batch_rows"] = progress.batch_rows;
  json["known_steps_per_epoch"] = progress.steps_per_epoch;
  if (const auto found = model.steps_tuner().found(); found.has_value()) {
    json["auto_steps"] = {{"platform", std::string(model.strategy().client().platform())},
                          {"replicas", model.strategy().num_replicas()},
                          {"depth", found->depth},
                          {"steps", found->steps},
                          {"settled", found->settled},
                          {"attempts", found->attempts}};
  }
  json["model"] = ModelFingerprint(model.objective());
  json["data"] = {{"state", data.ToString()}, {"pipeline", fit.dataset.ToString()}};
  json["logs"] = LogsToJson(progress.dispatched.step > 0 ? progress.logs : Logs());
  const std::vector<Logs>& epochs = progress.history.epochs;
  json["history"] = {{"epochs", epochs.size()}, {"names", HistoryNames(epochs)}};
  json["callbacks"] = Json::object();
  const std::vector<std::string> keys = callbacks.StateKeys();
  for (size_t i = 0; i < callbacks.size(); ++i) {
    std::string saved = callbacks[i].Save();
    if (!saved.empty()) json["callbacks"][keys[i]] = std::move(saved);
  }
  return base::DumpJson(json);
}

absl::Status RestoreProgress(const FitArguments& fit, const CallbackList& callbacks,
                             const NamedArrays& arrays, absl::string_view saved,
                             FitProgress& progress) {
  return RestoreProgress(
      fit, callbacks, arrays, saved, [&] { return fit.model.SetState(arrays); }, progress);
}

absl::Status RestoreProgress(const FitArguments& fit, const CallbackList& callbacks,
                             const NamedArrays& arrays, absl::string_view saved,
                             const std::function<absl::Status()>& load, FitProgress& progress) {
  const Json json = Json::parse(saved.begin(), saved.end(), nullptr, /*allow_exceptions=*/false);
  try {
    const Position position{json.at("epoch"), json.at("step"), json.at("total_steps")};
    PENSTOCK_RETURN_IF_ERROR(CheckSameTraining(fit, position, json, arrays));
    // Another callback has resumed from a later checkpoint.
    if (position.total_steps < progress.dispatched.total_steps) return absl::OkStatus();
    const bool trained = json.value("trained", false);
    // A pass that has not begun may be over other data, or in another order.
    std::optional<data::IteratorState> resume_at;
    if (fit.endless() ? position.total_steps > 0 : position.step > 0 && !trained) {
      const Json& data = json.at("data");
      PENSTOCK_RETURN_IF_ERROR(CheckPipeline(fit, data.at("pipeline").get<std::string>()));
      PENSTOCK_ASSIGN_OR_RETURN(resume_at,
                                data::IteratorState::Parse(data.at("state").get<std::string>()));
    }
    PENSTOCK_RETURN_IF_ERROR(load());
    PENSTOCK_RETURN_IF_ERROR(RestoreCallbacks(callbacks, json.at("callbacks"), arrays));
    PENSTOCK_RETURN_IF_ERROR(RestoreHistory(json.at("history"), arrays, progress.history));
    RestoreSteps(fit, json);
    progress.dispatched = progress.completed = position;
    progress.resumed_mid_epoch = position.step > 0;
    progress.epoch_trained = trained;
    progress.resume_at = std::move(resume_at);
    if (json.contains("logs")) progress.logs = LogsFromJson(json.at("logs"));
    progress.batch_rows = progress.examples_per_step = json.value("batch_rows", int64_t{0});
    if (!fit.endless()) {
      progress.steps_per_epoch = json.value("known_steps_per_epoch", int64_t{-1});
    }
    return absl::OkStatus();
  } catch (const Json::exception& e) {
    return Unreadable(e.what());
  }
}

}  // namespace penstock::train
