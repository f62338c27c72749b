// A run's place in its training, as checkpoints keep it and a later run takes it up.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/train/fit_run.h"

namespace penstock::train {
namespace {

using Json = nlohmann::ordered_json;

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
      "the checkpoint stands in the middle of the data of another pipeline, and this one would go "
      "on with other elements; describe it as it was, or train in another folder.\n"
      "The checkpoint's pipeline:\n",
      saved, "The pipeline of this run:\n", own));
}

std::string FitRun::Progress() {
  Json json;
  json["epoch"] = dispatched_.epoch;
  json["step"] = dispatched_.step;
  json["total_steps"] = dispatched_.total_steps;
  json["seed"] = trainer_.options_.seed;
  json["steps_per_epoch"] = options_.steps_per_epoch;
  json["data"] = {{"state", DataState().ToString()}, {"pipeline", dataset_.ToString()}};
  json["history"] = Json::array();
  for (const Logs& logs : history_.epochs) json["history"].push_back(LogsToJson(logs));
  json["callbacks"] = Json::array();
  for (const auto& callback : callbacks_) json["callbacks"].push_back(callback->Save());
  return json.dump();
}

absl::Status FitRun::Resume(const NamedArrays& state, absl::string_view progress) {
  const Json json =
      Json::parse(progress.begin(), progress.end(), nullptr, /*allow_exceptions=*/false);
  try {
    Position position{json.at("epoch"), json.at("step"), json.at("total_steps")};
    if (const uint64_t seed = json.at("seed"); seed != trainer_.options_.seed) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint was made with seed ", seed, ", this run has ", trainer_.options_.seed,
          "; use the same seed, or another folder to start anew"));
    }
    if (const int64_t steps = json.at("steps_per_epoch"); steps != options_.steps_per_epoch) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint was made with steps_per_epoch = ", steps, ", this run has ",
                       options_.steps_per_epoch));
    }
    // A pass that has not begun may be over other data, or in another order.
    std::optional<data::IteratorState> resume_at;
    if (position.step > 0 || (endless() && position.total_steps > 0)) {
      const Json& data = json.at("data");
      PENSTOCK_RETURN_IF_ERROR(CheckPipeline(data.at("pipeline").get<std::string>()));
      PENSTOCK_ASSIGN_OR_RETURN(resume_at,
                                data::IteratorState::Parse(data.at("state").get<std::string>()));
    }
    const Json& saved = json.at("callbacks");
    if (saved.size() != callbacks_.size()) {
      return absl::FailedPreconditionError(absl::StrCat("the checkpoint was made with ",
                                                        saved.size(), " callbacks, this run has ",
                                                        callbacks_.size()));
    }
    PENSTOCK_RETURN_IF_ERROR(trainer_.SetState(state));
    for (size_t i = 0; i < callbacks_.size(); ++i) {
      if (const std::string own = saved[i]; !own.empty())
        PENSTOCK_RETURN_IF_ERROR(callbacks_[i]->Restore(own));
    }
    for (const Json& epoch : json.at("history")) {
      Logs logs;
      for (const Json& pair : epoch) logs.Set(pair.at(0).get<std::string>(), NumberOf(pair.at(1)));
      history_.epochs.push_back(std::move(logs));
      history_.stats.emplace_back();
    }
    dispatched_ = settled_ = position;
    resumed_mid_epoch_ = position.step > 0;
    resume_at_ = resume_at;
    return absl::OkStatus();
  } catch (const Json::exception& e) {
    return absl::DataLossError(
        absl::StrCat("the checkpoint's progress cannot be read: ", e.what()));
  }
}

}  // namespace penstock::train
