#include "penstock/nn/batch_augmentation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers/boxes.h"
#include "penstock/nn/layers/resize.h"

namespace penstock::nn {
namespace {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

// f32[batch] numbers X / (X + Y) of Beta(a, a), from the logarithms of numbers X and Y of the gamma
// distribution of shape `a`, f32 scalar above 0; for small `a` the numbers themselves would
// underflow. Marsaglia and Tsang, A simple method for generating gamma variables, 2000: candidates
// for shape a + 1, of which the first accepted one counts. At least 95 % are accepted, so all eight
// are rejected with a probability below 1e-10; then the result is the mode.
Value SymmetricBeta(Value key, Value a, int64_t batch) {
  constexpr int64_t kCandidates = 8;
  const Shape all({kCandidates, 2, batch});
  const Value d = a + (1.0 - 1.0 / 3), c = ir::Rsqrt(9.0 * d);
  const Value x = ir::RandomNormal(ir::FoldIn(key, 0u), {DType::kF32, all});
  const Value uniform = 1.0 - ir::RandomUniform(ir::FoldIn(key, 1u),  // above 0
                                                {DType::kF32, Shape({kCandidates + 1, 2, batch})});
  const Value log_uniform = ir::Log(uniform);
  const Value root = 1.0 + c * x;
  const Value positive = ir::Greater(root, ir::SplatLike(root, 0));
  const Value log = 3.0 * ir::Log(ir::Select(positive, root, ir::SplatLike(root, 1)));
  const Value bound = 0.5 * ir::Square(x) + d * (1.0 - ir::Exp(log) + log);
  const Value accepted =
      ir::And(positive, ir::Less(ir::SliceAxis(log_uniform, 0, 0, kCandidates), bound));
  Value log_v = ir::Splat(*key.graph(), {DType::kF32, Shape({1, 2, batch})}, 0);
  for (int64_t i = kCandidates - 1; i >= 0; --i) {
    log_v =
        ir::Select(ir::SliceAxis(accepted, 0, i, i + 1), ir::SliceAxis(log, 0, i, i + 1), log_v);
  }
  // A gamma variable of shape a + 1 times u^(1/a) is one of shape a.
  const Value log_gamma = log_v + ir::SliceAxis(log_uniform, 0, kCandidates, kCandidates + 1) / a;
  const Values both = ir::Split(ir::Reshape(log_gamma, {2, batch}), 2, 0);
  return ir::Reshape(ir::Sigmoid(both[0] - both[1]), {batch});
}

struct MixUpBody : BatchAugmentationBody {
  explicit MixUpBody(MixUpOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "MixUp"; }
  void Fields(Config& config) override { config("alpha", options.alpha); }
  absl::Status Check() const override {
    if (options.alpha > 0 && std::isfinite(options.alpha)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("MixUp's alpha must be above 0, got ", options.alpha));
  }
  bool mixes_images_only() const override { return false; }
  Blend Draw(Value key, const ir::TensorType& input) const override {
    const Value a = ir::Splat(*key.graph(), {DType::kF32, {}}, options.alpha);
    return {.share = SymmetricBeta(key, a, input.shape.dim(0))};
  }
  MixUpOptions options;
};

struct CutMixBody : BatchAugmentationBody {
  explicit CutMixBody(CutMixOptions o = {}) : options(o) {}
  absl::string_view class_name() const override { return "CutMix"; }
  void Fields(Config& config) override { config("factor", options.factor); }
  absl::Status Check() const override {
    const auto& [low, high] = static_cast<const Range&>(options.factor);
    if (low >= 0 && low <= high && high <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "CutMix's factor is a number or a range within [0, 1], got [", low, ", ", high, "]"));
  }
  bool mixes_images_only() const override { return true; }
  Blend Draw(Value key, const ir::TensorType& input) const override {
    const int64_t batch = input.shape.dim(0);
    const Value a = ir::RandomUniform(ir::FoldIn(key, 0u), {DType::kF32, {}}, options.factor.low,
                                      options.factor.high) +
                    1e-6;
    const Value side = ir::Sqrt(1.0 - SymmetricBeta(ir::FoldIn(key, 1u), a, batch));
    const Value box = internal::RandomBoxes(ir::FoldIn(key, 2u), input.shape.dim(1),
                                            input.shape.dim(2), side, side);
    const Value outside = ir::Convert(ir::Not(box), DType::kF32);
    return {.share = ir::ReduceMean(outside, {1, 2, 3}), .box = box};
  }
  CutMixOptions options;
};

// i32[batch]: a random permutation of the real examples, then of the padding.
Value Partners(Value key, Value mask) {
  const Value random = ir::RandomUniform(key, mask.type());  // below 1
  return ir::ArgSort(ir::Select(ir::Greater(mask, ir::SplatLike(mask, 0)), random, random + 1.0));
}

// Weight of the own numbers of an input with `rank` axes; broadcasts to its shape.
Value OwnWeight(const Blend& blend, int rank) {
  if (blend.box.valid()) return ir::Convert(ir::Not(blend.box), DType::kF32);
  std::vector<int64_t> dims(rank, 1);
  dims[0] = blend.share.shape().dim(0);
  return ir::Reshape(blend.share, Shape(dims));
}

template <typename Body>
std::shared_ptr<BatchAugmentationBody> MakeMixing() {
  return std::make_shared<Body>();
}
constexpr struct {
  const char* class_name;
  std::shared_ptr<BatchAugmentationBody> (*make)();
} kAugmentations[] = {{"MixUp", MakeMixing<MixUpBody>}, {"CutMix", MakeMixing<CutMixBody>}};

}  // namespace

BatchAugmentation MixUp(const MixUpOptions& options) {
  return BatchAugmentation(std::make_shared<MixUpBody>(options));
}
BatchAugmentation CutMix(const CutMixOptions& options) {
  return BatchAugmentation(std::make_shared<CutMixBody>(options));
}

MixedBatch MixBatch(const std::vector<BatchAugmentation>& augmentations, Value key,
                    const Values& inputs, Value mask) {
  const int64_t rows = mask.shape().dim(0);
  if (rows < 2) {
    key.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        augmentations[0].class_name(),
        " mixes the examples of a batch, and each replica gets only one; use a batch size of at "
        "least 2 per replica")));
    return {};
  }
  MixedBatch mixed;
  mixed.partner = Partners(ir::FoldIn(key, 0u), mask);
  const ir::TensorType scalar{DType::kI32, {}};
  const int64_t kinds = static_cast<int64_t>(augmentations.size());
  const Value choice = ir::RandomInt(ir::FoldIn(key, 1u), scalar, 0, kinds);
  Values weights(inputs.size());
  for (int64_t k = 0; k < kinds; ++k) {
    const Value own_key = ir::FoldIn(key, static_cast<uint32_t>(2 + k));
    const Blend blend = augmentations[k].body().Draw(own_key, inputs[0].type());
    const Value is_this = ir::Equal(choice, ir::SplatLike(choice, static_cast<double>(k)));
    mixed.share = k == 0 ? blend.share : ir::Select(is_this, blend.share, mixed.share);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value weight = OwnWeight(blend, inputs[i].rank());
      weights[i] = k == 0 ? weight : ir::Select(is_this, weight, weights[i]);
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value own = ir::Convert(inputs[i], DType::kF32);
    const Value other = ir::Convert(ir::Take(inputs[i], mixed.partner, 0), DType::kF32);
    mixed.inputs.push_back(
        internal::ToPixels(weights[i] * own + (1.0 - weights[i]) * other, inputs[i].dtype()));
  }
  return mixed;
}

absl::Status CheckBatchAugmentation(const std::vector<BatchAugmentation>& augmentations,
                                    const std::vector<Network::Port>& inputs) {
  for (const BatchAugmentation& augmentation : augmentations) {
    PENSTOCK_RETURN_IF_ERROR(augmentation.body().Check());
    const absl::string_view name = augmentation.class_name();
    for (const Network::Port& input : inputs) {
      if (base::IsFloat(input.type.dtype) || input.type.dtype == DType::kU8) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, " mixes pixels and other numbers; the network's input '", input.name,
                       "' is ", input.type.ToString(), ", whose integers cannot be mixed"));
    }
    const bool images = inputs.size() == 1 && inputs[0].type.shape.rank() == 4;
    if (augmentation.body().mixes_images_only() && !images) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " needs a network with one input of images, [batch, height, width, channels]; ",
          inputs.size() == 1 ? absl::StrCat("its input is ", inputs[0].type.ToString())
                             : absl::StrCat("it has ", inputs.size(), " inputs")));
    }
  }
  return absl::OkStatus();
}

nlohmann::ordered_json BatchAugmentation::ToJson() const {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  Config config = Config::Writer(fields);
  body_->Fields(config);
  return {{"class_name", std::string(class_name())}, {"config", std::move(fields)}};
}

absl::StatusOr<BatchAugmentation> BatchAugmentation::FromJson(const nlohmann::ordered_json& json) {
  if (!json.is_object() || !json.contains("class_name") || !json["class_name"].is_string() ||
      !json.contains("config") || !json["config"].is_object()) {
    return absl::InvalidArgumentError("a batch augmentation is {\"class_name\", \"config\"}");
  }
  const std::string name = json["class_name"].get<std::string>();
  for (const auto& row : kAugmentations) {
    if (name != row.class_name) continue;
    BatchAugmentation augmentation(row.make());
    Config config = Config::Reader(json["config"]);
    augmentation.body_->Fields(config);
    if (absl::Status status = config.Finish(); !status.ok()) return base::WithContext(status, name);
    PENSTOCK_RETURN_IF_ERROR(augmentation.body_->Check());
    return augmentation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown batch augmentation '", name, "'; available: MixUp, CutMix"));
}

}  // namespace penstock::nn
