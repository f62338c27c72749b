// What handlers have in common: the element type in memory, and errors as XLA takes them.
//
// Internal to room kernels; xla/ffi/api/ffi.h is heavy, so only the files of handlers include this.
#pragma once

#include <exception>
#include <string>

#include "absl/status/status.h"

#include "penstock/kernels/vector_loops.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// Calls run(), and turns its status, or what it throws, into an answer for XLA.
template <typename Run>
xla::ffi::Error Answer(const Run& run) {
  try {
    const absl::Status status = run();
    if (status.ok()) return xla::ffi::Error::Success();
    return xla::ffi::Error::Internal(std::string(status.message()));
  } catch (const std::exception& error) {
    return xla::ffi::Error::Internal(error.what());
  }
}

// The same with run(T()), where T is the type of x's elements in memory.
template <typename Run>
xla::ffi::Error Typed(const xla::ffi::AnyBuffer& x, const Run& run) {
  return Answer([&] { return x.element_type() == xla::ffi::BF16 ? run(Bf16()) : run(float()); });
}

}  // namespace penstock::kernels
