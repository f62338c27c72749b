#include "penstock/session/train/learning_rate.h"

#include <numbers>

#include "absl/strings/str_cat.h"

namespace penstock::session::train {
namespace {

Tensor AddSchedule(const char* type, const ::penstock::nn::Schedule& schedule, const Tensor& step,
                   absl::string_view name, SourceLocation where) {
  if (const absl::Status status = schedule.Check(); !status.ok()) {
    return FailOp({step}, type, status.message(), where);
  }
  return AddOp(type, {step}, name, where, [schedule](const ir::Values& in) {
    return schedule.At(ir::Convert(in[0], DType::kF32));
  });
}

}  // namespace

Tensor FromSchedule(const ::penstock::nn::Schedule& schedule, const Tensor& global_step,
                    absl::string_view name, SourceLocation where) {
  return AddSchedule("Schedule", schedule, global_step, name, where);
}

Tensor ExponentialDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                        double decay_rate, bool staircase, absl::string_view name,
                        SourceLocation where) {
  return AddSchedule("ExponentialDecay",
                     ::penstock::nn::ExponentialDecay({.initial_learning_rate = learning_rate,
                                                       .decay_steps = decay_steps,
                                                       .decay_rate = decay_rate,
                                                       .staircase = staircase}),
                     global_step, name, where);
}

Tensor PiecewiseConstant(const Tensor& x, const std::vector<double>& boundaries,
                         const std::vector<double>& values, absl::string_view name,
                         SourceLocation where) {
  return AddSchedule(
      "PiecewiseConstant",
      ::penstock::nn::PiecewiseConstantDecay({.boundaries = boundaries, .values = values}), x, name,
      where);
}

Tensor PolynomialDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                       double end_learning_rate, double power, bool cycle, absl::string_view name,
                       SourceLocation where) {
  return AddSchedule("PolynomialDecay",
                     ::penstock::nn::PolynomialDecay({.initial_learning_rate = learning_rate,
                                                      .decay_steps = decay_steps,
                                                      .end_learning_rate = end_learning_rate,
                                                      .power = power,
                                                      .cycle = cycle}),
                     global_step, name, where);
}

Tensor NaturalExpDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                       double decay_rate, bool staircase, absl::string_view name,
                       SourceLocation where) {
  if (decay_steps <= 0) {
    return FailOp({global_step}, "NaturalExpDecay",
                  absl::StrCat("decay_steps must be above 0, got ", decay_steps), where);
  }
  // Not a power of exp(-decay_rate): see learning_rate.h.
  return AddOp("NaturalExpDecay", {global_step}, name, where, [=](const ir::Values& in) {
    const ir::Value done = ir::Convert(in[0], DType::kF32) / static_cast<double>(decay_steps);
    const ir::Value exponent = staircase ? ir::Floor(done) : done;
    return ir::Exp(exponent * -decay_rate) * learning_rate;
  });
}

Tensor InverseTimeDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                        double decay_rate, bool staircase, absl::string_view name,
                        SourceLocation where) {
  return AddSchedule("InverseTimeDecay",
                     ::penstock::nn::InverseTimeDecay({.initial_learning_rate = learning_rate,
                                                       .decay_steps = decay_steps,
                                                       .decay_rate = decay_rate,
                                                       .staircase = staircase}),
                     global_step, name, where);
}

Tensor CosineDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                   double alpha, absl::string_view name, SourceLocation where) {
  return AddSchedule(
      "CosineDecay",
      ::penstock::nn::CosineDecay(
          {.initial_learning_rate = learning_rate, .decay_steps = decay_steps, .alpha = alpha}),
      global_step, name, where);
}

Tensor CosineDecayRestarts(double learning_rate, const Tensor& global_step,
                           int64_t first_decay_steps, double t_mul, double m_mul, double alpha,
                           absl::string_view name, SourceLocation where) {
  return AddSchedule("CosineDecayRestarts",
                     ::penstock::nn::CosineDecayRestarts({.initial_learning_rate = learning_rate,
                                                          .first_decay_steps = first_decay_steps,
                                                          .t_mul = t_mul,
                                                          .m_mul = m_mul,
                                                          .alpha = alpha}),
                     global_step, name, where);
}

Tensor LinearCosineDecay(double learning_rate, const Tensor& global_step, int64_t decay_steps,
                         double num_periods, double alpha, double beta, absl::string_view name,
                         SourceLocation where) {
  if (decay_steps <= 0) {
    return FailOp({global_step}, "LinearCosineDecay", "decay_steps must be above 0", where);
  }
  return AddOp("LinearCosineDecay", {global_step}, name, where, [=](const ir::Values& in) {
    const ir::Value given = ir::Convert(in[0], DType::kF32);
    const ir::Value end = ir::SplatLike(given, static_cast<double>(decay_steps));
    const ir::Value step = ir::Minimum(given, end);
    const ir::Value linear = (end - step) / end;
    const ir::Value cosine =
        (ir::Cos(step / end * (2 * std::numbers::pi * num_periods)) + 1.0) * 0.5;
    return ((linear + alpha) * cosine + beta) * learning_rate;
  });
}

}  // namespace penstock::session::train
