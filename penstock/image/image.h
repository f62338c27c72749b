// Room image: pictures in files to pixels in memory, and back. It may use base.
//
//   image.h    what a file holds, decoding it (with crop, orientation and resize on the way)
//   view.h     views of pixels, where crops lie
//   resize.h   resizing pixels: area, bilinear, bicubic
//   encode.h   pixels to JPEG and PNG
//   codec.h    the table of formats; only those who add one read it
//
//   image::Decoder decoder;  // one for each thread: it keeps its scratch memory
//   image::DecodeOptions options = {.resize = {{.height = 224, .width = 224,
//                                               .filter = image::Filter::kArea,
//                                               .fit = image::Fit::kCentreCrop}}};
//   base::Array batch = base::Array::Uninitialized(base::DType::kU8, {128, 224, 224, 3});
//   for (int i = 0; i < 128; ++i) {
//     base::Array row = batch.Row(i);
//     PENSTOCK_ASSIGN_OR_RETURN(image::MutableImageView out, image::MutableViewOf(row));
//     PENSTOCK_RETURN_IF_ERROR(decoder.DecodeInto(files[i], options, out));
//   }
//
// A random crop needs the size first; then only the crop is decoded:
//
//   PENSTOCK_ASSIGN_OR_RETURN(image::ImageInfo info, image::ReadInfo(file));
//   image::DecodeOptions options;
//   PENSTOCK_ASSIGN_OR_RETURN(image::Size size, image::DecodedSize(info, options));
//   PENSTOCK_ASSIGN_OR_RETURN(options.crop, image::RandomCrop(size, {192, 192}, random));
//   PENSTOCK_RETURN_IF_ERROR(decoder.DecodeInto(file, options, out));
//
// With RandomResizedCropBox, .resize, .flip and .normalize this is the usual augmentation of a
// training image, decoded, resized, turned and converted in one call into memory of the batch.
//
// Pixels are uint8, interleaved, RGB or gray; written as such, or as normalised bfloat16 or float.
// The first bytes decide the format, never a name. Files are hostile: whatever the bytes, the
// answer is an image or an error. Codes of errors:
//   kInvalidArgument    not an image of a known format; options or memory that do not fit
//   kDataLoss           cut off or damaged; half a picture is never returned
//   kResourceExhausted  over a limit of size, or a progressive JPEG with absurdly many scans
//   kUnimplemented      a kind of that format which is not read (12 bit or lossless JPEG)
// The caller knows the file's name and adds it (base::WithContext).
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

// What the header says, before any option.
struct ImageInfo {
  Format format = Format::kJpeg;
  int height = 0;
  int width = 0;
  int channels = 0;     // as stored: 1 gray, 2 gray and alpha, 3 colour or palette, 4 RGBA or CMYK
  int bit_depth = 0;    // of a sample: JPEG 8 (or 12, not decoded), PNG 1, 2, 4, 8, 16
  int orientation = 1;  // EXIF's tag, 1 to 8; 1 when there is none

  Size size() const { return {height, width}; }
  Size oriented_size() const;  // once turned as EXIF says
};

// Reads only the header: the beginning of a file is enough, if it reaches to the first byte of
// pixels.
absl::StatusOr<ImageInfo> ReadInfo(absl::string_view bytes);

// What happens when the image's shape is not the target's.
enum class Fit : uint8_t {
  kStretch,     // the aspect changes
  kCentreCrop,  // the largest centred box of the target's aspect (CoverBox) is resized
};

struct Resize {
  int height = 0;
  int width = 0;
  Filter filter = Filter::kBilinear;
  bool antialias = false;  // see resize.h; area needs none
  Fit fit = Fit::kStretch;
};

// JPEGs can be decoded at 1/2 or 1/4 of their size: of each block, only so many frequencies.
enum class DctScaling : uint8_t {
  kNever,
  // When the result is at most 1/2 (1/4) as large as what is resized, in both directions: such
  // images take a fifth to a third less time. The pixels are not those of the formulas in resize.h:
  // low frequencies are an average too, but another, sharper one. On two photographs the mean
  // difference from area averaging was 1 to 3 of 255, that of 2 to 11 % of the samples more than 8,
  // and at edges up to 60; from bilinear with antialias two thirds of that. Filters that look at
  // few pixels (without antialias) see another image altogether: mean differences up to 10.
  kAuto,
};

// In the order in which they happen.
struct DecodeOptions {
  // Refuses what the header says is larger, or has a side of more than a million pixels, before
  // memory is taken for it.
  int64_t max_pixels = 100'000'000;
  // 3: RGB. 1: gray. 0: gray when the file is, else RGB. As TensorFlow's decode_image(channels)
  // does it, alpha is dropped (not composited), of 16 bits the upper 8 stay, CMYK becomes RGB
  // without a colour profile. Gray of colour is JPEG's Y, 0.299 R + 0.587 G + 0.114 B.
  int channels = 3;
  // Turn the image as EXIF says. TensorFlow and plain Pillow do not.
  bool apply_orientation = false;
  // In pixels of the (turned) image. Damage below or right of the crop may go unnoticed.
  std::optional<Box> crop = std::nullopt;
  std::optional<Resize> resize = std::nullopt;
  DctScaling dct_scaling = DctScaling::kNever;
  bool flip = false;         // left becomes right
  Normalize normalize = {};  // of floats; into uint8 it cannot be done
};

// Numbers that give finite ones, so no std of 0; into uint8 the default only.
absl::Status CheckNormalize(const Normalize& normalize, bool floats);

// Height and width of what DecodeInto writes. An error for options that do not fit the image.
absl::StatusOr<Size> DecodedSize(const ImageInfo& info, const DecodeOptions& options);
// Channels of what it writes: 1 or 3.
int DecodedChannels(const ImageInfo& info, const DecodeOptions& options);

// Decodes one image after the other and keeps its scratch memory in between, as much as the largest
// so far took. One thread at a time.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Writes into `out`, whose size and channels are those that DecodedSize and DecodedChannels tell;
  // when nothing else is to be done the codec itself writes there. After an error the memory holds
  // anything. T is uint8_t, base::bfloat16 or float.
  template <typename T>
  absl::Status DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                          const BasicImageView<T>& out);
  // uint8, bfloat16 or float32 [H,W,C] in memory of its own.
  absl::StatusOr<base::Array> Decode(absl::string_view bytes, const DecodeOptions& options = {},
                                     base::DType dtype = base::DType::kU8);

 private:
  struct Scratch;
  template <typename T>
  absl::Status DecodeChecked(absl::string_view bytes, const ImageInfo& info,
                             const DecodeOptions& options, const BasicImageView<T>& out);

  std::unique_ptr<Scratch> scratch_;
};

// With a Decoder of their own: for one image now and then.
absl::Status DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                        const MutableImageView& out);
absl::StatusOr<base::Array> Decode(absl::string_view bytes, const DecodeOptions& options = {},
                                   base::DType dtype = base::DType::kU8);

}  // namespace penstock::image
