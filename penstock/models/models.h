// Room models: predefined networks. Depends on base and nn.
//
//   nn::Network net = models::ResNetCifar({.depth = 20, .classes = 10, .rescale = 1 / 255.0});
//   PENSTOCK_RETURN_IF_ERROR(net.status());
//
// Each network has one input "image" (or "x", or "tokens") and returns logits, without a softmax:
// use a loss with from_logits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/nn/network.h"

namespace penstock::models {

// Multilayer perceptron: dense layers with one activation, then logits.
struct MlpOptions {
  std::vector<int64_t> input_shape = {4};  // flattened if it has several axes
  base::DType input_dtype = base::DType::kF32;
  std::vector<int64_t> hidden = {128};
  int64_t classes = 10;
  nn::ActivationFunction activation = "relu";
  double rescale = 1;  // applied to the input
};
nn::Network Mlp(const MlpOptions& options = {});

// ResNet for CIFAR (He et al.: Deep residual learning for image recognition, 2015, section 4.2): 6n
// + 2 layers in three stages of n blocks with 16, 32 and 64 filters. A 1x1 convolution on the
// shortcut adapts it to a change of shape. Depth 20, 32, 56, or any other 6n + 2; other depths are
// an error of the network.
struct ResNetCifarOptions {
  int64_t depth = 20;
  std::vector<int64_t> input_shape = {32, 32, 3};
  base::DType input_dtype = base::DType::kF32;
  int64_t classes = 10;
  double rescale = 1;    // factor of the input: 1 / 255.0 for bytes
  int64_t filters = 16;  // number of filters in the first stage

  // Augmentation in training: maximum translation as a fraction of the height, as
  // RandomTranslation.
  double height_shift = 0;
  double width_shift = 0;
};
nn::Network ResNetCifar(const ResNetCifarOptions& options = {});

// ResNet for ImageNet (He et al. 2015, section 4.1): bottleneck blocks in four stages. The layers,
// their names, order, weights and defaults are those of keras.applications.ResNet50 (ResNet101,
// ResNet152) with classifier_activation=None. Keras's weights require its preprocessing
// (preprocess_input), which the caller applies. Depths other than 50, 101 and 152 are an error of
// the network.
struct ResNetOptions {
  int64_t depth = 50;
  // Momentum of the moving averages of batch normalization; choose a smaller one for a training of
  // less than a few hundred steps.
  double momentum = 0.99;
  std::vector<int64_t> input_shape = {224, 224, 3};  // at least 32 pixels high and wide
  base::DType input_dtype = base::DType::kF32;
  bool include_top = true;  // global average pooling, then logits
  int64_t classes = 1000;
  // Rescaling of the input by a preceding layer, which is omitted if it would change nothing.
  double rescale = 1;
  double offset = 0;                         // added after rescale
  double height_shift = 0, width_shift = 0;  // as in ResNetCifarOptions
};
nn::Network ResNet(const ResNetOptions& options = {});

// Pre-activation ResNet (He et al.: Identity mappings in deep residual networks, 2016):
// normalization and activation precede each convolution. As keras.applications.ResNet50V2
// (ResNet101V2, ResNet152V2).
nn::Network ResNetV2(const ResNetOptions& options = {});

// VGG16 (Simonyan and Zisserman: Very deep convolutional networks for large-scale image
// recognition, 2014). As keras.applications.VGG16, see above.
struct VGG16Options {
  std::vector<int64_t> input_shape = {224, 224, 3};  // at least 32 pixels high and wide
  base::DType input_dtype = base::DType::kF32;
  bool include_top = true;  // two layers of 4096 units, then logits
  int64_t classes = 1000;
  double rescale = 1;
  double offset = 0;
  double height_shift = 0, width_shift = 0;
};
nn::Network VGG16(const VGG16Options& options = {});

// MobileNetV2 (Sandler et al.: MobileNetV2: inverted residuals and linear bottlenecks, 2018). As
// keras.applications.MobileNetV2, see above; `alpha` multiplies the width of all layers.
struct MobileNetV2Options {
  double alpha = 1;
  // Momentum of the moving averages of batch normalization; choose a smaller one for a training of
  // less than a few thousand steps.
  double momentum = 0.999;
  std::vector<int64_t> input_shape = {224, 224, 3};  // at least 32 pixels high and wide
  base::DType input_dtype = base::DType::kF32;
  bool include_top = true;
  int64_t classes = 1000;
  double rescale = 1;
  double offset = 0;
  double height_shift = 0, width_shift = 0;
};
nn::Network MobileNetV2(const MobileNetV2Options& options = {});

// Small vision transformer (ViT; Dosovitskiy et al.: An image is worth 16x16 words, 2020): patches
// by a convolution, learned position embeddings, pre-normalization blocks (layers "block1_norm1",
// "block1_attention", ...: transformer.h), and the mean over patches instead of a class token, as
// in Beyer et al.: Better plain ViT baselines for ImageNet-1k, 2022.
struct VisionTransformerOptions {
  std::vector<int64_t> input_shape = {32, 32, 3};  // height and width multiples of patch_size
  base::DType input_dtype = base::DType::kF32;
  int64_t patch_size = 4;
  int64_t dim = 64;
  int64_t depth = 4;
  int64_t heads = 4;  // each with dim / heads features
  int64_t mlp_dim = 128;
  double dropout = 0;
  bool include_top = true;  // mean over the patches, then logits; else [batch, patches, dim]
  int64_t classes = 10;
  double rescale = 1;
  double offset = 0;
  double height_shift = 0, width_shift = 0;
};
nn::Network VisionTransformer(const VisionTransformerOptions& options = {});

// Small decoder-only language model (GPT-2; Radford et al.: Language models are unsupervised
// multitask learners, 2019). Predicts the next token at each of `sequence_length` positions:
// "tokens" [batch, sequence_length] -> logits [batch, sequence_length, vocabulary_size]. Logits at
// position i depend only on tokens up to i (causal), so a shorter text may be padded at its end
// with any token.
struct GptOptions {
  int64_t vocabulary_size = 256;
  int64_t sequence_length = 64;
  base::DType input_dtype = base::DType::kI32;
  int64_t dim = 64;
  int64_t depth = 2;
  int64_t heads = 4;
  int64_t mlp_dim = 0;  // 0: 4 * dim
  double dropout = 0;
  bool tie_weights = true;  // the output projection shares the token embedding
};
nn::Network Gpt(const GptOptions& options = {});

// Image networks by name, for command lines: "mlp", "resnet8", "resnet20", "resnet32", "resnet56",
// "resnet50", "resnet101", "resnet152", "resnet50_v2", "resnet101_v2", "resnet152_v2", "vgg16",
// "mobilenet_v2", "vision_transformer" (patches of 4x4; of 16x16 for images of more than 64 pixels
// in height). The error for an unknown name lists the known ones.
struct ByNameOptions {
  std::vector<int64_t> input_shape = {};
  base::DType input_dtype = base::DType::kU8;
  int64_t classes = 10;
  double rescale = 1 / 255.0;
  double shift = 0;  // augmentation by translation, for models that support it
};
absl::StatusOr<nn::Network> ByName(absl::string_view name, const ByNameOptions& options);
std::vector<std::string> Names();

}  // namespace penstock::models
