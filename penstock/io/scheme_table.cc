#include "penstock/io/scheme_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "penstock/io/cache/caching_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/s3/s3_file_system.h"

namespace penstock::io {
namespace {

// Arrow's option names, because Arrow parses the options of the URIs that it serves.
constexpr absl::string_view kGcsOptions[] = {"endpoint_override", "scheme", "project_id",
                                             "location", "retry_limit_seconds"};
constexpr absl::string_view kS3Options[] = {"endpoint_override",
                                            "scheme",
                                            "region",
                                            "allow_bucket_creation",
                                            "allow_bucket_deletion",
                                            "allow_delayed_open",
                                            "smart_defaults",
                                            "tls_ca_dir_path",
                                            "tls_ca_file_path",
                                            "tls_verify_certificates"};

const SchemeRow kSchemes[] = {
    {.scheme = "",
     .form = NameForm::kLocalPath,
     .make = [](const SharedParts&) { return MakeLocalFileSystem(); }},
    {.scheme = "file",
     .form = NameForm::kLocalPath,
     .make = [](const SharedParts&) { return MakeLocalFileSystem(); }},
    {.scheme = "memory", .form = NameForm::kName},
    {.scheme = "gs",
     .form = NameForm::kBucket,
     .make =
         [](const SharedParts& shared) {
           return WithDiskCache(MakeGcsFileSystem(shared.arrow), shared.cache);
         },
     .options = kGcsOptions,
     .credentials_advice = "log in with 'gcloud auth application-default login' or set "
                           "GOOGLE_APPLICATION_CREDENTIALS, and check the bucket's roles"},
    {.scheme = "s3",
     .form = NameForm::kBucket,
     .make =
         [](const SharedParts& shared) {
           return WithDiskCache(MakeS3FileSystem(shared.arrow), shared.cache);
         },
     .options = kS3Options,
     .credentials_advice = "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                           "and check the bucket's policy"},
};

}  // namespace

absl::Span<const SchemeRow> SchemeTable() { return kSchemes; }

const SchemeRow* FindScheme(absl::string_view scheme) {
  for (const SchemeRow& row : kSchemes) {
    if (row.scheme == scheme) return &row;
  }
  return nullptr;
}

absl::Status CheckOptions(const Uri& uri) {
  if (uri.options.empty()) return absl::OkStatus();
  const SchemeRow* const row = FindScheme(uri.scheme);
  if (row == nullptr) return absl::OkStatus();
  for (absl::string_view option : absl::StrSplit(uri.options, '&', absl::SkipEmpty())) {
    const absl::string_view key = option.substr(0, option.find('='));
    if (std::find(row->options.begin(), row->options.end(), key) == row->options.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", DisplayUri(uri), "' has the unknown option '", key, "'; ", uri.scheme,
                       ":// supports ", absl::StrJoin(row->options, ", "),
                       ". If '?' is part of the name, append '?&' to the name"));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::io
