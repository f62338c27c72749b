// EfficientNets (Tan and Le: EfficientNet: rethinking model scaling for convolutional neural
// networks, 2019; EfficientNetV2: smaller models and faster training, 2021). A member is the base
// network with more channels, layers and pixels.
//
//   nn::Network net = EfficientNetB0({.input_shape = {96, 96, 3}, .classes = 10});
//
// Option `dropout` is the rate before the classifier; `drop_connect` (default 0.2) is the
// probability with which training drops the residual path of the last block; it falls linearly to 0
// at the first one.
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

// They take images with values from 0 to 255. Their layer "normalization" has a mean and a variance
// as weights, which the weights of keras.applications contain. Those weights require
// `imagenet_rescaling`, the layer that Keras adds for weights="imagenet".
nn::Network EfficientNetB0(const ImageNetOptions& options = {});
nn::Network EfficientNetB1(const ImageNetOptions& options = {});
nn::Network EfficientNetB2(const ImageNetOptions& options = {});
nn::Network EfficientNetB3(const ImageNetOptions& options = {});
nn::Network EfficientNetB4(const ImageNetOptions& options = {});
nn::Network EfficientNetB5(const ImageNetOptions& options = {});
nn::Network EfficientNetB6(const ImageNetOptions& options = {});
nn::Network EfficientNetB7(const ImageNetOptions& options = {});

// They take images with values from 0 to 255; without `include_preprocessing` from -1 to 1.
nn::Network EfficientNetV2B0(const ImageNetOptions& options = {});
nn::Network EfficientNetV2B1(const ImageNetOptions& options = {});
nn::Network EfficientNetV2B2(const ImageNetOptions& options = {});
nn::Network EfficientNetV2B3(const ImageNetOptions& options = {});
nn::Network EfficientNetV2S(const ImageNetOptions& options = {});
nn::Network EfficientNetV2M(const ImageNetOptions& options = {});
nn::Network EfficientNetV2L(const ImageNetOptions& options = {});

// torchvision's variants, which PyTorch's weights fit (torch_weights.h): convolutions with stride 2
// pad the image by as many pixels at the top and left as at the bottom and right, and epsilon is
// 1e-5 for B0 to B4. They take preprocessed images (PreprocessMode::kTorch).
nn::Network EfficientNetB0Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB1Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB2Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB3Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB4Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB5Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB6Torch(const ImageNetOptions& options = {});
nn::Network EfficientNetB7Torch(const ImageNetOptions& options = {});

// EfficientNet-Lite, for devices that compute with integers: relu6, no squeeze and excitation, and
// the same number of channels in the first and in the last convolution of all members. They are not
// in keras.applications: the tables are those of https://github.com/tensorflow/tpu, folder
// models/official/efficientnet/lite, the names of layers those of EfficientNetB0. They take images
// with values from 0 to 255, which the layer "rescaling" maps to (x - 127) / 128; without
// `include_preprocessing` the caller does.
nn::Network EfficientNetLite0(const ImageNetOptions& options = {});
nn::Network EfficientNetLite1(const ImageNetOptions& options = {});
nn::Network EfficientNetLite2(const ImageNetOptions& options = {});
nn::Network EfficientNetLite3(const ImageNetOptions& options = {});
nn::Network EfficientNetLite4(const ImageNetOptions& options = {});

}  // namespace penstock::models
