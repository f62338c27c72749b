// Where a function was called, as a default argument. (std::source_location is not there with clang
// 14 and g++ 12's library.)
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
