// Decodes a JPEG with our Huffman decoder or libjpeg's own; both must agree on every file, intact
// or corrupt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include <jpeglib.h>

#include "penstock/image/jpeg_errors.h"
#include "penstock/image/jpeg_huffman.h"

namespace penstock::image {

struct JpegOutcome {
  bool refused = false;  // rejected: too many pixels
  bool ok = false;
  std::string error;
  bool installed = false;  // our Huffman decoder was used
  std::vector<uint8_t> pixels;
};

// Decodes with `ours`, or with libjpeg's own Huffman decoder if it is nullptr. Images of more than
// `max_pixels` pixels are rejected.
inline JpegOutcome DecodeJpegWith(JpegHuffman* ours, absl::string_view bytes, J_COLOR_SPACE space,
                                  uint64_t max_pixels = 1 << 22) {
  struct Reader {
    JpegErrors errors;
    jpeg_decompress_struct cinfo = {};
    jpeg_source_mgr source = {};

    // libjpeg's own memory source inserts an end-of-image marker; ours reports an error.
    static boolean OnEnd(j_decompress_ptr cinfo) {
      static_cast<Reader*>(cinfo->client_data)->errors.Fail("the file is truncated");
    }
    static void OnSkip(j_decompress_ptr cinfo, long count) {  // NOLINT: libjpeg's type
      if (count <= 0) return;
      if (static_cast<size_t>(count) > cinfo->src->bytes_in_buffer) OnEnd(cinfo);
      cinfo->src->next_input_byte += count;
      cinfo->src->bytes_in_buffer -= static_cast<size_t>(count);
    }
  } reader;
  JpegOutcome outcome;
  std::vector<uint8_t> scratch(JpegHuffman::ScratchBytes(bytes.size()));
  jpeg_decompress_struct& cinfo = reader.cinfo;
  cinfo.err = &reader.errors.manager;
  const auto decode = [&] {
    jpeg_create_decompress(&cinfo);
    cinfo.client_data = &reader;
    reader.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    reader.source.bytes_in_buffer = bytes.size();
    reader.source.init_source = [](j_decompress_ptr) {};
    reader.source.fill_input_buffer = Reader::OnEnd;
    reader.source.skip_input_data = Reader::OnSkip;
    reader.source.resync_to_restart = jpeg_resync_to_restart;
    reader.source.term_source = [](j_decompress_ptr) {};
    cinfo.src = &reader.source;
    jpeg_read_header(&cinfo, TRUE);
    outcome.refused = uint64_t{cinfo.image_width} * cinfo.image_height > max_pixels;
    if (outcome.refused) return;
    cinfo.out_color_space = space;
    jpeg_start_decompress(&cinfo);
    if (ours != nullptr) outcome.installed = ours->Install(&cinfo, scratch.data());
    const size_t row_bytes =
        size_t{cinfo.output_width} * static_cast<size_t>(cinfo.output_components);
    outcome.pixels.assign(row_bytes * cinfo.output_height, 0);
    while (cinfo.output_scanline < cinfo.output_height) {
      JSAMPROW row = outcome.pixels.data() + row_bytes * cinfo.output_scanline;
      jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_decompress(&cinfo);
  };
  outcome.ok = reader.errors.Guarded(decode) && !outcome.refused;
  if (!outcome.ok) {
    outcome.error = reader.errors.message;
    outcome.pixels.clear();
  }
  jpeg_destroy_decompress(&cinfo);
  return outcome;
}

}  // namespace penstock::image
