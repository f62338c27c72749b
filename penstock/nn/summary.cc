#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "penstock/nn/network.h"

namespace penstock::nn {
namespace {

std::string WithCommas(int64_t n) {
  std::string digits = absl::StrCat(n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(digits.begin() + i, ',');
  return digits;
}

std::string ShapeText(const Shape& shape) {
  std::vector<std::string> extents;
  for (int64_t d : shape) extents.push_back(d < 0 ? "None" : absl::StrCat(d));
  return absl::StrCat("(", absl::StrJoin(extents, ", "), ")");
}

// As Keras: a layer of several outputs has a list.
std::string ShapesText(const std::vector<TensorType>& types) {
  if (types.size() == 1) return ShapeText(types[0].shape);
  std::vector<std::string> shapes;
  for (const TensorType& type : types) shapes.push_back(ShapeText(type.shape));
  return absl::StrCat("[", absl::StrJoin(shapes, ", "), "]");
}

std::string SizeText(int64_t bytes) {
  if (bytes < 1 << 10) return absl::StrCat(bytes, " B");
  if (bytes < 1 << 20) return absl::StrFormat("%.2f KB", bytes / 1024.0);
  if (bytes < 1 << 30) return absl::StrFormat("%.2f MB", bytes / 1048576.0);
  return absl::StrFormat("%.2f GB", bytes / 1073741824.0);
}

std::string TotalLine(absl::string_view what, const std::vector<VariableSpec>& variables,
                      bool trainable, bool other) {
  int64_t count = 0, bytes = 0;
  for (const VariableSpec& v : variables) {
    if (v.trainable ? !trainable : !other) continue;
    const int64_t n = v.type.shape.num_elements();
    count += n;
    bytes += n * base::ByteWidth(v.type.dtype);
  }
  return absl::StrFormat(" %s params: %s (%s)\n", what, WithCommas(count), SizeText(bytes));
}

}  // namespace

std::string Network::Summary() const {
  if (!status_.ok()) return absl::StrCat("Model: \"", name_, "\" (", status_.message(), ")\n");
  std::vector<std::vector<std::string>> rows{
      {"Layer (type)", "Output Shape", "Param #", "Connected to"}};
  // Keras leaves the last column out when the layers are a plain chain.
  bool chain = true;
  for (size_t i = 0; i < uses_.size(); ++i) {
    const Use& use = uses_[i];
    int64_t count = 0;
    bool first_use = true;
    for (size_t j = 0; j < i; ++j) first_use = first_use && uses_[j].name != use.name;
    const std::string prefix = absl::StrCat(use.name, "/");
    for (const VariableSpec& v : variables_) {
      if (first_use && v.name.compare(0, prefix.size(), prefix) == 0)
        count += v.type.shape.num_elements();
    }
    std::vector<std::string> from;
    for (const Use::From& input : use.inputs) from.push_back(uses_[input.use].name);
    chain = chain && (i == 0 ? use.inputs.empty()
                             : use.inputs == std::vector<Use::From>{{static_cast<int>(i) - 1}});
    const std::string class_name =
        use.layer.valid() ? std::string(use.layer.class_name()) : "InputLayer";
    rows.push_back({absl::StrCat(use.name, " (", class_name, ")"), ShapesText(use.types),
                    WithCommas(count), absl::StrJoin(from, ", ")});
  }
  const size_t columns = chain ? 3 : 4;
  std::vector<size_t> widths(columns);
  for (const auto& row : rows) {
    for (size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out = absl::StrCat("Model: \"", name_, "\"\n"), rule;
  for (size_t w : widths) absl::StrAppend(&rule, std::string(w + 2, '-'));
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string fill(widths[c] - rows[r][c].size(), ' ');
      absl::StrAppend(&line, " ", c == 2 ? fill : "", rows[r][c], c == 2 ? "" : fill, " ");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n", r == 0 ? absl::StrCat(rule, "\n") : "");
  }
  absl::StrAppend(&out, rule, "\n", TotalLine("Total", variables_, true, true),
                  TotalLine("Trainable", variables_, true, false),
                  TotalLine("Non-trainable", variables_, false, true));
  return out;
}

}  // namespace penstock::nn
