#include "penstock/models/vit.h"

#include <array>

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"
#include "penstock/models/transformer.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// The names of torchvision.models.vision_transformer; those of the dense layers have changed.
constexpr std::array<TorchRow, 9> ViTTorchvisionRows(const char* mlp1, const char* mlp2) {
  return {{
      {"patch_embedding", "conv_proj", TorchLayer::kConv},
      {"class_token", "class_token", TorchLayer::kPositions},
      {"position_embedding", "encoder.pos_embedding", TorchLayer::kPositions},
      {"block#_norm#", "encoder.layers.encoder_layer_{1-1}.ln_{2}", TorchLayer::kNorm},
      {"block#_attention", "encoder.layers.encoder_layer_{1-1}.self_attention",
       TorchLayer::kAttention},
      {"block#_mlp1", mlp1, TorchLayer::kDense},
      {"block#_mlp2", mlp2, TorchLayer::kDense},
      {"norm", "encoder.ln", TorchLayer::kNorm},
      {"predictions", "heads.head", TorchLayer::kDense},
  }};
}
constexpr auto kViTTorchvision = ViTTorchvisionRows("encoder.layers.encoder_layer_{1-1}.mlp.0",
                                                    "encoder.layers.encoder_layer_{1-1}.mlp.3");
// Those of the first releases, and of the files that were published with them.
constexpr auto kViTTorchvisionOld =
    ViTTorchvisionRows("encoder.layers.encoder_layer_{1-1}.mlp.linear_1",
                       "encoder.layers.encoder_layer_{1-1}.mlp.linear_2");

constexpr TorchRow kViTTimm[] = {
    {"patch_embedding", "patch_embed.proj", TorchLayer::kConv},
    {"class_token", "cls_token", TorchLayer::kPositions},
    {"position_embedding", "pos_embed", TorchLayer::kPositions},
    {"block#_norm#", "blocks.{1-1}.norm{2}", TorchLayer::kNorm},
    {"block#_attention", "blocks.{1-1}.attn", TorchLayer::kQkvAttention},
    {"block#_mlp#", "blocks.{1-1}.mlp.fc{2}", TorchLayer::kDense},
    {"norm", "norm", TorchLayer::kNorm},
    {"predictions", "head", TorchLayer::kDense},
};

// The small network of vision_transformer.h has no class token.
constexpr TorchLayout kViTTorch[] = {
    {.name = "torchvision", .rows = kViTTorchvision, .required_layer = "class_token"},
    {.name = "torchvision_old", .rows = kViTTorchvisionOld, .required_layer = "class_token"},
    {.name = "timm", .rows = kViTTimm, .required_layer = "class_token"}};

// A network: the sizes are those of the paper's table 1.
struct ViTRow {
  ModelInfo model;
  int64_t depth, heads, dim;
  int64_t patch_size() const { return model.min_image_size; }
  int64_t mlp_dim() const { return 4 * dim; }
};

constexpr ModelInfo ViTInfo(const char* name, ModelFunction make, int64_t patch_size) {
  return {name, nullptr, make, 224, patch_size, PreprocessMode::kTorch, kImageNet, kViTTorch};
}

constexpr ViTRow kViTs[] = {
    {ViTInfo("vit_b_16", ViTB16, 16), 12, 12, 768},
    {ViTInfo("vit_b_32", ViTB32, 32), 12, 12, 768},
    {ViTInfo("vit_l_16", ViTL16, 16), 24, 16, 1024},
    {ViTInfo("vit_l_32", ViTL32, 32), 24, 16, 1024},
    {ViTInfo("vit_h_14", ViTH14, 14), 32, 16, 1280},
};

// The first of the steps [batch, steps, features], with its axis.
Symbol FirstStep(Symbol x, const std::string& name) {
  if (!x.type().ok()) return x;
  return nn::Cropping1D({.cropping = {0, x.type()->shape.dim(1) - 1}, .name = name})(x);
}

// A learned token in front of the patches: the embedding of a single position, which takes no more
// than the shape from the first patch.
Symbol WithClassToken(Symbol patches) {
  const Symbol token =
      nn::PositionEmbedding({.sequence_length = 1, .initializer = "zeros", .name = "class_token"})(
          FirstStep(patches, "class_token_shape"));
  return nn::Concatenate({.axis = 1, .name = "tokens"})({token, patches});
}

Symbol ViTTop(const internal::ImageNetBuilder& builder, Symbol tokens) {
  const ImageNetOptions& options = builder.options();
  if (options.include_top) {
    const Symbol token = FirstStep(tokens, "class_token_output");
    return builder.Classify(nn::Flatten({.name = "features"})(token));
  }
  if (options.pooling == "avg") return nn::GlobalAveragePooling1D({.name = "avg_pool"})(tokens);
  if (options.pooling == "max") return nn::GlobalMaxPooling1D({.name = "max_pool"})(tokens);
  return tokens;
}

nn::Network ViT(ModelFunction make, const ImageNetOptions& options) {
  const ViTRow& row = internal::RowOf(kViTs, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const auto& image = builder->image().type();
  if (!image.ok()) return nn::Network(image.status());
  const absl::Status fits = internal::CheckPatches(
      row.model.name, {image->shape.begin() + 1, image->shape.end()}, row.patch_size());
  if (!fits.ok()) return nn::Network(fits);
  const Symbol patches = internal::Patches(builder->image(), row.patch_size(), row.dim);
  Symbol x = internal::AddPositions(WithClassToken(patches));
  for (int64_t i = 1; i <= row.depth; ++i) {
    x = internal::TransformerBlock(x, {.heads = row.heads, .mlp_dim = row.mlp_dim()},
                                   absl::StrCat("block", i));
  }
  return builder->Finish(ViTTop(*builder, internal::TransformerNorm(x, "norm")), row.model.name);
}

}  // namespace

nn::Network ViTB16(const ImageNetOptions& options) { return ViT(ViTB16, options); }
nn::Network ViTB32(const ImageNetOptions& options) { return ViT(ViTB32, options); }
nn::Network ViTL16(const ImageNetOptions& options) { return ViT(ViTL16, options); }
nn::Network ViTL32(const ImageNetOptions& options) { return ViT(ViTL32, options); }
nn::Network ViTH14(const ImageNetOptions& options) { return ViT(ViTH14, options); }

std::vector<ModelInfo> internal::ViTs() { return ModelsOf(kViTs); }

}  // namespace penstock::models
