// Whether Google's default credentials can be found, answered quickly. Google's client library asks
// the metadata server of its machines with retries that last many minutes on any other machine.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace penstock::io {

// The file that holds the credentials: what GOOGLE_APPLICATION_CREDENTIALS names, or gcloud's if it
// exists; "" when there is none.
std::string GoogleCredentialsFile();

// Its bytes. What is missing or no file is Unauthenticated, and never NotFound: it says nothing
// about any object.
absl::StatusOr<std::string> ReadGoogleCredentialsFile(const std::string& file);
// That it can be read.
absl::Status CheckGoogleCredentialsFile(const std::string& file);

// Where the metadata server is on a Google machine: GCE_METADATA_ROOT, or the address they all
// know.
std::string GoogleMetadataHost();

// True when GOOGLE_APPLICATION_CREDENTIALS is set, gcloud's file of default credentials exists, or
// a metadata server answers in time.
bool GoogleCredentialsExist(absl::Duration patience = absl::Milliseconds(500));

}  // namespace penstock::io
