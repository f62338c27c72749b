// Checks the functions that depend on the table of file systems, for each of its rows.
#include "penstock/io/scheme_table.h"

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/io/file_system.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace scheme_table_test {

using absl::StatusCode;

TEST(SchemeTable, NamesEachSchemeOnce) {
  for (const SchemeRow& row : SchemeTable()) EXPECT_EQ(FindScheme(row.scheme), &row) << row.scheme;
  EXPECT_EQ(FindScheme("http"), nullptr);
}

// Detects rows without a file system, and file systems whose URIs are not parsed as their row
// declares.
TEST(SchemeTable, DefaultServesEveryRowThatMakesAFileSystem) {
  const auto fs = FileSystem::Default();
  for (const SchemeRow& row : SchemeTable()) {
    if (row.form != NameForm::kBucket) continue;
    // Rejected before any connection is made.
    const std::string name = absl::StrCat(row.scheme, "://bucket/x?unknown_option=1");
    EXPECT_THAT(fs->Stat(name),
                IsStatus(StatusCode::kInvalidArgument,
                         row.make == nullptr ? "which is unknown" : "unknown_option"));
    EXPECT_FALSE(row.credentials_advice.empty()) << row.scheme;
    ASSERT_FALSE(row.options.empty()) << row.scheme;
    ASSERT_OK_AND_ASSIGN(const Uri uri,
                         ParseUri(absl::StrCat(row.scheme, "://b/x?", row.options.front(), "=1")));
    EXPECT_OK(CheckOptions(uri));
  }
  EXPECT_THAT(fs->Stat("memory://x"), IsStatus(StatusCode::kInvalidArgument, "unknown"));
}

TEST(SchemeTable, ListsSchemesWithBucketsOptionsAndSecrets) {
  for (const SchemeRow& row : SchemeTable()) {
    if (row.scheme.empty()) continue;
    const bool is_local = row.form == NameForm::kLocalPath;
    const std::string name =
        absl::StrCat(row.scheme, is_local ? ":///" : "://", "key:secret@b/x?scheme=http");
    ASSERT_OK_AND_ASSIGN(const Uri uri, ParseUri(name));
    const bool has_bucket = row.form == NameForm::kBucket;
    EXPECT_EQ(uri.bucket, has_bucket ? "b" : "") << name;
    EXPECT_EQ(uri.options, has_bucket ? "scheme=http" : "") << name;
    EXPECT_EQ(DisplayName(name), has_bucket ? absl::StrCat(row.scheme, "://b/x") : name);
    EXPECT_EQ(FormatUri(uri), name);
    // A likely typo that would otherwise be taken for a local file.
    EXPECT_THAT(ParseUri(absl::StrCat(row.scheme, ":b/x")),
                IsStatus(StatusCode::kInvalidArgument, "has no '//'"));
  }
  EXPECT_EQ(DisplayName("unknown://key:secret@b/x"), "unknown://b/x");
}

}  // namespace scheme_table_test
}  // namespace penstock::io
