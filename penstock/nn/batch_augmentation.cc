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

// Rows [begin, end) of uniform numbers [n, batch].
Value Rows(Value uniform, int64_t begin, int64_t end) {
  return ir::SliceAxis(uniform, 0, begin, end);
}
Value Row(Value uniform, int64_t row) {
  return ir::Reshape(Rows(uniform, row, row + 1), {uniform.shape().dim(1)});
}

constexpr int64_t kCandidates = 6, kBetaUniforms = 2 * kCandidates + 2 * (kCandidates + 1);

// f32[batch] numbers X / (X + Y) of Beta(a, a) from uniform numbers [kBetaUniforms, batch] and `a`,
// an f32 scalar above 0. X and Y are of the gamma distribution of shape a; for small a they would
// underflow, so that this computes with their logarithms. Marsaglia and Tsang, A simple method for
// generating gamma variables, 2000: candidates for shape a + 1, of which the first accepted one
// counts. At least 95 % are accepted, so all six are rejected with a probability below 2e-8; then
// the result is the mode.
Value SymmetricBeta(Value uniform, Value a) {
  const int64_t batch = uniform.shape().dim(1);
  const auto in_pairs = [&](int64_t begin, int64_t count) {
    return ir::Reshape(Rows(uniform, begin, begin + 2 * count), {count, 2, batch});
  };
  const Value d = a + (1.0 - 1.0 / 3), c = ir::Rsqrt(9.0 * d);
  // Standard normal; -infinity is rejected.
  const Value x = ir::ErfInv(2.0 * in_pairs(0, kCandidates) - 1.0) * std::sqrt(2.0);
  const Value log_uniform = ir::Log(1.0 - in_pairs(2 * kCandidates, kCandidates + 1));
  const Value root = 1.0 + c * x;
  const Value positive = ir::Greater(root, ir::SplatLike(root, 0));
  const Value log = 3.0 * ir::Log(ir::Select(positive, root, ir::SplatLike(root, 1)));
  const Value bound = 0.5 * ir::Square(x) + d * (1.0 - ir::Exp(log) + log);
  const Value accepted =
      ir::And(positive, ir::Less(ir::SliceAxis(log_uniform, 0, 0, kCandidates), bound));
  Value log_v = ir::Splat(*uniform.graph(), {DType::kF32, Shape({1, 2, batch})}, 0);
  for (int64_t i = kCandidates - 1; i >= 0; --i) {
    log_v =
        ir::Select(ir::SliceAxis(accepted, 0, i, i + 1), ir::SliceAxis(log, 0, i, i + 1), log_v);
  }
  // A gamma variable of shape a + 1 times u^(1/a) is one of shape a.
  const Value log_gamma = log_v + ir::SliceAxis(log_uniform, 0, kCandidates, kCandidates + 1) / a;
  const Value both = ir::Reshape(log_gamma, {2, batch});
  return ir::Sigmoid(Row(both, 0) - Row(both, 1));
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
  int64_t num_uniforms() const override { return kBetaUniforms; }
  Blend Draw(Value uniform, const ir::TensorType&) const override {
    const Value a = ir::Splat(*uniform.graph(), {DType::kF32, {}}, options.alpha);
    return {.share = SymmetricBeta(uniform, a)};
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
  int64_t num_uniforms() const override { return kBetaUniforms + 3; }
  Blend Draw(Value uniform, const ir::TensorType& input) const override {
    const auto& [low, high] = static_cast<const Range&>(options.factor);
    // One number for the batch.
    const Value a =
        ir::Reshape(ir::SliceAxis(Rows(uniform, 0, 1), 1, 0, 1), Shape({})) * (high - low) +
        (low + 1e-6);
    const Value side = ir::Sqrt(1.0 - SymmetricBeta(Rows(uniform, 3, 3 + kBetaUniforms), a));
    const Value box = internal::BoxesOf(input.shape.dim(1), input.shape.dim(2), {side, side},
                                        {Row(uniform, 1), Row(uniform, 2)});
    const Value outside = ir::Convert(ir::Not(box), DType::kF32);
    return {.share = ir::ReduceMean(outside, {1, 2, 3}), .box = box};
  }
  CutMixOptions options;
};

// i32[batch]: a random permutation of the real examples, then of the padding.
Value Partners(Value random, Value mask) {
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
  // Only one augmentation applies, so that all of them can use the same numbers, which come from
  // one draw: it compiles much faster than several.
  const int64_t kinds = static_cast<int64_t>(augmentations.size());
  int64_t numbers = 0;
  for (const BatchAugmentation& each : augmentations)
    numbers = std::max(numbers, each.body().num_uniforms());
  const Value uniform = ir::RandomUniform(key, {DType::kF32, {numbers + 2, rows}});
  MixedBatch mixed;
  mixed.partner = Partners(Row(uniform, numbers), mask);
  const Value drawn = ir::SliceAxis(Rows(uniform, numbers + 1, numbers + 2), 1, 0, 1);
  const Value choice = ir::Floor(ir::Reshape(drawn, Shape({})) * static_cast<double>(kinds));
  Values weights(inputs.size());
  for (int64_t k = 0; k < kinds; ++k) {
    const Blend blend = augmentations[k].body().Draw(uniform, inputs[0].type());
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
