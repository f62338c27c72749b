#include "penstock/remote/training/training_record.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include <sys/wait.h>

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/remote/worker/supervisor.h"

namespace penstock::remote {
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr char kRecordName[] = "/training.json";
// EX_TEMPFAIL: what `penstock train` returns when SIGTERM has interrupted it after it saved.
constexpr int kInterruptedCode = 75;

bool NeedsQuotes(absl::string_view word) {
  if (word.empty()) return true;
  for (const char c : word) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        std::strchr("-_./:=,+@%", c) == nullptr) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string TrainingRecordToJson(const TrainingRecord& record) {
  const RecordJson json = {{"training", absl::BytesToHexString(record.id)},
                           {"host", record.claim.host},
                           {"user", record.claim.user},
                           {"owner", record.claim.owner},
                           {"devices", record.claim.devices},
                           {"arguments", record.arguments},
                           {"since_unix_seconds", record.since_unix_seconds},
                           {"starts", record.starts},
                           {"losses", record.losses},
                           {"stopping", record.stopping},
                           {"ended", record.ended},
                           {"exit_code", record.exit_code},
                           {"end", record.end},
                           {"ended_unix_seconds", record.ended_unix_seconds}};
  return json.dump(2, ' ', false, RecordJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<TrainingRecord> TrainingRecordFromJson(absl::string_view text) {
  const RecordJson json = RecordJson::parse(text, nullptr, /*allow_exceptions=*/false);
  TrainingRecord record;
  try {
    record.id = absl::HexStringToBytes(json.at("training").get<std::string>());
    record.claim.host = json.at("host").get<std::string>();
    record.claim.user = json.at("user").get<std::string>();
    record.claim.owner = json.at("owner").get<std::string>();
    record.claim.devices = json.at("devices").get<int>();
    record.arguments = json.at("arguments").get<std::vector<std::string>>();
    record.since_unix_seconds = json.at("since_unix_seconds").get<int64_t>();
    record.starts = json.at("starts").get<int>();
    record.losses = json.at("losses").get<int>();
    record.stopping = json.at("stopping").get<bool>();
    record.ended = json.at("ended").get<bool>();
    record.exit_code = json.at("exit_code").get<int>();
    record.end = json.at("end").get<std::string>();
    record.ended_unix_seconds = json.at("ended_unix_seconds").get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("it is no record of a training: ", error.what()));
  }
  if (record.id.size() != 16) return absl::DataLossError("its training has no valid id");
  record.claim.id = record.id;
  record.claim.training = true;
  return record;
}

absl::Status SaveTrainingRecord(const std::string& folder, const TrainingRecord& record) {
  io::FileSystem& fs = *io::FileSystem::Default();
  return base::WithContext(io::WriteFile(fs, folder + kRecordName, TrainingRecordToJson(record)),
                           absl::StrCat("the record of training ", ShortId(record.id)));
}

absl::StatusOr<TrainingRecord> LoadTrainingRecord(const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text,
                            io::ReadFile(*io::FileSystem::Default(), folder + kRecordName));
  absl::StatusOr<TrainingRecord> record = TrainingRecordFromJson(text);
  if (!record.ok()) return base::WithContext(record.status(), folder + kRecordName);
  return record;
}

std::string TrainingCommandLine(const std::vector<std::string>& arguments) {
  constexpr size_t kMaxLine = 500;
  std::string line = "penstock train";
  for (const std::string& word : arguments) {
    absl::StrAppend(&line, " ", NeedsQuotes(word) ? absl::StrCat("'", word, "'") : word);
  }
  if (line.size() > kMaxLine) line = line.substr(0, kMaxLine - 3) + "...";
  return line;
}

TrainingEnd DescribeTrainingEnd(int wait_status, absl::string_view last_line, bool stopping) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    // Before its first step the signal has its default action.
    if (stopping && signal == SIGTERM) {
      return {.exit_code = kInterruptedCode,
              .words = "stopped before its first step; the same command begins with it"};
    }
    if (stopping && signal == SIGKILL) {
      return {.exit_code = 128 + signal,
              .words =
                  "was killed (SIGKILL), since it did not end in time; the same command "
                  "resumes from its last checkpoint"};
    }
    return {.exit_code = 128 + signal,
            .words = absl::StrCat("ended by signal ", signal, " (", SignalName(signal),
                                  "); the same command resumes from its last checkpoint")};
  }
  const int code = WEXITSTATUS(wait_status);
  if (code == 0) return {.exit_code = 0, .words = "completed"};
  if (code == kInterruptedCode) {
    return {.exit_code = code,
            .words = "saved a checkpoint and stopped; the same command resumes from it"};
  }
  return {.exit_code = code,
          .words = absl::StrCat("failed with exit code ", code, ": ", last_line)};
}

}  // namespace penstock::remote
