// The stage of FromArrays, for sources whose elements are rows of arrays (FromNpy).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/base/array.h"
#include "penstock/data/stage.h"

namespace penstock::data {

// `write_fields`: Stage::WriteFields; null: the arrays cannot travel.
std::shared_ptr<const Stage> MakeFromArrays(
    base::NamedArrays arrays, std::string name,
    std::function<absl::Status(StageFields& out)> write_fields = nullptr);

}  // namespace penstock::data
