"""Rows of images."""

from rows import MORE, b, f, given, i, row, tf

ROWS = {
    "image::ResizeImages/bilinear up": row(lambda a: tf.image.resize_images(a, [7, 11]), f(2, 4, 5, 3)),
    "image::ResizeImages/bilinear down": row(lambda a: tf.image.resize_images(a, [4, 3]), f(2, 9, 7, 3)),
    "image::ResizeImages/align corners": row(
        lambda a: tf.image.resize_images(a, [7, 9], align_corners=True), f(2, 4, 5, 3)),
    "image::ResizeImages/nearest uint8": row(
        lambda a: tf.image.resize_images(a, [6, 8], method=1), i(2, 4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::ResizeImages/nearest align corners": row(
        lambda a: tf.image.resize_images(a, [6, 8], method=1, align_corners=True), f(2, 4, 5, 3)),
    "image::ResizeImages/bicubic": row(lambda a: tf.image.resize_images(a, [7, 8], method=2), f(2, 4, 5, 3)),
    "image::ResizeImages/area down": row(
        lambda a: tf.image.resize_images(a, [4, 3], method=3), f(2, 9, 7, 3), gradient=False),
    "image::ResizeImages/area up": row(
        lambda a: tf.image.resize_images(a, [7, 5], method=3), f(2, 4, 3, 3), gradient=False),
    "image::ResizeImages/one image, uint8": row(
        lambda a: tf.image.resize_images(a, [6, 8]), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::ResizeImages/same size": row(
        lambda a: tf.image.resize_images(a, [4, 5]), i(2, 4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::ResizeImages/aspect ratio": row(
        lambda a: tf.image.resize_images(a, [9, 9], preserve_aspect_ratio=True), f(2, 4, 6, 3)),
    "image::FlipLeftRight/batch": row(lambda a: tf.image.flip_left_right(a), f(2, 4, 5, 3)),
    "image::FlipLeftRight/image": row(lambda a: tf.image.flip_left_right(a), f(4, 5, 3)),
    "image::FlipUpDown/batch": row(lambda a: tf.image.flip_up_down(a), f(2, 4, 5, 3)),
    "image::TransposeImage/batch": row(lambda a: tf.image.transpose_image(a), f(2, 4, 5, 3)),
    "image::Rot90/once": row(lambda a: tf.image.rot90(a), f(2, 4, 5, 3), gradient=False, shape=MORE),
    "image::Rot90/three times": row(lambda a: tf.image.rot90(a, 3), f(4, 5, 3), gradient=False, shape=MORE),
    "image::Rot90/twice": row(lambda a: tf.image.rot90(a, 2), f(4, 5, 3), gradient=False, shape=MORE),
    "image::CentralCrop/half": row(lambda a: tf.image.central_crop(a, 0.5), f(2, 7, 6, 3)),
    "image::CentralCrop/all": row(lambda a: tf.image.central_crop(a, 1.0), f(7, 6, 3)),
    "image::CropToBoundingBox/batch": row(lambda a: tf.image.crop_to_bounding_box(a, 1, 2, 4, 3), f(2, 7, 6, 3)),
    "image::PadToBoundingBox/batch": row(lambda a: tf.image.pad_to_bounding_box(a, 1, 2, 8, 9), f(2, 4, 5, 3)),
    "image::ResizeImageWithCropOrPad/both": row(
        lambda a: tf.image.resize_image_with_crop_or_pad(a, 7, 6), f(2, 4, 9, 3)),
    "image::ResizeImageWithCropOrPad/odd": row(lambda a: tf.image.resize_image_with_crop_or_pad(a, 5, 8), f(8, 5, 3)),
    "image::PerImageStandardization/batch": row(lambda a: tf.image.per_image_standardization(a), f(2, 4, 5, 3)),
    "image::PerImageStandardization/uint8": row(
        lambda a: tf.image.per_image_standardization(a), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::PerImageStandardization/uniform": row(
        lambda a: tf.image.per_image_standardization(a), given([[[2.0], [2.0]]] * 3), gradient=False),
    "image::ConvertImageDtype/uint8 to float": row(
        lambda a: tf.image.convert_image_dtype(a, tf.float32), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::ConvertImageDtype/float to uint8": row(
        lambda a: tf.image.convert_image_dtype(a, tf.uint8), f(4, 5, 3, low=0, high=1)),
    "image::ConvertImageDtype/saturate": row(
        lambda a: tf.image.convert_image_dtype(a, tf.uint8, saturate=True), f(4, 5, 3)),
    "image::ConvertImageDtype/uint8 to int16": row(
        lambda a: tf.image.convert_image_dtype(a, tf.int16), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::ConvertImageDtype/int16 to uint8": row(
        lambda a: tf.image.convert_image_dtype(a, tf.uint8), i(4, 5, 3, low=0, high=30000, dtype="int16")),
    "image::AdjustBrightness/float": row(lambda a: tf.image.adjust_brightness(a, 0.3), f(4, 5, 3)),
    "image::AdjustBrightness/uint8": row(
        lambda a: tf.image.adjust_brightness(a, 0.2), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::AdjustContrast/batch": row(
        lambda a: tf.image.adjust_contrast(a, 1.7), f(2, 4, 5, 3, low=0, high=1), gradient=False),
    "image::AdjustGamma/float": row(lambda a: tf.image.adjust_gamma(a, 2.2, 0.5), f(4, 5, 3, low=0.1, high=1)),
    "image::AdjustHue/float": row(lambda a: tf.image.adjust_hue(a, 0.3), f(4, 5, 3, low=0, high=1), gradient=False),
    "image::AdjustHue/negative": row(
        lambda a: tf.image.adjust_hue(a, -0.7), f(4, 5, 3, low=0, high=1), gradient=False),
    "image::AdjustSaturation/float": row(
        lambda a: tf.image.adjust_saturation(a, 0.4), f(4, 5, 3, low=0, high=1), gradient=False),
    "image::AdjustSaturation/uint8": row(
        lambda a: tf.image.adjust_saturation(a, 1.5), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::RgbToGrayscale/float": row(lambda a: tf.image.rgb_to_grayscale(a), f(4, 5, 3, low=0, high=1)),
    "image::RgbToGrayscale/uint8": row(
        lambda a: tf.image.rgb_to_grayscale(a), i(4, 5, 3, low=0, high=255, dtype="uint8")),
    "image::GrayscaleToRgb/float": row(lambda a: tf.image.grayscale_to_rgb(a), f(2, 4, 5, 1)),
    "image::RgbToHsv/float": row(lambda a: tf.image.rgb_to_hsv(a), f(4, 5, 3, low=0, high=1), gradient=False),
    "image::RgbToHsv/grays": row(
        lambda a: tf.image.rgb_to_hsv(a),
        given([[[0, 0, 0], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1]]]), gradient=False),
    "image::HsvToRgb/float": row(lambda a: tf.image.hsv_to_rgb(a), f(4, 5, 3, low=0, high=1), gradient=False),
    "image::RgbToYuv/float": row(lambda a: tf.image.rgb_to_yuv(a), f(4, 5, 3, low=0, high=1)),
    "image::YuvToRgb/float": row(lambda a: tf.image.yuv_to_rgb(a), f(4, 5, 3, low=0, high=1)),
    "image::ExtractImagePatches/valid": row(
        lambda a: tf.image.extract_image_patches(a, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 1, 1], "VALID"), f(2, 5, 6, 3)),
    "image::ExtractImagePatches/same, rates": row(
        lambda a: tf.image.extract_image_patches(a, [1, 3, 3, 1], [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), f(2, 5, 6, 2)),
    "image::CropAndResize/bilinear": row(
        lambda a, b, c: tf.image.crop_and_resize(a, b, c, [4, 3], extrapolation_value=-1.0),
        f(2, 5, 6, 3),
        given([[0, 0, 1, 1], [0.2, 0.1, 0.9, 0.7], [0.5, 0.5, 1.5, 1.2], [0.9, 0.8, 0.1, 0.2]]),
        given([0, 1, 1, 0], "int32"), gradient=False),
    "image::CropAndResize/one pixel": row(
        lambda a, b, c: tf.image.crop_and_resize(a, b, c, [1, 1]),
        f(2, 5, 6, 3), given([[0, 0, 1, 1], [0.2, 0.1, 0.9, 0.7]]), given([0, 1], "int32"), gradient=False),
    "image::CropAndResize/nearest uint8": row(
        lambda a, b, c: tf.image.crop_and_resize(a, b, c, [3, 7], method="nearest"),
        i(2, 5, 6, 3, low=0, high=255, dtype="uint8"),
        given([[0, 0, 1, 1], [0.21, 0.13, 0.87, 0.69]]),
        given([0, 1], "int32"), gradient=False),
    "image::TotalVariation/batch": row(lambda a: tf.image.total_variation(a), f(2, 4, 5, 3)),
    "image::TotalVariation/image": row(lambda a: tf.image.total_variation(a), f(4, 5, 3)),
    "image::ImageGradients/batch": row(lambda a: tf.image.image_gradients(a), f(2, 4, 5, 3)),
    "image::SobelEdges/batch": row(lambda a: tf.image.sobel_edges(a), f(2, 4, 5, 3)),
    "image::Psnr/batch": row(
        lambda a, b: tf.image.psnr(a, b, 1.0), f(2, 4, 5, 3, low=0, high=1), f(2, 4, 5, 3, low=0, high=1)),
    "image::Psnr/uint8": row(
        lambda a, b: tf.image.psnr(a, b, 255),
        i(4, 5, 3, low=0, high=255, dtype="uint8"), i(4, 5, 3, low=0, high=255, dtype="uint8")),
}
