#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/engine/row_node.h"
#include "penstock/data/stages/map.h"

namespace penstock::data {
namespace {

absl::Status CheckState(const base::NamedArrays& before, const base::NamedArrays& after) {
  bool same = before.size() == after.size();
  for (size_t i = 0; same && i < before.size(); ++i) {
    const base::Array* array = after.Find(before[i].first);
    same = array != nullptr && array->dtype() == before[i].second.dtype();
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the function changed the state to ", after.ToString(), ", which was ",
                   before.ToString(), "; its names and types must not change"));
}

class ScanStage : public Stage {
 public:
  ScanStage(base::NamedArrays initial_state, ScanFunction function, MapOptions options)
      : initial_state_(std::move(initial_state)),
        function_(std::move(function)),
        options_(std::move(options)) {}

  absl::string_view name() const override { return "Scan"; }
  absl::Status WriteFields(StageFields&) const override {
    return HoldsFunction("use Enumerate or RandomSeed for counters and random keys");
  }
  Varies varies() const override { return CallOf(options_.name); }
  std::string Parameters() const override {
    return absl::StrCat(options_.name, " from ", initial_state_.ToString(),
                        ", C++ of this process");
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (function_ == nullptr) return absl::InvalidArgumentError("there is no function");
    for (const auto& [name, array] : initial_state_) {
      if (array.valid()) continue;
      return absl::InvalidArgumentError(absl::StrCat("the state '", name, "' is not an array"));
    }
    return MapWith(initial_state_)->OutputSpec(inputs);
  }

  // A Map whose function has the state of this pass, done to one element after the other.
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    auto kernels = std::make_shared<FusedKernels>(*context.input_spec);
    PENSTOCK_RETURN_IF_ERROR(
        kernels->Add(*MapWith(initial_state_), context.spec, nullptr, context.seed));
    return MakeRowNode(context, std::move(input), {.name = "Scan", .in_order = true},
                       std::move(kernels));
  }

 private:
  std::shared_ptr<const RowStage> MapWith(const base::NamedArrays& initial_state) const {
    // A copy: a function may write to the arrays of the state, and the next pass begins with the
    // initial ones.
    auto state = std::make_shared<base::NamedArrays>();
    for (const auto& [name, array] : initial_state) state->Append(name, array.Clone());
    return MakeMapStage(
        "Scan",
        [function = function_, state](const base::NamedArrays& in, base::NamedArrays* out) {
          base::NamedArrays next = *state;
          PENSTOCK_RETURN_IF_ERROR(function(in, &next, out));
          PENSTOCK_RETURN_IF_ERROR(CheckState(*state, next));
          *state = std::move(next);
          return absl::OkStatus();
        },
        options_);
  }

  const base::NamedArrays initial_state_;
  const ScanFunction function_;
  const MapOptions options_;
};

}  // namespace

Dataset Dataset::Scan(base::NamedArrays initial_state, ScanFunction function,
                      MapOptions options) const {
  return Then(std::make_shared<ScanStage>(std::move(initial_state), std::move(function),
                                          std::move(options)));
}

}  // namespace penstock::data
