#include "penstock/image/encode.h"

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include <spng.h>

#include "penstock/image/jpeg_errors.h"

namespace penstock::image {
namespace {

absl::Status CheckEncodable(ImageView image) {
  if (image.height <= 0 || image.width <= 0) {
    return absl::InvalidArgumentError("cannot encode an empty image");
  }
  if (image.channels != 1 && image.channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "images to encode must have 1 (gray) or 3 (RGB) channels, not ", image.channels));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view name, int value, int min, int max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be from ", min, " to ", max, ", not ", value));
}

// A compressor for one image.
class JpegWriter {
 public:
  JpegWriter() {
    cinfo_.err = &errors_.manager;
    // If this runs out of memory, Encode fails because of its state.
    (void)errors_.Guarded([this] { jpeg_create_compress(&cinfo_); });
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&cinfo_);
    std::free(file_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  absl::StatusOr<std::string> Encode(ImageView image, const JpegOptions& options) {
    const bool done = errors_.Guarded([&, this] {
      jpeg_mem_dest(&cinfo_, &file_, &file_size_);
      Start(image, options);
      while (cinfo_.next_scanline < cinfo_.image_height) {
        // libjpeg's interface takes mutable rows but does not modify them.
        JSAMPROW row = const_cast<uint8_t*>(image.row(static_cast<int>(cinfo_.next_scanline)));
        jpeg_write_scanlines(&cinfo_, &row, 1);
      }
      jpeg_finish_compress(&cinfo_);
    });
    if (!done) return absl::InternalError(absl::StrCat("JPEG encoder: ", errors_.message));
    return std::string(reinterpret_cast<const char*>(file_), file_size_);
  }

 private:
  // Runs inside Guarded.
  void Start(ImageView image, const JpegOptions& options) {
    cinfo_.image_height = static_cast<JDIMENSION>(image.height);
    cinfo_.image_width = static_cast<JDIMENSION>(image.width);
    cinfo_.input_components = image.channels;
    cinfo_.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&cinfo_);
    jpeg_set_quality(&cinfo_, options.quality, TRUE);
    cinfo_.optimize_coding = options.optimize ? TRUE : FALSE;
    if (image.channels == 3) {
      cinfo_.comp_info[0].h_samp_factor = options.subsampling == ChromaSubsampling::k444 ? 1 : 2;
      cinfo_.comp_info[0].v_samp_factor = options.subsampling == ChromaSubsampling::k420 ? 2 : 1;
    }
    if (options.progressive) jpeg_simple_progression(&cinfo_);
    jpeg_start_compress(&cinfo_, TRUE);
  }

  JpegErrors errors_;
  jpeg_compress_struct cinfo_ = {};
  unsigned char* file_ = nullptr;  // libjpeg's malloc
  unsigned long file_size_ = 0;    // NOLINT: libjpeg's type
};

struct FreeEncoder {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

absl::Status PngError(int error) {
  return absl::InternalError(absl::StrCat("PNG encoder: ", spng_strerror(error)));
}

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(ImageView image, const JpegOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckEncodable(image));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("JPEG quality", options.quality, 1, 100));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("height of a JPEG", image.height, 1, JPEG_MAX_DIMENSION));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("width of a JPEG", image.width, 1, JPEG_MAX_DIMENSION));
  return JpegWriter().Encode(image, options);
}

absl::StatusOr<std::string> EncodePng(ImageView image, const PngOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckEncodable(image));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("PNG compression", options.compression, 0, 9));
  std::unique_ptr<spng_ctx, FreeEncoder> context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (context == nullptr) return absl::ResourceExhaustedError("PNG encoder: out of memory");
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, options.compression);
  spng_ihdr header = {};
  header.height = static_cast<uint32_t>(image.height);
  header.width = static_cast<uint32_t>(image.width);
  header.bit_depth = 8;
  header.color_type = image.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  int error = spng_set_ihdr(context.get(), &header);
  if (error == SPNG_OK) {
    error = spng_encode_image(context.get(), nullptr, 0, SPNG_FMT_PNG,
                              SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE);
  }
  for (int y = 0; error == SPNG_OK && y < image.height; ++y) {
    error = spng_encode_row(context.get(), image.row(y), static_cast<size_t>(image.row_elements()));
  }
  if (error != SPNG_EOI) return PngError(error);  // returned after the last row
  size_t size = 0;
  const std::unique_ptr<void, decltype(&std::free)> file(
      spng_get_png_buffer(context.get(), &size, &error), &std::free);
  if (file == nullptr) return PngError(error);
  return std::string(static_cast<const char*>(file.get()), size);
}

}  // namespace penstock::image
