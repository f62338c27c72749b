// Convolutions and pooling.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable SpatialRows() {
  return {
      {"nn::Conv2D/same",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Conv2D(x[0], x[1], 1, "SAME")}; }},
      {"nn::Conv2D/same strided",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2D(x[0], x[1], {1, 2, 2, 1}, "SAME")};
       }},
      {"nn::Conv2D/valid two strides",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2D(x[0], x[1], {2, 3}, "VALID")};
       }},
      {"nn::Conv2D/explicit",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2D(x[0], x[1], 1, {{0, 0}, {1, 2}, {0, 3}, {0, 0}})};
       }},
      {"nn::Conv2D/dilated",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2D(x[0], x[1], 1, "SAME", {.dilations = {1, 2, 3, 1}})};
       }},
      {"nn::Conv2D/1x1 double",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2D(x[0], x[1], 1, "VALID")};
       }},
      {"nn::Conv2D/empty batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Conv2D(x[0], x[1], 1, "SAME")}; }},
      {"nn::Conv2D/nchw",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2D(x[0], x[1], {1, 1, 2, 1}, "SAME", {.data_format = "NCHW"})};
       }},
      {"nn::Conv1D/same",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Conv1D(x[0], x[1], 1, "SAME")}; }},
      {"nn::Conv1D/valid strided",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv1D(x[0], x[1], 2, "VALID")};
       }},
      {"nn::Conv3D/same",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Conv3D(x[0], x[1], 1, "SAME")}; }},
      {"nn::Conv3D/strided",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv3D(x[0], x[1], {1, 2, 1, 2, 1}, "VALID")};
       }},
      {"nn::DepthwiseConv2D/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::DepthwiseConv2D(x[0], x[1], 1, "SAME")};
       }},
      {"nn::DepthwiseConv2D/strided",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::DepthwiseConv2D(x[0], x[1], {1, 2, 2, 1}, "VALID")};
       }},
      {"nn::DepthwiseConv2D/dilated",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::DepthwiseConv2D(x[0], x[1], 1, "SAME", {.dilations = 2})};
       }},
      {"nn::SeparableConv2D/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SeparableConv2D(x[0], x[1], x[2], 1, "SAME")};
       }},
      {"nn::AtrousConv2D/valid",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::AtrousConv2D(x[0], x[1], 2, "VALID")};
       }},
      {"nn::Conv2DTranspose/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2DTranspose(x[0], x[1], {2, 6, 8, 2}, {1, 2, 2, 1})};
       }},
      {"nn::Conv2DTranspose/odd size",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2DTranspose(x[0], x[1], {2, 5, 7, 2}, 2)};
       }},
      {"nn::Conv2DTranspose/valid",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv2DTranspose(x[0], x[1], {2, 7, 8, 2}, 2, "VALID")};
       }},
      {"nn::Conv2DTranspose/batch of the input",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {
             tf::nn::Conv2DTranspose(x[0], x[1],
                                     tf::Stack({tf::GetItem(tf::ShapeOf(x[0]), {0}),
                                                tf::Constant(6), tf::Constant(8), tf::Constant(2)}),
                                     2)};
       }},
      {"nn::Conv1DTranspose/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv1DTranspose(x[0], x[1], {2, 6, 2}, 2)};
       }},
      {"nn::Conv3DTranspose/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::Conv3DTranspose(x[0], x[1], {1, 4, 6, 4, 3}, 2)};
       }},
      {"nn::MaxPool/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::MaxPool(x[0], {1, 2, 2, 1}, {1, 2, 2, 1}, "SAME")};
       }},
      {"nn::MaxPool/valid overlapping",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::MaxPool(x[0], 3, 1, "VALID")}; }},
      {"nn::MaxPool/ties",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::MaxPool(x[0], 3, 2, "SAME")}; }},
      {"nn::MaxPool/nchw",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::MaxPool(x[0], 2, 2, "SAME", {.data_format = "NCHW"})};
       }},
      {"nn::AvgPool/same",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::AvgPool(x[0], {1, 3, 3, 1}, {1, 2, 2, 1}, "SAME")};
       }},
      {"nn::AvgPool/valid",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::AvgPool(x[0], 2, 2, "VALID")}; }},
      {"nn::MaxPool1D/same",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::MaxPool1D(x[0], 2, 2, "SAME")}; }},
      {"nn::AvgPool1D/valid",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::AvgPool1D(x[0], 3, 2, "VALID")};
       }},
      {"nn::MaxPool3D/same",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::MaxPool3D(x[0], 2, 2, "SAME")}; }},
      {"nn::AvgPool3D/same",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::AvgPool3D(x[0], 2, 2, "SAME")}; }},
  };
}

}  // namespace penstock::tests
