// Trainings: the trainings that a worker runs for clients that need not stay (`penstock train --detach`).
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto trainings, Trainings::Open({.folder = "/var/lib/worker.trainings",
//                                                               .command = {"/usr/bin/penstock", "train"}}));
//   for (const TrainingRecord& record : trainings->Unfinished()) ...     // of the worker's last run
//   PENSTOCK_RETURN_IF_ERROR(trainings->Start(record));
//   ... trainings->Follow("4f3a91c2", offset), trainings->Stop("4f3a91c2")
//
// Each is a process of this machine, which uses the devices through a session as every client does. Its record and what
// it prints (the last TrainingOutput::kMaxBytes of it) are files in FOLDER/ID/, which stay when it has ended; beyond
// kMaxEnded ended ones the oldest are removed.
// When this object is destroyed, the processes are killed and their records stay unfinished: the worker's next run
// starts them again, and they resume from their last checkpoints.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/remote/training/training_output.h"
#include "penstock/remote/training/training_process.h"
#include "penstock/remote/training/training_record.h"

namespace penstock::remote {

struct TrainingsOptions {
  std::string folder;                // made if it does not exist; one worker uses it
  std::vector<std::string> command;  // a training's arguments follow
  // What is added to the environment of a training's process: how it reaches the worker.
  std::function<absl::StatusOr<std::map<std::string, std::string>>(const TrainingRecord& record)>
      environment = {};
  // A training has ended, and its record says how; called on a thread of its own.
  std::function<void(const TrainingRecord& record)> on_ended = {};
};

class Trainings {
 public:
  static constexpr size_t kMaxEnded = 100;
  static constexpr int64_t kMaxOutput = int64_t{256} << 10;  // bytes of one Follow
  static constexpr int kMaxLosses = 3;

  // Reads the records. FAILED_PRECONDITION: the folder cannot be written.
  static absl::StatusOr<std::unique_ptr<Trainings>> Open(TrainingsOptions options);
  ~Trainings();

  // Trainings that had not ended when the last run of the worker did.
  std::vector<TrainingRecord> Unfinished() const;

  // Starts a process. A record that is known is started again: `lost` says that the worker was lost without notice,
  // which may happen kMaxLosses times; then the training is ended.
  absl::Status Start(TrainingRecord record, bool lost = false);
  // Ends one that is not running, for a reason.
  void GiveUp(const std::string& id, const std::string& why);
  // Its process has opened its session.
  void SessionOpened(const std::string& id);
  // Asks it to save and to end (SIGTERM); the second time its process is killed. NOT_FOUND; FAILED_PRECONDITION: it
  // has ended.
  absl::Status Stop(const std::string& id);
  // Asks it the first time, and does nothing more if it has been asked before.
  absl::Status AskToStop(const std::string& id);
  // Kills its process. `words`: how it ended, in its record.
  void Kill(const std::string& id, const std::string& words);
  // The worker accepts no new sessions: a training that ends before it had one is unfinished.
  void Drain();
  // Waits until it has ended; false if it has not within this time.
  bool AwaitEnd(const std::string& id, double seconds);

  // The record of a short id (ShortId). NOT_FOUND names the worker's trainings.
  absl::StatusOr<TrainingRecord> Find(absl::string_view short_id) const;
  bool IsRunning(const std::string& id) const;
  // What it has printed from `offset` on (negative: from the end), and its state.
  absl::StatusOr<TrainingReply> Follow(absl::string_view short_id, int64_t offset) const;
  // Running ones, then ended ones, newest first.
  std::vector<TrainingInfo> List() const;

 private:
  struct Running {
    explicit Running(TrainingProcessOptions options) : process(std::move(options)) {}
    TrainingProcess process;
    std::thread thread;
    bool session_opened = false;
    std::string killed;  // the words of Kill
  };
  struct Entry {
    TrainingRecord record;
    std::unique_ptr<Running> running;  // null: it has no process
    std::shared_ptr<TrainingOutput> output = nullptr;
    bool unsaved = false;  // the record could not be written
  };

  explicit Trainings(TrainingsOptions options) : options_(std::move(options)) {}
  absl::Status ReadRecords();
  std::string FolderOf(const std::string& id) const;
  // Its output; made on first use.
  std::shared_ptr<TrainingOutput> OutputLocked(Entry& entry) const;
  absl::Status StopOrKill(const std::string& id, bool again);
  void Run(const std::string& id, TrainingProcess* process);
  void Ended(const std::string& id, const TrainingEnd& end);
  void SetEndedLocked(Entry& entry, const TrainingEnd& end);
  absl::Status SaveLocked(Entry& entry) const;
  // Writes what could not be written before: the next run would go on with trainings that were stopped.
  void SaveUnsavedLocked() const;
  Entry* FindLocked(absl::string_view short_id) const;
  TrainingInfo InfoLocked(Entry& entry) const;
  void RemoveOldLocked();

  const TrainingsOptions options_;
  mutable std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  mutable std::map<std::string, Entry> entries_;  // by id
  std::vector<std::thread> done_;                 // threads of trainings that have ended
  bool closing_ = false, draining_ = false;
};

}  // namespace penstock::remote
