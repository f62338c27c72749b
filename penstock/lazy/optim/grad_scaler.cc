#include "penstock/lazy/optim/grad_scaler.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/ops.h"
#include "penstock/lazy/optim/state_parts.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy::amp {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (options.init_scale > 0 && options.growth_factor > 1 && options.backoff_factor > 0 &&
      options.backoff_factor < 1 && options.growth_interval > 0) {
    return;
  }
  FailThread(absl::InvalidArgumentError(
      "GradScaler: init_scale and growth_interval must be above 0, growth_factor above 1, "
      "backoff_factor between 0 and 1"));
}

void GradScaler::MakeState(const Device& device) {
  if (scale_.defined()) return;
  scale_ = scalar_tensor(options_.init_scale, DType::kF32, device);
  tracker_ = scalar_tensor(initial_tracker_, DType::kF32, device);
}

Tensor GradScaler::scale(const Tensor& outputs, SourceLocation where) {
  if (!options_.enabled || !outputs.defined()) return outputs;
  MakeState(outputs.device());
  return Record("scale", {outputs, scale_}, where, [](const Values& in) {
    // As PyTorch, in float32: the scale may be larger than float16's numbers.
    return ir::Convert(in[0], DType::kF32) * in[1];
  });
}

void GradScaler::unscale_(optim::Optimizer& optimizer, SourceLocation where) {
  if (!options_.enabled) return;
  Stage& stage = stages_[&optimizer];
  if (stage.found_inf.defined() || stage.stepped) {
    FailOp("unscale_", {},
           "it was already called for this optimizer, or after step(), since the last update()",
           where);
    return;
  }
  Tensors gradients;
  for (const Tensor& parameter : optimizer.parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty() || !scale_.defined()) {
    FailOp("unscale_", {}, "no parameter has a gradient of a loss that was scaled", where);
    return;
  }
  const no_grad guard;
  Tensors inputs = gradients;
  inputs.push_back(scale_);
  const Tensors made = RecordAll("unscale_", inputs, where, [](const Values& in) {
    Values out;
    const Value inverse = 1.0 / in.back();
    for (size_t i = 0; i + 1 < in.size(); ++i) {
      const Value wide =
          ir::Convert(in[i], in[i].dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
      out.push_back(ir::Convert(wide * ir::Convert(inverse, wide.dtype()), in[i].dtype()));
    }
    out.push_back(ir::Not(ir::AllFinite(out)));
    return out;
  });
  if (made.size() != inputs.size()) return;
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].copy_(made[i], where);
  stage.found_inf = made.back();
}

void GradScaler::step(optim::Optimizer& optimizer, SourceLocation where) {
  if (!options_.enabled) return optimizer.step(where);
  if (stages_[&optimizer].stepped) {
    FailOp("step", {}, "it was already called for this optimizer since the last update()", where);
    return;
  }
  if (!stages_[&optimizer].found_inf.defined()) unscale_(optimizer, where);
  Stage& stage = stages_[&optimizer];
  if (!stage.found_inf.defined()) return;  // an error of the thread
  optimizer.step_unless(stage.found_inf, where);
  stage.stepped = true;
}

void GradScaler::update(std::optional<double> new_scale, SourceLocation where) {
  if (!options_.enabled) return;
  const no_grad guard;
  Tensors inputs{scale_, tracker_};
  for (const auto& [optimizer, stage] : stages_) {
    if (stage.found_inf.defined()) inputs.push_back(stage.found_inf);
  }
  stages_.clear();
  if (new_scale && scale_.defined()) {
    scale_.copy_(scalar_tensor(*new_scale, DType::kF32, scale_.device()), where);
    return;
  }
  if (inputs.size() == 2) {
    FailOp("update", {}, "no gradients were checked since the last update(); call step() first",
           where);
    return;
  }
  const Tensors made = RecordAll("update", inputs, where, [&](const Values& in) {
    Value found = in[2];
    for (size_t i = 3; i < in.size(); ++i) found = ir::Or(found, in[i]);
    const Value count = in[1] + 1.0, zero = SplatLike(count, 0);
    const Value due =
        ir::GreaterEqual(count, SplatLike(count, static_cast<double>(options_.growth_interval)));
    const Value grown = in[0] * options_.growth_factor;
    const Value grows = ir::And(due, ir::IsFinite(grown));
    const Value next = ir::Select(grows, grown, in[0]);
    return Values{ir::Select(found, in[0] * options_.backoff_factor, next),
                  ir::Select(ir::Or(found, due), zero, count)};
  });
  if (made.size() != 2) return;
  scale_.copy_(made[0], where);
  tracker_.copy_(made[1], where);
}

absl::StatusOr<double> GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  if (!scale_.defined()) return options_.init_scale;
  PENSTOCK_ASSIGN_OR_RETURN(const float value, scale_.item<float>());
  return value;
}

absl::StatusOr<base::NamedArrays> GradScaler::state_dict() const {
  if (!options_.enabled) return base::NamedArrays();
  PENSTOCK_ASSIGN_OR_RETURN(const double scale, get_scale());
  double tracker = initial_tracker_;
  if (tracker_.defined()) {
    PENSTOCK_ASSIGN_OR_RETURN(tracker, tracker_.item<float>());
  }
  return base::NamedArrays{
      {"scale", Array::Scalar(scale)},
      {"growth_factor", Array::Scalar(options_.growth_factor)},
      {"backoff_factor", Array::Scalar(options_.backoff_factor)},
      {"growth_interval", Array::Scalar<int64_t>(options_.growth_interval)},
      {"_growth_tracker", Array::Scalar<int64_t>(static_cast<int64_t>(tracker))}};
}

absl::Status GradScaler::load_state_dict(const base::NamedArrays& state) {
  if (!options_.enabled) return absl::OkStatus();
  GradScalerOptions loaded = options_;
  PENSTOCK_ASSIGN_OR_RETURN(loaded.init_scale, optim::NumberIn("GradScaler", state, "scale"));
  PENSTOCK_ASSIGN_OR_RETURN(loaded.growth_factor,
                            optim::NumberIn("GradScaler", state, "growth_factor"));
  PENSTOCK_ASSIGN_OR_RETURN(loaded.backoff_factor,
                            optim::NumberIn("GradScaler", state, "backoff_factor"));
  PENSTOCK_ASSIGN_OR_RETURN(const double interval,
                            optim::NumberIn("GradScaler", state, "growth_interval"));
  PENSTOCK_ASSIGN_OR_RETURN(const double tracker,
                            optim::NumberIn("GradScaler", state, "_growth_tracker"));
  if (!(loaded.init_scale > 0) || !(interval >= 1 && interval < 1e15) || !(tracker >= 0)) {
    return absl::InvalidArgumentError("GradScaler: the state's numbers are no scale and counts");
  }
  loaded.growth_interval = static_cast<int64_t>(interval);
  options_ = loaded;
  initial_tracker_ = tracker;
  scale_ = tracker_ = Tensor();  // the next scale() creates them
  stages_.clear();
  return absl::OkStatus();
}

}  // namespace penstock::lazy::amp
