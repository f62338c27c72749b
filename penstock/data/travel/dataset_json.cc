#include "penstock/data/travel/dataset_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "penstock/base/json_dump.h"
#include "penstock/base/json_nesting.h"
#include "penstock/base/status.h"
#include "penstock/data/cache/uploaded_rows.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/data/travel/stage_readers.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
// The outer object and list; for each depth of inputs an object and two lists; values of a field.
constexpr int kMaxLevels = 2 + 3 * (kMaxJsonInputDepth + 1) + 4;

// ---- Writing ----

// The stages of a chain of stages with one input, in the order of the data flow.
std::vector<const Dataset::Description*> ChainOf(const Dataset::Description& last) {
  std::vector<const Dataset::Description*> chain = {&last};
  while (chain.back()->inputs.size() == 1) chain.push_back(chain.back()->inputs[0].get());
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// The index of the last stage that keeps what is upstream of it; -1: none does.
int LastKeeper(const std::vector<const Dataset::Description*>& chain) {
  int i = static_cast<int>(chain.size()) - 1;
  while (i >= 0 && !chain[static_cast<size_t>(i)]->stage->keeps_rows()) --i;
  return i;
}

class DatasetWriter {
 public:
  explicit DatasetWriter(std::vector<DatasetPart>* parts) : parts_(parts) {}

  absl::StatusOr<json> Pipeline(const Dataset::Description& last, int depth) {
    if (depth > kMaxJsonInputDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("inputs are nested more than ", kMaxJsonInputDepth, " deep"));
    }
    json stages = json::array();
    const Stage* before = nullptr;
    std::vector<const Dataset::Description*> chain = ChainOf(last);
    if (const int keeper = parts_ == nullptr ? -1 : LastKeeper(chain); keeper >= 0) {
      const auto& part = chain[static_cast<size_t>(keeper)]->inputs[0];
      stages.push_back({{"stage", "UploadedRows"}, {"rows", parts_->size()}});
      parts_->push_back({part, numbered_});
      numbered_ += CountStages(*part);
      chain.erase(chain.begin(), chain.begin() + keeper);
    }
    for (const Dataset::Description* description : chain) {
      const Stage& stage = *description->stage;
      if (++stages_ > kMaxJsonStages) {
        return absl::InvalidArgumentError(
            absl::StrCat("a dataset of more than ", kMaxJsonStages, " stages cannot travel"));
      }
      const absl::string_view next = before == nullptr ? "" : before->adds_stage();
      if (stage.is_added() != !next.empty() || (stage.is_added() && stage.name() != next)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "stage ", stage.ToString(), " is a part of a stage of which another part is missing"));
      }
      before = &stage;
      if (stage.is_added()) {
        ++numbered_;
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(json object, Object(*description, depth));
      numbered_ += stage.num_stages();
      stages.push_back(std::move(object));
    }
    if (!before->adds_stage().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", before->ToString(), " lacks its ", before->adds_stage()));
    }
    return stages;
  }

 private:
  absl::StatusOr<json> Object(const Dataset::Description& description, int depth) {
    const Stage& stage = *description.stage;
    StageFields fields;
    absl::Status status = stage.WriteFields(fields);
    if (status.ok()) status = fields.status();
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("stage ", stage.ToString(), " ", status.message()));
    }
    json object = fields.object();
    if (!object.contains("stage")) object["stage"] = std::string(stage.name());
    if (description.inputs.size() > 1) {
      json inputs = json::array();
      for (const auto& input : description.inputs) {
        PENSTOCK_ASSIGN_OR_RETURN(json pipeline, Pipeline(*input, depth + 1));
        inputs.push_back(std::move(pipeline));
      }
      object["inputs"] = std::move(inputs);
    }
    return object;
  }

  std::vector<DatasetPart>* const parts_;
  int stages_ = 0;
  int64_t numbered_ = 0;  // stages before the next one, in the order of engine/plan.cc
};

// ---- Reading ----

class DatasetReader {
 public:
  explicit DatasetReader(const DatasetJsonLimits& limits) : limits_(limits) {}

  absl::StatusOr<Dataset> Pipeline(const json& stages, int depth) {
    if (!stages.is_array() || stages.empty()) {
      return absl::InvalidArgumentError("expected a pipeline: a list of at least one stage");
    }
    std::optional<Dataset> dataset;
    for (size_t i = 0; i < stages.size(); ++i) {
      absl::StatusOr<Dataset> next = ReadStage(stages[i], dataset, depth);
      if (!next.ok()) {
        const std::string where = absl::StrCat("stage ", i, NameIn(stages[i]));
        return base::WithContext(next.status(), where);
      }
      dataset = *std::move(next);
    }
    return *std::move(dataset);
  }

 private:
  static std::string NameIn(const json& stage) {
    if (!stage.is_object() || !stage.contains("stage") || !stage["stage"].is_string()) return "";
    return absl::StrCat(" (", stage["stage"].get_ref<const std::string&>().substr(0, 64), ")");
  }

  absl::StatusOr<Dataset> ReadStage(const json& stage, const std::optional<Dataset>& input,
                                    int depth) {
    if (++stages_ > kMaxJsonStages) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are more than ", kMaxJsonStages, " stages"));
    }
    if (NameIn(stage).empty())
      return absl::InvalidArgumentError("expected an object with a name, \"stage\"");
    const std::string& name = stage["stage"].get_ref<const std::string&>();
    const StageReader* reader = FindStageReader(name);
    if (reader == nullptr) {
      return absl::InvalidArgumentError(
          "no stage of this name can be read here; install the same version on both sides");
    }
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<Dataset> inputs, Inputs(stage, input, depth));
    const bool several = reader->inputs == StageReader::kSeveral;
    if (several ? inputs.empty() : static_cast<int>(inputs.size()) != reader->inputs) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has ", inputs.size(), " inputs; expected ",
                       several ? "one or more" : absl::StrCat(reader->inputs)));
    }
    PENSTOCK_RETURN_IF_ERROR(Check(stage, "reads", false));
    PENSTOCK_RETURN_IF_ERROR(Check(stage, "writes", true));
    StageFields fields(stage, limits_.file_system);
    fields.set_uploaded_rows(limits_.uploaded_rows);
    PENSTOCK_ASSIGN_OR_RETURN(Dataset dataset, reader->read(fields, std::move(inputs)));
    PENSTOCK_RETURN_IF_ERROR(dataset.status());
    return dataset;
  }

  absl::StatusOr<std::vector<Dataset>> Inputs(const json& stage,
                                              const std::optional<Dataset>& input, int depth) {
    std::vector<Dataset> inputs;
    if (!stage.contains("inputs")) {
      if (input.has_value()) inputs.push_back(*input);
      return inputs;
    }
    if (input.has_value() || !stage["inputs"].is_array()) {
      return absl::InvalidArgumentError(
          "a stage with \"inputs\", a list of pipelines, must be the first of its pipeline");
    }
    if (depth == kMaxJsonInputDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("inputs are nested more than ", kMaxJsonInputDepth, " deep"));
    }
    for (size_t i = 0; i < stage["inputs"].size(); ++i) {
      absl::StatusOr<Dataset> dataset = Pipeline(stage["inputs"][i], depth + 1);
      if (!dataset.ok()) return base::WithContext(dataset.status(), absl::StrCat("input ", i));
      inputs.push_back(*std::move(dataset));
    }
    return inputs;
  }

  absl::Status Check(const json& stage, const char* field, bool write) const {
    const auto it = stage.find(field);
    if (it == stage.end() || !it->is_array() || limits_.check == nullptr) return absl::OkStatus();
    for (const json& uri : *it) {
      if (uri.is_string())
        PENSTOCK_RETURN_IF_ERROR(limits_.check(uri.get_ref<const std::string&>(), write));
    }
    return absl::OkStatus();
  }

  const DatasetJsonLimits& limits_;
  int stages_ = 0;
};

void AddPaths(const Dataset::Description& last, bool without_parts, int* stages,
              std::vector<DatasetPath>* out) {
  std::vector<const Dataset::Description*> chain = ChainOf(last);
  if (const int keeper = without_parts ? LastKeeper(chain) : -1; keeper >= 0) {
    chain.erase(chain.begin(), chain.begin() + keeper);
  }
  for (const Dataset::Description* description : chain) {
    if (++*stages > kMaxJsonStages) return;
    if (description->inputs.size() > 1) {
      for (const auto& input : description->inputs) AddPaths(*input, without_parts, stages, out);
    }
    StageFields fields;
    description->stage->WriteFields(fields).IgnoreError();
    for (const bool write : {false, true}) {
      const auto it = fields.object().find(write ? "writes" : "reads");
      if (it == fields.object().end() || !it->is_array()) continue;
      for (const json& uri : *it) {
        const auto parsed = io::ParseUri(uri.get_ref<const std::string&>());
        out->push_back({.uri = uri.get<std::string>(),
                        .write = write,
                        .local = !parsed.ok() || parsed->is_local(),
                        .stage = description->stage->ToString()});
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::string> DatasetToJson(const Dataset& dataset, std::vector<DatasetPart>* parts) {
  PENSTOCK_RETURN_IF_ERROR(dataset.status());
  PENSTOCK_ASSIGN_OR_RETURN(const json pipeline,
                            DatasetWriter(parts).Pipeline(dataset.description(), 0));
  // Every string was checked to be UTF-8.
  return json({{"format", kFormat}, {"pipeline", pipeline}}).dump();
}

absl::StatusOr<Dataset> DatasetFromJson(absl::string_view text, const DatasetJsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a dataset of ", text.size(),
                                                   " bytes of JSON is larger than the limit of ",
                                                   limits.max_bytes));
  }
  if (base::NestsDeeperThan(text, kMaxLevels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the JSON of a dataset nests more than ", kMaxLevels, " levels"));
  }
  const json root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object() || !root.contains("pipeline")) {
    return absl::InvalidArgumentError(
        "this is not the JSON of a dataset: {\"format\": 1, \"pipeline\": [...]}");
  }
  if (!root.contains("format") || root["format"] != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat("the JSON of a dataset has a format other than ",
                                                   kFormat,
                                                   "; install the same version on both sides"));
  }
  return DatasetReader(limits).Pipeline(root["pipeline"], 0);
}

std::vector<DatasetPath> PathsOf(const Dataset& dataset, bool without_parts) {
  std::vector<DatasetPath> out;
  int stages = 0;
  AddPaths(dataset.description(), without_parts, &stages, &out);
  return out;
}

}  // namespace penstock::data
