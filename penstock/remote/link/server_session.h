// ServerSession: one session of a LinkServer: its two links, its lease and its end.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"

#include "penstock/remote/link/link_server.h"
#include "penstock/remote/link/polling_threads.h"
#include "penstock/remote/link/reliable_link.h"
#include "penstock/remote/link/stream.h"

namespace penstock::remote {

// Thread-safe. The lease runs while a link has no stream: it begins when the session is made.
class ServerSession : public std::enable_shared_from_this<ServerSession> {
 public:
  struct Options {
    std::string opening;   // Hello.opening
    std::string identity;  // Peer.identity
    OpenedSession opened;  // reply is complete but for version and received
    int64_t max_message_bytes = 0;
    // Called when the handler has been told SessionEnded.
    std::function<void(const absl::Status& reason)> on_ended;
  };
  ServerSession(PollingThreads& threads, LinkServerHandler* handler, Options options);

  // Makes the links, tells the handler, starts the lease. Others may know the session before, and end it.
  void Begin();

  const std::string& id() const { return options_.opened.reply.session(); }
  const std::string& opening() const { return options_.opening; }
  const std::string& identity() const { return options_.identity; }
  bool ended() const;
  // Why it has ended or is about to.
  std::optional<absl::Status> reason() const;

  // The link is to get this stream: breaks the current one.
  void Replace(Hello::Kind kind, const std::shared_ptr<Stream>& stream);
  bool was_attached(Hello::Kind kind) const;
  HelloReply Reply(Hello::Kind kind, uint32_t version) const;
  // After HelloReply was written. Nothing if the link is to get another stream by now.
  void Attach(Hello::Kind kind, const std::shared_ptr<Stream>& stream, uint64_t peer_received);

  // Closes both links. A connected client receives the reason.
  void End(const absl::Status& reason);
  // Waits for the end, unless this thread runs one of the session's receivers or its handler.
  void WaitEnded();
  double LeaseRemaining() const;

 private:
  struct Side {
    std::shared_ptr<ReliableLink> link;
    bool attached_before = false;
    bool connected = false;
    bool closed = false;
  };

  Side& side(Hello::Kind kind) { return sides_[kind == Hello::BULK ? 1 : 0]; }
  const Side& side(Hello::Kind kind) const { return sides_[kind == Hello::BULK ? 1 : 0]; }
  bool connected() const { return sides_[0].connected && sides_[1].connected; }
  void Connected(size_t index);
  void OnDisconnected(size_t index, const absl::Status& reason);
  void OnClosed(size_t index, const absl::Status& reason);
  void StartLease(double seconds);  // with the mutex held
  // Tells the handler whether the session is connected, if that has changed.
  void Report(const absl::Status& reason);
  bool IsCalledByItself() const;

  PollingThreads& threads_;
  LinkServerHandler* const handler_;
  const Options options_;
  const double lease_seconds_;
  std::array<Side, 2> sides_;  // the links do not change

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t disconnections_ = 0;
  double lease_end_ = 0;
  std::optional<absl::Status> reason_;  // of the end
  bool begun_ = false;                  // the links are made
  bool ended_ = false;

  std::mutex report_mutex_;  // one call of the handler at a time
  bool reported_connected_ = false;
  std::thread::id reporter_;  // guarded by mutex_
};

}  // namespace penstock::remote
