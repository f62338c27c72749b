// The handlers of requests, in a table. Internal to room remote.
#pragma once

#include "absl/status/status.h"

#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {

// Executes a request. OK: its reply, if it wants one, has been sent or will be. Error: none has been; the
// caller replies with the error, or ends the session if the request wants no reply.
absl::Status HandleRequest(SessionState& session, Call& call);

}  // namespace penstock::remote
