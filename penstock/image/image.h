// Room image: decoding of JPEG and PNG files to pixels, with crop, EXIF rotation, resize, flip and
// normalization, and encoding. It uses base.
//
//   image.h    image metadata, and decoding with crop, orientation and resize in one pass
//   view.h     pixel views; center, random and random-resized crops
//   resize.h   resizing: area, bilinear, bicubic, with antialias
//   encode.h   JPEG and PNG encoders
//   codec.h    the table of formats, for adding one
//
//   image::Decoder decoder;  // one per thread: it keeps its scratch memory
//   image::DecodeOptions options = {.resize = {{.height = 224, .width = 224,
//                                               .filter = image::Filter::kArea,
//                                               .fit = image::Fit::kCenterCrop}}};
//   base::Array batch = base::Array::Uninitialized(base::DType::kU8, {128, 224, 224, 3});
//   for (int i = 0; i < 128; ++i) {
//     base::Array row = batch.Row(i);
//     PENSTOCK_ASSIGN_OR_RETURN(image::MutableImageView out, image::MutableViewOf(row));
//     PENSTOCK_RETURN_IF_ERROR(decoder.DecodeInto(files[i], options, out));
//   }
//
// For a random crop, read the size first; then only the crop is decoded:
//
//   PENSTOCK_ASSIGN_OR_RETURN(image::ImageInfo info, image::ReadInfo(file));
//   image::DecodeOptions options;
//   PENSTOCK_ASSIGN_OR_RETURN(image::Size size, image::DecodedSize(info, options));
//   PENSTOCK_ASSIGN_OR_RETURN(options.crop, image::RandomCrop(size, {192, 192}, random));
//   PENSTOCK_RETURN_IF_ERROR(decoder.DecodeInto(file, options, out));
//
// With RandomResizedCropBox, .resize, .flip and .normalize this is the usual augmentation of a
// training image: decoded, resized, flipped and converted in one call, directly into the batch.
//
// Pixels are interleaved uint8, RGB or gray, or normalized bfloat16 or float. The format is
// detected from the first bytes, never from a file name. Files are untrusted: for any bytes the
// result is an image or an error. Status codes:
//   kInvalidArgument    not an image of a supported format; invalid options or output memory
//   kDataLoss           truncated or corrupt; a partial image is never returned
//   kResourceExhausted  over the size limit, or a progressive JPEG with too many scans
//   kUnimplemented      an unsupported variant of a format (12-bit or lossless JPEG)
// The caller adds the file's name to the error (base::WithContext).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/image/resize.h"
#include "penstock/image/view.h"

namespace penstock::image {

enum class Format : uint8_t { kJpeg, kPng };
absl::string_view FormatName(Format format);  // "JPEG"

// Metadata in the header of an image file.
struct ImageInfo {
  Format format = Format::kJpeg;
  int height = 0;
  int width = 0;
  int channels = 0;     // as stored: 1 gray, 2 gray and alpha, 3 color or palette, 4 RGBA or CMYK
  int bit_depth = 0;    // per sample: JPEG 8 (or 12, not supported), PNG 1, 2, 4, 8, 16
  int orientation = 1;  // EXIF orientation tag, 1 to 8; 1 if there is none

  Size size() const { return {height, width}; }
  Size oriented_size() const;  // size after applying the EXIF orientation
};

// Reads the metadata without decoding. The beginning of a file is enough, if it reaches the first
// byte of pixel data.
absl::StatusOr<ImageInfo> ReadInfo(absl::string_view bytes);

// How to handle an aspect ratio different from the target's.
enum class Fit : uint8_t {
  kStretch,     // the aspect ratio changes
  kCenterCrop,  // resizes the largest centered box with the target's aspect ratio (CoverBox)
};

struct Resize {
  int height = 0;
  int width = 0;
  Filter filter = Filter::kBilinear;
  bool antialias = false;  // see resize.h; no effect on kArea
  Fit fit = Fit::kStretch;
};

// Scaled decoding of JPEGs at 1/2 or 1/4 of their size in the DCT domain.
enum class DctScaling : uint8_t {
  kNever,
  // Used if the output is at most 1/2 (1/4) of the resized region in both dimensions: such images
  // take a fifth to a third less time. The pixels differ from the formulas in resize.h: low
  // frequencies are a different, sharper average. On two photographs the mean difference from area
  // averaging was 1 to 3 of 255, more than 8 for 2 to 11 % of the samples, and up to 60 at edges;
  // from bilinear with antialias two thirds of that. Filters with few taps (without antialias) give
  // a clearly different image: mean differences up to 10.
  kAuto,
};

// Decoding options, in the order in which they are applied.
struct DecodeOptions {
  // Maximum number of pixels. Larger images, and those with a side of more than a million pixels,
  // are rejected before memory is allocated.
  int64_t max_pixels = 100'000'000;
  // Channels of the output. 3: RGB. 1: gray. 0: gray if the file is gray, else RGB. As in
  // TensorFlow's decode_image(channels): alpha is dropped (not composited), 16-bit samples are
  // truncated to their upper 8 bits, CMYK is converted to RGB without a color profile. Color is
  // converted to gray by JPEG's luma, 0.299 R + 0.587 G + 0.114 B.
  int channels = 3;
  // Apply the EXIF orientation. TensorFlow and Pillow do not by default.
  bool apply_orientation = false;
  // Crop, in pixels of the (upright) image. Corruption below or right of the crop may go unnoticed.
  std::optional<Box> crop = std::nullopt;
  std::optional<Resize> resize = std::nullopt;
  DctScaling dct_scaling = DctScaling::kNever;
  bool flip = false;         // mirror left-right
  Normalize normalize = {};  // bfloat16 and float output only
};

// Checks that the normalization gives finite values (no std of 0), and is the default for uint8
// output (`floats` false).
absl::Status CheckNormalize(const Normalize& normalize, bool floats);

// Output size (height and width) of DecodeInto. An error if the options do not fit the image.
absl::StatusOr<Size> DecodedSize(const ImageInfo& info, const DecodeOptions& options);
// Number of channels of the output: 1 or 3.
int DecodedChannels(const ImageInfo& info, const DecodeOptions& options);

// Image decoder. Keeps its scratch memory between images, sized by the largest so far. One thread
// at a time.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Decodes into `out`, whose size and channels must equal DecodedSize and DecodedChannels; without
  // further processing the codec writes there directly. After an error the contents of `out` are
  // unspecified. T is uint8_t, base::bfloat16 or float.
  template <typename T>
  absl::Status DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                          const BasicImageView<T>& out);
  // Decodes into a new array [H,W,C] of uint8, bfloat16 or float32.
  absl::StatusOr<base::Array> Decode(absl::string_view bytes, const DecodeOptions& options = {},
                                     base::DType dtype = base::DType::kU8);

 private:
  struct Scratch;
  template <typename T>
  absl::Status DecodeChecked(absl::string_view bytes, const ImageInfo& info,
                             const DecodeOptions& options, const BasicImageView<T>& out);

  std::unique_ptr<Scratch> scratch_;
};

// Convenience functions with a temporary Decoder, for single images.
absl::Status DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                        const MutableImageView& out);
absl::StatusOr<base::Array> Decode(absl::string_view bytes, const DecodeOptions& options = {},
                                   base::DType dtype = base::DType::kU8);

}  // namespace penstock::image
