// Helpers for FFI handlers: dispatch on the element type, and conversion of errors to XLA's.
//
// Internal to room kernels; xla/ffi/api/ffi.h is heavy, so only the files of handlers include this.
#pragma once

#include <exception>
#include <string>

#include "absl/status/status.h"

#include "penstock/kernels/vector_loops.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// Calls run() and converts its status, or the exception that it throws, to an XLA error.
template <typename Run>
xla::ffi::Error ToXlaError(const Run& run) {
  try {
    const absl::Status status = run();
    if (status.ok()) return xla::ffi::Error::Success();
    return xla::ffi::Error::Internal(std::string(status.message()));
  } catch (const std::exception& error) {
    return xla::ffi::Error::Internal(error.what());
  }
}

// The same with run(T()), where T is the element type of x in memory.
template <typename Run>
xla::ffi::Error Typed(const xla::ffi::AnyBuffer& x, const Run& run) {
  return ToXlaError(
      [&] { return x.element_type() == xla::ffi::BF16 ? run(Bf16()) : run(float()); });
}

}  // namespace penstock::kernels
