// SourceLocation: the file and line of a call, captured by a default argument.
// (std::source_location is not available with clang 14 and the library of g++ 12.)
//
//   void Fail(const char* what, SourceLocation where = SourceLocation::Current());
#pragma once

namespace penstock::base {

struct SourceLocation {
  const char* file = "";  // empty: not known
  int line = 0;

  static constexpr SourceLocation Current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace penstock::base
