#include "penstock/lazy/functional/reduction.h"

#include "absl/strings/str_cat.h"

#include "penstock/lazy/record.h"

namespace penstock::lazy::nn::functional {

std::string WrongReduction(absl::string_view reduction, bool batch_mean) {
  if (reduction == "mean" || reduction == "sum" || reduction == "none" ||
      (batch_mean && reduction == "batchmean")) {
    return "";
  }
  return absl::StrCat("reduction must be \"mean\", \"sum\"", batch_mean ? ", \"batchmean\"" : "",
                      " or \"none\", got \"", reduction, "\"");
}

bool KnownReduction(absl::string_view name, absl::string_view reduction, SourceLocation where,
                    bool batch_mean) {
  const std::string wrong = WrongReduction(reduction, batch_mean);
  if (wrong.empty()) return true;
  FailOp(name, {}, wrong, where);
  return false;
}

ir::Value Reduced(ir::Value losses, absl::string_view reduction) {
  if (reduction == "none" || !losses.valid()) return losses;
  return reduction == "sum" ? ir::ReduceSum(losses) : ir::ReduceMean(losses);
}

}  // namespace penstock::lazy::nn::functional
