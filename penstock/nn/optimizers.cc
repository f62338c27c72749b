#include "penstock/nn/optimizers.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/config.h"

namespace penstock::nn {
namespace {

using ir::Value;

struct SGDBody : OptimizerBody {
  explicit SGDBody(SGDOptions o = {}) : options(std::move(o)) {}
  absl::string_view class_name() const override { return "SGD"; }
  std::vector<std::string> Slots() const override {
    if (options.momentum == 0) return {};
    return {"momentum"};
  }
  void Fields(Config& config) override {
    config("momentum", options.momentum)("nesterov", options.nesterov);
  }
  absl::Status Check() const override {
    if (options.momentum >= 0 && options.momentum <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("SGD's momentum is within [0, 1], got ", options.momentum));
  }
  OptimizerResult Apply(const OptimizerStep& in) const override {
    const Value move = ir::Convert(in.learning_rate, in.variable.dtype()) * in.gradient;
    if (options.momentum == 0) return {in.variable - move, {}};
    const Value velocity = in.slots[0] * options.momentum - move;
    if (!options.nesterov) return {in.variable + velocity, {velocity}};
    return {in.variable + velocity * options.momentum - move, {velocity}};
  }
  SGDOptions options;
};

struct AdamBody : OptimizerBody {
  explicit AdamBody(AdamOptions o = {}) : options(std::move(o)) {}
  absl::string_view class_name() const override { return "Adam"; }
  std::vector<std::string> Slots() const override {
    if (options.amsgrad) return {"momentum", "velocity", "velocity_hat"};
    return {"momentum", "velocity"};
  }
  void Fields(Config& config) override {
    config("beta_1", options.beta_1)("beta_2", options.beta_2)("epsilon", options.epsilon)(
        "amsgrad", options.amsgrad);
  }
  absl::Status Check() const override {
    for (double beta : {options.beta_1, options.beta_2}) {
      if (!(beta >= 0 && beta < 1)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Adam's betas are within [0, 1), got ", beta));
      }
    }
    return absl::OkStatus();
  }
  OptimizerResult Apply(const OptimizerStep& in) const override {
    const Value t = in.step + 1.0;
    const auto correction = [&](double beta) { return 1.0 - ir::Power(ir::SplatLike(t, beta), t); };
    const Value rate = ir::Convert(
        in.learning_rate * ir::Sqrt(correction(options.beta_2)) / correction(options.beta_1),
        in.variable.dtype());
    const Value m = in.slots[0] + (in.gradient - in.slots[0]) * (1 - options.beta_1);
    const Value v = in.slots[1] + (ir::Square(in.gradient) - in.slots[1]) * (1 - options.beta_2);
    ir::Values slots{m, v};
    if (options.amsgrad) slots.push_back(ir::Maximum(in.slots[2], v));
    return {in.variable - rate * m / (ir::Sqrt(slots.back()) + options.epsilon), slots};
  }
  AdamOptions options;
};

std::shared_ptr<OptimizerBody> MakeBody(absl::string_view class_name) {
  const std::shared_ptr<OptimizerBody> all[] = {std::make_shared<SGDBody>(),
                                                std::make_shared<AdamBody>()};
  for (const auto& body : all) {
    if (absl::AsciiStrToLower(body->class_name()) == absl::AsciiStrToLower(class_name)) return body;
  }
  return nullptr;
}

}  // namespace

ir::TensorType Optimizer::SlotType(const ir::TensorType& variable) {
  const bool narrow = base::IsFloat(variable.dtype) && base::ByteWidth(variable.dtype) < 4;
  return {narrow ? base::DType::kF32 : variable.dtype, variable.shape};
}

OptimizerResult Optimizer::Apply(OptimizerStep in) const {
  const base::DType kept = in.variable.dtype(), wide = SlotType(in.variable.type()).dtype;
  in.variable = ir::Convert(in.variable, wide);
  in.gradient = ir::Convert(in.gradient, wide);
  OptimizerResult result = body_->Apply(in);
  result.variable = ir::Convert(result.variable, kept);
  return result;
}

absl::Status Optimizer::Check() const {
  PENSTOCK_RETURN_IF_ERROR(learning_rate_.Check());
  return body_->Check();
}

nlohmann::ordered_json Optimizer::ToJson() const {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  fields["learning_rate"] = learning_rate_.ToJson();
  Config config = Config::Writer(fields);
  body_->Fields(config);
  return {{"class_name", std::string(class_name())}, {"config", std::move(fields)}};
}

absl::StatusOr<Optimizer> Optimizer::FromJson(const nlohmann::ordered_json& json) {
  if (!json.is_object() || !json.contains("class_name") || !json["class_name"].is_string() ||
      !json.contains("config") || !json["config"].is_object()) {
    return absl::InvalidArgumentError("an optimizer is {\"class_name\", \"config\"}");
  }
  PENSTOCK_ASSIGN_OR_RETURN(Optimizer optimizer, FromName(json["class_name"].get<std::string>()));
  nlohmann::ordered_json fields = json["config"];
  if (fields.contains("learning_rate")) {
    PENSTOCK_ASSIGN_OR_RETURN(optimizer.learning_rate_,
                              Schedule::FromJson(fields["learning_rate"]));
    fields.erase("learning_rate");
  }
  Config config = Config::Reader(fields);
  optimizer.body_->Fields(config);
  if (absl::Status status = config.Finish(); !status.ok()) {
    return base::WithContext(status, optimizer.class_name());
  }
  return optimizer;
}

absl::StatusOr<Optimizer> Optimizer::FromName(absl::string_view name) {
  std::shared_ptr<OptimizerBody> body = MakeBody(name);
  if (body == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no optimizer '", name, "'; there are SGD, Adam"));
  }
  const bool sgd = body->class_name() == "SGD";
  return Optimizer(std::move(body), sgd ? SGDOptions().learning_rate : AdamOptions().learning_rate);
}

Optimizer SGD(const SGDOptions& options) {
  return Optimizer(std::make_shared<SGDBody>(options), options.learning_rate);
}
Optimizer Adam(const AdamOptions& options) {
  return Optimizer(std::make_shared<AdamBody>(options), options.learning_rate);
}

}  // namespace penstock::nn
