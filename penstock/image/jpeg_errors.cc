#include "penstock/image/jpeg_errors.h"

#include <cstddef>

#include <jerror.h>

namespace penstock::image {
namespace {

JpegErrors* Of(j_common_ptr cinfo) {
  static_assert(std::is_standard_layout_v<JpegErrors> && offsetof(JpegErrors, manager) == 0);
  return reinterpret_cast<JpegErrors*>(cinfo->err);
}

// Well-formed variants of JPEG that are not supported.
bool IsUnsupported(int code) {
  switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_NOT_COMPILED:
      return true;
    default:
      return false;
  }
}

// Warnings after which libjpeg continues with made-up pixels; they are errors here. Its other
// warnings (garbage between segments, odd version numbers) do not affect pixels.
bool MeansWrongPixels(int code) {
  switch (code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void OnError(j_common_ptr cinfo) {
  JpegErrors* errors = Of(cinfo);
  errors->manager.format_message(cinfo, errors->message);
  errors->unsupported = IsUnsupported(errors->manager.msg_code);
  std::longjmp(errors->jump, 1);
}

void OnMessage(j_common_ptr cinfo, int level) {
  if (level < 0 && MeansWrongPixels(cinfo->err->msg_code)) OnError(cinfo);
}

void NoOutput(j_common_ptr) {}

}  // namespace

JpegErrors::JpegErrors() {
  jpeg_std_error(&manager);
  manager.error_exit = OnError;
  manager.emit_message = OnMessage;
  manager.output_message = NoOutput;
}

void JpegErrors::Fail(const char* text) {
  std::snprintf(message, sizeof(message), "%s", text);
  std::longjmp(jump, 1);
}

}  // namespace penstock::image
