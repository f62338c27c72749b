// ContractError: the exception thrown on misuse of the value types Shape, Array and Random and of
// the functions of room image: a wrong element type, an index out of range, a shape with too many
// axes, a crop outside its image. User-defined functions (Map, callbacks, custom layers) call
// these, and every call of a user-defined function catches exceptions (exceptions.h), so a mistake
// there becomes an error that names its origin instead of terminating the process.
#pragma once

#include <stdexcept>

namespace penstock::base {

class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws a ContractError with `message` unless `condition` holds.
inline void Require(bool condition, const char* message) {
  if (!condition) throw ContractError(message);
}

}  // namespace penstock::base
