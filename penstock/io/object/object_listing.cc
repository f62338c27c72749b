#include "penstock/io/object/object_listing.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "penstock/io/http/percent_encoding.h"
#include "penstock/io/json_text.h"

namespace penstock::io {
namespace {

double UnixSecondsOf(const std::string& rfc3339) {
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, rfc3339, &time, nullptr)) return 0;
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

bool NamesAreBelow(const ObjectPage& page, absl::string_view prefix) {
  for (const ObjectPage::Object& object : page.objects) {
    if (object.path.empty() || !absl::StartsWith(object.path, prefix)) return false;
  }
  for (const std::string& folder : page.folders) {
    if (folder.size() <= prefix.size() || !absl::StartsWith(folder, prefix) ||
        folder.back() != '/') {
      return false;
    }
  }
  return true;
}

std::optional<ObjectPage::Object> GcsObject(const nlohmann::json& item) {
  const auto size = JsonCount(item, "size");
  const auto generation = JsonCount(item, "generation");
  if (!size || !generation) return std::nullopt;
  return ObjectPage::Object{.path = JsonString(item, "name"),
                            .version = absl::StrCat(*generation),
                            .size = *size,
                            .modified_unix_seconds = UnixSecondsOf(JsonString(item, "updated"))};
}

// The JSON array of that name; empty if absent. No value if it is not an array.
std::optional<nlohmann::json> ArrayOf(const nlohmann::json& json, const char* field) {
  const auto it = json.find(field);
  if (it == json.end() || it->is_null()) return nlohmann::json::array();
  if (!it->is_array()) return std::nullopt;
  return *it;
}

// The content of the first <name>...</name>; removes it and everything before it from `xml`.
// Elements of the same name do not nest here.
std::optional<absl::string_view> TakeElement(absl::string_view& xml, absl::string_view name) {
  const std::string open = absl::StrCat("<", name, ">");
  const std::string close = absl::StrCat("</", name, ">");
  const size_t begin = xml.find(open);
  if (begin == absl::string_view::npos) return std::nullopt;
  const size_t end = xml.find(close, begin + open.size());
  if (end == absl::string_view::npos) return std::nullopt;
  const absl::string_view inside = xml.substr(begin + open.size(), end - begin - open.size());
  xml.remove_prefix(end + close.size());
  return inside;
}

// With encoding-type=url names are encoded as in a form, where '+' is a space.
std::string DecodeName(const std::string& name, bool is_encoded) {
  return is_encoded ? PercentDecode(absl::StrReplaceAll(name, {{"+", " "}})) : name;
}

std::optional<ObjectPage::Object> S3Object(absl::string_view contents, bool is_encoded) {
  ObjectPage::Object object;
  const auto key = XmlText(contents, "Key");
  const auto size = XmlText(contents, "Size");
  if (!key || !size || !absl::SimpleAtoi(*size, &object.size) || object.size < 0) {
    return std::nullopt;
  }
  object.path = DecodeName(*key, is_encoded);
  object.version = XmlText(contents, "ETag").value_or("");
  object.modified_unix_seconds = UnixSecondsOf(XmlText(contents, "LastModified").value_or(""));
  return object;
}

}  // namespace

std::optional<ObjectPage> ParseGcsListing(absl::string_view body, absl::string_view prefix) {
  const nlohmann::json json = ParseJson(body);
  // All other fields may be absent: without it, any JSON would be an empty last page.
  if (JsonString(json, "kind") != "storage#objects") return std::nullopt;
  const auto items = ArrayOf(json, "items");
  const auto prefixes = ArrayOf(json, "prefixes");
  if (!items || !prefixes) return std::nullopt;
  ObjectPage page;
  for (const auto& item : *items) {
    auto object = GcsObject(item);
    if (!object) return std::nullopt;
    page.objects.push_back(*std::move(object));
  }
  for (const auto& folder : *prefixes) {
    if (!folder.is_string()) return std::nullopt;
    page.folders.push_back(folder.get<std::string>());
  }
  if (const auto next = json.find("nextPageToken"); next != json.end()) {
    if (!next->is_string()) return std::nullopt;
    page.next = next->get<std::string>();
  }
  if (!NamesAreBelow(page, prefix)) return std::nullopt;
  return page;
}

std::optional<std::string> XmlText(absl::string_view xml, absl::string_view name) {
  const auto inside = TakeElement(xml, name);
  if (!inside) return std::nullopt;
  return absl::StrReplaceAll(*inside, {{"&lt;", "<"},
                                       {"&gt;", ">"},
                                       {"&quot;", "\""},
                                       {"&#34;", "\""},
                                       {"&apos;", "'"},
                                       {"&#39;", "'"},
                                       {"&amp;", "&"}});
}

std::optional<ObjectPage> ParseS3Listing(absl::string_view body, absl::string_view prefix) {
  const size_t begin = body.find("<ListBucketResult");
  if (begin == absl::string_view::npos || !absl::StrContains(body, "</ListBucketResult>")) {
    return std::nullopt;
  }
  body.remove_prefix(begin);
  const bool is_encoded = XmlText(body, "EncodingType") == "url";
  ObjectPage page;
  absl::string_view rest = body;
  while (const auto contents = TakeElement(rest, "Contents")) {
    auto object = S3Object(*contents, is_encoded);
    if (!object) return std::nullopt;
    page.objects.push_back(*std::move(object));
  }
  rest = body;
  while (const auto folder = TakeElement(rest, "CommonPrefixes")) {
    const auto name = XmlText(*folder, "Prefix");
    if (!name) return std::nullopt;
    page.folders.push_back(DecodeName(*name, is_encoded));
  }
  if (XmlText(body, "IsTruncated") == "true") {
    page.next = XmlText(body, "NextContinuationToken").value_or("");
    if (page.next.empty()) return std::nullopt;
  }
  if (!NamesAreBelow(page, prefix)) return std::nullopt;
  return page;
}

}  // namespace penstock::io
