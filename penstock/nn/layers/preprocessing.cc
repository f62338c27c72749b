#include "penstock/nn/layers/preprocessing.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/quantiles.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

struct RescalingLayer : LayerOf<RescalingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Rescaling"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("scale", options_.scale)("offset", options_.offset);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = ir::Convert(OnlyInput(ctx, inputs), DType::kF32);
    if (!x.valid()) return x;
    const Value scale = Along(ctx, x, options_.scale), offset = Along(ctx, x, options_.offset);
    if (!scale.valid() || !offset.valid()) return Value();
    return ir::Convert(x * scale + offset, ctx.compute_dtype());
  }

 private:
  // The numbers along x's last axis.
  static Value Along(CallContext& ctx, const Value& x, const PerChannel& numbers) {
    if (numbers.size() == 1) return ir::SplatLike(x, numbers[0]);
    const int64_t channels = x.rank() == 0 ? 1 : x.shape().dim(-1);
    if (static_cast<int64_t>(numbers.size()) != channels) {
      return ctx.Fail(absl::StrCat("scale and offset have one number or one for each channel; got ",
                                   numbers.size(), " for ", x.type().ToString()));
    }
    Array array = Array::Zeros(DType::kF32, {channels});
    for (size_t i = 0; i < numbers.size(); ++i) {
      array.mutable_data<float>()[i] = static_cast<float>(numbers[i]);
    }
    return ir::Constant(ctx.graph(), array);
  }
};

// Running mean and sum of squared deviations of each feature. Batches are combined as by Chan,
// Golub and LeVeque (Algorithms for computing the sample variance, 1983).
struct RunningMoments {
  std::vector<int64_t> extents;  // of the feature axes
  double count = 0;
  std::vector<double> mean, squares;
};

struct NormalizationLayer : LayerOf<NormalizationOptions>, AdaptableBody {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Normalization"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("axis", options_.axis);
    config.Optional("mean", options_.mean).Optional("variance", options_.variance);
    config("invert", options_.invert);
  }
  KerasForm keras_form() const override {
    if (options_.axis.empty()) return {.numbers = {"mean", "variance"}};
    return {.along_axes = {"mean", "variance"}};
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = ir::Convert(OnlyInput(ctx, inputs), DType::kF32);
    if (!x.valid()) return x;
    std::vector<int64_t> axes;
    if (absl::Status status = FeatureAxes(x.shape(), axes); !status.ok()) {
      return ctx.Fail(status.message());
    }
    std::vector<int64_t> own, broadcast(x.rank(), 1);
    for (int64_t axis : axes) {
      if (axis == 0) return ctx.Fail("axis 0 is the batch, whose size is not known");
      own.push_back(x.shape().dim(static_cast<int>(axis)));
      broadcast[axis] = own.back();
    }
    Value mean, variance;
    if (options_.mean.empty() && options_.variance.empty()) {
      const CallContext::VariableOptions kept{
          .trainable = false, .dtype = DType::kF32, .autocast = false};
      mean = ctx.Variable("mean", Shape(own), "zeros", kept);
      variance = ctx.Variable("variance", Shape(own), "ones", kept);
      ctx.Variable("count", {}, "zeros",
                   {.trainable = false, .dtype = DType::kI32, .autocast = false});
    } else {
      if (options_.mean.size() != options_.variance.size()) {
        return ctx.Fail(absl::StrCat("mean has ", options_.mean.size(), " numbers, variance ",
                                     options_.variance.size()));
      }
      mean = Given(ctx, options_.mean, Shape(own));
      variance = Given(ctx, options_.variance, Shape(own));
    }
    if (!mean.valid() || !variance.valid()) return Value();
    mean = ir::Reshape(mean, Shape(broadcast));
    variance = ir::Reshape(variance, Shape(broadcast));
    const Value deviation = ir::Maximum(ir::Sqrt(variance), ir::SplatLike(variance, 1e-7));
    return ir::Convert(options_.invert ? x * deviation + mean : (x - mean) / deviation,
                       ctx.compute_dtype());
  }

  void StartAdapting() override { seen_ = {}; }
  absl::Status AdaptTo(const Array& batch) override {
    std::vector<int64_t> axes, extents;
    PENSTOCK_RETURN_IF_ERROR(FeatureAxes(batch.shape(), axes));
    for (int64_t axis : axes) extents.push_back(batch.shape().dim(static_cast<int>(axis)));
    if (batch.num_elements() == 0) return absl::OkStatus();
    if (seen_.count > 0 && extents != seen_.extents) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Normalization learns from batches of one shape; this one is ", batch.TypeString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Array numbers, batch.Cast(DType::kF64));
    const std::vector<int64_t> place = FeatureOf(batch.shape(), axes);
    const double* x = numbers.data<double>();
    const int64_t features = Shape(extents).num_elements();
    const int64_t positions = batch.num_elements() / features;
    const auto count = static_cast<double>(positions);
    std::vector<double> mean(features, 0), squares(features, 0);
    for (size_t i = 0; i < place.size(); ++i) mean[place[i]] += x[i] / count;
    for (size_t i = 0; i < place.size(); ++i) {
      const double difference = x[i] - mean[place[i]];
      squares[place[i]] += difference * difference;
    }
    if (seen_.count == 0) {
      seen_ = {extents, count, std::move(mean), std::move(squares)};
      return absl::OkStatus();
    }
    const double total = seen_.count + count;
    for (int64_t f = 0; f < features; ++f) {
      const double apart = mean[f] - seen_.mean[f];
      seen_.mean[f] += apart * count / total;
      seen_.squares[f] += squares[f] + apart * apart * seen_.count * count / total;
    }
    seen_.count = total;
    return absl::OkStatus();
  }
  absl::Status FinishAdapting() override {
    if (seen_.count == 0) return absl::InvalidArgumentError("Normalization has no data");
    options_.mean = seen_.mean;
    options_.variance = seen_.squares;
    for (double& v : options_.variance) v /= seen_.count;
    return absl::OkStatus();
  }

 private:
  absl::Status FeatureAxes(const Shape& shape, std::vector<int64_t>& axes) const {
    for (int64_t axis : options_.axis) {
      const int64_t at = axis < 0 ? axis + shape.rank() : axis;
      if (at < 0 || at >= shape.rank()) {
        return absl::InvalidArgumentError(
            absl::StrCat("axis ", axis, " is not an axis of ", shape.ToString()));
      }
      axes.push_back(at);
    }
    std::sort(axes.begin(), axes.end());
    const auto twice = std::adjacent_find(axes.begin(), axes.end());
    if (twice == axes.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("axis ", *twice, " is repeated"));
  }

  // Index of each element's feature.
  static std::vector<int64_t> FeatureOf(const Shape& shape, const std::vector<int64_t>& axes) {
    std::vector<int64_t> step(shape.rank(), 0);
    int64_t features = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      step[axes[i]] = features;
      features *= shape.dim(static_cast<int>(axes[i]));
    }
    std::vector<int64_t> of{0};
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::vector<int64_t> next;
      next.reserve(of.size() * shape.dim(axis));
      for (int64_t base : of) {
        for (int64_t i = 0; i < shape.dim(axis); ++i) next.push_back(base + i * step[axis]);
      }
      of = std::move(next);
    }
    return of;
  }

  static Value Given(CallContext& ctx, const std::vector<double>& numbers, const Shape& shape) {
    if (numbers.size() == 1) return ir::Splat(ctx.graph(), {DType::kF32, shape}, numbers[0]);
    if (static_cast<int64_t>(numbers.size()) != shape.num_elements()) {
      return ctx.Fail(absl::StrCat("mean and variance have ", numbers.size(), " numbers, the axis ",
                                   shape.num_elements()));
    }
    Array array = Array::Zeros(DType::kF32, shape);
    for (size_t i = 0; i < numbers.size(); ++i) {
      array.mutable_data<float>()[i] = static_cast<float>(numbers[i]);
    }
    return ir::Constant(ctx.graph(), array);
  }

  RunningMoments seen_;
};

// Encodes integers per `mode`, in the layer's compute type; `weights` may be invalid.
Value Encode(CallContext& ctx, Value numbers, const std::string& mode, int64_t depth,
             Value weights) {
  if (mode != "one_hot" && mode != "multi_hot" && mode != "count") {
    return ctx.Fail(
        absl::StrCat("output_mode must be one_hot, multi_hot or count, got \"", mode, "\""));
  }
  const Value whole = ir::Convert(numbers, DType::kI32);
  if (!whole.valid()) return whole;
  const DType dtype = ctx.compute_dtype();
  if (mode == "one_hot") {
    const bool column = whole.rank() > 1 && whole.shape().dim(-1) == 1;
    return ir::OneHot(column ? ir::Squeeze(whole, {-1}) : whole, depth, dtype);
  }
  if (whole.rank() < 2) {
    return ctx.Fail(absl::StrCat("output_mode \"", mode, "\" expects [batch, numbers, ...], got ",
                                 numbers.type().ToString()));
  }
  if (mode == "multi_hot") return ir::ReduceMax(ir::OneHot(whole, depth, dtype), {1});
  Value counted = ir::OneHot(whole, depth, dtype);
  if (weights.valid()) counted = counted * ir::ExpandDims(ir::Convert(weights, dtype), -1);
  return ir::ReduceSum(counted, {1});
}

struct CategoryEncodingLayer : LayerOf<CategoryEncodingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "CategoryEncoding"; }
  void Fields(Config& config) override {
    config("num_tokens", options_.num_tokens)("output_mode", options_.output_mode);
  }
  KerasForm keras_form() const override { return {.arguments = {"count_weights"}}; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (options_.num_tokens <= 0)
      return ctx.Fail(absl::StrCat("num_tokens must be above 0, got ", options_.num_tokens));
    if (inputs.empty() || inputs.size() > 2) {
      return ctx.Fail(absl::StrCat("takes numbers and, optionally, their weights; got ",
                                   inputs.size(), " inputs"));
    }
    if (inputs.size() == 2 && options_.output_mode != "count")
      return ctx.Fail("weights are for output_mode \"count\" alone");
    return Encode(ctx, inputs[0], options_.output_mode, options_.num_tokens,
                  inputs.size() == 2 ? inputs[1] : Value());
  }
};

struct DiscretizationLayer : LayerOf<DiscretizationOptions>, AdaptableBody {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Discretization"; }
  void Fields(Config& config) override {
    config.Optional("bin_boundaries", options_.bin_boundaries);
    config.Optional("num_bins", options_.num_bins);
    config("epsilon", options_.epsilon)("output_mode", options_.output_mode);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    const std::vector<double>& boundaries = options_.bin_boundaries;
    if (boundaries.empty()) {
      return ctx.Fail("has no bin_boundaries: give them, or num_bins and then Adapt");
    }
    if (!std::is_sorted(boundaries.begin(), boundaries.end()))
      return ctx.Fail("bin_boundaries must ascend");
    Array at = Array::Zeros(DType::kF32, {static_cast<int64_t>(boundaries.size())});
    for (size_t i = 0; i < boundaries.size(); ++i) {
      at.mutable_data<float>()[i] = static_cast<float>(boundaries[i]);
    }
    const Value above = ir::GreaterEqual(ir::ExpandDims(ir::Convert(x, DType::kF32), -1),
                                         ir::Constant(ctx.graph(), at));
    const Value index = ir::ReduceSum(ir::Convert(above, DType::kI32), {-1});
    if (options_.output_mode == "int") return index;
    return Encode(ctx, index, options_.output_mode, static_cast<int64_t>(boundaries.size()) + 1,
                  Value());
  }

  void StartAdapting() override { seen_ = internal::QuantileSummary(options_.epsilon); }
  absl::Status AdaptTo(const Array& batch) override {
    if (options_.num_bins <= 0) {
      return absl::InvalidArgumentError("Discretization learns boundaries when num_bins is given");
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Array numbers, batch.Cast(DType::kF32));
    const auto values = numbers.values<float>();
    seen_.Add({values.begin(), values.end()});
    return absl::OkStatus();
  }
  absl::Status FinishAdapting() override {
    if (seen_.empty()) return absl::InvalidArgumentError("Discretization has no data");
    options_.bin_boundaries = seen_.Boundaries(options_.num_bins);
    return absl::OkStatus();
  }

 private:
  internal::QuantileSummary seen_;
};

}  // namespace

Adapter::Adapter(const Layer& layer)
    : layer_(layer), body_(dynamic_cast<AdaptableBody*>(&layer.body())) {
  if (body_ != nullptr) body_->StartAdapting();
}

absl::Status Adapter::CheckLayer() const {
  if (body_ != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      layer_.class_name(), " does not support Adapt; Normalization and Discretization do"));
}

absl::Status Adapter::Update(const Array& batch) {
  PENSTOCK_RETURN_IF_ERROR(CheckLayer());
  return body_->AdaptTo(batch);
}

absl::Status Adapter::Finish() {
  PENSTOCK_RETURN_IF_ERROR(CheckLayer());
  return body_->FinishAdapting();
}

absl::Status Adapt(const Layer& layer, const std::vector<Array>& batches) {
  Adapter adapter(layer);
  for (const Array& batch : batches) PENSTOCK_RETURN_IF_ERROR(adapter.Update(batch));
  return adapter.Finish();
}

Layer Rescaling(const RescalingOptions& options, SourceLocation location) {
  return internal::MakeLayer<RescalingLayer>(options, location);
}
Layer Normalization(const NormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<NormalizationLayer>(options, location);
}
Layer CategoryEncoding(const CategoryEncodingOptions& options, SourceLocation location) {
  return internal::MakeLayer<CategoryEncodingLayer>(options, location);
}
Layer Discretization(const DiscretizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<DiscretizationLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::PreprocessingLayers() {
  static constexpr LayerRow kRows[] = {
      {"Rescaling", MakeDefault<RescalingLayer>},
      {"Normalization", MakeDefault<NormalizationLayer>},
      {"CategoryEncoding", MakeDefault<CategoryEncodingLayer>},
      {"Discretization", MakeDefault<DiscretizationLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
