#include "penstock/data/dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

void Print(const Dataset::Description& description, std::string* out) {
  for (const auto& input : description.inputs) Print(*input, out);
  absl::StrAppend(out, description.stage->ToString(), "\n");
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
    if (spec.ok()) {
      description->spec = *std::move(spec);
    } else {
      out.status_ = base::WithContext(spec.status(), description->stage->ToString());
    }
  }
  out.description_ = std::move(description);
  return out;
}

Dataset Dataset::From(std::shared_ptr<const Stage> source) { return Make(std::move(source), {}); }

Dataset Dataset::Then(std::shared_ptr<const Stage> stage) const {
  return Make(std::move(stage), {*this});
}

const ElementSpec& Dataset::spec() const { return description_->spec; }

std::string Dataset::ToString() const {
  std::string out;
  Print(*description_, &out);
  return out;
}

}  // namespace penstock::data
