#include "penstock/monitor/snapshot.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/json_nesting.h"
#include "penstock/base/status.h"

namespace penstock::monitor {
namespace {

using Json = nlohmann::ordered_json;

// Reads fields of an untrusted object; the first error stays.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) Fail("is not an object");
  }

  void Read(const char* name, std::string& to) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_string()) return Fail(absl::StrCat(name, " is not a string"));
    to = field->get<std::string>();
  }
  void Read(const char* name, double& to) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number()) return Fail(absl::StrCat(name, " is not a number"));
    to = field->get<double>();
  }
  void Read(const char* name, int64_t& to) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number_integer()) return Fail(absl::StrCat(name, " is not an integer"));
    to = field->get<int64_t>();
  }
  // The elements of an array; an empty one if it is absent.
  const Json& List(const char* name) {
    static const Json* const kNone = new Json(Json::array());
    const Json* field = Find(name);
    if (field == nullptr) return *kNone;
    if (field->is_array()) return *field;
    Fail(absl::StrCat(name, " is not a list"));
    return *kNone;
  }
  void Fail(absl::string_view what) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat("not a snapshot: ", where_, what)));
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }

  const Json& json_;
  const std::string where_;
  absl::Status status_;
};

Json MetricToJson(const MetricValue& metric) {
  Json json = {{"name", metric.name}};
  if (!metric.label.empty()) json["label"] = metric.label;
  json["value"] = metric.value;
  if (metric.below.empty()) return json;
  json["count"] = metric.count;
  Json below = Json::array();
  for (const auto& [bound, count] : metric.below) below.push_back({bound, count});
  json["below"] = std::move(below);
  return json;
}

absl::StatusOr<MetricValue> MetricFromJson(const Json& json) {
  MetricValue metric;
  Fields fields(json, "a metric: ");
  fields.Read("name", metric.name);
  fields.Read("label", metric.label);
  fields.Read("value", metric.value);
  fields.Read("count", metric.count);
  for (const Json& pair : fields.List("below")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() ||
        !pair[1].is_number_integer()) {
      fields.Fail("below is not a list of pairs of a number and an integer");
      break;
    }
    metric.below.emplace_back(pair[0].get<double>(), pair[1].get<int64_t>());
  }
  PENSTOCK_RETURN_IF_ERROR(fields.status());
  return metric;
}

absl::StatusOr<Event> EventFromJson(const Json& json) {
  Event event;
  Fields fields(json, "an event: ");
  fields.Read("number", event.number);
  fields.Read("unix_seconds", event.unix_seconds);
  fields.Read("kind", event.kind);
  fields.Read("text", event.text);
  PENSTOCK_RETURN_IF_ERROR(fields.status());
  return event;
}

}  // namespace

const double* Snapshot::Find(absl::string_view name, absl::string_view label) const {
  for (const MetricValue& metric : metrics) {
    if (metric.name == name && metric.label == label) return &metric.value;
  }
  return nullptr;
}

std::string Snapshot::ToJson() const {
  Json json = {{"unix_seconds", unix_seconds},
               {"started_unix_seconds", started_unix_seconds},
               {"state", state},
               {"words", words},
               {"device", device},
               {"limiting_stage", limiting_stage}};
  Json list = Json::array();
  for (const MetricValue& metric : metrics) {
    if (std::isfinite(metric.value)) list.push_back(MetricToJson(metric));  // JSON has no NaN
  }
  json["metrics"] = std::move(list);
  list = Json::array();
  for (const Event& event : events) {
    list.push_back({{"number", event.number},
                    {"unix_seconds", event.unix_seconds},
                    {"kind", event.kind},
                    {"text", event.text}});
  }
  json["events"] = std::move(list);
  list = Json::array();
  for (const auto& [label, text] : activities) list.push_back({{"label", label}, {"text", text}});
  json["activities"] = std::move(list);
  return base::DumpJson(json);
}

absl::StatusOr<Snapshot> Snapshot::FromJson(absl::string_view text) {
  if (base::NestsDeeperThan(text, 8)) {
    return absl::InvalidArgumentError("not a snapshot: more than 8 levels deep");
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("not a snapshot: invalid JSON");
  Snapshot snapshot;
  Fields fields(json, "it ");
  fields.Read("unix_seconds", snapshot.unix_seconds);
  fields.Read("started_unix_seconds", snapshot.started_unix_seconds);
  fields.Read("state", snapshot.state);
  fields.Read("words", snapshot.words);
  fields.Read("device", snapshot.device);
  fields.Read("limiting_stage", snapshot.limiting_stage);
  for (const Json& metric : fields.List("metrics")) {
    PENSTOCK_ASSIGN_OR_RETURN(MetricValue read, MetricFromJson(metric));
    if (FindMetric(read.name) != nullptr) snapshot.metrics.push_back(std::move(read));
  }
  for (const Json& event : fields.List("events")) {
    PENSTOCK_ASSIGN_OR_RETURN(Event read, EventFromJson(event));
    snapshot.events.push_back(std::move(read));
  }
  for (const Json& activity : fields.List("activities")) {
    auto& [label, text] = snapshot.activities.emplace_back();
    Fields of_activity(activity, "an activity: ");
    of_activity.Read("label", label);
    of_activity.Read("text", text);
    PENSTOCK_RETURN_IF_ERROR(of_activity.status());
  }
  PENSTOCK_RETURN_IF_ERROR(fields.status());
  return snapshot;
}

}  // namespace penstock::monitor
