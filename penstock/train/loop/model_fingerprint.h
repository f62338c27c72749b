// Description of the model in a checkpoint, so that a checkpoint of another model is rejected with
// an error that names both. Internal to room train.
#pragma once

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/base/array.h"
#include "penstock/train/objective.h"
#include "penstock/train/state.h"

namespace penstock::train {

// {"network": "resnet20", "parameters": 272474, "optimizer": "SGD", "layers": ["Conv2D(0) {...}"]}.
// A layer's line has its class, the layers before it and the options that affect its outputs.
// Options that only affect training are left out: initializers, regularizers, dropout rates, names,
// rematerialization.
nlohmann::ordered_json ModelFingerprint(const Objective& objective);

// FAILED_PRECONDITION, naming both models, if `saved` is of another network or optimizer. Files of
// earlier versions say of a layer whether it is rematerialized, which makes no difference.
absl::Status CheckFingerprint(const nlohmann::ordered_json& saved, const Objective& objective);

// FAILED_PRECONDITION if `state` lacks entries of the layout, or has others or other types. Names
// that begin with kRunArrays are ignored.
absl::Status CheckStateFits(const StateLayout& layout, const base::NamedArrays& state);

// Prefix of a run's arrays in a checkpoint other than the state.
inline constexpr absl::string_view kRunArrays = "run/";

}  // namespace penstock::train
