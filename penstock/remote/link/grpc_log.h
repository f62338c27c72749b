// What gRPC itself prints on stderr.
#pragma once

namespace penstock::remote {

// From now on gRPC prints no lines about connections that failed: a broken handshake, a refused port, a stranger. The
// call that fails says it, in our words. Its other errors are printed as before, and with the environment variable
// GRPC_VERBOSITY everything is. Cheap after the first call; thread-safe.
void QuietGrpcLog();

}  // namespace penstock::remote
