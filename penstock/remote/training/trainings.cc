#include "penstock/remote/training/trainings.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

// A line of the worker's among those of a training.
void Say(TrainingOutput& output, const std::string& line) {
  output.Append(absl::StrCat("worker: ", line, "\n"));
}

constexpr size_t kMaxLastLine = 500;

int64_t UnixSeconds() { return static_cast<int64_t>(base::Clock::Real()->UnixSeconds()); }

}  // namespace

std::string Trainings::FolderOf(const std::string& id) const {
  return absl::StrCat(options_.folder, "/", absl::BytesToHexString(id));
}

std::shared_ptr<TrainingOutput> Trainings::OutputLocked(Entry& entry) const {
  if (entry.output == nullptr) {
    entry.output = std::make_shared<TrainingOutput>(FolderOf(entry.record.id));
  }
  return entry.output;
}

absl::StatusOr<std::unique_ptr<Trainings>> Trainings::Open(TrainingsOptions options) {
  std::unique_ptr<Trainings> trainings(new Trainings(std::move(options)));
  PENSTOCK_RETURN_IF_ERROR(trainings->ReadRecords());
  return trainings;
}

absl::Status Trainings::ReadRecords() {
  std::error_code error;
  if (!std::filesystem::exists(options_.folder, error)) return absl::OkStatus();
  std::filesystem::directory_iterator files(options_.folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", options_.folder, ": ", error.message()));
  }
  for (const auto& file : files) {
    // A folder without a record is one whose training was not started.
    absl::StatusOr<TrainingRecord> record = LoadTrainingRecord(file.path().string());
    if (!record.ok() || FolderOf(record->id) != file.path().string()) continue;
    const std::string id = record->id;
    entries_[id].record = *std::move(record);
  }
  return absl::OkStatus();
}

Trainings::~Trainings() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    for (auto& [id, entry] : entries_) {
      if (entry.running != nullptr) entry.running->process.Signal(SIGKILL);
    }
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] {
      return std::all_of(entries_.begin(), entries_.end(),
                         [](const auto& entry) { return entry.second.running == nullptr; });
    });
    threads.swap(done_);
    SaveUnsavedLocked();
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<TrainingRecord> Trainings::Unfinished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<TrainingRecord> out;
  for (const auto& [id, entry] : entries_) {
    if (!entry.record.ended && entry.running == nullptr) out.push_back(entry.record);
  }
  return out;
}

absl::Status Trainings::Start(TrainingRecord record, bool lost) {
  const std::string id = record.id;
  if (lost && ++record.losses > kMaxLosses) {
    GiveUp(id, absl::StrCat("the worker was lost ", record.losses,
                            " times while it ran; the same command resumes from its last "
                            "checkpoint"));
    return absl::AbortedError("the training was given up");
  }
  ++record.starts;
  std::error_code error;
  std::filesystem::create_directories(FolderOf(id), error);
  if (!error) std::filesystem::permissions(FolderOf(id), std::filesystem::perms::owner_all, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder ", FolderOf(id), ": ", error.message()));
  }
  std::shared_ptr<TrainingOutput> output;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(id);
    output = found != entries_.end() ? OutputLocked(found->second)
                                     : std::make_shared<TrainingOutput>(FolderOf(id));
  }
  TrainingProcessOptions process{
      .command = options_.command,
      .output = [output](absl::string_view bytes) { output->Append(bytes); }};
  process.command.insert(process.command.end(), record.arguments.begin(), record.arguments.end());
  if (options_.environment) {
    PENSTOCK_ASSIGN_OR_RETURN(process.environment, options_.environment(record));
  }
  PENSTOCK_RETURN_IF_ERROR(SaveTrainingRecord(FolderOf(id), record));
  if (record.starts > 1) {
    Say(*output,
        lost ? "was lost, and has started again; the training resumes from its last checkpoint"
             : "has started again; the training resumes from its last checkpoint");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::thread& thread : std::exchange(done_, {})) thread.join();
  Entry& entry = entries_[id];
  entry.record = std::move(record);
  entry.output = std::move(output);
  entry.running = std::make_unique<Running>(std::move(process));
  try {
    entry.running->thread =
        std::thread([this, id, process = &entry.running->process] { Run(id, process); });
  } catch (const std::system_error&) {
    entry.running = nullptr;
    return absl::ResourceExhaustedError("cannot start a thread for a training");
  }
  RemoveOldLocked();
  return absl::OkStatus();
}

void Trainings::Run(const std::string& id, TrainingProcess* process) {
  const absl::StatusOr<int> status = process->Run();
  if (!status.ok()) {
    return Ended(id, {.exit_code = 1, .words = std::string(status.status().message())});
  }
  std::string last, killed;
  bool stopping;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last = OutputLocked(entries_[id])->LastLine().substr(0, kMaxLastLine);
    stopping = entries_[id].record.stopping;
    killed = entries_[id].running->killed;
  }
  TrainingEnd end =
      DescribeTrainingEnd(*status, last.empty() ? "it printed nothing" : last, stopping);
  // It may have ended by itself in between.
  if (!killed.empty() && end.exit_code == 128 + SIGKILL) end.words = killed;
  Ended(id, end);
}

void Trainings::Ended(const std::string& id, const TrainingEnd& end) {
  TrainingRecord record;
  bool finished = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = entries_[id];
    // The worker ends, and has killed it or accepted no session of it: its next run resumes it.
    const bool rejected = draining_ && !entry.running->session_opened && !entry.record.stopping;
    finished = !closing_ && !rejected;
    if (finished) SetEndedLocked(entry, end);
    record = entry.record;
  }
  if (finished && options_.on_ended) options_.on_ended(record);
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_[id];
  done_.push_back(std::move(entry.running->thread));
  entry.running = nullptr;
  OutputLocked(entry)->Close();
  changed_.notify_all();
}

void Trainings::Drain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  draining_ = true;
}

void Trainings::GiveUp(const std::string& id, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Say(*OutputLocked(found->second), why);
  SetEndedLocked(found->second, {.exit_code = 1, .words = why});
}

void Trainings::SetEndedLocked(Entry& entry, const TrainingEnd& end) {
  TrainingRecord& record = entry.record;
  record.ended = true;
  record.exit_code = end.exit_code;
  record.end = end.words;
  record.ended_unix_seconds = UnixSeconds();
  SaveLocked(entry).IgnoreError();  // tried again later
}

absl::Status Trainings::SaveLocked(Entry& entry) const {
  const absl::Status saved = SaveTrainingRecord(FolderOf(entry.record.id), entry.record);
  entry.unsaved = !saved.ok();
  return saved;
}

void Trainings::SaveUnsavedLocked() const {
  for (auto& [id, entry] : entries_) {
    if (entry.unsaved) SaveLocked(entry).IgnoreError();
  }
}

void Trainings::SessionOpened(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second.running != nullptr) {
    found->second.running->session_opened = true;
  }
}

absl::Status Trainings::Stop(const std::string& id) { return StopOrKill(id, /*again=*/true); }

absl::Status Trainings::AskToStop(const std::string& id) { return StopOrKill(id, /*again=*/false); }

void Trainings::Kill(const std::string& id, const std::string& words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.running == nullptr) return;
  Say(*OutputLocked(found->second), words);
  found->second.running->killed = words;
  found->second.running->process.Signal(SIGKILL);
}

absl::Status Trainings::StopOrKill(const std::string& id, bool again) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return absl::NotFoundError("there is no such training");
  Entry& entry = found->second;
  if (entry.running == nullptr || entry.record.ended) {
    return absl::FailedPreconditionError(
        absl::StrCat("training ", ShortId(id), " has ended: ", entry.record.end));
  }
  if (entry.record.stopping && !again) return absl::OkStatus();
  entry.running->process.Signal(entry.record.stopping ? SIGKILL : SIGTERM);
  entry.record.stopping = true;
  return base::WithContext(
      SaveLocked(entry),
      absl::StrCat("training ", ShortId(id),
                   " is asked to stop, but that could not be noted, so a "
                   "worker that is started again before there is room would go on with it"));
}

bool Trainings::AwaitEnd(const std::string& id, double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    const auto found = entries_.find(id);
    return found == entries_.end() || found->second.running == nullptr;
  });
}

Trainings::Entry* Trainings::FindLocked(absl::string_view short_id) const {
  for (auto& [id, entry] : entries_) {
    if (ShortId(id) == short_id) return &entry;
  }
  return nullptr;
}

absl::StatusOr<TrainingRecord> Trainings::Find(absl::string_view short_id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const Entry* const entry = FindLocked(short_id)) return entry->record;
  std::vector<std::string> known;
  for (const auto& [id, entry] : entries_) known.push_back(ShortId(id));
  return absl::NotFoundError(
      absl::StrCat("the worker has no training '", Printable(short_id), "'; it has ",
                   known.empty() ? std::string("none") : absl::StrJoin(known, ", ")));
}

bool Trainings::IsRunning(const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.running != nullptr;
}

TrainingInfo Trainings::InfoLocked(Entry& entry) const {
  const TrainingRecord& record = entry.record;
  TrainingInfo info;
  info.set_training(ShortId(record.id));
  info.set_host(Printable(record.claim.host));
  info.set_user(Printable(record.claim.user));
  info.set_since_unix_seconds(record.since_unix_seconds);
  info.set_starts(record.starts);
  info.set_command(base::ReplaceInvalidUtf8(TrainingCommandLine(record.arguments)));
  info.set_output_bytes(OutputLocked(entry)->end());
  if (record.ended) {
    info.set_state(TrainingInfo::ENDED);
    info.set_exit_code(record.exit_code);
    info.set_end(base::ReplaceInvalidUtf8(record.end));
    info.set_ended_unix_seconds(record.ended_unix_seconds);
  } else if (record.stopping) {
    info.set_state(TrainingInfo::STOPPING);
  } else if (entry.running != nullptr && entry.running->session_opened) {
    info.set_state(TrainingInfo::RUNNING);
  }
  return info;
}

absl::StatusOr<TrainingReply> Trainings::Follow(absl::string_view short_id, int64_t offset) const {
  TrainingReply reply;
  std::shared_ptr<TrainingOutput> output;
  PENSTOCK_ASSIGN_OR_RETURN(const TrainingRecord record, Find(short_id));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(record.id);
    if (found == entries_.end()) return absl::NotFoundError("the training was removed");
    // The state first: what a training has printed before its end is in the files then.
    *reply.mutable_training() = InfoLocked(found->second);
    output = OutputLocked(found->second);
  }
  TrainingOutput::Part part = output->Read(offset, kMaxOutput);
  reply.set_offset(part.begin + static_cast<int64_t>(part.bytes.size()));
  reply.set_dropped(part.dropped);
  reply.set_output(std::move(part.bytes));
  reply.mutable_training()->set_output_bytes(part.end);
  return reply;
}

std::vector<TrainingInfo> Trainings::List() const {
  std::vector<TrainingInfo> out;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    SaveUnsavedLocked();
    for (auto& [id, entry] : entries_) out.push_back(InfoLocked(entry));
  }
  std::sort(out.begin(), out.end(), [](const TrainingInfo& a, const TrainingInfo& b) {
    const bool a_ended = a.state() == TrainingInfo::ENDED,
               b_ended = b.state() == TrainingInfo::ENDED;
    if (a_ended != b_ended) return b_ended;
    if (a.since_unix_seconds() != b.since_unix_seconds()) {
      return a.since_unix_seconds() > b.since_unix_seconds();
    }
    return a.training() < b.training();
  });
  return out;
}

void Trainings::RemoveOldLocked() {
  std::vector<std::pair<int64_t, std::string>> ended;
  for (const auto& [id, entry] : entries_) {
    if (entry.record.ended && entry.running == nullptr) {
      ended.emplace_back(entry.record.ended_unix_seconds, id);
    }
  }
  if (ended.size() <= kMaxEnded) return;
  std::sort(ended.begin(), ended.end());
  ended.resize(ended.size() - kMaxEnded);
  for (const auto& [time, id] : ended) {
    // The files that this class and the worker have made, and nothing else.
    OutputLocked(entries_[id])->Remove();
    for (const char* const name : {"/training.json", "/token"}) {
      ::unlink((FolderOf(id) + name).c_str());
    }
    ::rmdir(FolderOf(id).c_str());
    entries_.erase(id);
  }
}

}  // namespace penstock::remote
