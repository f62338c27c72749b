// Losses and metrics.
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"

#include "tests/parity/kinds.h"

namespace penstock::tests {

absl::Status BuildLoss(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const nn::Loss loss,
      nn::Loss::FromJson({{"class_name", row.spec["loss"]}, {"config", row.spec["config"]}}));
  PENSTOCK_ASSIGN_OR_RETURN(const base::DType dtype,
                            base::DTypeFromName(row.spec["dtype"].get<std::string>()));
  const auto optional = [&](const char* name) {
    return row.Has(name) ? builder.Input(row.Get(name)) : ir::Value();
  };
  const ir::Value y_true = builder.Input(row.Get("y_true")),
                  y_pred = ir::Convert(builder.Input(row.Get("y_pred")), dtype),
                  weights = optional("sample_weight"), mask = optional("mask");
  const ir::Value reduced = loss(y_true, y_pred, weights, mask);
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  builder.Expect("loss", reduced, row.Get("loss"));
  builder.Expect("loss of each example", loss.PerExample(y_true, y_pred, mask), row.Get("each"));
  if (row.Has("gradient")) {
    const ir::Value gradient = ir::Gradients(ir::ReduceSum(reduced), {y_pred})[0];
    builder.Expect("gradient", ir::Convert(gradient, base::DType::kF32), row.Get("gradient"));
  }
  const std::string& reduction = loss.reduction();
  if (reduction != "none" && (!weights.valid() || weights.rank() == 1)) {
    const nn::LossTerms terms = loss.Terms({.y_true = y_true, .y_pred = y_pred, .mask = mask});
    const ir::Value sum = ir::ReduceSum(weights.valid() ? terms.sum * weights : terms.sum);
    const bool by_weight = reduction == "mean_with_sample_weight" && weights.valid();
    const ir::Value count = ir::ReduceSum(by_weight ? terms.count * weights : terms.count);
    // 0 if all weights are 0, as in training.
    const ir::Value nothing = ir::Equal(count, ir::SplatLike(count, 0));
    const ir::Value divisor = ir::Select(nothing, ir::SplatLike(count, 1), count);
    builder.Expect("loss from terms", reduction == "sum" ? sum * terms.values : sum / divisor,
                   row.Get("loss"));
  }
  return absl::OkStatus();
}

absl::Status BuildMetric(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Metric metric, nn::Metric::FromJson(row.spec["metric"]));
  PENSTOCK_ASSIGN_OR_RETURN(const base::DType dtype,
                            base::DTypeFromName(row.spec["dtype"].get<std::string>()));
  const ir::TensorType predictions{dtype, row.Get("y_pred/0").shape()};
  ir::Values states;
  for (const ir::TensorType& type : metric.States(predictions)) {
    states.push_back(ir::Splat(builder.graph(), type, 0));
  }
  for (int batch = 0; row.Has(absl::StrCat("y_pred/", batch)); ++batch) {
    const auto input = [&](absl::string_view name) {
      const std::string tensor = absl::StrCat(name, "/", batch);
      return row.Has(tensor) ? builder.Input(row.Get(tensor)) : ir::Value();
    };
    const ir::Value y_pred = ir::Convert(input("y_pred"), dtype);
    const ir::Values added = metric.Update(input("y_true"), y_pred, input("weights"));
    PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
    for (size_t i = 0; i < states.size(); ++i) states[i] = states[i] + added[i];
  }
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  builder.Expect("result", metric.Result(states), row.Get("result"));
  return absl::OkStatus();
}

}  // namespace penstock::tests
