// torch.cuda.amp.GradScaler: a loss multiplied by a scale, so that gradients of 16-bit floats do
// not vanish; steps whose gradients are infinite or NaN are skipped and lower the scale.
//
//   amp::GradScaler scaler;
//   {
//     const amp::autocast autocast("float16");
//     loss = F::cross_entropy(model(x), y);
//   }
//   scaler.scale(loss).backward();
//   xm::reduce_gradients(optimizer);                  // in xmp::spawn
//   scaler.unscale_(optimizer);                       // only to clip gradients
//   nn::utils::clip_grad_norm_(model->parameters(), 1);
//   scaler.step(optimizer);
//   scaler.update();
//
// The scale and whether a step is skipped stay on the device: nothing is read, and skipped steps
// are the same program (torch_xla's syncfree optimizers). bfloat16 needs no scale.
#pragma once

#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/lazy/optim/optimizer.h"

namespace penstock::lazy::amp {

struct GradScalerOptions {
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // steps without infinities before the scale grows
  bool enabled = true;             // false: scale and step do nothing else
};
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // outputs times the scale.
  Tensor scale(const Tensor& outputs, SourceLocation where = SourceLocation::Current());
  // Divides the gradients of the optimizer's parameters by the scale; once between updates.
  void unscale_(optim::Optimizer& optimizer, SourceLocation where = SourceLocation::Current());
  // unscale_, unless it was called; then optimizer.step(), unless a gradient is infinite or NaN.
  void step(optim::Optimizer& optimizer, SourceLocation where = SourceLocation::Current());
  // The scale for the next step; default: grows or backs off, by what the steps met.
  void update(std::optional<double> new_scale = {},
              SourceLocation where = SourceLocation::Current());

  bool is_enabled() const { return options_.enabled; }
  absl::StatusOr<double> get_scale() const;  // reads it

  // "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker".
  absl::StatusOr<base::NamedArrays> state_dict() const;
  absl::Status load_state_dict(const base::NamedArrays& state);

 private:
  struct Stage {
    bool stepped = false;
    Tensor found_inf;  // bool scalar
  };
  void MakeState(const Device& device);

  GradScalerOptions options_;
  double initial_tracker_ = 0;
  Tensor scale_, tracker_;  // f32 scalars; undefined before the first scale()
  std::map<const optim::Optimizer*, Stage> stages_;
};

}  // namespace penstock::lazy::amp
