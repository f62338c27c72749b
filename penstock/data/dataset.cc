#include "penstock/data/dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/data/report.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// The text identifies a cache, so no two pipelines may have the same text: inputs of a stage that
// has several are distinguished, and a line is a stage whatever its parameters contain.
void Print(const Dataset::Description& description, int indent, std::string* out) {
  const bool several = description.inputs.size() > 1;
  const std::string space(2 * static_cast<size_t>(indent), ' ');
  for (size_t i = 0; i < description.inputs.size(); ++i) {
    if (several) absl::StrAppend(out, space, "input ", i, ":\n");
    Print(*description.inputs[i], indent + (several ? 1 : 0), out);
  }
  if (const std::string* printed = description.stage->printed(); printed != nullptr) {
    for (absl::string_view line : absl::StrSplit(absl::StripSuffix(*printed, "\n"), '\n')) {
      absl::StrAppend(out, space, line, "\n");
    }
    return;
  }
  absl::StrAppend(
      out, space,
      absl::StrReplaceAll(description.stage->ToString(), {{"\\", "\\\\"}, {"\n", "\\n"}}), "\n");
}

// Adds the nodes of a description to the graph; returns the number of the last one.
int Draw(const Dataset::Description& description, int* stages, std::string* out) {
  std::vector<int> inputs;
  for (const auto& input : description.inputs) inputs.push_back(Draw(*input, stages, out));
  const int number = (*stages)++;
  absl::StrAppend(out, "  s", number, " [label=\"", DotQuoted(description.stage->ToString()), "\\n",
                  DotQuoted(description.spec.ToString()), "\"];\n");
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StrAppend(out, "  s", inputs[i], " -> s", number,
                    inputs.size() > 1 ? absl::StrCat(" [label=\"", i, "\"]") : "", ";\n");
  }
  return number;
}

}  // namespace

Dataset Dataset::Make(std::shared_ptr<const Stage> stage, std::vector<Dataset> inputs) {
  auto description = std::make_shared<Description>();
  description->stage = std::move(stage);
  Dataset out;
  std::vector<ElementSpec> specs;
  for (Dataset& input : inputs) {
    if (out.status_.ok()) out.status_ = input.status_;
    specs.push_back(input.description_->spec);
    description->inputs.push_back(std::move(input.description_));
  }
  if (out.status_.ok()) {
    auto spec = description->stage->OutputSpec(specs);
    out.status_ = spec.ok() ? CheckColumns(*spec) : spec.status();
    if (out.status_.ok()) {
      description->spec = *std::move(spec);
    } else {
      out.status_ = base::WithContext(out.status_, description->stage->ToString());
    }
  }
  out.description_ = std::move(description);
  return out;
}

Dataset Dataset::Of(std::shared_ptr<const Description> description) {
  Dataset out;
  out.description_ = std::move(description);
  return out;
}

Dataset Dataset::From(std::shared_ptr<const Stage> source) { return Make(std::move(source), {}); }

Dataset Dataset::Then(std::shared_ptr<const Stage> stage) const {
  return Make(std::move(stage), {*this});
}

Dataset Dataset::Mistaken(absl::Status status) const {
  Dataset out = *this;
  if (out.status_.ok()) out.status_ = std::move(status);
  return out;
}

const ElementSpec& Dataset::spec() const { return description_->spec; }

std::string Dataset::ToString() const {
  std::string out;
  Print(*description_, 0, &out);
  return out;
}

std::string Dataset::Dot() const {
  std::string out =
      "digraph dataset {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n";
  int stages = 0;
  Draw(*description_, &stages, &out);
  return out + "}\n";
}

}  // namespace penstock::data
