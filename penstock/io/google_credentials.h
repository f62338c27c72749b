// Whether Google's default credentials can be found, answered quickly. Google's client library asks
// the metadata server of its machines with retries that last many minutes on any other machine.
#pragma once

#include <limits>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "penstock/base/clock.h"

namespace penstock::io {

// The file that holds the credentials: what GOOGLE_APPLICATION_CREDENTIALS names, or gcloud's if it
// exists; "" when there is none.
std::string GoogleCredentialsFile();

// Returns the file's bytes. A missing file, or one that is not a file, is Unauthenticated and never
// NotFound: it says nothing about any object.
absl::StatusOr<std::string> ReadGoogleCredentialsFile(const std::string& file);
// Checks that the file can be read.
absl::Status CheckGoogleCredentialsFile(const std::string& file);

// Where the metadata server is on a Google machine: GCE_METADATA_ROOT, or the address they all
// know.
std::string GoogleMetadataHost();

// True when GOOGLE_APPLICATION_CREDENTIALS is set, gcloud's file of default credentials exists, or
// a metadata server answers in time.
bool GoogleCredentialsExist(absl::Duration patience = absl::Milliseconds(500));

// Remembers whether credentials exist. Once found they stay found. While there are none it looks
// again, because a file may be mounted later: for a file every 5 seconds, for a metadata server,
// which takes longer, every 60; so it can be asked at each request. Any thread may use it.
class GoogleCredentialsSearch {
 public:
  explicit GoogleCredentialsSearch(base::Clock* clock = base::Clock::Real()) : clock_(clock) {}
  bool Found();

 private:
  base::Clock* const clock_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool found_ = false;
  double file_at_ = -std::numeric_limits<double>::infinity();  // of the next look
  double server_at_ = -std::numeric_limits<double>::infinity();
};

}  // namespace penstock::io
