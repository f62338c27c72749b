// What wrong use of the value types Shape, Array and Random throws: an element type that is not the
// array's, an index out of range, a shape of too many axes. User functions (Map, callbacks, custom
// layers) handle these types, and every call of a user function catches exceptions
// (exceptions.h): the mistake is an error with its origin, and not the end of the process.
#pragma once

#include <stdexcept>

namespace penstock::base {

class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace penstock::base
