// Map's stage, for other stages that apply a user-defined function (Scan).
#pragma once

#include <memory>
#include <string>

#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"

namespace penstock::data {

std::shared_ptr<const RowStage> MakeMapStage(std::string name, MapFunction function,
                                             MapOptions options);

}  // namespace penstock::data
