// Losses, metrics, schedules and optimizers.
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/optimizers.h"
#include "penstock/nn/schedules.h"

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
  const bool is_mean = loss.reduction() == "sum_over_batch_size" || loss.reduction() == "mean";
  if (is_mean && (!weights.valid() || weights.rank() == 1)) {
    const nn::LossTerms terms = loss.Terms({.y_true = y_true, .y_pred = y_pred, .mask = mask});
    const ir::Value sum = weights.valid() ? terms.sum * weights : terms.sum;
    builder.Expect("quotient of sums", ir::ReduceSum(sum) / ir::ReduceSum(terms.count),
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

absl::Status BuildSchedule(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Schedule schedule,
                            nn::Schedule::FromJson(row.spec["schedule"]));
  PENSTOCK_RETURN_IF_ERROR(schedule.Check());
  const ir::Value steps = builder.Input(row.Get("steps"));
  ir::Values rates;
  for (int64_t i = 0; i < steps.shape().dim(0); ++i) {
    const ir::Value step = ir::Reshape(ir::SliceAxis(steps, 0, i, i + 1), {});
    rates.push_back(ir::Reshape(schedule.At(step), {1}));
  }
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  builder.Expect("rates", ir::Concatenate(rates, 0), row.Get("rates"));
  return absl::OkStatus();
}

absl::Status BuildOptimizer(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Optimizer optimizer,
                            nn::Optimizer::FromJson(row.spec["optimizer"]));
  PENSTOCK_RETURN_IF_ERROR(optimizer.Check());
  ir::Graph& graph = builder.graph();
  for (int i = 0; row.Has(absl::StrCat("start/", i)); ++i) {
    ir::Value variable = builder.Input(row.Get(absl::StrCat("start/", i)));
    ir::Values slots(optimizer.Slots().size(), ir::SplatLike(variable, 0));
    for (int step = 0; row.Has(absl::StrCat("gradient/", step, "/", i)); ++step) {
      const std::string at = absl::StrCat("/", step, "/", i);
      const ir::Value count = ir::Splat(graph, {base::DType::kF32, {}}, step);
      nn::OptimizerResult result =
          optimizer.Apply({.variable = variable,
                           .gradient = builder.Input(row.Get("gradient" + at)),
                           .slots = slots,
                           .learning_rate = optimizer.learning_rate().At(count),
                           .step = count});
      variable = result.variable;
      slots = std::move(result.slots);
      PENSTOCK_RETURN_IF_ERROR(graph.status());
      builder.Expect(absl::StrCat("variable ", i, " after step ", step), variable,
                     row.Get("value" + at));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::tests
