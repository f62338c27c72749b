// Why a worker cannot be reached: gRPC reports most failures as UNAVAILABLE with the text of a system call, so the
// client looks itself at what the server speaks, and says what to do.
//
//   const ConnectionFailure failure = ExplainFailure(endpoint, status, /*look=*/true);
//   if (failure.final) return failure.status;   // "... it speaks TLS, this client plaintext: use grpcs://..."
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/remote/link/credentials.h"

namespace penstock::remote {

// What a server says to the first bytes of HTTP/2, and of TLS.
struct ServerVoice {
  enum Kind {
    kUnknown,  // connections are rejected, or it was not asked
    kHttp2,    // plaintext, as a worker without TLS
    kTls,
    kHttp1,
    kOther,       // another protocol
    kClosed,      // it accepts connections, and closes them without a word
    kSilent,      // it accepts connections, and says nothing
    kUnreachable  // nothing answers to connections
  } kind = kUnknown;
  std::string text = {};  // kHttp1, kOther: the first line, printable
};
// Opens one or two connections; at most `seconds` for each.
ServerVoice ListenTo(const HostPort& where, double seconds);

// Whether ListenTo finds a server that cannot be the worker: INVALID_ARGUMENT, UNIMPLEMENTED. OK: nothing explains why
// it does not answer. For a connection that has had no answer for kLookAfterSeconds: an HTTP server may wait for more.
// `heard`: what it says.
absl::Status FindOtherServer(const Endpoint& endpoint, ServerVoice* heard = nullptr);
inline constexpr double kLookAfterSeconds = 2;

struct ConnectionFailure {
  absl::Status status;  // in a sentence, with the address
  bool final = false;   // another attempt ends in the same way
  bool no_server =
      false;  // no server listens there; a worker may be starting, so a few attempts are worthwhile
  bool heard = false;  // explained by what the server says, or that it says nothing
};
// Explains the failure of a connection or call. With `look`, one that gRPC does not explain makes a connection of its
// own (ListenTo), which may take some seconds, unless that was done before (`heard`).
ConnectionFailure ExplainFailure(const Endpoint& endpoint, const absl::Status& error, bool look,
                                 const ServerVoice& heard = {});

}  // namespace penstock::remote
