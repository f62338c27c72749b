#include "penstock/nn/schedules.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"

namespace penstock::nn {
namespace {

using ir::Value;

Value Like(Value v, double number) { return ir::SplatLike(v, number); }

struct Constant : ScheduleBody {
  explicit Constant(double v = 0) : value(v) {}
  absl::string_view class_name() const override { return "Constant"; }
  absl::Status Check() const override {
    if (std::isfinite(value) && value >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a learning rate is 0 or above, got ", value));
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
          "PiecewiseConstantDecay takes one value more than boundaries; got ",
          options.values.size(), " values and ", options.boundaries.size(), " boundaries"));
    }
    for (size_t i = 1; i < options.boundaries.size(); ++i) {
      if (options.boundaries[i] <= options.boundaries[i - 1]) {
        return absl::InvalidArgumentError("PiecewiseConstantDecay's boundaries must rise");
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

struct Cosine : ScheduleBody {
  explicit Cosine(CosineDecayOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "CosineDecay"; }
  absl::Status Check() const override {
    if (options.decay_steps > 0 && options.warmup_steps >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("CosineDecay's decay_steps must be above 0, got ", options.decay_steps));
  }
  Value At(Value step) const override {
    const bool warms = options.warmup_steps > 0;
    const double peak = warms ? options.warmup_target : options.initial_learning_rate;
    const double warmup = static_cast<double>(options.warmup_steps),
                 decay = static_cast<double>(options.decay_steps);
    const Value done =
        ir::Clamp(Like(step, 0), step - (warms ? warmup : 0.0), Like(step, decay)) / decay;
    const Value cosine = (ir::Cos(done * M_PI) + 1.0) * 0.5;
    const Value decayed = (cosine * (1 - options.alpha) + options.alpha) * peak;
    if (!warms) return decayed;
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

std::shared_ptr<ScheduleBody> MakeBody(absl::string_view class_name) {
  const std::shared_ptr<ScheduleBody> all[] = {
      std::make_shared<Constant>(), std::make_shared<Piecewise>(), std::make_shared<Cosine>(),
      std::make_shared<Warm>()};
  for (const auto& body : all) {
    if (body->class_name() == class_name) return body;
  }
  return nullptr;
}

}  // namespace

Schedule::Schedule(double constant) : body_(std::make_shared<Constant>(constant)) {}

bool Schedule::is_constant() const { return dynamic_cast<const Constant*>(body_.get()) != nullptr; }

double Schedule::constant() const {
  PENSTOCK_CHECK(is_constant());
  return static_cast<const Constant&>(*body_).value;
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
    return absl::NotFoundError(
        absl::StrCat("there is no schedule '", class_name,
                     "'; there are PiecewiseConstantDecay, CosineDecay, WarmUp"));
  }
  nlohmann::ordered_json fields = json["config"];
  if (Schedule* inner = body->inner()) {
    if (!fields.contains("then"))
      return absl::InvalidArgumentError("WarmUp lacks the schedule after it, 'then'");
    PENSTOCK_ASSIGN_OR_RETURN(*inner, FromJson(fields["then"]));
    fields.erase("then");
  }
  Config config = Config::Reader(fields);
  body->Fields(config);
  if (absl::Status status = config.Finish(); !status.ok())
    return base::WithContext(status, class_name);
  return Schedule(std::move(body));
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
