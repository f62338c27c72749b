// What a checkpoint tells of the model it is of, so that another one's is refused with both named.
// Internal to room train.
#pragma once

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/base/array.h"
#include "penstock/train/objective.h"
#include "penstock/train/state.h"

namespace penstock::train {

// {"network": "resnet20", "parameters": 272474, "optimizer": "SGD", "layers": ["Conv2D(0) {...}"]}.
// A layer's line has its class, the layers before it and the options that its outputs depend on.
// Options of training alone are left out: initializers, regularizers, rates of dropout, names.
nlohmann::ordered_json ModelFingerprint(const Objective& objective);

// FAILED_PRECONDITION, with both models named, when `saved` is another network or optimizer.
absl::Status CheckFingerprint(const nlohmann::ordered_json& saved,
                              const nlohmann::ordered_json& own);

// FAILED_PRECONDITION when `state` lacks entries of the layout, has others or of other types. Names
// that begin with kRunArrays do not count.
absl::Status CheckStateFits(const StateLayout& layout, const base::NamedArrays& state);

// What a run keeps among the arrays of a checkpoint besides the state.
inline constexpr absl::string_view kRunArrays = "run/";

}  // namespace penstock::train
