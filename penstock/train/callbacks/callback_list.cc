#include "penstock/train/callbacks/callback_list.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::train {

absl::Status CheckCallbacks(const std::vector<std::shared_ptr<Callback>>& callbacks) {
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("callback ", i, " (from 0) is null"));
  }
  return absl::OkStatus();
}

CallbackList::CallbackList(std::vector<std::shared_ptr<Callback>> callbacks, base::Trace* trace)
    : callbacks_(std::move(callbacks)), trace_(trace) {
  std::stable_partition(callbacks_.begin(), callbacks_.end(),
                        [](const auto& callback) { return !callback->RunsLast(); });
  for (const auto& callback : callbacks_) {
    if (trace != nullptr) names_.push_back(callback->name());
  }
}

absl::Status CallbackList::CallGuarded(Callback& callback, const char* hook,
                                       absl::FunctionRef<absl::Status(Callback&)> call) {
  absl::Status status;
  try {
    status = call(callback);
  } catch (...) {
    status = base::WithContext(base::StatusOfException(),
                               absl::StrCat("callback ", callback.name(), ".", hook));
  }
  if (status.ok() || !callback.IsLog() || absl::EndsWith(hook, "Begin")) return status;
  if (told_.insert(callback.name()).second) {
    const std::string name = absl::StrCat(callback.name(), ": ");
    const std::string error = absl::StrCat(name, absl::StripPrefix(status.message(), name));
    std::fprintf(stderr, "warning: %s%s\n", error.c_str(),
                 absl::string_view(hook) == "TrainEnd" ? "" : "; training continues");
    log_errors_.push_back(error);
  }
  return absl::OkStatus();
}

absl::Status CallbackList::CallTraced(size_t i, const char* hook,
                                      absl::FunctionRef<absl::Status(Callback&)> call) {
  // A hook that does nothing is no span of the trace.
  constexpr double kShortestTraced = 2e-6;
  if (trace_ == nullptr || !trace_->recording()) return CallGuarded(*callbacks_[i], hook, call);
  const double began = trace_->Now();
  const absl::Status status = CallGuarded(*callbacks_[i], hook, call);
  if (const double now = trace_->Now(); now - began >= kShortestTraced) {
    trace_->Add(absl::StrCat(names_[i], ".", hook), began, now);
  }
  return status;
}

absl::Status CallbackList::ForEach(const char* hook,
                                   absl::FunctionRef<absl::Status(Callback&)> call) {
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(CallTraced(i, hook, call));
  }
  return absl::OkStatus();
}

void CallbackList::ForAll(const char* hook, absl::FunctionRef<absl::Status(Callback&)> call,
                          absl::Status& status) {
  for (size_t i = 0; i < callbacks_.size(); ++i) status.Update(CallTraced(i, hook, call));
}

bool CallbackList::WantsState(const Position& position) const {
  return std::any_of(callbacks_.begin(), callbacks_.end(),
                     [&](const auto& callback) { return callback->WantsState(position); });
}

bool CallbackList::ObservesBatchBegin() const {
  return std::any_of(callbacks_.begin(), callbacks_.end(),
                     [](const auto& callback) { return callback->ObservesBatchBegin(); });
}

bool CallbackList::WantsGradients(int epoch) const {
  return std::any_of(callbacks_.begin(), callbacks_.end(),
                     [&](const auto& callback) { return callback->WantsGradients(epoch); });
}

bool CallbackList::StopsOnNan() const {
  return std::any_of(callbacks_.begin(), callbacks_.end(),
                     [](const auto& callback) { return callback->StopsOnNan(); });
}

std::vector<std::string> CallbackList::StateKeys() const {
  std::vector<std::string> keys;
  std::map<std::string, int> seen;
  for (const auto& callback : callbacks_) {
    std::string key = callback->state_name();
    if (const int count = ++seen[key]; count > 1) absl::StrAppend(&key, "#", count);
    keys.push_back(std::move(key));
  }
  return keys;
}

void CallbackList::Note(absl::string_view text) const {
  for (const auto& callback : callbacks_) callback->Note(text);
}

void CallbackList::NoteOnce(absl::string_view text) {
  if (told_.insert(std::string(text)).second) Note(text);
}

void CallbackList::Warn(absl::string_view text) {
  if (!told_.insert(std::string(text)).second) return;
  Note(text);
  const bool shown = std::any_of(callbacks_.begin(), callbacks_.end(),
                                 [](const auto& callback) { return callback->ShowsNotes(); });
  if (!shown) {
    std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(text.size()), text.data());
  }
}

}  // namespace penstock::train
