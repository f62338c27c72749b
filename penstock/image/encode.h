// Encoders of JPEG and PNG, for gray (1 channel) or RGB (3 channels) images.
//
//   PENSTOCK_ASSIGN_OR_RETURN(std::string file, EncodeJpeg(view, {.quality = 90}));
//
// Deterministic: the same pixels and options give the same bytes with one version of the libraries.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/image/view.h"

namespace penstock::image {

enum class ChromaSubsampling : uint8_t {
  k420,  // chroma at half height and width, usual for photographs
  k422,  // chroma at half width
  k444,  // chroma at full size
};

struct JpegOptions {
  int quality = 95;  // 1 to 100, libjpeg's scale; TensorFlow's default is 95, Pillow's 75
  ChromaSubsampling subsampling = ChromaSubsampling::k420;
  bool optimize = true;  // Huffman tables for this image: a few percent smaller, but a second pass
  bool progressive = false;
};

struct PngOptions {
  int compression = 6;  // 0 (none) to 9 (smallest), zlib's scale
};

// Errors (kInvalidArgument): an empty image, other channels, an option out of range, more than
// JPEG's 65,500 pixels a side.
absl::StatusOr<std::string> EncodeJpeg(ImageView image, const JpegOptions& options = {});
absl::StatusOr<std::string> EncodePng(ImageView image, const PngOptions& options = {});

}  // namespace penstock::image
