#include "penstock/base/exceptions.h"

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <typeinfo>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include <cxxabi.h>

namespace penstock::base {
namespace {

constexpr char kOutOfMemory[] = "penstock/base/out-of-memory";

// The demangled type name: "std::runtime_error".
std::string TypeOfException() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception";
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, nullptr), std::free);
  return name == nullptr ? type->name() : name.get();
}

}  // namespace

absl::Status StatusOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    absl::Status status = absl::ResourceExhaustedError("out of memory (std::bad_alloc)");
    status.SetPayload(kOutOfMemory, absl::Cord());
    return status;
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("threw ", TypeOfException(), ": ", exception.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat("threw a value of type ", TypeOfException()));
  }
}

bool IsOutOfMemory(const absl::Status& status) {
  return status.GetPayload(kOutOfMemory).has_value();
}

}  // namespace penstock::base
