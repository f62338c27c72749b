// EmptyHome: a temporary home folder and an environment without credentials for any storage service
// other than those that a test adds.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {

class EmptyHome {
 public:
  EmptyHome() {
    std::filesystem::create_directory(folder_);
    Clear();
    ::setenv("HOME", folder_.c_str(), 1);
    ::setenv("GCE_METADATA_ROOT", "127.0.0.1:1", 1);
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  }
  ~EmptyHome() {
    Clear();
    std::filesystem::remove_all(folder_);
  }
  EmptyHome(const EmptyHome&) = delete;

  const std::string& folder() const { return folder_; }

  // Writes a file to the folder and returns its path.
  std::string Put(const std::string& name, const std::string& text) const {
    const std::string file = JoinPath(folder_, name);
    EXPECT_OK(WriteFile(*MakeLocalFileSystem(), file, text));
    return file;
  }

  // Credentials of a Google user; the token server listens on this local port.
  static std::string GoogleUser(int port) {
    return absl::StrCat(R"({"type": "authorized_user", "client_id": "i", "client_secret": "s", )",
                        R"("refresh_token": "r", "token_uri": "http://127.0.0.1:)", port, R"("})");
  }

 private:
  static void Clear() {
    for (const char* name :
         {"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "AWS_SHARED_CREDENTIALS_FILE",
          "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "STORAGE_EMULATOR_HOST",
          "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
      ::unsetenv(name);
    }
  }

  const std::string folder_ =
      JoinPath(testing::TempDir(), absl::StrCat("penstock-home-", absl::Hex(base::EntropySeed())));
};

}  // namespace penstock::io
