#include "penstock/io/uri.h"

#include <gtest/gtest.h>

#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace uri_test {

TEST(Uri, Parses) {
  struct Case {
    const char* text;
    Uri uri;
  };
  const Case cases[] = {
      {"data/x.txt", {"", "", "", "data/x.txt", ""}},
      {"/data/x.txt", {"", "", "", "/data/x.txt", ""}},
      {"what?a=b", {"", "", "", "what?a=b", ""}},
      {"C:x", {"", "", "", "C:x", ""}},
      {"file:///data/100%.txt?a=b", {"file", "", "", "/data/100%.txt?a=b", ""}},
      {"gs://b", {"gs", "", "b", "", ""}},
      {"gs://b/", {"gs", "", "b", "", ""}},
      {"gs://b/x y/%41#1", {"gs", "", "b", "x y/%41#1", ""}},
      {"gs://b/folder/", {"gs", "", "b", "folder/", ""}},
      {"gs://anonymous@b/x?scheme=http&endpoint_override=[::1]:9",
       {"gs", "anonymous", "b", "x", "scheme=http&endpoint_override=[::1]:9"}},
      {"gs://b?project_id=p", {"gs", "", "b", "", "project_id=p"}},
      {"s3://key:se@cret@b/x", {"s3", "key:se@cret", "b", "x", ""}},
      {"gs://b/shard-?.tfrec", {"gs", "", "b", "shard-?.tfrec", ""}},
      {"gs://b/shard-?", {"gs", "", "b", "shard-?", ""}},
      {"gs://b/shard-?.x?scheme=http", {"gs", "", "b", "shard-?.x", "scheme=http"}},
      {"gs://b/img?width=100?&", {"gs", "", "b", "img?width=100", ""}},
      {"gs://b/img?&a=1&&", {"gs", "", "b", "img", "a=1"}},
      {"memory://a/b?c=d", {"memory", "", "", "a/b?c=d", ""}},
      {"memory://", {"memory", "", "", "", ""}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    ASSERT_OK_AND_ASSIGN(const Uri uri, ParseUri(c.text));
    EXPECT_EQ(uri.scheme, c.uri.scheme);
    EXPECT_EQ(uri.user, c.uri.user);
    EXPECT_EQ(uri.bucket, c.uri.bucket);
    EXPECT_EQ(uri.path, c.uri.path);
    EXPECT_EQ(uri.options, c.uri.options);
    ASSERT_OK_AND_ASSIGN(const Uri again, ParseUri(FormatUri(uri)));
    EXPECT_EQ(FormatUri(again), FormatUri(uri));
    EXPECT_EQ(again.path, uri.path);
  }
}

TEST(Uri, RejectsMalformedWithClearMessage) {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const auto& [text, says] : {Case{"", "empty"},
                                   {"gs://", "no bucket"},
                                   {"gs:///x", "no bucket"},
                                   {"s3://key:secret@/x", "no bucket"},
                                   {"gs://b*/x", "wildcards"},
                                   {"s3://k?y=1@b?&", "before its bucket"},
                                   {"gs:/b/x", "gs:"},
                                   {"://b/x", "scheme"},
                                   {"file://data/x", "three slashes"},
                                   {"gs://b//x", "empty segment"},
                                   {"gs://b/a/../x", "'..'"},
                                   {"memory://./x", "'.'"}}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(ParseUri(text), IsStatus(absl::StatusCode::kInvalidArgument, says));
  }
  EXPECT_THAT(ParseUri(absl::string_view("a\0b", 3)),
              IsStatus(absl::StatusCode::kInvalidArgument, "NUL"));
}

TEST(Uri, SchemesAreCaseInsensitive) {
  ASSERT_OK_AND_ASSIGN(const Uri uri, ParseUri("GS://Bucket/Name"));
  EXPECT_EQ(uri.scheme, "gs");
  EXPECT_EQ(uri.path, "Name");
}

TEST(Uri, DisplayOmitsSecrets) {
  ASSERT_OK_AND_ASSIGN(const Uri uri, ParseUri("s3://key:secret@b/x?region=eu"));
  EXPECT_EQ(DisplayUri(uri), "s3://b/x");
  EXPECT_THAT(ParseUri("s3://key:secret@b//x"),
              IsStatus(absl::StatusCode::kInvalidArgument, "'s3://b//x'"));
}

TEST(Uri, JoinPathKeepsOptionsAtEnd) {
  struct Case {
    const char* base;
    const char* name;
    const char* joined;
  };
  for (const auto& [base, name, joined] :
       {Case{"/data", "x", "/data/x"},
        {"/data/", "a/b", "/data/a/b"},
        {"/", "x", "/x"},
        {"", "x", "x"},
        {"data?a=b", "x", "data?a=b/x"},
        {"file:///", "x", "file:///x"},
        {"gs://b", "x", "gs://b/x"},
        {"gs://b/", "x", "gs://b/x"},
        {"gs://b?scheme=http", "x", "gs://b/x?scheme=http"},
        {"gs://b/a?scheme=http", "x?y=z", "gs://b/a/x?y=z?scheme=http"},
        {"gs://b/a", "x?y=z", "gs://b/a/x?y=z?&"},
        {"memory://", "x", "memory://x"},
        {"memory://a", "x", "memory://a/x"}}) {
    EXPECT_EQ(JoinPath(base, name), joined);
  }
}

TEST(Uri, AppendToNameKeepsOptionsAtEnd) {
  EXPECT_EQ(AppendToName("/data/a.tfrec", ".index"), "/data/a.tfrec.index");
  EXPECT_EQ(AppendToName("gs://b/a.tfrec?scheme=http", ".index"),
            "gs://b/a.tfrec.index?scheme=http");
  EXPECT_EQ(AppendToName("gs://u@b/a?x=1.tfrec?&", ".index"), "gs://u@b/a?x=1.tfrec.index?&");
  EXPECT_EQ(AppendToName("memory://a", ".index"), "memory://a.index");
}

TEST(Uri, BasenameAndDirname) {
  struct Case {
    const char* uri;
    const char* name;
    const char* folder;
  };
  for (const auto& [uri, name, folder] : {Case{"/data/x", "x", "/data"},
                                          {"/data/x/", "x", "/data"},
                                          {"/x", "x", "/"},
                                          {"/", "", "/"},
                                          {"x", "x", "."},
                                          {"a//b", "b", "a"},
                                          {"file:///x", "x", "file:///"},
                                          {"gs://b/a/x?scheme=http", "x", "gs://b/a?scheme=http"},
                                          {"gs://b/x", "x", "gs://b"},
                                          {"gs://b/x?scheme=http", "x", "gs://b?scheme=http"},
                                          {"gs://b", "", "gs://b"},
                                          {"gs://b?scheme=http", "", "gs://b?scheme=http"},
                                          {"memory://a/x", "x", "memory://a"},
                                          {"memory://x", "x", "memory://"}}) {
    EXPECT_EQ(Basename(uri), name) << uri;
    EXPECT_EQ(Dirname(uri), folder) << uri;
  }
}

}  // namespace uri_test
}  // namespace penstock::io
