// Images.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable ImageRows() {
  return {
      {"image::ResizeImages/bilinear up",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {7, 11})};
       }},
      {"image::ResizeImages/bilinear down",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {4, 3})};
       }},
      {"image::ResizeImages/align corners",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {7, 9}, tf::image::ResizeMethod::kBilinear,
                                         {.align_corners = true})};
       }},
      {"image::ResizeImages/nearest uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {6, 8}, tf::image::ResizeMethod::kNearestNeighbor)};
       }},
      {"image::ResizeImages/nearest align corners",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {6, 8}, tf::image::ResizeMethod::kNearestNeighbor,
                                         {.align_corners = true})};
       }},
      {"image::ResizeImages/bicubic",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {7, 8}, tf::image::ResizeMethod::kBicubic)};
       }},
      {"image::ResizeImages/area down",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {4, 3}, tf::image::ResizeMethod::kArea)};
       }},
      {"image::ResizeImages/area up",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {7, 5}, tf::image::ResizeMethod::kArea)};
       }},
      {"image::ResizeImages/one image, uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {6, 8})};
       }},
      {"image::ResizeImages/same size",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {4, 5})};
       }},
      {"image::ResizeImages/aspect ratio",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImages(x[0], {9, 9}, tf::image::ResizeMethod::kBilinear,
                                         {.preserve_aspect_ratio = true})};
       }},
      {"image::FlipLeftRight/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::FlipLeftRight(x[0])}; }},
      {"image::FlipLeftRight/image",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::FlipLeftRight(x[0])}; }},
      {"image::FlipUpDown/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::FlipUpDown(x[0])}; }},
      {"image::TransposeImage/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::TransposeImage(x[0])}; }},
      {"image::Rot90/once",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::Rot90(x[0])}; }},
      {"image::Rot90/three times",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::Rot90(x[0], 3)}; }},
      {"image::Rot90/twice",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::Rot90(x[0], 2)}; }},
      {"image::CentralCrop/half",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::CentralCrop(x[0], 0.5)}; }},
      {"image::CentralCrop/all",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::CentralCrop(x[0], 1.0)}; }},
      {"image::CropToBoundingBox/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::CropToBoundingBox(x[0], 1, 2, 4, 3)};
       }},
      {"image::PadToBoundingBox/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::PadToBoundingBox(x[0], 1, 2, 8, 9)};
       }},
      {"image::ResizeImageWithCropOrPad/both",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImageWithCropOrPad(x[0], 7, 6)};
       }},
      {"image::ResizeImageWithCropOrPad/odd",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ResizeImageWithCropOrPad(x[0], 5, 8)};
       }},
      {"image::PerImageStandardization/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::PerImageStandardization(x[0])};
       }},
      {"image::PerImageStandardization/uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::PerImageStandardization(x[0])};
       }},
      {"image::PerImageStandardization/uniform",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::PerImageStandardization(x[0])};
       }},
      {"image::ConvertImageDtype/uint8 to float",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ConvertImageDtype(x[0], DType::kF32)};
       }},
      {"image::ConvertImageDtype/float to uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ConvertImageDtype(x[0], DType::kU8)};
       }},
      {"image::ConvertImageDtype/saturate",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ConvertImageDtype(x[0], DType::kU8, true)};
       }},
      {"image::ConvertImageDtype/uint8 to int16",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ConvertImageDtype(x[0], DType::kI16)};
       }},
      {"image::ConvertImageDtype/int16 to uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ConvertImageDtype(x[0], DType::kU8)};
       }},
      {"image::AdjustBrightness/float",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::AdjustBrightness(x[0], 0.3)};
       }},
      {"image::AdjustBrightness/uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::AdjustBrightness(x[0], 0.2)};
       }},
      {"image::AdjustContrast/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::AdjustContrast(x[0], 1.7)}; }},
      {"image::AdjustGamma/float",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::AdjustGamma(x[0], 2.2, 0.5)};
       }},
      {"image::AdjustHue/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::AdjustHue(x[0], 0.3)}; }},
      {"image::AdjustHue/negative",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::AdjustHue(x[0], -0.7)}; }},
      {"image::AdjustSaturation/float",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::AdjustSaturation(x[0], 0.4)};
       }},
      {"image::AdjustSaturation/uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::AdjustSaturation(x[0], 1.5)};
       }},
      {"image::RgbToGrayscale/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::RgbToGrayscale(x[0])}; }},
      {"image::RgbToGrayscale/uint8",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::RgbToGrayscale(x[0])}; }},
      {"image::GrayscaleToRgb/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::GrayscaleToRgb(x[0])}; }},
      {"image::RgbToHsv/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::RgbToHsv(x[0])}; }},
      {"image::RgbToHsv/grays",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::RgbToHsv(x[0])}; }},
      {"image::HsvToRgb/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::HsvToRgb(x[0])}; }},
      {"image::RgbToYuv/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::RgbToYuv(x[0])}; }},
      {"image::YuvToRgb/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::YuvToRgb(x[0])}; }},
      {"image::ExtractImagePatches/valid",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ExtractImagePatches(x[0], {1, 3, 2, 1}, {1, 2, 1, 1}, {1, 1, 1, 1},
                                                "VALID")};
       }},
      {"image::ExtractImagePatches/same, rates",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::ExtractImagePatches(x[0], 3, 2, 2, "SAME")};
       }},
      {"image::CropAndResize/bilinear",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::CropAndResize(x[0], x[1], x[2], {4, 3}, {.extrapolation_value = -1})};
       }},
      {"image::CropAndResize/one pixel",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::CropAndResize(x[0], x[1], x[2], {1, 1})};
       }},
      {"image::CropAndResize/nearest uint8",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::image::CropAndResize(x[0], x[1], x[2], {3, 7}, {.method = "nearest"})};
       }},
      {"image::TotalVariation/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::TotalVariation(x[0])}; }},
      {"image::TotalVariation/image",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::TotalVariation(x[0])}; }},
      {"image::ImageGradients/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return Both(tf::image::ImageGradients(x[0])); }},
      {"image::SobelEdges/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::SobelEdges(x[0])}; }},
      {"image::Psnr/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::Psnr(x[0], x[1], 1.0)}; }},
      {"image::Psnr/uint8",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::image::Psnr(x[0], x[1], 255)}; }},
  };
}

}  // namespace penstock::tests
