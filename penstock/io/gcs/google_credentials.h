// Search for Google's application default credentials, with a short timeout: Google's client
// library looks for the metadata server of Google's machines with retries that take many minutes on
// any other machine.
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

// Path of the credentials file: the value of GOOGLE_APPLICATION_CREDENTIALS, or gcloud's file if it
// exists; "" if there is none.
std::string GoogleCredentialsFile();

// Reads the credentials file. A missing file, or one that is not a regular file, is Unauthenticated
// and never NotFound, because it says nothing about any object.
absl::StatusOr<std::string> ReadGoogleCredentialsFile(const std::string& file);
// Checks that the file can be read.
absl::Status CheckGoogleCredentialsFile(const std::string& file);

// Host of the metadata server on a Google machine: GCE_METADATA_ROOT, or the well-known address.
std::string GoogleMetadataHost();

// Whether GOOGLE_APPLICATION_CREDENTIALS is set, gcloud's application default credentials exist, or
// a metadata server responds within `timeout`.
bool GoogleCredentialsExist(absl::Duration timeout = absl::Milliseconds(500));

// Caches the result of the search, so that it is cheap enough for every request. Once found,
// credentials stay found. Until then the search is repeated, because a file may be mounted later:
// for a file every 5 seconds, for a metadata server, which takes longer, every 60. Thread-safe.
class GoogleCredentialsSearch {
 public:
  explicit GoogleCredentialsSearch(base::Clock* clock = base::Clock::Real()) : clock_(clock) {}
  bool Found();

 private:
  base::Clock* const clock_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool found_ = false;
  double file_at_ = -std::numeric_limits<double>::infinity();  // time of the next search
  double server_at_ = -std::numeric_limits<double>::infinity();
};

}  // namespace penstock::io
