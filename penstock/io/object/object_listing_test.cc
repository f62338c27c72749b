#include "penstock/io/object/object_listing.h"

#include <string>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::io {
namespace object_listing_test {

using testing::ElementsAre;

TEST(GcsListing, ParsesObjectsFoldersAndNextPage) {
  const auto page = ParseGcsListing(R"({
    "kind": "storage#objects",
    "items": [{"name": "d/\u00e9 \"x\"", "size": "5", "generation": "7",
               "updated": "2023-11-14T22:13:20.500Z"}],
    "prefixes": ["d/e/"], "nextPageToken": "t"})",
                                    "d/");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].path, "d/é \"x\"");
  EXPECT_EQ(page->objects[0].version, "7");
  EXPECT_EQ(page->objects[0].size, 5);
  EXPECT_EQ(page->objects[0].modified_unix_seconds, 1.7e9 + 0.5);
  EXPECT_THAT(page->folders, ElementsAre("d/e/"));
  EXPECT_EQ(page->next, "t");
}

TEST(GcsListing, MayBeEmpty) {
  for (const char* body :
       {R"({"kind": "storage#objects"})", R"({"kind": "storage#objects", "items": []})",
        R"({"kind": "storage#objects", "items": null, "prefixes": null})"}) {
    const auto page = ParseGcsListing(body, "d/");
    ASSERT_TRUE(page) << body;
    EXPECT_TRUE(page->objects.empty() && page->folders.empty() && page->next.empty());
  }
}

std::string Nested(int depth) {
  return absl::StrCat(R"({"kind": "storage#objects", "items": )", std::string(depth, '['),
                      std::string(depth, ']'), "}");
}

TEST(GcsListing, RejectsAnythingElse) {
  const auto item = [](absl::string_view fields) {
    return absl::StrCat(R"({"kind": "storage#objects", "items": [{)", fields, "}]}");
  };
  for (const std::string& body :
       {std::string(),
        std::string("<html>log in</html>"),
        std::string("[]"),
        std::string("{}"),
        std::string(R"({"status": "ok"})"),
        std::string(R"({"error": {"code": 401}})"),
        std::string(R"({"kind": "storage#object", "items": []})"),
        std::string("5"),
        std::string(R"({"kind": "storage#objects", "items": 5})"),
        std::string(R"({"kind": "storage#objects", "items": {"x": {}}})"),
        std::string(R"({"kind": "storage#objects", "prefixes": [""]})"),
        std::string(R"({"kind": "storage#objects", "prefixes": ["d/"]})"),
        std::string(R"({"kind": "storage#objects", "prefixes": ["d/e"]})"),
        std::string(R"({"kind": "storage#objects", "prefixes": [5]})"),
        std::string(R"({"kind": "storage#objects", "prefixes": ["e/"]})"),
        std::string(R"({"kind": "storage#objects", "nextPageToken": 7})"),
        item(R"("name": "d/a", "size": "-5", "generation": "1")"),
        item(R"("name": "d/a", "size": 5, "generation": "1")"),
        item(R"("name": "d/a", "size": "5")"),
        item(R"("size": "5", "generation": "1")"),
        item(R"("name": "e/a", "size": "5", "generation": "1")"),
        Nested(100),
        Nested(500000),
        std::string(1000000, '['),
        std::string(R"({"kind": "storage#objects", "items": [{"name": "d/a", "size")"),
        std::string("{\"kind\": \"storage#objects\", \"items\": [{\"name\": \"\xff\"}]}")}) {
    EXPECT_FALSE(ParseGcsListing(body, "d/")) << body.substr(0, 100);
  }
}

TEST(S3Listing, ParsesObjectsFoldersAndNextPage) {
  const auto page = ParseS3Listing(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>b</Name><Prefix>d/</Prefix><EncodingType>url</EncodingType>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b==</NextContinuationToken>"
      "<Contents><Key>d/%C3%A9+%2B</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
      "<ETag>&quot;e1&quot;</ETag><Size>5</Size></Contents>"
      "<CommonPrefixes><Prefix>d/e/</Prefix></CommonPrefixes></ListBucketResult>",
      "d/");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].path, "d/é +");
  EXPECT_EQ(page->objects[0].version, "\"e1\"");
  EXPECT_EQ(page->objects[0].size, 5);
  EXPECT_EQ(page->objects[0].modified_unix_seconds, 1.7e9);
  EXPECT_THAT(page->folders, ElementsAre("d/e/"));
  EXPECT_EQ(page->next, "a&b==");
}

TEST(S3Listing, DecodesNamesOnlyWhenTheyAreEncoded) {
  const auto page = ParseS3Listing(
      "<ListBucketResult><Contents><Key>a+b%20&lt;&amp;lt;</Key><Size>0</Size></Contents>"
      "</ListBucketResult>",
      "");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->objects.at(0).path, "a+b%20<&lt;");
}

TEST(S3Listing, RejectsAnythingElse) {
  for (const char* inside :
       {"<Contents><Key>d/a</Key><Size>-5</Size></Contents>", "<Contents><Key>d/a</Key></Contents>",
        "<Contents><Size>5</Size></Contents>", "<Contents><Key>e</Key><Size>5</Size></Contents>",
        "<Contents><Key></Key><Size>5</Size></Contents>", "<IsTruncated>true</IsTruncated>",
        "<CommonPrefixes><Prefix></Prefix></CommonPrefixes>", "<CommonPrefixes></CommonPrefixes>",
        "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>"}) {
    EXPECT_FALSE(
        ParseS3Listing(absl::StrCat("<ListBucketResult>", inside, "</ListBucketResult>"), "d/"))
        << inside;
  }
  for (const char* body :
       {"", "<html>log in</html>", "<ListBucketResult>", "<Error><Code>SlowDown</Code></Error>"}) {
    EXPECT_FALSE(ParseS3Listing(body, "")) << body;
  }
}

}  // namespace object_listing_test
}  // namespace penstock::io
