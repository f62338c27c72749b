// Follows a training that a worker runs (`penstock train --detach`): prints what it prints.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/remote/protocol.pb.h"

namespace penstock::cli {

enum class FollowUntil {
  kStarted,  // its first session is open, or it has ended
  kEnded,
};

// Prints to stdout what the training prints from `offset` on (negative: from the end), and returns its state. A worker
// that cannot be reached is tried again for a minute, since it may be started again. Ctrl-C ends the caller and
// not the training.
absl::StatusOr<remote::TrainingInfo> FollowTraining(const std::string& address,
                                                    const std::string& training, int64_t offset,
                                                    FollowUntil until);

// "training 4f3a91c2 of ada at laptop since 14:02, running: penstock train ..."
std::string TrainingLine(const remote::TrainingInfo& training);

}  // namespace penstock::cli
