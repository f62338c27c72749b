// Wrong arguments of every module and function: whatever they are, the result is a tensor that can
// be computed, or an error.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/nn/parameter_vector.h"
#include "penstock/lazy/nn/recurrent.h"
#include "penstock/lazy/nn/transformer.h"
#include "penstock/lazy/optim/clip.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy::hostile_test {

namespace F = nn::functional;
using T = Tensor;

// Draws arguments, most of them wrong.
class Arguments {
 public:
  explicit Arguments(uint64_t seed) : random_(seed) {}

  size_t Below(size_t n) { return random_.Below(n); }
  T Any() {
    switch (Below(12)) {
      case 0:
        return T();
      case 1:
        return Made(DType::kI64);
      case 2:
        return Made(DType::kBool);
      case 3:
        return Made(DType::kBF16);
      default:
        return Made(DType::kF32);
    }
  }
  int64_t Int() {
    static constexpr int64_t kInts[] = {-3,
                                        -1,
                                        -2,
                                        0,
                                        0,
                                        1,
                                        1,
                                        1,
                                        2,
                                        2,
                                        2,
                                        3,
                                        3,
                                        4,
                                        7,
                                        int64_t{1} << 40,
                                        std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::min()};
    return kInts[Below(std::size(kInts))];
  }
  // Without what would be too large to allocate.
  int64_t Small() { return static_cast<int64_t>(Below(7)) - 2; }
  double Number() {
    static constexpr double kNumbers[] = {-1, 0, 0.5, 1, 2, 1e300, -1e300};
    if (Below(8) == 0) return std::numeric_limits<double>::quiet_NaN();
    if (Below(8) == 0) return std::numeric_limits<double>::infinity();
    return kNumbers[Below(std::size(kNumbers))];
  }
  Sizes List() {
    if (Below(2) == 0) return Int();
    std::vector<int64_t> values(Below(5));
    for (int64_t& value : values) value = Int();
    return values;
  }
  Sizes SmallList() {
    std::vector<int64_t> values(1 + Below(3));
    for (int64_t& value : values) value = Small();
    return values;
  }
  bool Flag() { return Below(2) == 0; }
  std::string Reduction() { return std::vector<std::string>{"mean", "sum", "none", "?"}[Below(4)]; }
  Scalar Value() { return Flag() ? Scalar(Number()) : Scalar(Int()); }

 private:
  T Made(DType dtype) {
    std::vector<int64_t> shape(Below(6));
    for (int64_t& size : shape) size = std::vector<int64_t>{0, 1, 2, 2, 3, 4}[Below(6)];
    return tensor(Array::Zeros(dtype, Shape(shape)), test::TestDevice(), dtype == DType::kF32);
  }

  base::Random random_;
};

using Call = std::function<T(Arguments& a)>;
struct Named {
  const char* name;
  Call call;
};

const std::vector<Named>& Functions() {
  using A = Arguments;
#define CALL(name, ...)                         \
  {                                             \
    name, [](A& a) -> T { return __VA_ARGS__; } \
  }
  static const auto* const all = new std::vector<Named>{
      CALL("linear", F::linear(a.Any(), a.Any(), a.Any())),
      CALL("bilinear", F::bilinear(a.Any(), a.Any(), a.Any(), a.Any())),
      CALL("conv1d", F::conv1d(a.Any(), a.Any(), a.Any(), {a.List(), a.List(), a.List(), a.Int()})),
      CALL("conv2d", F::conv2d(a.Any(), a.Any(), a.Any(), {a.List(), a.List(), a.List(), a.Int()})),
      CALL("conv2d same", F::conv2d(a.Any(), a.Any(), {}, {.padding = F::Padding("same")})),
      CALL("conv3d", F::conv3d(a.Any(), a.Any(), a.Any(), {a.List(), a.List(), a.List(), a.Int()})),
      CALL("conv_transpose1d",
           F::conv_transpose1d(a.Any(), a.Any(), a.Any(), {a.List(), a.List(), a.List(), a.Int()})),
      CALL("conv_transpose2d",
           F::conv_transpose2d(a.Any(), a.Any(), a.Any(), {a.List(), a.List(), a.List(), a.Int()})),
      CALL("max_pool1d",
           F::max_pool1d(a.Any(), a.List(), {a.List(), a.List(), a.List(), a.Flag()})),
      CALL("max_pool2d",
           F::max_pool2d(a.Any(), a.List(), {a.List(), a.List(), a.List(), a.Flag()})),
      CALL("avg_pool1d",
           F::avg_pool1d(a.Any(), a.List(), {a.List(), a.List(), a.Flag(), a.Flag()})),
      CALL("avg_pool2d",
           F::avg_pool2d(a.Any(), a.List(), {a.List(), a.List(), a.Flag(), a.Flag()})),
      CALL("adaptive_avg_pool1d", F::adaptive_avg_pool1d(a.Any(), a.List())),
      CALL("adaptive_avg_pool2d", F::adaptive_avg_pool2d(a.Any(), a.List())),
      CALL("adaptive_max_pool1d", F::adaptive_max_pool1d(a.Any(), a.List())),
      CALL("adaptive_max_pool2d", F::adaptive_max_pool2d(a.Any(), a.List())),
      CALL("batch_norm", F::batch_norm(a.Any(), a.Any(), a.Any(),
                                       {a.Any(), a.Any(), a.Flag(), a.Number(), a.Number()})),
      CALL("layer_norm", F::layer_norm(a.Any(), a.List(), a.Any(), a.Any(), a.Number())),
      CALL("group_norm", F::group_norm(a.Any(), a.Int(), a.Any(), a.Any())),
      CALL("instance_norm", F::instance_norm(a.Any(), a.Any(), a.Any())),
      CALL("local_response_norm", F::local_response_norm(a.Any(), a.Int())),
      CALL("normalize", F::normalize(a.Any(), a.Number(), a.Int())),
      CALL("prelu", F::prelu(a.Any(), a.Any())),
      CALL("gelu", F::gelu(a.Any(), "?")),
      CALL("glu", F::glu(a.Any(), a.Int())),
      CALL("softmin", F::softmin(a.Any(), a.Int())),
      CALL("dropout", F::dropout(a.Any(), a.Number())),
      CALL("dropout1d", F::dropout1d(a.Any(), a.Number())),
      CALL("dropout2d", F::dropout2d(a.Any(), a.Number())),
      CALL("alpha_dropout", F::alpha_dropout(a.Any(), a.Number(), true)),
      CALL("embedding", F::embedding(a.Any(), a.Any(), a.Int())),
      CALL("attention", F::scaled_dot_product_attention(a.Any(), a.Any(), a.Any(),
                                                        {a.Any(), a.Number(), a.Flag()})),
      CALL("cross_entropy",
           F::cross_entropy(a.Any(), a.Any(), {a.Any(), a.Int(), a.Reduction(), a.Number()})),
      CALL("nll_loss", F::nll_loss(a.Any(), a.Any(), {a.Any(), a.Int(), a.Reduction()})),
      CALL("mse_loss", F::mse_loss(a.Any(), a.Any(), a.Reduction())),
      CALL("smooth_l1_loss", F::smooth_l1_loss(a.Any(), a.Any(), a.Reduction(), a.Number())),
      CALL("bce", F::binary_cross_entropy(a.Any(), a.Any(), a.Any(), a.Reduction())),
      CALL("bce_logits", F::binary_cross_entropy_with_logits(a.Any(), a.Any(),
                                                             {a.Any(), a.Reduction(), a.Any()})),
      CALL("kl_div", F::kl_div(a.Any(), a.Any(), a.Reduction(), a.Flag())),
      CALL("cosine_similarity", F::cosine_similarity(a.Any(), a.Any(), a.Int())),
      CALL("margin_ranking_loss", F::margin_ranking_loss(a.Any(), a.Any(), a.Any())),
      CALL("cosine_embedding_loss", F::cosine_embedding_loss(a.Any(), a.Any(), a.Any())),
      CALL("triplet_margin_loss", F::triplet_margin_loss(a.Any(), a.Any(), a.Any())),
      CALL("pad", F::pad(a.Any(), a.List(),
                         std::vector<std::string>{"constant", "reflect", "replicate", "circular",
                                                  "?"}[a.Below(5)])),
      CALL("interpolate", F::interpolate(a.Any(), {.size = a.List(),
                                                   .mode = a.Flag() ? "nearest" : "bilinear",
                                                   .align_corners = a.Flag()})),
      CALL("interpolate by scale",
           F::interpolate(a.Any(), {.scale_factor = {a.Number(), a.Number()}, .mode = "bilinear"})),
      CALL("pixel_shuffle", F::pixel_shuffle(a.Any(), a.Int())),
      CALL("pixel_unshuffle", F::pixel_unshuffle(a.Any(), a.Int())),
      CALL("unfold", F::unfold(a.Any(), a.List(), {a.List(), a.List(), a.List()})),
      // Of ops.h.
      CALL("where", where(a.Any(), a.Any(), a.Any())),
      CALL("pow", pow(a.Any(), a.Any())),
      CALL("clamp", clamp(a.Any(), a.Value(), a.Value())),
      CALL("full", full(a.SmallList(), a.Value(), {.device = test::TestDevice()})),
      CALL("zeros", zeros(a.List(), {.device = test::TestDevice()})),
      CALL("arange", arange(a.Value(), a.Value(), a.Value(), {.device = test::TestDevice()})),
      CALL("linspace", linspace(a.Number(), a.Number(), a.Int(), {.device = test::TestDevice()})),
      CALL("eye", eye(a.Int(), a.Int(), {.device = test::TestDevice()})),
      CALL("matmul", matmul(a.Any(), a.Any())),
      CALL("addmm", addmm(a.Any(), a.Any(), a.Any())),
      CALL("einsum", einsum(std::vector<std::string>{"ij,jk->ik", "ii->i", "...i,i", "->", "a,,",
                                                     "i->jj", "-", "ij->", "...->..."}[a.Below(9)],
                            {a.Any(), a.Any()})),
      CALL("sum", sum(a.Any(), a.List())),
      CALL("prod", prod(a.Any(), a.Int())),
      CALL("var", var(a.Any(), a.List())),
      CALL("norm", norm(a.Any(), a.Number(), a.List())),
      CALL("logsumexp", logsumexp(a.Any(), a.List())),
      CALL("argmax", argmax(a.Any(), a.Int())),
      CALL("argmin", argmin(a.Any())),
      CALL("max", max(a.Any(), a.Int()).values),
      CALL("median", median(a.Any(), a.Int()).values),
      CALL("median of all", median(a.Any())),
      CALL("cumsum", cumsum(a.Any(), a.Int())),
      CALL("cumprod", cumprod(a.Any(), a.Int())),
      CALL("topk", topk(a.Any(), a.Int(), a.Int(), a.Flag()).values),
      CALL("sort", sort(a.Any(), a.Int()).indices),
      CALL("cat", cat({a.Any(), a.Any()}, a.Int())),
      CALL("stack", stack({a.Any(), a.Any()}, a.Int())),
      CALL("split", (split(a.Any(), a.Small(), a.Int()), T())),
      CALL("chunk", (chunk(a.Any(), a.Small(), a.Int()), T())),
      CALL("meshgrid", (meshgrid({a.Any(), a.Any()}, a.Flag() ? "ij" : "?"), T())),
      CALL("reshape", reshape(a.Any(), a.List())),
      CALL("flatten", flatten(a.Any(), a.Int(), a.Int())),
      CALL("unflatten", unflatten(a.Any(), a.Int(), a.List())),
      CALL("permute", permute(a.Any(), a.List())),
      CALL("movedim", movedim(a.Any(), a.Int(), a.Int())),
      CALL("expand", expand(a.Any(), a.List())),
      CALL("narrow", narrow(a.Any(), a.Int(), a.Int(), a.Int())),
      CALL("select", select(a.Any(), a.Int(), a.Int())),
      CALL("slice", slice(a.Any(), a.Int(), a.Int(), a.Int(), a.Int())),
      CALL("diagonal", diagonal(a.Any())),
      CALL("repeat", repeat(a.Any(), a.List())),
      CALL("tile", tile(a.Any(), a.List())),
      CALL("repeat_interleave", repeat_interleave(a.Any(), a.Int(), a.Int())),
      CALL("flip", flip(a.Any(), a.List())),
      CALL("roll", roll(a.Any(), a.List(), a.List())),
      CALL("tril", tril(a.Any(), a.Int())),
      CALL("triu", triu(a.Any(), a.Int())),
      CALL("diag", diag(a.Any())),
      CALL("index", index(a.Any(), {a.Any(), Slice{a.Int(), a.Int(), a.Int()}, a.Int()})),
      CALL("index ...", index(a.Any(), {Ellipsis, a.Int(), Ellipsis})),
      CALL("index_select", index_select(a.Any(), a.Int(), a.Any())),
      CALL("gather", gather(a.Any(), a.Int(), a.Any())),
      CALL("take_along_dim", take_along_dim(a.Any(), a.Any(), a.Int())),
      CALL("scatter", scatter(a.Any(), a.Int(), a.Any(), a.Any())),
      CALL("scatter_add", scatter_add(a.Any(), a.Int(), a.Any(), a.Any())),
      CALL("index_add", index_add(a.Any(), a.Int(), a.Any(), a.Any(), a.Value())),
      CALL("one_hot", one_hot(a.Any(), a.Int())),
      CALL("index_put_", a.Any().index_put_({a.Int(), Slice{a.Int()}}, a.Any())),
      CALL("normal_", a.Any().normal_(a.Number(), a.Number())),
      CALL("uniform_", a.Any().uniform_(a.Number(), a.Number())),
      CALL("bernoulli_", a.Any().bernoulli_(a.Number())),
      CALL("fill_", a.Any().fill_(a.Number())),
      CALL("clip_grad_norm_",
           nn::utils::clip_grad_norm_({a.Any(), a.Any()}, a.Number(), a.Number())),
      // Modules.
      CALL("Linear", nn::Linear(a.Small(), a.Small())(a.Any())),
      CALL("Embedding", nn::Embedding(a.Small(), a.Small(), nn::EmbeddingOptions{})(a.Any())),
      CALL("Conv1d", nn::Conv1d(a.Small(), a.Small(), a.SmallList())(a.Any())),
      CALL("Conv2d", nn::Conv2d(a.Small(), a.Small(), a.SmallList(),
                                nn::ConvModuleOptions{.stride = a.SmallList(),
                                                      .groups = a.Small()})(a.Any())),
      CALL("Conv3d", nn::Conv3d(a.Small(), a.Small(), a.SmallList())(a.Any())),
      CALL("ConvTranspose1d", nn::ConvTranspose1d(a.Small(), a.Small(), a.SmallList())(a.Any())),
      CALL("ConvTranspose2d",
           nn::ConvTranspose2d(a.Small(), a.Small(), a.SmallList(),
                               nn::ConvTransposeModuleOptions{.groups = a.Small()})(a.Any())),
      CALL("BatchNorm1d", nn::BatchNorm1d(a.Small())(a.Any())),
      CALL("BatchNorm2d", nn::BatchNorm2d(a.Small())(a.Any())),
      CALL("LayerNorm", nn::LayerNorm(a.SmallList())(a.Any())),
      CALL("GroupNorm", nn::GroupNorm(a.Small(), a.Small())(a.Any())),
      CALL("InstanceNorm2d",
           nn::InstanceNorm2d(a.Small(), nn::InstanceNormOptions{.affine = true})(a.Any())),
      CALL("PReLU", nn::PReLU(a.Small())(a.Any())),
      CALL("LSTM",
           nn::LSTM(a.Small(), a.Small(), nn::RecurrentOptions{.num_layers = a.Small()})(a.Any())
               .output),
      CALL("MultiheadAttention",
           nn::MultiheadAttention(a.Small(), a.Small())(a.Any(), a.Any(), a.Any()).output),
      CALL("TransformerEncoderLayer",
           nn::TransformerEncoderLayer(
               a.Small(), a.Small(),
               nn::TransformerLayerOptions{.dim_feedforward = a.Small()})(a.Any())),
  };
#undef CALL
  return *all;
}

// The same, of functions and modules that fewer programs use.
const std::vector<Named>& OtherFunctions() {
  using A = Arguments;
#define CALL(name, ...)                         \
  {                                             \
    name, [](A& a) -> T { return __VA_ARGS__; } \
  }
  static const auto* const all = new std::vector<Named>{
      CALL("logit", logit(a.Any(), a.Number())),
      CALL("frac", frac(a.Any())),
      CALL("erfinv", erfinv(a.Any())),
      CALL("fmax", fmax(a.Any(), a.Any())),
      CALL("hypot", hypot(a.Any(), a.Any())),
      CALL("isclose", isclose(a.Any(), a.Any(), a.Number(), a.Number(), a.Flag())),
      CALL("isin", isin(a.Any(), a.Any())),
      CALL("addmv", addmv(a.Any(), a.Any(), a.Any(), a.Number(), a.Number())),
      CALL("tensordot", tensordot(a.Any(), a.Any(), a.Int())),
      CALL("tensordot of lists", tensordot(a.Any(), a.Any(), {{a.Int(), a.Int()}, {a.Int()}})),
      CALL("kron", kron(a.Any(), a.Any())),
      CALL("cross", cross(a.Any(), a.Any(), a.Int())),
      CALL("cdist", cdist(a.Any(), a.Any(), a.Number())),
      CALL("nansum", nansum(a.Any(), a.List())),
      CALL("nanmean", nanmean(a.Any(), a.List())),
      CALL("aminmax", aminmax(a.Any(), a.Int(), a.Flag()).first),
      CALL("trace", trace(a.Any())),
      CALL("quantile", quantile(a.Any(), a.Number(), a.Int(), a.Flag(), a.Flag() ? "linear" : "?")),
      CALL("quantile of several",
           quantile(a.Any(), std::vector<double>{0.5, a.Number()}, a.Int(), a.Flag(), "higher")),
      CALL("cummax", cummax(a.Any(), a.Int()).values),
      CALL("cummin", cummin(a.Any(), a.Int()).indices),
      CALL("logcumsumexp", logcumsumexp(a.Any(), a.Int())),
      CALL("kthvalue", kthvalue(a.Any(), a.Int(), a.Int(), a.Flag()).values),
      CALL("hstack", hstack({a.Any(), a.Any()})),
      CALL("vstack", vstack({a.Any(), a.Any()})),
      CALL("dstack", dstack({a.Any(), a.Any()})),
      CALL("swapaxes", swapaxes(a.Any(), a.Int(), a.Int())),
      CALL("broadcast_tensors", (broadcast_tensors({a.Any(), a.Any()}), T())),
      CALL("fliplr", fliplr(a.Any())),
      CALL("flipud", flipud(a.Any())),
      CALL("rot90", rot90(a.Any(), a.Int(), a.List())),
      CALL("diag_embed", diag_embed(a.Any(), a.Int(), a.Int(), a.Int())),
      CALL("index_fill", index_fill(a.Any(), a.Int(), a.Any(), a.Value())),
      CALL("index_copy", index_copy(a.Any(), a.Int(), a.Any(), a.Any())),
      CALL("masked_scatter", masked_scatter(a.Any(), a.Any(), a.Any())),
      CALL("searchsorted", searchsorted(a.Any(), a.Any(), a.Flag())),
      CALL("bucketize", bucketize(a.Any(), a.Any())),
      CALL("bincount", bincount(a.Any(), a.Any(), a.Int())),
      CALL("histc", histc(a.Any(), a.Int(), a.Number(), a.Number())),
      CALL("tril_indices", tril_indices(a.Int(), a.Int(), a.Int(), {.device = test::TestDevice()})),
      CALL("triu_indices", triu_indices(a.Int(), a.Int(), a.Int(), {.device = test::TestDevice()})),
      CALL("new_full", a.Any().new_full(a.SmallList(), a.Value())),
      CALL("view_as", a.Any().view_as(a.Any())),
      CALL("index_copy_", a.Any().index_copy_(a.Int(), a.Any(), a.Any())),
      CALL("masked_scatter_", a.Any().masked_scatter_(a.Any(), a.Any())),
      CALL("rms_norm", F::rms_norm(a.Any(), a.List(), a.Any(), a.Number())),
      CALL("max_pool3d",
           F::max_pool3d(a.Any(), a.List(), {a.List(), a.List(), a.List(), a.Flag()})),
      CALL("avg_pool3d",
           F::avg_pool3d(a.Any(), a.List(), {a.List(), a.List(), a.Flag(), a.Flag()})),
      CALL("adaptive_avg_pool3d", F::adaptive_avg_pool3d(a.Any(), a.List())),
      CALL("dropout3d", F::dropout3d(a.Any(), a.Number())),
      CALL("gumbel_softmax", F::gumbel_softmax(a.Any(), a.Number(), a.Flag(), a.Int())),
      CALL("embedding_bag",
           F::embedding_bag(a.Any(), a.Any(), a.Any(),
                            {a.Flag() ? "sum" : "max", a.Any(), a.Flag(), a.Int()})),
      CALL("pairwise_distance", F::pairwise_distance(a.Any(), a.Any(), a.Number())),
      CALL("multi_margin_loss",
           F::multi_margin_loss(a.Any(), a.Any(), {a.Number(), 1, a.Any(), a.Reduction()})),
      CALL("multilabel_soft_margin_loss",
           F::multilabel_soft_margin_loss(a.Any(), a.Any(), a.Any(), a.Reduction())),
      CALL("poisson_nll_loss",
           F::poisson_nll_loss(a.Any(), a.Any(), {a.Flag(), a.Flag(), 1e-8, a.Reduction()})),
      CALL("gaussian_nll_loss",
           F::gaussian_nll_loss(a.Any(), a.Any(), a.Any(), {a.Flag(), 1e-6, a.Reduction()})),
      CALL("ctc_loss",
           F::ctc_loss(a.Any(), a.Any(), a.Any(), a.Any(), {a.Int(), a.Reduction(), a.Flag()})),
      CALL("interpolate bicubic",
           F::interpolate(a.Any(),
                          {.size = a.List(), .mode = "bicubic", .align_corners = a.Flag()})),
      CALL("interpolate area", F::interpolate(a.Any(), {.size = a.List(), .mode = "area"})),
      CALL("channel_shuffle", F::channel_shuffle(a.Any(), a.Int())),
      CALL("grid_sample", F::grid_sample(a.Any(), a.Any(),
                                         {a.Flag() ? "nearest" : "bilinear",
                                          a.Flag() ? "reflection" : "border", a.Flag()})),
      CALL("affine_grid", F::affine_grid(a.Any(), a.List(), a.Flag())),
      CALL("fold", F::fold(a.Any(), a.List(), a.List(), {a.List(), a.List(), a.List()})),
      CALL("parameters_to_vector", nn::utils::parameters_to_vector({a.Any(), a.Any()})),
      CALL("vector_to_parameters", (nn::utils::vector_to_parameters(a.Any(), {a.Any()}), T())),
      CALL("retain_grad", (a.Any().retain_grad(), T())),
      // Modules.
      CALL("Bilinear", nn::Bilinear(a.Small(), a.Small(), a.Small())(a.Any(), a.Any())),
      CALL("EmbeddingBag", nn::EmbeddingBag(a.Small(), a.Small())(a.Any(), a.Any())),
      CALL("RMSNorm", nn::RMSNorm(a.SmallList())(a.Any())),
      CALL("SyncBatchNorm", nn::SyncBatchNorm(a.Small())(a.Any())),
      CALL("RNNCell", nn::RNNCell(a.Small(), a.Small())(a.Any(), a.Any())),
      CALL("GRUCell", nn::GRUCell(a.Small(), a.Small())(a.Any())),
      CALL("LSTMCell", nn::LSTMCell(a.Small(), a.Small())(a.Any(), a.Any(), a.Any()).first),
      CALL("ConstantPad1d", nn::ConstantPad1d(a.SmallList(), 1)(a.Any())),
      CALL("ParameterList", nn::ParameterList({a.Any(), a.Any()})[a.Below(3)]),
  };
#undef CALL
  return *all;
}

// Whatever is wrong is an error, and what is no error can be differentiated and computed.
TEST(Hostile, WrongArgumentsAreErrors) {
  for (base::RandomCases cases(4); cases.Next();) {
    Arguments arguments(cases.seed());
    Tensors computed;
    std::vector<Named> functions = Functions();
    functions.insert(functions.end(), OtherFunctions().begin(), OtherFunctions().end());
    for (const auto& [name, call] : functions) {
      SCOPED_TRACE(testing::Message() << cases.Describe() << " " << name);
      const T result = call(arguments);
      const absl::Status error = Recorder::OfThread().TakeError();
      EXPECT_THAT(std::string(error.message()), testing::Not(testing::HasSubstr("internal")));
      if (!error.ok() || !result.defined() || result.numel() > 100000) continue;
      if (result.requires_grad()) {
        sum(result).backward({}, true);
        const absl::Status failed = Recorder::OfThread().TakeError();
        EXPECT_TRUE(failed.ok()) << result.ToString() << " " << failed;
      }
      computed.push_back(result);
    }
    const absl::Status ran = xm::mark_step();
    EXPECT_TRUE(ran.ok()) << ran;
    if (testing::Test::HasFailure()) break;
  }
}

TEST(Hostile, AttentionWithInvalidOptionsIsAnErrorWhenItIsCalled) {
  nn::MultiheadAttention attention(4, 3);
  EXPECT_FALSE(xm::mark_step().ok());
  const T x = test::Make({1, 1, 4}, {0, 0, 0, 0});
  EXPECT_FALSE(attention(x, x, x).output.defined());
  EXPECT_THAT(test::ErrorOf(x), testing::HasSubstr("made with invalid options"));
}

TEST(Hostile, PixelShuffleByAHugeFactorIsAnError) {
  const T x = test::Make({1, 4, 1, 1}, {1, 2, 3, 4});
  EXPECT_FALSE(F::pixel_shuffle(x, int64_t{1} << 40).defined());
  EXPECT_THAT(test::ErrorOf(x), testing::HasSubstr("upscale_factor"));
}

}  // namespace penstock::lazy::hostile_test
