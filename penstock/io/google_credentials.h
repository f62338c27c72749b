// Whether Google's default credentials can be found, answered quickly. Google's client library asks
// the metadata server of its machines with retries that last many minutes on any other machine.
#pragma once

#include "absl/time/time.h"

namespace penstock::io {

// True when GOOGLE_APPLICATION_CREDENTIALS is set, gcloud's file of default credentials exists, or
// a metadata server (GCE_METADATA_ROOT, or the address every Google machine knows) answers in time.
bool GoogleCredentialsExist(absl::Duration patience = absl::Milliseconds(500));

}  // namespace penstock::io
