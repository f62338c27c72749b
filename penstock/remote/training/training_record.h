// TrainingRecord: what a worker remembers of a training that it runs (`penstock train --detach`), in the file
// training.json of the training's folder. A worker that starts again reads it, and goes on with those that have not
// ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/worker/session_table.h"

namespace penstock::remote {

struct TrainingRecord {
  std::string id = {};      // 16 random bytes: that of its entry in the SessionTable
  SessionClaim claim = {};  // who started it, and the number of its devices
  std::vector<std::string> arguments = {};  // of `penstock train`
  int64_t since_unix_seconds = 0;
  int starts = 0;  // of its process
  int losses = 0;  // starts after the worker was lost without notice
  bool stopping = false;
  bool ended = false;
  // If it has ended: the exit code, or 128 + the signal; in words; when.
  int exit_code = 0;
  std::string end = {};
  int64_t ended_unix_seconds = 0;
};

std::string TrainingRecordToJson(const TrainingRecord& record);
// DATA_LOSS: the text is no record.
absl::StatusOr<TrainingRecord> TrainingRecordFromJson(absl::string_view text);

// Writes the file so that a crash leaves the previous one or this one.
absl::Status SaveTrainingRecord(const std::string& folder, const TrainingRecord& record);
absl::StatusOr<TrainingRecord> LoadTrainingRecord(const std::string& folder);

// "penstock train --data 'gs://b/*.tfrec' --epochs 5": to be pasted into a shell, at most 500 characters.
std::string TrainingCommandLine(const std::vector<std::string>& arguments);

// How a process that has ended with this wait status (waitpid(2)) ended: the exit code, and words for the user.
// `last_line`: what it has printed last. `stopping`: it was asked to stop.
struct TrainingEnd {
  int exit_code = 0;
  std::string words = {};
};
TrainingEnd DescribeTrainingEnd(int wait_status, absl::string_view last_line,
                                bool stopping = false);

}  // namespace penstock::remote
