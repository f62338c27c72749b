// `penstock models`: the networks by name. docs/models.md contains the table that it prints.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/with_commas.h"
#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/models/by_name.h"
#include "penstock/nn/network_size.h"

namespace penstock::cli {
namespace {

// A network with its default options: 1000 classes, and images of the default size.
struct ModelRow {
  const models::ModelInfo& model;
  nn::NetworkSize size;
};

absl::StatusOr<std::vector<ModelRow>> ModelRows() {
  std::vector<ModelRow> rows;
  for (const models::ModelInfo& model : models::Models()) {
    PENSTOCK_ASSIGN_OR_RETURN(const nn::Network network, models::ByName(model.name));
    PENSTOCK_ASSIGN_OR_RETURN(const nn::NetworkSize size, nn::SizeOf(network));
    rows.push_back({model, size});
  }
  return rows;
}

std::string ModelTable(const std::vector<ModelRow>& rows) {
  constexpr char kLine[] = "%-21s %-18s %11s %7s %14s %8s  %s\n";
  std::string out = absl::StrFormat(kLine, "network", "keras.applications", "parameters", "MB",
                                    "M multiply-add", "image", "preprocessing");
  for (const ModelRow& row : rows) {
    constexpr int64_t kMillion = 1000000;
    const double megabytes = static_cast<double>(row.size.bytes) / kMillion;
    const int64_t millions = (row.size.multiply_adds + kMillion / 2) / kMillion;
    const char* keras_name = row.model.keras_name;
    absl::StrAppendFormat(&out, kLine, row.model.name, keras_name == nullptr ? "-" : keras_name,
                          base::WithCommas(row.size.parameters), absl::StrFormat("%.1f", megabytes),
                          base::WithCommas(millions),
                          absl::StrCat(row.model.image_size, "x", row.model.image_size),
                          models::ModeName(row.model.preprocess_mode));
  }
  return out;
}

nlohmann::ordered_json ModelsJson(const std::vector<ModelRow>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ModelRow& row : rows) {
    const models::ModelInfo& model = row.model;
    nlohmann::ordered_json& json = all.emplace_back();
    json["name"] = model.name;
    json["keras_name"] = nullptr;
    if (model.keras_name != nullptr) json["keras_name"] = model.keras_name;
    json["parameters"] = row.size.parameters;
    json["bytes"] = row.size.bytes;
    json["multiply_adds"] = row.size.multiply_adds;
    json["image_size"] = model.image_size;
    json["min_image_size"] = model.min_image_size;
    json["preprocessing"] = models::ModeName(model.preprocess_mode);
  }
  return all;
}

class Models : public Command {
 public:
  void Describe(Options& options) override {
    options.AddFlag("--json", json_, "Print JSON, with exact numbers");
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<ModelRow> rows, ModelRows());
    if (json_) {
      PrintJson(ModelsJson(rows));
    } else {
      std::fputs(ModelTable(rows).c_str(), stdout);
    }
    return absl::OkStatus();
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> ModelsCommand() { return std::make_unique<Models>(); }

}  // namespace penstock::cli
