// Encodes JPEG variants that EncodeJpeg does not support.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <jpeglib.h>

#include "penstock/image/view.h"

namespace penstock::image {

struct MakeJpegOptions {
  int quality = 90;
  int horizontal = 2;  // sampling factors of the first component
  int vertical = 2;
  bool optimize = false;  // Huffman tables optimized for this image
  unsigned restart_interval = 0;
  bool progressive = false;
};

inline std::string MakeJpeg(ImageView image, const MakeJpegOptions& options) {
  jpeg_compress_struct cinfo;
  jpeg_error_mgr errors;
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* file = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&cinfo, &file, &size);
  cinfo.image_height = static_cast<JDIMENSION>(image.height);
  cinfo.image_width = static_cast<JDIMENSION>(image.width);
  cinfo.input_components = image.channels;
  cinfo.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                         : image.channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&cinfo);
  jpeg_set_quality(&cinfo, options.quality, TRUE);
  cinfo.comp_info[0].h_samp_factor = options.horizontal;
  cinfo.comp_info[0].v_samp_factor = options.vertical;
  cinfo.optimize_coding = options.optimize ? TRUE : FALSE;
  cinfo.restart_interval = options.restart_interval;
  if (options.progressive) jpeg_simple_progression(&cinfo);
  jpeg_start_compress(&cinfo, TRUE);
  while (cinfo.next_scanline < cinfo.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.row(static_cast<int>(cinfo.next_scanline)));
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  std::string bytes(reinterpret_cast<const char*>(file), size);
  std::free(file);
  return bytes;
}

}  // namespace penstock::image
