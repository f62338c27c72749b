// JpegErrors: error handling of libjpeg, which reports errors by longjmp. Calls that may fail run
// inside Guarded, and no frame between them and Guarded owns resources.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <type_traits>

#include <jpeglib.h>

namespace penstock::image {

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  // Plain data that survives the jump.
  char message[JMSG_LENGTH_MAX + 64] = "";
  bool unsupported = false;
  bool over_limit = false;

  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  // Runs `body`; false if it failed. The body and the functions it calls must only have trivially
  // destructible objects, because the jump skips destructors.
  template <typename Body>
  bool Guarded(Body body) {
    static_assert(std::is_trivially_destructible_v<Body>);
    if (setjmp(jump) != 0) return false;
    body();
    return true;
  }
  // Fails with a custom message. To be called inside Guarded.
  [[noreturn]] void Fail(const char* text);
};

}  // namespace penstock::image
