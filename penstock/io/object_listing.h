// Answers of storage services to the question which objects there are: one page of a listing.
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
    std::string version;  // a generation or an ETag
    int64_t size = 0;
    double modified_unix_seconds = 0;  // 0 where it is not told
  };
  std::vector<Object> objects;
  std::vector<std::string> folders;  // "a/b/", of one level only
  std::string next;                  // asks for the next page; empty on the last
};

// Nothing when `body` is no such listing as a whole, or lists names that do not begin with
// `prefix`, negative sizes or empty names: then something else answered than the service. Never
// fails otherwise, whatever the bytes are.
//
// https://cloud.google.com/storage/docs/json_api/v1/objects/list
std::optional<ObjectPage> ParseGcsListing(absl::string_view body, absl::string_view prefix);
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
std::optional<ObjectPage> ParseS3Listing(absl::string_view body, absl::string_view prefix);

// The text of the first element <name>...</name> of `xml`, its entities decoded. Nothing when there
// is none.
std::optional<std::string> XmlText(absl::string_view xml, absl::string_view name);

}  // namespace penstock::io
