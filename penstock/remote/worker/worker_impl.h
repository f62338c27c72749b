// Worker::Impl: what a worker is made of. Internal to room remote; the parts are
//
//   worker.cc               start, drain, stop, end
//   worker_sessions.cc      who gets the devices; sessions from their Hello to their end
//   worker_trainings.cc     trainings that the worker runs, and their take-over
//   worker_description.cc   the description that monitors and clients read
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/base/thread_pool.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/training/trainings.h"
#include "penstock/remote/worker/device_session.h"
#include "penstock/remote/worker/folder_locks.h"
#include "penstock/remote/worker/maintenance.h"
#include "penstock/remote/worker/session_table.h"
#include "penstock/remote/worker/take_over.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/remote/worker/worker_log.h"
#include "penstock/remote/worker/worker_options.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

class Worker::Impl : public LinkServerHandler {
  struct Session;

 public:
  explicit Impl(const WorkerOptions& options);
  ~Impl() override;

  // The port is bound before the devices are opened, which may take a minute: who connects meanwhile waits.
  absl::Status Start();
  const std::string& address() const { return server_->address(); }
  std::string Summary() const;
  void Drain(const std::string& reason);
  void Stop(const std::string& reason);
  void Wait();
  void End();
  void LogEnd(absl::string_view more);

  // ---- LinkServerHandler ----

  absl::StatusOr<OpenedSession> OpenSession(const Hello& hello, const Peer& peer) override;
  void SessionOpened(const std::string& id, Link* control, Link* bulk) override;
  absl::Status ResumeSession(const std::string& id, const Hello& hello, const Peer& peer) override;
  void SessionConnected(const std::string& id) override;
  void SessionDisconnected(const std::string& id, const absl::Status& reason) override;
  void SessionEnded(const std::string& id, const absl::Status& reason) override;
  DescribeReply Describe(const Peer& peer) override;
  TrainingReply Training(const TrainingRequest& request, const Peer& peer) override;

 private:
  struct Session {
    SessionClaim claim;
    std::string entry;      // its id in the table: the session's, or that of its training
    bool training = false;  // the entry stays when the session ends
    std::unique_ptr<DeviceSession> device;
    Link* control = nullptr;  // guarded by mutex_, as the following
    Link* bulk = nullptr;
    bool opened = false;
  };

  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }
  // Without credentials, the user of this machine is all there is to tell owners apart.
  static std::string OwnerOf(const Hello& hello, const Peer& peer);
  static std::string NameOf(const SessionClaim& claim);

  // ---- worker.cc ----

  absl::Status OpenDevices();
  void SetReady();
  void GiveUp(const absl::Status& status);
  // Until the devices are open.
  absl::Status AwaitReady();
  void NotifyDraining(Session& session);

  // ---- worker_sessions.cc ----

  absl::StatusOr<SessionTable::Admitted> Admit(const SessionClaim& claim);
  // Ends sessions of clients elsewhere, all at once. OK: they have ended. TakeOverWaits: not yet, since what runs there, a
  // compile above all, cannot be interrupted, and the client asks again; UNAVAILABLE: that takes too long.
  absl::Status TakeOverSessions(const std::vector<std::string>& ids, const SessionClaim& claim);
  // Waits until the session is opened, if it is about to be.
  void AwaitOpened(const std::string& id);
  // `why`: "--take-over".
  absl::Status BeginToEnd(const std::string& id, const SessionClaim& claim, absl::string_view why);
  // FolderLocks::EndHolder for the session `id`, which is to train in the folder of `holder`.
  absl::Status EndHolder(const std::string& holder, const std::string& id);
  absl::Status WhyNotEnded(const std::string& id) const;
  // An error of the table, with who takes over meanwhile.
  absl::Status WithEnding(const absl::Status& status);
  absl::StatusOr<OpenedSession> AddSession(std::shared_ptr<Session> session, const std::string& id,
                                           const std::vector<int>& devices);
  std::shared_ptr<Session> Find(const std::string& id);
  // The session that uses an entry of the table now; SessionEnded destroys it after it took the links away.
  std::shared_ptr<Session> FindOpenLocked(const std::string& entry) const;
  double LastRequest(const std::string& entry);
  void SetConnected(const std::string& id, bool connected);

  // ---- worker_description.cc ----

  WorkerInfo Info(const std::vector<int>& devices) const;
  SessionInfo SessionMessage(const SessionEntry& entry);

  // ---- worker_trainings.cc ----

  // What the processes of trainings say Hello to.
  class TrainingLinks : public LinkServerHandler {
   public:
    explicit TrainingLinks(Impl& worker) : worker_(worker) {}
    absl::StatusOr<OpenedSession> OpenSession(const Hello& hello, const Peer&) override {
      return worker_.OpenTrainingSession(hello);
    }
    void SessionOpened(const std::string& id, Link* control, Link* bulk) override {
      worker_.SessionOpened(id, control, bulk);
    }
    absl::Status ResumeSession(const std::string& id, const Hello& hello,
                               const Peer& peer) override {
      return worker_.ResumeSession(id, hello, peer);
    }
    DescribeReply Describe(const Peer& peer) override { return worker_.Describe(peer); }
    void SessionConnected(const std::string& id) override { worker_.SessionConnected(id); }
    void SessionDisconnected(const std::string& id, const absl::Status& reason) override {
      worker_.SessionDisconnected(id, reason);
    }
    void SessionEnded(const std::string& id, const absl::Status& reason) override {
      worker_.SessionEnded(id, reason);
    }

   private:
    Impl& worker_;
  };

  absl::Status OpenTrainings();
  // Before other clients are admitted.
  void ResumeTrainings();
  // A listener for the trainings' processes: on loopback, with a token that only their owner can read.
  absl::Status ServeTrainings();
  absl::StatusOr<std::map<std::string, std::string>> EnvironmentOf(const std::string& folder,
                                                                   const TrainingRecord& record);
  // A new session of a training's process, on the training's devices.
  absl::StatusOr<OpenedSession> OpenTrainingSession(const Hello& hello);
  absl::StatusOr<TrainingReply> AnswerTraining(const TrainingRequest& request, const Peer& peer);
  absl::StatusOr<TrainingReply> StartTraining(const TrainingRequest& request, const Peer& peer);
  absl::StatusOr<TrainingReply> StopTraining(const TrainingRequest& request, const Peer& peer);
  // An id that is a session's and no training's.
  absl::Status CheckNoSession(const std::string& short_id) const;
  TakeOvers::Activity ActivityOf(const std::string& id);
  // Whether a training that is taken over has ended. If not, `waits` says for what.
  absl::StatusOr<bool> HasEnded(const std::string& id, std::string& waits);
  // Asks trainings to save and to end, all at once. OK: they have, and the devices are free. TakeOverWaits: not yet, and
  // the client asks again.
  absl::Status TakeOverTrainings(const std::vector<std::string>& ids, const SessionClaim& claim);
  void Ended(const TrainingRecord& record);
  // A process that was killed has not closed its links, and its memory would stay for a lease. In the background: a
  // compile cannot be interrupted.
  void EndSessionsOf(const TrainingRecord& record);

  const WorkerOptions options_;
  const uint64_t epoch_;  // random
  const std::string host_;
  const double started_ = base::Clock::Real()->Seconds();
  std::unique_ptr<WorkerLog> log_;
  std::atomic<bool> logged_end_ = false;
  // Set before ready_.
  std::shared_ptr<runtime::Client> client_;
  WorkerInfo client_info_;
  std::unique_ptr<SessionTable> table_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<MaintenanceWatch> watch_;

  // Of trainings: the token of their processes and the server that these reach.
  const std::string token_ = RandomHex(32);
  TrainingLinks training_links_{*this};
  std::mutex serving_mutex_;
  // Shared with tasks that end sessions.
  std::shared_ptr<LinkServer> training_server_;
  std::unique_ptr<base::ThreadPool> ending_;
  std::unique_ptr<Trainings> trainings_;
  TakeOvers take_overs_{options_.take_over};
  const std::shared_ptr<FolderLocks> folder_locks_ = std::make_shared<FolderLocks>();

  std::mutex taking_over_mutex_;
  std::unique_ptr<base::ThreadPool> taking_over_;  // ends sessions that are taken over
  bool ends_ = false;  // the destructor has begun; guarded by taking_over_mutex_

  // Guards the following. No call to the server while it is held; of the table only Contains and Remove, which call
  // nothing.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false, stopped_ = false;
  absl::Status failure_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  // Sessions that are being taken over: since when, what was compiled then, by whom.
  struct Ending {
    double since = 0;
    std::string compiling, by;
  };
  std::map<std::string, Ending> ending_sessions_;
  std::optional<std::chrono::steady_clock::time_point> drain_deadline_;
  std::string drain_reason_, end_reason_;
};

}  // namespace penstock::remote
