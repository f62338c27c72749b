// libjpeg reports errors by leaving through longjmp. This is the one place that knows how: what may
// throw an error runs inside Guarded, and nothing on the way there owns anything.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <type_traits>

#include <jpeglib.h>

namespace penstock::image {

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  // A plain string and code that survive the jump.
  char message[JMSG_LENGTH_MAX + 64] = "";
  bool unsupported = false;
  bool over_limit = false;

  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  // False when the body failed. The body and what it calls keep only trivially destructible
  // objects: the jump skips destructors.
  template <typename Body>
  bool Guarded(Body body) {
    static_assert(std::is_trivially_destructible_v<Body>);
    if (setjmp(jump) != 0) return false;
    body();
    return true;
  }
  // Inside Guarded: leaves with a message of our own.
  [[noreturn]] void Fail(const char* text);
};

}  // namespace penstock::image
