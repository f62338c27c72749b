#include "penstock/monitor/http_request.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"

namespace penstock::monitor {
namespace {

const std::string* FindPair(const std::vector<std::pair<std::string, std::string>>& pairs,
                            absl::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return &value;
  }
  return nullptr;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// "%41+b" is "A b"; a "%" without two digits stays.
std::string DecodeQuery(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
        HexDigit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

absl::Status ParseTarget(absl::string_view target, HttpRequest& request) {
  if (!absl::StartsWith(target, "/")) {
    return absl::InvalidArgumentError("the target of the request is not a path");
  }
  const size_t question = target.find('?');
  request.path = std::string(target.substr(0, question));
  if (question == absl::string_view::npos) return absl::OkStatus();
  for (const absl::string_view pair :
       absl::StrSplit(target.substr(question + 1), '&', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    request.query.emplace_back(
        DecodeQuery(pair.substr(0, equals)),
        equals == absl::string_view::npos ? "" : DecodeQuery(pair.substr(equals + 1)));
  }
  return absl::OkStatus();
}

absl::Status ParseHeader(absl::string_view line, HttpRequest& request) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0 || absl::ascii_isspace(line[0])) {
    return absl::InvalidArgumentError("a header field without a name");
  }
  request.headers.emplace_back(absl::AsciiStrToLower(line.substr(0, colon)),
                               std::string(absl::StripAsciiWhitespace(line.substr(colon + 1))));
  return absl::OkStatus();
}

// A body would be taken for the next request.
absl::Status CheckHasNoBody(const HttpRequest& request) {
  const std::string* length = request.FindHeader("content-length");
  if (request.FindHeader("transfer-encoding") != nullptr || (length != nullptr && *length != "0")) {
    return absl::InvalidArgumentError("the request has a body");
  }
  return absl::OkStatus();
}

}  // namespace

const std::string* HttpRequest::FindQuery(absl::string_view name) const {
  return FindPair(query, name);
}

const std::string* HttpRequest::FindHeader(absl::string_view name) const {
  return FindPair(headers, name);
}

absl::StatusOr<std::optional<HttpRequest>> ParseHttpRequest(absl::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == absl::string_view::npos || end > HttpRequest::kMaxHead) {
    if (bytes.size() > HttpRequest::kMaxHead) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the head of the request has more than ", HttpRequest::kMaxHead, " bytes"));
    }
    return std::nullopt;
  }
  HttpRequest request;
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(bytes.substr(0, end), "\r\n")) {
    if (!std::exchange(first, false)) {
      PENSTOCK_RETURN_IF_ERROR(ParseHeader(line, request));
      continue;
    }
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
      return absl::InvalidArgumentError("not a request of HTTP/1");
    }
    if (words[0] != "GET" && words[0] != "HEAD") {
      return absl::UnimplementedError("only GET and HEAD are supported");
    }
    request.method = std::string(words[0]);
    PENSTOCK_RETURN_IF_ERROR(ParseTarget(words[1], request));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckHasNoBody(request));
  return request;
}

}  // namespace penstock::monitor
