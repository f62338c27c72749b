#include "tests/parity/row.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/save/save.h"

namespace penstock::tests {

using base::Array;
using base::NamedArrays;

const Array& Row::Get(absl::string_view tensor) const {
  const Array* found = tensors.Find(tensor);
  PENSTOCK_CHECK(found != nullptr);
  return *found;
}

NamedArrays Row::Under(absl::string_view prefix) const {
  NamedArrays out;
  for (const auto& [name, array] : tensors) {
    if (absl::StartsWith(name, prefix)) out.Append(absl::StripPrefix(name, prefix), array);
  }
  return out;
}

absl::StatusOr<std::vector<Row>> ReadRows(const std::string& folder) {
  const auto fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(*fs, folder + "/rows.json"));
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights expected,
                            save::ReadWeights(*fs, folder + "/expected.safetensors"));
  std::vector<Row> rows;
  for (const auto& spec : nlohmann::ordered_json::parse(text)) rows.push_back({spec, {}});
  for (const auto& [name, array] : expected.arrays) {
    const size_t slash = name.find('/');
    rows[std::stoul(name)].tensors.Append(name.substr(slash + 1), array);
  }
  return rows;
}

std::string Difference(absl::string_view name, const Array& got, const Array& want,
                       double tolerance, double min_scale) {
  if (got.TypeString() != want.TypeString()) {
    return absl::StrCat(name, " is ", got.TypeString(), ", Keras has ", want.TypeString());
  }
  const Array g = *got.Cast(base::DType::kF64), w = *want.Cast(base::DType::kF64);
  double scale = min_scale, worst = 0;
  for (double v : w.values<double>()) {
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  }
  std::string text;
  for (int64_t i = 0; i < w.num_elements(); ++i) {
    const double x = g.values<double>()[i], y = w.values<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double difference = std::abs(x - y) / scale;
    if (difference <= tolerance || difference <= worst) continue;  // false for NaN
    worst = std::isnan(difference) ? HUGE_VAL : difference;
    text = absl::StrCat(name, ": element ", i, " of ", want.TypeString(), " is ", x, ", Keras has ",
                        y, ", which differs by ", worst, " of the largest");
  }
  return text;
}

}  // namespace penstock::tests
