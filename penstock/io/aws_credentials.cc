#include "penstock/io/aws_credentials.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/environment.h"
#include "penstock/io/local_file_system.h"
#include "penstock/io/percent_encoding.h"

namespace penstock::io {
namespace {

std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

// "" when it is not there, or cannot be read: others may have what is looked for.
std::string TextOf(const std::string& file) {
  if (file.empty()) return "";
  return ReadFile(*MakeLocalFileSystem(), file).value_or("");
}

std::string FileOfHome(const char* variable, const char* name) {
  const std::string home = Environment("HOME");
  return FirstOf({Environment(variable), home.empty() ? "" : home + name});
}

// Ways by which a key is got from someone.
bool IsElsewhere(absl::string_view config, absl::string_view section) {
  for (const char* name : {"role_arn", "credential_process", "sso_session", "sso_account_id",
                           "credential_source", "web_identity_token_file"}) {
    if (!IniValue(config, section, name).empty()) return true;
  }
  return false;
}

bool EnvironmentSaysElsewhere() {
  for (const char* name : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                           "AWS_CONTAINER_CREDENTIALS_FULL_URI"}) {
    if (!Environment(name).empty()) return true;
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
      FirstOf({Environment("AWS_PROFILE"), Environment("AWS_DEFAULT_PROFILE"), "default"});
  const std::string keys = TextOf(FileOfHome("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"));
  const std::string config = TextOf(FileOfHome("AWS_CONFIG_FILE", "/.aws/config"));
  const std::string section = profile == "default" ? profile : "profile " + profile;
  AwsCredentials found;
  found.region = FirstOf({Environment("AWS_REGION"), Environment("AWS_DEFAULT_REGION"),
                          IniValue(config, section, "region"), IniValue(keys, profile, "region")});
  if (!uri.user.empty()) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(uri.user, absl::MaxSplits(':', 1));
    if (parts.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", DisplayUri(uri), "': before '@' stands KEY:SECRET, and there is no secret"));
    }
    found.key = AwsKey{.id = PercentDecode(parts.first), .secret = PercentDecode(parts.second)};
    return found;
  }
  AwsKey key = {.id = Environment("AWS_ACCESS_KEY_ID"),
                .secret = Environment("AWS_SECRET_ACCESS_KEY"),
                .session_token = Environment("AWS_SESSION_TOKEN")};
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
  // The machine's metadata may have a key, unless that is ruled out.
  found.elsewhere = Environment("AWS_EC2_METADATA_DISABLED") != "true" ||
                    IsElsewhere(config, section) || IsElsewhere(keys, profile) ||
                    EnvironmentSaysElsewhere();
  return found;
}

AwsKeys::AwsKeys(Uri uri, AwsCredentials found, base::Clock* clock)
    : uri_(std::move(uri)),
      clock_(clock),
      key_(std::move(found.key)),
      found_at_(clock->Seconds()) {}

std::optional<AwsKey> AwsKeys::Get() {
  std::lock_guard lock(mutex_);
  if (clock_->Seconds() >= found_at_ + kRereadSeconds) Find();
  return key_;
}

bool AwsKeys::Reread(absl::string_view refused_id) {
  std::lock_guard lock(mutex_);
  if (key_ && key_->id == refused_id) Find();
  return key_ && key_->id != refused_id;
}

void AwsKeys::Find() {
  found_at_ = clock_->Seconds();
  auto found = FindAwsCredentials(uri_);
  // A file that is being rewritten may briefly have no key: continue with the old one.
  if (found.ok() && found->key) key_ = std::move(found->key);
}

}  // namespace penstock::io
