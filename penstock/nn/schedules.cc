#include "penstock/nn/schedules.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"

namespace penstock::nn {
namespace {

using ir::Value;

Value Like(Value v, double number) { return ir::SplatLike(v, number); }

struct ConstantRate : ScheduleBody {
  explicit ConstantRate(double v = 0) : value(v) {}
  absl::string_view class_name() const override { return "Constant"; }
  absl::Status Check() const override {
    if (std::isfinite(value) && value >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("a learning rate must be 0 or above, got ", value));
  }
  Value At(Value step) const override { return Like(step, value); }
  void Fields(Config& config) override { config("learning_rate", value); }
  double value;
};

struct Piecewise : ScheduleBody {
  explicit Piecewise(PiecewiseConstantDecayOptions o = {}) : options(std::move(o)) {}
  absl::string_view class_name() const override { return "PiecewiseConstantDecay"; }
  absl::Status Check() const override {
    if (options.values.size() != options.boundaries.size() + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "PiecewiseConstantDecay expects one more value than boundaries; got ",
          options.values.size(), " values and ", options.boundaries.size(), " boundaries"));
    }
    for (size_t i = 1; i < options.boundaries.size(); ++i) {
      if (options.boundaries[i] <= options.boundaries[i - 1]) {
        return absl::InvalidArgumentError("PiecewiseConstantDecay's boundaries must ascend");
      }
    }
    return absl::OkStatus();
  }
  Value At(Value step) const override {
    Value rate = Like(step, options.values.back());
    for (size_t i = options.boundaries.size(); i-- > 0;) {
      rate = ir::Select(ir::LessEqual(step, Like(step, options.boundaries[i])),
                        Like(step, options.values[i]), rate);
    }
    return rate;
  }
  void Fields(Config& config) override {
    config("boundaries", options.boundaries)("values", options.values);
  }
  PiecewiseConstantDecayOptions options;
};

absl::Status CheckSteps(absl::string_view class_name, const char* option, int64_t steps) {
  if (steps > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(class_name, "'s ", option, " must be above 0, got ", steps));
}

// step / steps, rounded down with `staircase`.
Value Fraction(Value step, int64_t steps, bool staircase = false) {
  const Value fraction = step / static_cast<double>(steps);
  return staircase ? ir::Floor(fraction) : fraction;
}

struct Exponential : ScheduleBody {
  explicit Exponential(ExponentialDecayOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "ExponentialDecay"; }
  absl::Status Check() const override {
    return CheckSteps(class_name(), "decay_steps", options.decay_steps);
  }
  Value At(Value step) const override {
    const Value exponent = Fraction(step, options.decay_steps, options.staircase);
    return ir::Power(Like(step, options.decay_rate), exponent) * options.initial_learning_rate;
  }
  void Fields(Config& config) override {
    config("initial_learning_rate", options.initial_learning_rate)(
        "decay_steps", options.decay_steps)("decay_rate", options.decay_rate)("staircase",
                                                                              options.staircase);
  }
  ExponentialDecayOptions options;
};

struct InverseTime : ScheduleBody {
  explicit InverseTime(InverseTimeDecayOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "InverseTimeDecay"; }
  absl::Status Check() const override {
    return CheckSteps(class_name(), "decay_steps", options.decay_steps);
  }
  Value At(Value step) const override {
    const Value done = Fraction(step, options.decay_steps, options.staircase);
    return options.initial_learning_rate / (done * options.decay_rate + 1.0);
  }
  void Fields(Config& config) override {
    config("initial_learning_rate", options.initial_learning_rate)(
        "decay_steps", options.decay_steps)("decay_rate", options.decay_rate)("staircase",
                                                                              options.staircase);
  }
  InverseTimeDecayOptions options;
};

struct Polynomial : ScheduleBody {
  explicit Polynomial(PolynomialDecayOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "PolynomialDecay"; }
  absl::Status Check() const override {
    return CheckSteps(class_name(), "decay_steps", options.decay_steps);
  }
  Value At(Value step) const override {
    Value steps = Like(step, static_cast<double>(options.decay_steps));
    if (options.cycle) {
      const Value times = ir::Ceil(Fraction(step, options.decay_steps));
      steps = steps * ir::Maximum(times, Like(step, 1));
    } else {
      step = ir::Minimum(step, steps);
    }
    // A quotient of equal numbers may be above 1, and a power of a negative number is NaN.
    const Value left =
        ir::Power(ir::Maximum(1.0 - step / steps, Like(step, 0)), Like(step, options.power));
    const double end = options.end_learning_rate;
    return left * (options.initial_learning_rate - end) + end;
  }
  void Fields(Config& config) override {
    config("initial_learning_rate", options.initial_learning_rate)(
        "decay_steps", options.decay_steps)("end_learning_rate", options.end_learning_rate)(
        "power", options.power)("cycle", options.cycle);
  }
  PolynomialDecayOptions options;
};

// From 1 to 0 as `done` goes from 0 to 1.
Value HalfCosine(Value done) { return (ir::Cos(done * M_PI) + 1.0) * 0.5; }

struct Cosine : ScheduleBody {
  explicit Cosine(CosineDecayOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "CosineDecay"; }
  absl::Status Check() const override {
    if (options.warmup_steps < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CosineDecay's warmup_steps must be 0 or above, got ", options.warmup_steps));
    }
    return CheckSteps(class_name(), "decay_steps", options.decay_steps);
  }
  Value At(Value step) const override {
    const bool warms = options.warmup_target.has_value();
    const double peak = options.warmup_target.value_or(options.initial_learning_rate);
    const double warmup = warms ? static_cast<double>(options.warmup_steps) : 0;
    const double decay = static_cast<double>(options.decay_steps);
    const Value done = ir::Clamp(Like(step, 0), step - warmup, Like(step, decay)) / decay;
    const Value decayed = (HalfCosine(done) * (1 - options.alpha) + options.alpha) * peak;
    if (warmup == 0) return decayed;
    const Value rising =
        step / warmup * (peak - options.initial_learning_rate) + options.initial_learning_rate;
    return ir::Select(ir::Less(step, Like(step, warmup)), rising, decayed);
  }
  void Fields(Config& config) override {
    config("initial_learning_rate", options.initial_learning_rate)(
        "decay_steps", options.decay_steps)("alpha", options.alpha)(
        "warmup_target", options.warmup_target)("warmup_steps", options.warmup_steps);
  }
  CosineDecayOptions options;
};

struct Restarts : ScheduleBody {
  explicit Restarts(CosineDecayRestartsOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "CosineDecayRestarts"; }
  absl::Status Check() const override {
    if (!(options.t_mul >= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("CosineDecayRestarts's t_mul must be 1 or above, got ", options.t_mul));
    }
    return CheckSteps(class_name(), "first_decay_steps", options.first_decay_steps);
  }
  Value At(Value step) const override {
    Value done = Fraction(step, options.first_decay_steps);
    Value restart;  // number of restarts so far
    if (options.t_mul == 1) {
      restart = ir::Floor(done);
      done = done - restart;
    } else {
      const double t = options.t_mul;
      const Value base = Like(step, t);
      // The restarts are at the sums of the geometric series 1, t, t^2...
      restart = ir::Floor(ir::Log(1.0 - done * (1 - t)) / ir::Log(base));
      const Value length = ir::Power(base, restart);
      done = (done - (1.0 - length) / (1 - t)) / length;
    }
    const Value height = ir::Power(Like(step, options.m_mul), restart);
    return (height * HalfCosine(done) * (1 - options.alpha) + options.alpha) *
           options.initial_learning_rate;
  }
  void Fields(Config& config) override {
    config("initial_learning_rate", options.initial_learning_rate)(
        "first_decay_steps", options.first_decay_steps)("t_mul", options.t_mul)(
        "m_mul", options.m_mul)("alpha", options.alpha);
  }
  CosineDecayRestartsOptions options;
};

struct OneCycleBody : ScheduleBody {
  explicit OneCycleBody(OneCycleOptions o = {}) : options(std::move(o)) {}
  absl::string_view class_name() const override { return "OneCycle"; }
  // Learning rate at a step; linear (or cosine) in between.
  struct Corner {
    double step, rate;
  };
  std::vector<Corner> Corners() const {
    const double peak = options.max_learning_rate, first = peak / options.div_factor;
    const double steps = static_cast<double>(options.total_steps);
    std::vector<Corner> corners{{0, first}, {options.pct_start * steps - 1, peak}};
    if (options.three_phase) corners.push_back({2 * options.pct_start * steps - 2, first});
    corners.push_back({steps - 1, first / options.final_div_factor});
    return corners;
  }
  absl::Status Check() const override {
    PENSTOCK_RETURN_IF_ERROR(CheckSteps(class_name(), "total_steps", options.total_steps));
    if (options.anneal_strategy != "cos" && options.anneal_strategy != "linear") {
      return absl::InvalidArgumentError(absl::StrCat(
          "OneCycle's anneal_strategy must be cos or linear, got '", options.anneal_strategy, "'"));
    }
    if (!(options.div_factor > 0 && options.final_div_factor > 0)) {
      return absl::InvalidArgumentError(
          "OneCycle's div_factor and final_div_factor must be above 0");
    }
    const std::vector<Corner> corners = Corners();
    for (size_t i = 1; i < corners.size(); ++i) {
      if (!(corners[i].step > corners[i - 1].step)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "OneCycle's pct_start of ", options.pct_start, " leaves a phase without steps"));
      }
    }
    return absl::OkStatus();
  }
  Value At(Value step) const override {
    const std::vector<Corner> corners = Corners();
    Value rate = Like(step, corners.back().rate);
    for (size_t i = corners.size(); i-- > 1;) {
      const auto& [begin, from] = corners[i - 1];
      const auto& [end, to] = corners[i];
      const Value done = (step - begin) / (end - begin);
      const Value left = options.anneal_strategy == "cos" ? HalfCosine(done) : 1.0 - done;
      rate = ir::Select(ir::LessEqual(step, Like(step, end)), left * (from - to) + to, rate);
    }
    return rate;
  }
  void Fields(Config& config) override {
    config("max_learning_rate", options.max_learning_rate)("total_steps", options.total_steps)(
        "pct_start", options.pct_start)("anneal_strategy", options.anneal_strategy)(
        "div_factor", options.div_factor)("final_div_factor", options.final_div_factor)(
        "three_phase", options.three_phase);
  }
  OneCycleOptions options;
};

struct Warm : ScheduleBody {
  explicit Warm(WarmUpOptions o = {}, Schedule s = 0.0) : options(o), then(std::move(s)) {}
  absl::string_view class_name() const override { return "WarmUp"; }
  absl::Status Check() const override {
    if (options.steps <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("WarmUp's steps must be above 0, got ", options.steps));
    }
    return then.Check();
  }
  Value At(Value step) const override {
    const double steps = static_cast<double>(options.steps);
    const Value rising =
        (step / steps * (1 - options.start) + options.start) * then.At(Like(step, 0));
    const Value after = then.At(ir::Maximum(step - steps, Like(step, 0)));
    return ir::Select(ir::Less(step, Like(step, steps)), rising, after);
  }
  void Fields(Config& config) override { config("steps", options.steps)("start", options.start); }
  Schedule* inner() override { return &then; }
  WarmUpOptions options;
  Schedule then;
};

template <typename Body>
std::shared_ptr<ScheduleBody> Make() {
  return std::make_shared<Body>();
}
constexpr std::shared_ptr<ScheduleBody> (*kSchedules[])() = {
    Make<Exponential>, Make<InverseTime>, Make<Polynomial>,   Make<Piecewise>,
    Make<Cosine>,      Make<Restarts>,    Make<OneCycleBody>, Make<Warm>,
};

std::shared_ptr<ScheduleBody> MakeBody(absl::string_view class_name) {
  for (const auto make : kSchedules) {
    if (auto body = make(); body->class_name() == class_name) return body;
  }
  return nullptr;
}

}  // namespace

Schedule::Schedule(double constant) : body_(std::make_shared<ConstantRate>(constant)) {}

bool Schedule::is_constant() const {
  return dynamic_cast<const ConstantRate*>(body_.get()) != nullptr;
}

double Schedule::constant() const {
  PENSTOCK_CHECK(is_constant());
  return static_cast<const ConstantRate&>(*body_).value;
}

nlohmann::ordered_json Schedule::ToJson() const {
  if (is_constant()) return constant();
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  Config config = Config::Writer(fields);
  body_->Fields(config);
  if (Schedule* inner = body_->inner()) fields["then"] = inner->ToJson();
  return {{"class_name", std::string(body_->class_name())}, {"config", std::move(fields)}};
}

absl::StatusOr<Schedule> Schedule::FromJson(const nlohmann::ordered_json& json) {
  if (json.is_number()) return Schedule(json.get<double>());
  if (!json.is_object() || !json.contains("class_name") || !json["class_name"].is_string() ||
      !json.contains("config") || !json["config"].is_object()) {
    return absl::InvalidArgumentError(
        "a learning rate is a number or {\"class_name\", \"config\"}");
  }
  const std::string class_name = json["class_name"];
  std::shared_ptr<ScheduleBody> body = MakeBody(class_name);
  if (body == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown schedule '", class_name, "'; available: ", absl::StrJoin(ScheduleNames(), ", ")));
  }
  nlohmann::ordered_json fields = json["config"];
  if (Schedule* inner = body->inner()) {
    if (!fields.contains("then"))
      return absl::InvalidArgumentError("WarmUp lacks 'then', the schedule after the warm-up");
    PENSTOCK_ASSIGN_OR_RETURN(*inner, FromJson(fields["then"]));
    fields.erase("then");
  }
  Config config = Config::Reader(fields);
  body->Fields(config);
  if (absl::Status status = config.Finish(); !status.ok())
    return base::WithContext(status, class_name);
  return Schedule(std::move(body));
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const auto make : kSchedules) names.emplace_back(make()->class_name());
  return names;
}

Schedule ExponentialDecay(const ExponentialDecayOptions& options) {
  return Schedule(std::make_shared<Exponential>(options));
}
Schedule InverseTimeDecay(const InverseTimeDecayOptions& options) {
  return Schedule(std::make_shared<InverseTime>(options));
}
Schedule PolynomialDecay(const PolynomialDecayOptions& options) {
  return Schedule(std::make_shared<Polynomial>(options));
}
Schedule CosineDecayRestarts(const CosineDecayRestartsOptions& options) {
  return Schedule(std::make_shared<Restarts>(options));
}
Schedule OneCycle(const OneCycleOptions& options) {
  return Schedule(std::make_shared<OneCycleBody>(options));
}
Schedule PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& options) {
  return Schedule(std::make_shared<Piecewise>(options));
}
Schedule CosineDecay(const CosineDecayOptions& options) {
  return Schedule(std::make_shared<Cosine>(options));
}
Schedule WarmUp(const WarmUpOptions& options, Schedule then) {
  return Schedule(std::make_shared<Warm>(options, std::move(then)));
}

}  // namespace penstock::nn
