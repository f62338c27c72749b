#include "penstock/io/uri.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/scheme_table.h"

namespace penstock::io {
namespace {

bool HasBucket(absl::string_view scheme) {
  const SchemeRow* const row = FindScheme(scheme);
  return row != nullptr && row->form == NameForm::kBucket;
}

// Length of "scheme" if `uri` begins with "scheme:", else 0.
size_t SchemeLength(absl::string_view uri) {
  size_t n = 0;
  while (n < uri.size() &&
         (absl::ascii_isalnum(uri[n]) || uri[n] == '+' || uri[n] == '-' || uri[n] == '.')) {
    ++n;
  }
  const bool is_scheme = n > 0 && absl::ascii_isalpha(uri[0]) && n < uri.size() && uri[n] == ':';
  return is_scheme ? n : 0;
}

bool IsOption(absl::string_view text) {
  const size_t equals = text.find('=');
  if (text.empty()) return true;
  if (equals == 0 || equals == absl::string_view::npos) return false;
  return std::all_of(text.begin(), text.begin() + equals,
                     [](char c) { return absl::ascii_isalpha(c) || c == '_'; });
}

// Position of the '?' that begins the options, or npos.
size_t OptionsStart(absl::string_view text) {
  const size_t mark = text.rfind('?');
  if (mark == absl::string_view::npos || mark + 1 == text.size()) return absl::string_view::npos;
  for (absl::string_view option : absl::StrSplit(text.substr(mark + 1), '&')) {
    if (!IsOption(option)) return absl::string_view::npos;
  }
  return mark;
}

absl::Status Malformed(absl::string_view uri, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("'", DisplayName(uri), "' ", why));
}

// The first empty, "." or ".." segment of a path, which object stores would treat literally; no
// value if there is none.
std::optional<absl::string_view> OddStep(absl::string_view path) {
  absl::ConsumeSuffix(&path, "/");
  if (path.empty()) return std::nullopt;
  for (absl::string_view step : absl::StrSplit(path, '/')) {
    if (step.empty() || step == "." || step == "..") return step;
  }
  return std::nullopt;
}

absl::Status CheckSteps(absl::string_view uri, absl::string_view path) {
  const std::optional<absl::string_view> odd = OddStep(path);
  if (!odd) return absl::OkStatus();
  if (odd->empty()) return Malformed(uri, "has an empty segment ('//') in its name");
  return Malformed(uri, absl::StrCat("has the segment '", *odd,
                                     "', which is only supported on local file systems"));
}

absl::StatusOr<Uri> ParseFileUri(absl::string_view text, absl::string_view rest) {
  absl::ConsumePrefix(&rest, "localhost");
  if (rest.empty() || rest[0] != '/') {
    return Malformed(text, "names a host; write a local file with three slashes: file:///data/x");
  }
  return Uri{.scheme = "file", .user = "", .bucket = "", .path = std::string(rest), .options = ""};
}

absl::StatusOr<Uri> ParseBucketUri(absl::string_view text, std::string scheme,
                                   absl::string_view rest) {
  Uri uri;
  uri.scheme = std::move(scheme);
  if (const size_t mark = OptionsStart(rest); mark != absl::string_view::npos) {
    uri.options = absl::StrJoin(absl::StrSplit(rest.substr(mark + 1), '&', absl::SkipEmpty()), "&");
    rest = rest.substr(0, mark);
  }
  const size_t slash = rest.find('/');
  absl::string_view authority = rest.substr(0, slash);
  if (slash != absl::string_view::npos) uri.path = std::string(rest.substr(slash + 1));
  if (const size_t at = authority.rfind('@'); at != absl::string_view::npos) {
    uri.user = std::string(authority.substr(0, at));
    if (absl::StrContains(uri.user, "?")) return Malformed(text, "has a '?' before its bucket");
    authority = authority.substr(at + 1);
  }
  uri.bucket = std::string(authority);
  if (uri.bucket.empty()) {
    return Malformed(text, absl::StrCat("names no bucket; write ", uri.scheme, "://BUCKET/NAME"));
  }
  if (absl::StrContains(uri.bucket, ":")) {
    return Malformed(text, "has a ':' in its bucket; write a '/' in a secret before '@' as %2F");
  }
  if (uri.bucket.find_first_of("?*[") != std::string::npos) {
    return Malformed(text,
                     absl::StrCat("has the bucket '", uri.bucket,
                                  "'; wildcards and '?' are only supported after the bucket"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckSteps(text, uri.path));
  return uri;
}

void AppendStep(std::string& path, absl::string_view name) {
  absl::ConsumePrefix(&name, "/");
  if (!path.empty() && path.back() != '/') path += '/';
  path.append(name.data(), name.size());
}

// A name split into the part before its path, the path, and the options. Splitting works on any
// text, so that JoinPath and similar functions cannot fail.
struct Parts {
  absl::string_view prefix;  // "gs://user@bucket/", "file://", ""
  absl::string_view path;
  absl::string_view options;  // with its '?'
  bool takes_options = false;
};

// Appends empty options ("?&") to a path that would otherwise be parsed as one with options.
std::string Rejoin(const Parts& parts, absl::string_view prefix, absl::string_view path) {
  const bool ambiguous =
      parts.takes_options && parts.options.empty() && OptionsStart(path) != absl::string_view::npos;
  return absl::StrCat(prefix, path, ambiguous ? "?&" : parts.options);
}

Parts Split(absl::string_view uri) {
  Parts parts;
  size_t start = 0;
  if (const size_t n = SchemeLength(uri); n > 0 && uri.substr(n).substr(0, 3) == "://") {
    start = n + 3;
    parts.takes_options = HasBucket(absl::AsciiStrToLower(uri.substr(0, n)));
    if (parts.takes_options) {
      if (const size_t mark = OptionsStart(uri.substr(start)); mark != absl::string_view::npos) {
        parts.options = uri.substr(start + mark);
        uri = uri.substr(0, start + mark);
      }
      start = std::min(uri.find('/', start), uri.size());
      if (start < uri.size()) ++start;
    }
  }
  parts.prefix = uri.substr(0, start);
  parts.path = uri.substr(start);
  return parts;
}

absl::string_view StripTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

absl::StatusOr<Uri> ParseUri(absl::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError("the file name is empty");
  if (text.find('\0') != absl::string_view::npos) {
    return Malformed(absl::StrCat(text.substr(0, text.find('\0')), "\\0..."),
                     "contains a NUL byte");
  }
  if (absl::StartsWith(text, "://")) return Malformed(text, "has no scheme before '://'");
  const size_t n = SchemeLength(text);
  std::string scheme = absl::AsciiStrToLower(text.substr(0, n));
  absl::string_view rest = text.substr(n);
  if (n == 0 || !absl::ConsumePrefix(&rest, "://")) {
    if (!scheme.empty() && FindScheme(scheme) != nullptr) {
      return Malformed(text, absl::StrCat("has no '//' after '", scheme,
                                          ":'; write a local file of that name with ./ before it"));
    }
    return Uri{.scheme = "", .user = "", .bucket = "", .path = std::string(text), .options = ""};
  }
  if (scheme == "file") return ParseFileUri(text, rest);
  if (HasBucket(scheme)) return ParseBucketUri(text, std::move(scheme), rest);
  PENSTOCK_RETURN_IF_ERROR(CheckSteps(text, rest));
  return Uri{.scheme = std::move(scheme),
             .user = "",
             .bucket = "",
             .path = std::string(rest),
             .options = ""};
}

std::string FormatUri(const Uri& uri) {
  if (uri.scheme.empty()) return uri.path;
  std::string out = absl::StrCat(uri.scheme, "://");
  if (!HasBucket(uri.scheme)) return absl::StrCat(out, uri.path);
  if (!uri.user.empty()) absl::StrAppend(&out, uri.user, "@");
  absl::StrAppend(&out, uri.bucket);
  if (!uri.path.empty()) absl::StrAppend(&out, "/", uri.path);
  if (!uri.options.empty()) {
    absl::StrAppend(&out, "?", uri.options);
  } else if (OptionsStart(uri.path) != absl::string_view::npos) {
    absl::StrAppend(&out, "?&");
  }
  return out;
}

std::string DisplayUri(const Uri& uri) {
  if (!HasBucket(uri.scheme)) return DisplayName(FormatUri(uri));
  return absl::StrCat(uri.scheme, "://", uri.bucket, uri.path.empty() ? "" : "/", uri.path);
}

std::string DisplayName(absl::string_view name) {
  const size_t n = SchemeLength(name);
  const std::string scheme = absl::AsciiStrToLower(name.substr(0, n));
  const bool has_bucket = HasBucket(scheme);
  absl::string_view rest = name.substr(n);
  // "s3:/key:secret@b" is malformed, but still contains a secret.
  const bool may_hold_secrets =
      has_bucket ? absl::ConsumePrefix(&rest, ":")
                 : n > 0 && FindScheme(scheme) == nullptr && absl::ConsumePrefix(&rest, "://");
  if (!may_hold_secrets) return std::string(name);
  while (absl::ConsumePrefix(&rest, "/")) {
  }
  const absl::string_view prefix = name.substr(0, name.size() - rest.size());
  if (has_bucket) rest = rest.substr(0, OptionsStart(rest));
  // The '@' comes before the path, or anywhere if a secret contains an unencoded '/'.
  const absl::string_view authority = rest.substr(0, rest.find('/'));
  const size_t at = (absl::StrContains(authority, ":") ? rest : authority).rfind('@');
  if (at != absl::string_view::npos) rest.remove_prefix(at + 1);
  return absl::StrCat(prefix, rest);
}

bool IsAddressable(absl::string_view path) {
  return !absl::StrContains(path, absl::string_view("\0", 1)) && !absl::StartsWith(path, "/") &&
         !OddStep(path);
}

std::optional<std::string> OptionValue(const Uri& uri, absl::string_view key) {
  for (absl::string_view option : absl::StrSplit(uri.options, '&', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&option, key) && absl::ConsumePrefix(&option, "=")) {
      return std::string(option);
    }
  }
  return std::nullopt;
}

std::string JoinPath(absl::string_view base, absl::string_view name) {
  if (base.empty()) return std::string(name);
  const Parts parts = Split(base);
  std::string prefix(parts.prefix);
  std::string path(parts.path);
  if (path.empty() && !prefix.empty() && prefix.back() != '/') prefix += '/';
  AppendStep(path, name);
  return Rejoin(parts, prefix, path);
}

std::string AppendToName(absl::string_view uri, absl::string_view suffix) {
  const Parts parts = Split(uri);
  return Rejoin(parts, parts.prefix, absl::StrCat(parts.path, suffix));
}

std::string Basename(absl::string_view uri) {
  const absl::string_view path = StripTrailingSlashes(Split(uri).path);
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

std::string Dirname(absl::string_view uri) {
  const Parts parts = Split(uri);
  absl::string_view path = StripTrailingSlashes(parts.path);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) {
    if (parts.prefix.empty()) return ".";
    path = "";
  } else {
    path = StripTrailingSlashes(path.substr(0, std::max<size_t>(slash, 1)));
  }
  absl::string_view prefix = parts.prefix;
  if (path.empty() && prefix.size() > 1 && !absl::EndsWith(prefix, "//")) {
    absl::ConsumeSuffix(&prefix, "/");
  }
  return Rejoin(parts, prefix, path);
}

}  // namespace penstock::io
