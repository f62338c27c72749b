// Modules without parameters: functions with their arguments.
#include "penstock/lazy/nn/modules.h"

namespace penstock::lazy::nn {
namespace {

namespace F = functional;

// One number is the padding of all four sides.
Sizes FourSizes(const Sizes& padding) {
  return padding.size() == 1 ? Sizes(padding.Each(4)) : padding;
}

}  // namespace

FunctionHolder::FunctionHolder(FunctionModule::Function function)
    : ModuleHolder(std::make_shared<FunctionModule>(std::move(function))) {}

Identity::Identity() : FunctionHolder([](const Tensor& x, bool, SourceLocation) { return x; }) {}
Flatten::Flatten(int64_t start_dim, int64_t end_dim)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return flatten(x, start_dim, end_dim, where);
      }) {}
Unflatten::Unflatten(int64_t dim, const Sizes& sizes)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return unflatten(x, dim, sizes, where);
      }) {}
ReLU::ReLU()
    : FunctionHolder([](const Tensor& x, bool, SourceLocation where) { return relu(x, where); }) {}
ReLU6::ReLU6()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::relu6(x, where); }) {}
LeakyReLU::LeakyReLU(double negative_slope)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::leaky_relu(x, negative_slope, where);
      }) {}
ELU::ELU(double alpha)
    : FunctionHolder(
          [=](const Tensor& x, bool, SourceLocation where) { return F::elu(x, alpha, where); }) {}
SELU::SELU()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::selu(x, where); }) {}
CELU::CELU(double alpha)
    : FunctionHolder(
          [=](const Tensor& x, bool, SourceLocation where) { return F::celu(x, alpha, where); }) {}
GELU::GELU(const std::string& approximate)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::gelu(x, approximate, where);
      }) {}
SiLU::SiLU()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::silu(x, where); }) {}
Mish::Mish()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::mish(x, where); }) {}
Hardswish::Hardswish()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::hardswish(x, where); }) {}
Hardsigmoid::Hardsigmoid()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::hardsigmoid(x, where); }) {}
Hardtanh::Hardtanh(double min_val, double max_val)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::hardtanh(x, min_val, max_val, where);
      }) {}
Softplus::Softplus(double beta, double threshold)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::softplus(x, beta, threshold, where);
      }) {}
Softsign::Softsign()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::softsign(x, where); }) {}
LogSigmoid::LogSigmoid()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::logsigmoid(x, where); }) {}
Tanhshrink::Tanhshrink()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return F::tanhshrink(x, where); }) {}
Softshrink::Softshrink(double lambda)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::softshrink(x, lambda, where);
      }) {}
Hardshrink::Hardshrink(double lambda)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::hardshrink(x, lambda, where);
      }) {}
Threshold::Threshold(double threshold, double value)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::threshold(x, threshold, value, where);
      }) {}
Sigmoid::Sigmoid()
    : FunctionHolder(
          [](const Tensor& x, bool, SourceLocation where) { return sigmoid(x, where); }) {}
Tanh::Tanh()
    : FunctionHolder([](const Tensor& x, bool, SourceLocation where) { return tanh(x, where); }) {}
GLU::GLU(int64_t dim)
    : FunctionHolder(
          [=](const Tensor& x, bool, SourceLocation where) { return F::glu(x, dim, where); }) {}
Softmax::Softmax(int64_t dim)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return softmax(x, dim, {}, where);
      }) {}
LogSoftmax::LogSoftmax(int64_t dim)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return log_softmax(x, dim, {}, where);
      }) {}
Softmin::Softmin(int64_t dim)
    : FunctionHolder(
          [=](const Tensor& x, bool, SourceLocation where) { return F::softmin(x, dim, where); }) {}
MaxPool1d::MaxPool1d(const Sizes& kernel_size, const F::MaxPoolOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::max_pool1d(x, kernel_size, options, where);
      }) {}
MaxPool2d::MaxPool2d(const Sizes& kernel_size, const F::MaxPoolOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::max_pool2d(x, kernel_size, options, where);
      }) {}
AvgPool1d::AvgPool1d(const Sizes& kernel_size, const F::AvgPoolOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::avg_pool1d(x, kernel_size, options, where);
      }) {}
AvgPool2d::AvgPool2d(const Sizes& kernel_size, const F::AvgPoolOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::avg_pool2d(x, kernel_size, options, where);
      }) {}
MaxPool3d::MaxPool3d(const Sizes& kernel_size, const F::MaxPoolOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::max_pool3d(x, kernel_size, options, where);
      }) {}
AvgPool3d::AvgPool3d(const Sizes& kernel_size, const F::AvgPoolOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::avg_pool3d(x, kernel_size, options, where);
      }) {}
AdaptiveAvgPool3d::AdaptiveAvgPool3d(const Sizes& output_size)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::adaptive_avg_pool3d(x, output_size, where);
      }) {}
AdaptiveAvgPool1d::AdaptiveAvgPool1d(const Sizes& output_size)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::adaptive_avg_pool1d(x, output_size, where);
      }) {}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(const Sizes& output_size)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::adaptive_avg_pool2d(x, output_size, where);
      }) {}
AdaptiveMaxPool1d::AdaptiveMaxPool1d(const Sizes& output_size)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::adaptive_max_pool1d(x, output_size, where);
      }) {}
AdaptiveMaxPool2d::AdaptiveMaxPool2d(const Sizes& output_size)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::adaptive_max_pool2d(x, output_size, where);
      }) {}
LocalResponseNorm::LocalResponseNorm(int64_t size, double alpha, double beta, double k)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::local_response_norm(x, size, alpha, beta, k, where);
      }) {}
Dropout::Dropout(double p)
    : FunctionHolder([=](const Tensor& x, bool training, SourceLocation where) {
        return F::dropout(x, p, training, where);
      }) {}
Dropout1d::Dropout1d(double p)
    : FunctionHolder([=](const Tensor& x, bool training, SourceLocation where) {
        return F::dropout1d(x, p, training, where);
      }) {}
Dropout2d::Dropout2d(double p)
    : FunctionHolder([=](const Tensor& x, bool training, SourceLocation where) {
        return F::dropout2d(x, p, training, where);
      }) {}
Dropout3d::Dropout3d(double p)
    : FunctionHolder([=](const Tensor& x, bool training, SourceLocation where) {
        return F::dropout3d(x, p, training, where);
      }) {}
AlphaDropout::AlphaDropout(double p)
    : FunctionHolder([=](const Tensor& x, bool training, SourceLocation where) {
        return F::alpha_dropout(x, p, training, where);
      }) {}
ZeroPad2d::ZeroPad2d(const Sizes& padding)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pad(x, FourSizes(padding), "constant", 0, where);
      }) {}
ConstantPad2d::ConstantPad2d(const Sizes& padding, double value)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pad(x, FourSizes(padding), "constant", value, where);
      }) {}
ReflectionPad2d::ReflectionPad2d(const Sizes& padding)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pad(x, FourSizes(padding), "reflect", 0, where);
      }) {}
ReplicationPad2d::ReplicationPad2d(const Sizes& padding)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pad(x, FourSizes(padding), "replicate", 0, where);
      }) {}
ConstantPad1d::ConstantPad1d(const Sizes& padding, double value)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pad(x, padding.size() == 1 ? Sizes(padding.Each(2)) : padding, "constant", value,
                      where);
      }) {}
ReflectionPad1d::ReflectionPad1d(const Sizes& padding)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pad(x, padding.size() == 1 ? Sizes(padding.Each(2)) : padding, "reflect", 0,
                      where);
      }) {}
ChannelShuffle::ChannelShuffle(int64_t groups)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::channel_shuffle(x, groups, where);
      }) {}
PixelShuffle::PixelShuffle(int64_t upscale_factor)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pixel_shuffle(x, upscale_factor, where);
      }) {}
PixelUnshuffle::PixelUnshuffle(int64_t downscale_factor)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::pixel_unshuffle(x, downscale_factor, where);
      }) {}
Upsample::Upsample(const F::InterpolateOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::interpolate(x, options, where);
      }) {}
Unfold::Unfold(const Sizes& kernel_size, const F::UnfoldOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::unfold(x, kernel_size, options, where);
      }) {}

Fold::Fold(const Sizes& output_size, const Sizes& kernel_size, const F::UnfoldOptions& options)
    : FunctionHolder([=](const Tensor& x, bool, SourceLocation where) {
        return F::fold(x, output_size, kernel_size, options, where);
      }) {}

// ---- Losses ----

LossHolder::LossHolder(LossModule::Function function)
    : ModuleHolder(std::make_shared<LossModule>(std::move(function))) {}
Tensor LossHolder::operator()(const Tensor& x, const Tensor& target, SourceLocation where) const {
  return internal::CallForward(*ptr(), x, target, where);
}

CrossEntropyLoss::CrossEntropyLoss(const F::CrossEntropyOptions& options)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::cross_entropy(x, y, options, where);
      }) {}
NLLLoss::NLLLoss(const F::NllLossOptions& options)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::nll_loss(x, y, options, where);
      }) {}
MSELoss::MSELoss(const std::string& reduction)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::mse_loss(x, y, reduction, where);
      }) {}
L1Loss::L1Loss(const std::string& reduction)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::l1_loss(x, y, reduction, where);
      }) {}
SmoothL1Loss::SmoothL1Loss(const std::string& reduction, double beta)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::smooth_l1_loss(x, y, reduction, beta, where);
      }) {}
HuberLoss::HuberLoss(const std::string& reduction, double delta)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::huber_loss(x, y, reduction, delta, where);
      }) {}
BCELoss::BCELoss(const Tensor& weight, const std::string& reduction)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::binary_cross_entropy(x, y, weight, reduction, where);
      }) {}
BCEWithLogitsLoss::BCEWithLogitsLoss(const F::BceWithLogitsOptions& options)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::binary_cross_entropy_with_logits(x, y, options, where);
      }) {}
KLDivLoss::KLDivLoss(const std::string& reduction, bool log_target)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::kl_div(x, y, reduction, log_target, where);
      }) {}
SoftMarginLoss::SoftMarginLoss(const std::string& reduction)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::soft_margin_loss(x, y, reduction, where);
      }) {}
HingeEmbeddingLoss::HingeEmbeddingLoss(double margin, const std::string& reduction)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::hinge_embedding_loss(x, y, margin, reduction, where);
      }) {}
CosineSimilarity::CosineSimilarity(int64_t dim, double eps)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::cosine_similarity(x, y, dim, eps, where);
      }) {}

PairwiseDistance::PairwiseDistance(double p, double eps, bool keepdim)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::pairwise_distance(x, y, p, eps, keepdim, where);
      }) {}
MultiMarginLoss::MultiMarginLoss(const F::MultiMarginOptions& options)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::multi_margin_loss(x, y, options, where);
      }) {}
MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(const Tensor& weight,
                                                   const std::string& reduction)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::multilabel_soft_margin_loss(x, y, weight, reduction, where);
      }) {}
PoissonNLLLoss::PoissonNLLLoss(const F::PoissonNllOptions& options)
    : LossHolder([=](const Tensor& x, const Tensor& y, SourceLocation where) {
        return F::poisson_nll_loss(x, y, options, where);
      }) {}

TripleLossHolder::TripleLossHolder(TripleLossModule::Function function)
    : ModuleHolder(std::make_shared<TripleLossModule>(std::move(function))) {}
Tensor TripleLossHolder::operator()(const Tensor& a, const Tensor& b, const Tensor& c,
                                    SourceLocation where) const {
  return internal::CallForward(*ptr(), a, b, c, where);
}

MarginRankingLoss::MarginRankingLoss(double margin, const std::string& reduction)
    : TripleLossHolder(
          [=](const Tensor& a, const Tensor& b, const Tensor& y, SourceLocation where) {
            return F::margin_ranking_loss(a, b, y, margin, reduction, where);
          }) {}
CosineEmbeddingLoss::CosineEmbeddingLoss(double margin, const std::string& reduction)
    : TripleLossHolder(
          [=](const Tensor& a, const Tensor& b, const Tensor& y, SourceLocation where) {
            return F::cosine_embedding_loss(a, b, y, margin, reduction, where);
          }) {}
TripletMarginLoss::TripletMarginLoss(double margin, double p, double eps,
                                     const std::string& reduction)
    : TripleLossHolder([=](const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           SourceLocation where) {
        return F::triplet_margin_loss(anchor, positive, negative, margin, p, eps, reduction, where);
      }) {}
GaussianNLLLoss::GaussianNLLLoss(const F::GaussianNllOptions& options)
    : TripleLossHolder(
          [=](const Tensor& x, const Tensor& y, const Tensor& variance, SourceLocation where) {
            return F::gaussian_nll_loss(x, y, variance, options, where);
          }) {}

}  // namespace penstock::lazy::nn
