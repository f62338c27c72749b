// What wrong use of the value types Shape, Array and Random and of room image's functions throws:
// an element type that is not the array's, an index out of range, a shape of too many axes, a crop
// outside of an image. User functions (Map, callbacks, custom layers) call these, and every call of
// a user function catches exceptions (exceptions.h): the mistake is an error with its origin, and
// not the end of the process.
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
