#include <utility>

#include "penstock/data/travel/stage_fields.h"
#include "penstock/train/feed_host.h"

namespace penstock::train {
namespace {

using data::StageFields;

struct ClassWeight {
  int64_t number = 0;
  double weight = 1;
};

// Both directions, as the fields of a stage.
void RequestFields(StageFields& f, FeedRequest& r) {
  f.Value("dataset_id", &r.dataset_id);
  f.Value("seed", &r.seed);
  f.Value("epoch", &r.epoch);
  std::string state = r.state.has_value() ? r.state->ToString() : "";
  f.Value("state", &state);
  if (f.reading() && !state.empty()) {
    absl::StatusOr<data::IteratorState> parsed = data::IteratorState::Parse(state);
    if (parsed.ok()) {
      r.state = *std::move(parsed);
    } else {
      f.Fail(parsed.status());
    }
  }
  f.Value("deterministic", &r.deterministic);
  f.Value("inputs", &r.ports.inputs);
  f.Value("outputs", &r.ports.outputs);
  f.Value("columns_inputs", &r.columns.inputs);
  f.Value("columns_labels", &r.columns.labels);
  f.Value("columns_sample_weights", &r.columns.sample_weights);
  f.Value("with_labels", &r.with_labels);
  std::vector<ClassWeight> weights;
  for (const auto& [number, weight] : r.class_weight) weights.push_back({number, weight});
  f.List("class_weight", &weights, [](StageFields& of, ClassWeight& weight) {
    of.Value("class", &weight.number);
    of.Value("weight", &weight.weight);
  });
  for (const ClassWeight& weight : weights) r.class_weight[weight.number] = weight.weight;
  f.Value("batch_rows", &r.batch_rows);
  f.CheckRange("batch_rows", r.batch_rows, 0, int64_t{1} << 31);
  std::vector<int64_t> devices(r.devices.begin(), r.devices.end());
  f.Value("devices", &devices);
  r.devices.clear();
  for (int64_t device : devices) {
    f.CheckRange("devices", device, 0, 1 << 20);
    r.devices.push_back(static_cast<int>(device));
  }
  std::vector<int64_t> rows(r.rows.begin(), r.rows.end());
  f.Value("rows", &rows);
  r.rows.assign(rows.begin(), rows.end());
  f.Value("device_columns", &r.device_columns);
  std::vector<int64_t> buffers(r.device_buffers.begin(), r.device_buffers.end());
  f.Value("device_buffers", &buffers);
  r.device_buffers.assign(buffers.begin(), buffers.end());
  f.Value("first_row_buffer", &r.first_row_buffer);
}

}  // namespace

std::string FeedRequestToJson(const FeedRequest& request) {
  return data::ToText(request, RequestFields);
}

absl::StatusOr<FeedRequest> FeedRequestFromJson(absl::string_view text) {
  return data::FromText<FeedRequest>(text, "the options of a feed", /*max_levels=*/4,
                                     data::OtherFields::kReject, RequestFields);
}

}  // namespace penstock::train
