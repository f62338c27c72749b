// A run's place in its training, as checkpoints keep it and a later run takes it up.
#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/train/fit_run.h"
#include "penstock/train/model_fingerprint.h"

namespace penstock::train {
namespace {

using Json = nlohmann::ordered_json;

// Arrays of a checkpoint: the history and callback state. They have no fixed size, so they are not
// in the manifest.
constexpr absl::string_view kHistory = "run/history/";
constexpr absl::string_view kHistoryHas = "run/history_has/";
constexpr absl::string_view kCallbacks = "run/callbacks/";

// Pairs, and not an object: the order of the names is kept, whoever stores the text.
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

// One column per name, and one with the epochs in which it was measured.
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

}  // namespace

data::IteratorState FitRun::DataState() const {
  data::IteratorState state = feed_ != nullptr ? feed_->State() : data::IteratorState();
  if (!endless() && dispatched_.step == 0) {  // the next pass, not yet opened
    state.epoch = dispatched_.epoch;
    state.elements = 0;
  }
  return state;
}

absl::Status FitRun::CheckPipeline(absl::string_view saved) const {
  const std::string own = dataset_.ToString();
  if (saved == own) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the checkpoint was saved mid-epoch with a different input pipeline, and this one would go "
      "on with other elements; describe it as it was, or train in another folder.\n"
      "The checkpoint's pipeline:\n",
      saved, "The pipeline of this run:\n", own));
}

std::vector<std::string> FitRun::CallbackKeys() const {
  std::vector<std::string> keys;
  std::map<std::string, int> seen;
  for (const auto& callback : callbacks_) {
    std::string key = callback->state_name();
    if (const int count = ++seen[key]; count > 1) absl::StrAppend(&key, "#", count);
    keys.push_back(std::move(key));
  }
  return keys;
}

absl::StatusOr<NamedArrays> FitRun::State() {
  PENSTOCK_ASSIGN_OR_RETURN(NamedArrays state, trainer_.State());
  AppendHistory(history_.epochs, state);
  const std::vector<std::string> keys = CallbackKeys();
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    for (const auto& [name, array] : callbacks_[i]->SaveArrays()) {
      state.Set(absl::StrCat(kCallbacks, keys[i], "/", name), array);
    }
  }
  return state;
}

std::string FitRun::Progress() {
  // A checkpoint is made: what the next program's compilation may cost is no longer lost.
  trainer_.steps_tuner_.Release();
  Json json;
  json["epoch"] = dispatched_.epoch;
  json["step"] = dispatched_.step;
  json["total_steps"] = dispatched_.total_steps;
  json["trained"] = epoch_trained_;
  json["seed"] = trainer_.options_.seed;
  json["steps_per_epoch"] = options_.steps_per_epoch;
  json["batch_rows"] = batch_rows_;
  json["known_steps_per_epoch"] = steps_per_epoch_;
  if (const auto found = trainer_.steps_tuner_.found(); found.has_value()) {
    json["auto_steps"] = {{"platform", std::string(trainer_.strategy().client().platform())},
                          {"replicas", trainer_.strategy().num_replicas()},
                          {"depth", found->depth},
                          {"steps", found->steps},
                          {"settled", found->settled},
                          {"attempts", found->attempts}};
  }
  json["model"] = ModelFingerprint(trainer_.objective());
  json["data"] = {{"state", DataState().ToString()}, {"pipeline", dataset_.ToString()}};
  json["logs"] = LogsToJson(dispatched_.step > 0 ? logs_ : Logs());
  json["history"] = {{"epochs", history_.epochs.size()}, {"names", HistoryNames(history_.epochs)}};
  json["callbacks"] = Json::object();
  const std::vector<std::string> keys = CallbackKeys();
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    std::string saved = callbacks_[i]->Save();
    if (!saved.empty()) json["callbacks"][keys[i]] = std::move(saved);
  }
  return json.dump();
}

absl::Status FitRun::RestoreHistory(const Json& saved, const NamedArrays& state) {
  std::vector<Logs> epochs;
  if (saved.is_array()) {  // checkpoints of older versions have it in the manifest
    for (const Json& epoch : saved) epochs.push_back(LogsFromJson(epoch));
  } else {
    const int64_t rows = saved.at("epochs");
    for (const Json& json : saved.at("names")) {
      const std::string name = json.get<std::string>();
      const Array* values = state.Find(absl::StrCat(kHistory, name));
      const Array* has = state.Find(absl::StrCat(kHistoryHas, name));
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
  history_.epochs = std::move(epochs);
  history_.stats.assign(history_.epochs.size(), FitStats());
  return absl::OkStatus();
}

absl::Status FitRun::RestoreCallbacks(const Json& saved, const NamedArrays& state) {
  const std::vector<std::string> keys = CallbackKeys();
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
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    std::string own;
    if (!saved.is_array()) {
      if (const auto found = saved.find(keys[i]); found != saved.end()) {
        own = found->get<std::string>();
      }
    } else if (next < unnamed.size() && !callbacks_[i]->Save().empty()) {
      own = unnamed[next++];
    }
    if (own.empty()) continue;
    NamedArrays arrays;
    const std::string prefix = absl::StrCat(kCallbacks, keys[i], "/");
    for (const auto& [name, array] : state) {
      absl::string_view bare = name;
      if (absl::ConsumePrefix(&bare, prefix)) arrays.Append(std::string(bare), array);
    }
    PENSTOCK_RETURN_IF_ERROR(callbacks_[i]->RestoreArrays(arrays));
    PENSTOCK_RETURN_IF_ERROR(callbacks_[i]->Restore(own));
  }
  return absl::OkStatus();
}

// With the same devices and batches the number of steps in an execution need not be found again.
void FitRun::RestoreSteps(const Json& saved) {
  StepsTuner& tuner = trainer_.steps_tuner_;
  if (!tuner.automatic() || tuner.found().has_value()) return;
  const auto found = saved.find("auto_steps");
  const Json* data = saved.contains("data") ? &saved.at("data") : nullptr;
  if (found != saved.end() && data != nullptr &&
      found->at("platform") == std::string(trainer_.strategy().client().platform()) &&
      found->at("replicas") == trainer_.strategy().num_replicas() &&
      data->at("pipeline") == dataset_.ToString()) {
    tuner.Restore({found->at("depth"), found->at("steps"), found->at("settled"),
                   found->value("attempts", 0)});
  }
}

absl::Status FitRun::Resume(const NamedArrays& state, absl::string_view progress) {
  const Json json =
      Json::parse(progress.begin(), progress.end(), nullptr, /*allow_exceptions=*/false);
  try {
    Position position{json.at("epoch"), json.at("step"), json.at("total_steps")};
    if (const uint64_t seed = json.at("seed"); seed != trainer_.options_.seed) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint was made with seed ", seed, ", this run has ", trainer_.options_.seed,
          "; use the same seed, or another folder to start over"));
    }
    // An epoch that has begun must also be finished.
    if (position.epoch + (position.step > 0 ? 1 : 0) > options_.epochs) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint is of epoch ", position.epoch + (position.step > 0 ? 1 : 0),
                       ", and this run ends with epoch ", options_.epochs,
                       "; ask for more epochs, or train in another folder to start over"));
    }
    if (const int64_t steps = json.at("steps_per_epoch"); steps != options_.steps_per_epoch) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint was made with steps_per_epoch = ", steps, ", this run has ",
                       options_.steps_per_epoch));
    }
    if (json.contains("model")) {
      PENSTOCK_RETURN_IF_ERROR(
          CheckFingerprint(json.at("model"), ModelFingerprint(trainer_.objective())));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckStateFits(trainer_.layout_, state));
    const bool trained = json.value("trained", false);
    // A pass that has not begun may be over other data, or in another order.
    std::optional<data::IteratorState> resume_at;
    if (endless() ? position.total_steps > 0 : position.step > 0 && !trained) {
      const Json& data = json.at("data");
      PENSTOCK_RETURN_IF_ERROR(CheckPipeline(data.at("pipeline").get<std::string>()));
      PENSTOCK_ASSIGN_OR_RETURN(resume_at,
                                data::IteratorState::Parse(data.at("state").get<std::string>()));
    }
    PENSTOCK_RETURN_IF_ERROR(trainer_.SetState(state));
    PENSTOCK_RETURN_IF_ERROR(RestoreCallbacks(json.at("callbacks"), state));
    PENSTOCK_RETURN_IF_ERROR(RestoreHistory(json.at("history"), state));
    RestoreSteps(json);
    dispatched_ = settled_ = position;
    resumed_mid_epoch_ = position.step > 0;
    epoch_trained_ = trained;
    resume_at_ = resume_at;
    if (json.contains("logs")) resumed_logs_ = LogsFromJson(json.at("logs"));
    batch_rows_ = examples_per_step_ = json.value("batch_rows", int64_t{0});
    if (!endless()) steps_per_epoch_ = json.value("known_steps_per_epoch", int64_t{-1});
    return absl::OkStatus();
  } catch (const Json::exception& e) {
    return Unreadable(e.what());
  }
}

}  // namespace penstock::train
