// Restoring the variables of a graph from a checkpoint. Internal to room estimator.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/estimator/run_config.h"
#include "penstock/io/file_system.h"
#include "penstock/session/session.h"

namespace penstock::estimator {

// Path of the newest checkpoint in a folder: the newest existing one that its file "checkpoint" lists;
// if none of those exists, the one in the folder with the highest step; "" if there is none. (A training
// that restarts from scratch overwrites existing checkpoints.) DATA_LOSS if the file is malformed.
absl::StatusOr<std::string> NewestCheckpoint(io::FileSystem& fs, const std::string& folder,
                                             const std::function<void(absl::string_view)>& log);

// Sets all global variables of the session's graph. INVALID_ARGUMENT, and nothing is set, if the
// graph does not fit: the message lists the variables that the checkpoint lacks, those of another
// shape or type, and those that only the checkpoint has. With `training`, variables that only the
// checkpoint has are logged, because the next checkpoint will lack them.
absl::Status RestoreVariables(io::FileSystem& fs, session::Session& session,
                              const std::string& checkpoint, bool training,
                              const RunConfig& config);

// Initializes the local variables of the default graph: they are not in checkpoints.
absl::Status InitializeLocalVariables(session::Session& session);

}  // namespace penstock::estimator
