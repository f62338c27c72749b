// Room models: predefined networks. Depends on base and nn.
//
//   nn::Network net = models::ResNetCifar({.depth = 20, .classes = 10, .rescale = 1 / 255.0});
//   PENSTOCK_RETURN_IF_ERROR(net.status());
//
// Each network has one input "image" (or "x", or "tokens") and returns logits, without a softmax:
// use a loss with from_logits. There is a header for each family:
//
//   image_net.h           options of the networks for ImageNet: those of keras.applications
//   convnext.h            ConvNeXtTiny, Small, Base, Large, XLarge
//   densenet.h            DenseNet121, 169, 201
//   efficientnet.h        EfficientNetB0 to B7, V2B0 to B3, V2S, V2M, V2L, Lite0 to 4
//   inception.h           InceptionV3, InceptionResNetV2
//   mobilenet.h           MobileNet, MobileNetV2, MobileNetV3Small and Large
//   nasnet.h              NASNetMobile, NASNetLarge
//   resnet.h              ResNet50, 101, 152, and V2; torchvision's, V1_5
//   vgg.h                 VGG16, VGG19
//   vit.h                 ViTB16, B32, L16, L32, H14: torchvision's
//   xception.h            Xception
//   gpt.h                 a GPT-like decoder
//   mlp.h                 dense layers
//   resnet_cifar.h        ResNets for small images
//   vision_transformer.h  a small ViT
//   by_name.h             networks over images by name, and the list of them
//   torch_weights.h       PyTorch's weights for them
#pragma once

#include "penstock/models/by_name.h"
#include "penstock/models/convnext.h"
#include "penstock/models/densenet.h"
#include "penstock/models/efficientnet.h"
#include "penstock/models/gpt.h"
#include "penstock/models/image_net.h"
#include "penstock/models/inception.h"
#include "penstock/models/mlp.h"
#include "penstock/models/mobilenet.h"
#include "penstock/models/nasnet.h"
#include "penstock/models/resnet.h"
#include "penstock/models/resnet_cifar.h"
#include "penstock/models/torch_weights.h"
#include "penstock/models/vgg.h"
#include "penstock/models/vision_transformer.h"
#include "penstock/models/vit.h"
#include "penstock/models/xception.h"
