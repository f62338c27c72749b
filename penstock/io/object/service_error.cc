#include "penstock/io/object/service_error.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "penstock/io/scheme_table.h"

namespace penstock::io {
namespace {

// The beginning of a service's message, which may be any bytes, on one line and without control
// characters.
std::string OneLine(absl::string_view text) {
  constexpr size_t kMax = 1000;
  const bool is_cut = text.size() > kMax;
  std::string line = absl::StrJoin(
      absl::StrSplit(text.substr(0, kMax), absl::ByAnyChar("\r\n"), absl::SkipWhitespace()), " ");
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return is_cut ? line + "..." : line;
}

// Whether a response came, and says so: Google's client reports "Received HTTP status code: 503".
bool IsOverloaded(absl::string_view text) {
  return absl::StrContains(text, "HTTP status code: 5") ||
         absl::StrContains(text, "HTTP status code: 429");
}

absl::string_view CredentialsAdvice(const Uri& uri) {
  const SchemeRow* const row = FindScheme(uri.scheme);
  return row == nullptr ? "check the credentials" : row->credentials_advice;
}

}  // namespace

absl::Status ServiceError(absl::StatusCode code, absl::string_view text, absl::string_view doing,
                          const Uri& uri) {
  const std::string what = absl::StrCat("cannot ", doing, " '", DisplayUri(uri), "': ");
  const std::string said = OneLine(text);
  switch (code) {
    case absl::StatusCode::kNotFound:
      return absl::Status(code, absl::StrCat(what, "it, or its bucket, does not exist"));
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return absl::Status(code,
                          absl::StrCat(what,
                                       code == absl::StatusCode::kUnauthenticated
                                           ? "the credentials were rejected; "
                                           : "permission denied; ",
                                       CredentialsAdvice(uri), " (the service said: ", said, ")"));
    case absl::StatusCode::kUnavailable:
      if (IsOverloaded(text)) {
        return absl::Status(
            code, absl::StrCat(what, "the service is overloaded or out of order; try again later (",
                               said, ")"));
      }
      return absl::Status(
          code, absl::StrCat(what, "the service did not respond; check the network (", said, ")"));
    default:
      return absl::Status(code, absl::StrCat(what, said));
  }
}

}  // namespace penstock::io
