#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/profile/operation_costs.h"

namespace penstock::profile {
namespace {

constexpr size_t kMaxLayers = 3;
constexpr absl::string_view kEverythingElse =
    "everything else, fused (elementwise operations and data movement)";

double SumOf(const CostTable& table) {
  double sum = 0;
  for (const OperationCost& row : table.rows) sum += row.total_seconds();
  return sum;
}

std::string Percent(double seconds, double step_seconds) {
  return step_seconds > 0 ? absl::StrFormat("%.1f", 100 * seconds / step_seconds) : "-";
}

std::string Gigaflops(const OperationCost& row) {
  if (row.flops <= 0 || row.seconds <= 0) return "-";
  return absl::StrFormat("%.0f", row.flops / row.seconds * 1e-9);
}

// Names of layers, abbreviated: "conv1, conv2, conv3 and 4 more".
std::string Layers(const std::vector<std::string>& layers) {
  const size_t shown = std::min(layers.size(), kMaxLayers);
  std::string text = absl::StrJoin(layers.begin(), layers.begin() + shown, ", ");
  if (shown < layers.size()) absl::StrAppend(&text, " and ", layers.size() - shown, " more");
  return text;
}

std::string Describe(const OperationCost& row) {
  std::string text = absl::StrCat(row.operation, " ", row.types);
  if (!row.attributes.empty()) absl::StrAppend(&text, " (", row.attributes, ")");
  if (!row.layers.empty()) absl::StrAppend(&text, "  in ", Layers(row.layers));
  return text;
}

}  // namespace

std::string OperationTable(const CostTable& table, size_t max_rows) {
  std::string out;
  constexpr char kLine[] = "%10s %7s %6s %9s %8s  %s\n";
  absl::StrAppendFormat(&out, kLine, "ms/step", "% step", "count", "ms each", "GFLOP/s",
                        "operation");
  const auto milliseconds = [](double seconds) { return absl::StrFormat("%.3f", seconds * 1e3); };
  size_t left_out = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const OperationCost& row = table.rows[i];
    if (i >= max_rows) {
      ++left_out;
    } else if (row.seconds < 0) {
      absl::StrAppendFormat(&out, kLine, "not timed", "-", absl::StrCat(row.count), "-", "-",
                            absl::StrCat(Describe(row), ": ", row.not_timed));
    } else {
      absl::StrAppendFormat(&out, kLine, milliseconds(row.total_seconds()),
                            Percent(row.total_seconds(), table.step_seconds),
                            absl::StrCat(row.count), milliseconds(row.seconds), Gigaflops(row),
                            Describe(row));
    }
  }
  if (left_out > 0) absl::StrAppendFormat(&out, "%55d more operations\n", left_out);
  if (table.step_seconds > 0) {
    const double rest = table.step_seconds - SumOf(table);
    absl::StrAppendFormat(&out, kLine, milliseconds(std::max(0.0, rest)),
                          Percent(std::max(0.0, rest), table.step_seconds), "", "", "",
                          kEverythingElse);
    absl::StrAppendFormat(&out, kLine, milliseconds(table.step_seconds), "100.0", "", "", "",
                          "step time, measured on the devices");
    if (rest < 0) {
      absl::StrAppendFormat(
          &out,
          "Timed alone, the operations take %.3f ms more than the step: within it they "
          "find their inputs in the caches.\n",
          -rest * 1e3);
    }
  }
  absl::StrAppend(
      &out,
      "An estimate: each operation was compiled and timed alone, without the operations that a "
      "compiler fuses with it,\nand may be slower or faster within the step.\n");
  return out;
}

std::string OperationsJson(const CostTable& table) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["estimate"] = true;
  json["step_seconds"] = table.step_seconds > 0 ? Json(table.step_seconds) : Json(nullptr);
  json["operations"] = Json::array();
  for (const OperationCost& row : table.rows) {
    Json out = {{"operation", row.operation},
                {"types", row.types},
                {"attributes", row.attributes},
                {"layers", row.layers},
                {"count", row.count}};
    out["flops"] = row.flops > 0 ? Json(row.flops) : Json(nullptr);
    out["seconds"] = row.seconds >= 0 ? Json(row.seconds) : Json(nullptr);
    if (row.seconds < 0) out["not_timed"] = row.not_timed;
    json["operations"].push_back(std::move(out));
  }
  json["everything_else_seconds"] = table.step_seconds > 0
                                        ? Json(std::max(0.0, table.step_seconds - SumOf(table)))
                                        : Json(nullptr);
  return base::DumpJson(json, 2) + "\n";
}

}  // namespace penstock::profile
