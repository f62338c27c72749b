// Parsers for listings of storage services, one page at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace penstock::io {

struct ObjectPage {
  struct Object {
    std::string path;
    std::string version;  // generation or ETag
    int64_t size = 0;
    double modified_unix_seconds = 0;  // 0 if unknown
  };
  std::vector<Object> objects;
  std::vector<std::string> folders;  // "a/b/"; empty for listings of all levels
  std::string next;                  // token of the next page; empty on the last
};

// Parses one page. No value if `body` is not a complete listing, or contains names that do not
// begin with `prefix`, negative sizes or empty names: the response is then not from the service.
// Safe for arbitrary bytes.
//
// https://cloud.google.com/storage/docs/json_api/v1/objects/list
std::optional<ObjectPage> ParseGcsListing(absl::string_view body, absl::string_view prefix);
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
std::optional<ObjectPage> ParseS3Listing(absl::string_view body, absl::string_view prefix);

// Text of the first element <name>...</name> in `xml`, with entities decoded; no value if there is
// none.
std::optional<std::string> XmlText(absl::string_view xml, absl::string_view name);

}  // namespace penstock::io
