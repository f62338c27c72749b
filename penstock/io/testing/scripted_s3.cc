#include "penstock/io/testing/scripted_s3.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

constexpr char kBucket[] = "memory://bucket";

// Value of a header, whose name is in lower case; empty if there is none.
std::string Header(const std::string& raw_request, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(raw_request, "\r\n")) {
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos && absl::EqualsIgnoreCase(line.substr(0, colon), name)) {
      return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return "";
}

std::string NotThere() {
  return CannedHttp("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>");
}

// s3://bucket/NAME is stored as memory://bucket/NAME.
class PastTheService : public ForwardingFileSystem {
 public:
  explicit PastTheService(std::shared_ptr<FileSystem> objects)
      : ForwardingFileSystem(std::move(objects)) {}

  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    return next().Create(Object(uri));
  }
  absl::Status Remove(absl::string_view uri) override { return next().Remove(Object(uri)); }
  absl::Status RemoveRecursively(absl::string_view uri) override {
    return next().RemoveRecursively(Object(uri));
  }
  absl::Status CreateFolder(absl::string_view) override { return absl::OkStatus(); }

 private:
  static std::string Object(absl::string_view uri) {
    const absl::StatusOr<Uri> parsed = ParseUri(uri);
    PENSTOCK_CHECK_OK(parsed.status());
    return JoinPath(kBucket, parsed->path);
  }
};

// Value of a URL parameter in the request line; decodes only what occurs in tests.
std::string Parameter(absl::string_view line, absl::string_view name) {
  for (absl::string_view part : absl::StrSplit(line, absl::ByAnyChar("?& "))) {
    if (absl::StartsWith(part, absl::StrCat(name, "="))) {
      return absl::StrReplaceAll(part.substr(name.size() + 1), {{"%2F", "/"}});
    }
  }
  return "";
}

}  // namespace

ScriptedS3::ScriptedS3()
    : objects_(MakeMemoryFileSystem()),
      server_(std::function<CannedResponse(const std::string&)>(
          [this](const std::string& raw_request) { return Respond(raw_request); })) {}

std::shared_ptr<FileSystem> ScriptedS3::Writer() const {
  return std::make_shared<PastTheService>(objects_);
}

void ScriptedS3::SetScript(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

std::string ScriptedS3::Uri(absl::string_view name, absl::string_view user) const {
  return absl::StrCat("s3://", user, "bucket/", name,
                      "?scheme=http&region=eu-west-1&endpoint_override=127.0.0.1:", server_.port());
}

int ScriptedS3::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

CannedResponse ScriptedS3::Respond(const std::string& raw_request) {
  // "GET /bucket/run/file HTTP/1.1", "GET /bucket/?delimiter=%2F&...&prefix=run%2F HTTP/1.1"
  const absl::string_view line = absl::string_view(raw_request).substr(0, raw_request.find('\r'));
  Request request;
  request.is_head = absl::StartsWith(line, "HEAD ");
  request.is_list = absl::StrContains(line, "list-type=2");
  if (request.is_list) {
    request.object = Parameter(line, "prefix");
  } else {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    request.object = std::string(words.at(1).substr(std::string("/bucket/").size()));
  }
  request.authorization = Header(raw_request, "authorization");
  std::lock_guard lock(mutex_);
  request.number = requests_++;
  request.correct_response = CorrectResponse(request, raw_request);
  if (script_) {
    if (std::optional<CannedResponse> response = script_(request)) {
      // A response to HEAD has no body to wait for.
      if (request.is_head && absl::StrContains(response->bytes, "\r\n\r\n")) {
        response->stays_open = false;
      }
      return *std::move(response);
    }
  }
  return CannedResponse{request.correct_response};
}

std::string ScriptedS3::CorrectResponse(const Request& request,
                                        const std::string& raw_request) const {
  if (request.is_list) {
    return CannedHttp("200 OK",
                      Listing(request.object, absl::StrContains(raw_request, "delimiter=")));
  }
  const absl::StatusOr<std::string> bytes = ReadFile(*objects_, JoinPath(kBucket, request.object));
  const std::string missing = request.is_head ? CannedHttp("404 Not Found", "") : NotThere();
  if (!bytes.ok()) return missing;
  const std::string etag =
      absl::StrCat("ETag: \"", absl::Hex(std::hash<std::string>()(*bytes)), "\"\r\n");
  if (request.is_head) {
    return absl::StrCat("HTTP/1.1 200 OK\r\nConnection: close\r\n", etag,
                        "Content-Length: ", bytes->size(), "\r\n\r\n");
  }
  const size_t at = raw_request.find("range: bytes=");
  if (at == std::string::npos) return CannedHttp("200 OK", *bytes, etag);
  const std::string range = raw_request.substr(at + 13, raw_request.find("\r\n", at) - at - 13);
  const std::pair<std::string, std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
  size_t begin = 0, last = 0;
  if (!absl::SimpleAtoi(ends.first, &begin) || !absl::SimpleAtoi(ends.second, &last) ||
      begin >= bytes->size()) {
    return CannedHttp("416 Range Not Satisfiable", "<Error><Code>InvalidRange</Code></Error>",
                      absl::StrCat("Content-Range: bytes */", bytes->size(), "\r\n"));
  }
  const std::string part = bytes->substr(begin, last - begin + 1);
  return CannedHttp("206 Partial Content", part,
                    absl::StrCat(etag, "Content-Range: bytes ", begin, "-", begin + part.size() - 1,
                                 "/", bytes->size(), "\r\n"));
}

std::string ScriptedS3::Listing(const std::string& prefix, bool one_level) const {
  std::string xml = "<ListBucketResult>";
  std::set<std::string> folders;
  const absl::StatusOr<std::vector<FileInfo>> all = objects_->ListRecursive(kBucket);
  for (const FileInfo& file : all.ok() ? *all : std::vector<FileInfo>()) {
    const std::string name = file.uri.substr(std::string(kBucket).size() + 1);
    if (!absl::StartsWith(name, prefix)) continue;
    const size_t slash = name.find('/', prefix.size());
    if (one_level && slash != std::string::npos) {
      folders.insert(name.substr(0, slash + 1));
    } else {
      absl::StrAppend(&xml, "<Contents><Key>", name, "</Key><Size>", file.size,
                      "</Size></Contents>");
    }
  }
  for (const std::string& folder : folders) {
    absl::StrAppend(&xml, "<CommonPrefixes><Prefix>", folder, "</Prefix></CommonPrefixes>");
  }
  return absl::StrCat(xml, "</ListBucketResult>");
}

}  // namespace penstock::io
