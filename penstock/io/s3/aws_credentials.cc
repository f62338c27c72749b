#include "penstock/io/s3/aws_credentials.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/environment.h"
#include "penstock/io/http/percent_encoding.h"
#include "penstock/io/local/local_file_system.h"

namespace penstock::io {
namespace {

std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

// Contents of a file; "" if it does not exist or cannot be read, because another source may have
// the key.
std::string TextOf(const std::string& file) {
  if (file.empty()) return "";
  return ReadFile(*MakeLocalFileSystem(), file).value_or("");
}

std::string FileOfHome(const char* variable, const char* name) {
  const std::string home = GetEnvironment("HOME");
  return FirstOf({GetEnvironment(variable), home.empty() ? "" : home + name});
}

// Settings by which a key is requested from another service.
bool IsElsewhere(absl::string_view config, absl::string_view section) {
  for (const char* name : {"role_arn", "credential_process", "sso_session", "sso_account_id",
                           "credential_source", "web_identity_token_file"}) {
    if (!IniValue(config, section, name).empty()) return true;
  }
  return false;
}

bool EnvironmentDelegates() {
  for (const char* name : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                           "AWS_CONTAINER_CREDENTIALS_FULL_URI"}) {
    if (!GetEnvironment(name).empty()) return true;
  }
  return false;
}

}  // namespace

std::string IniValue(absl::string_view text, absl::string_view section, absl::string_view name) {
  bool here = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      here = absl::StripAsciiWhitespace(line.substr(1, line.find(']') - 1)) == section;
      continue;
    }
    const size_t equals = line.find('=');
    if (here && equals != absl::string_view::npos &&
        absl::StripAsciiWhitespace(line.substr(0, equals)) == name) {
      return std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
    }
  }
  return "";
}

absl::StatusOr<AwsCredentials> FindAwsCredentials(const Uri& uri) {
  const std::string profile =
      FirstOf({GetEnvironment("AWS_PROFILE"), GetEnvironment("AWS_DEFAULT_PROFILE"), "default"});
  const std::string keys = TextOf(FileOfHome("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"));
  const std::string config = TextOf(FileOfHome("AWS_CONFIG_FILE", "/.aws/config"));
  const std::string section = profile == "default" ? profile : "profile " + profile;
  AwsCredentials found;
  found.region = FirstOf({GetEnvironment("AWS_REGION"), GetEnvironment("AWS_DEFAULT_REGION"),
                          IniValue(config, section, "region"), IniValue(keys, profile, "region")});
  if (!uri.user.empty()) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(uri.user, absl::MaxSplits(':', 1));
    if (parts.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", DisplayUri(uri),
                       "': the part before '@' must be KEY:SECRET, but the secret is missing"));
    }
    found.key = AwsKey{.id = PercentDecode(parts.first), .secret = PercentDecode(parts.second)};
    return found;
  }
  AwsKey key = {.id = GetEnvironment("AWS_ACCESS_KEY_ID"),
                .secret = GetEnvironment("AWS_SECRET_ACCESS_KEY"),
                .session_token = GetEnvironment("AWS_SESSION_TOKEN")};
  if (key.id.empty() || key.secret.empty()) {
    const auto value = [&](const char* name) {
      return FirstOf({IniValue(keys, profile, name), IniValue(config, section, name)});
    };
    key = {.id = value("aws_access_key_id"),
           .secret = value("aws_secret_access_key"),
           .session_token = value("aws_session_token")};
  }
  if (!key.id.empty() && !key.secret.empty()) {
    found.key = std::move(key);
    return found;
  }
  // Instance metadata may provide a key, unless it is disabled.
  found.needs_aws_client = GetEnvironment("AWS_EC2_METADATA_DISABLED") != "true" ||
                           IsElsewhere(config, section) || IsElsewhere(keys, profile) ||
                           EnvironmentDelegates();
  return found;
}

AwsKeys::AwsKeys(Uri uri, AwsCredentials found, base::Clock* clock)
    : uri_(std::move(uri)),
      clock_(clock),
      key_(std::move(found.key)),
      found_at_(clock->Seconds()) {}

std::optional<AwsKey> AwsKeys::Get() {
  std::lock_guard lock(mutex_);
  if (clock_->Seconds() >= found_at_ + kReloadSeconds) Load();
  return key_;
}

bool AwsKeys::Reload(absl::string_view rejected_id) {
  std::lock_guard lock(mutex_);
  if (key_ && key_->id == rejected_id) Load();
  return key_ && key_->id != rejected_id;
}

void AwsKeys::Load() {
  found_at_ = clock_->Seconds();
  auto found = FindAwsCredentials(uri_);
  // A file that is being rewritten may briefly have no key: keep using the old one.
  if (found.ok() && found->key) key_ = std::move(found->key);
}

}  // namespace penstock::io
