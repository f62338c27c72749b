// Parts for tests of links: receivers that record, a server's handler that echoes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/remote/link/link.h"
#include "penstock/remote/link/link_server.h"

namespace penstock::remote {

// Memory of a string.
Slice SliceOf(std::string bytes);
std::string BytesOf(const Message& message);  // of the payload

// Records messages as "header|payload", and events.
class RecordingReceiver : public LinkReceiver {
 public:
  void OnMessage(Message message) override;
  void OnDisconnected(const absl::Status& reason) override;
  void OnReconnected() override;
  void OnClosed(const absl::Status& reason) override;

  // Wait for at least `count`.
  std::vector<std::string> WaitForMessages(size_t count);
  absl::Status WaitForClose();
  void WaitForReconnects(int count);
  void WaitForDisconnects(int count);
  std::vector<std::string> messages() const;
  int closes() const;

  // Sends everything back, with "echo " before the header.
  void set_echo(Link* link);
  // While held, OnMessage does not return.
  void Hold(bool hold);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> messages_;
  int disconnects_ = 0, reconnects_ = 0, closes_ = 0;
  std::optional<absl::Status> closed_;
  Link* echo_ = nullptr;
  bool hold_ = false;
};

// Opens any number of sessions, whose control link echoes (and the bulk link, if `echo_bulk`); records what happens
// to them.
class EchoHandler : public LinkServerHandler {
 public:
  struct Session {
    RecordingReceiver control, bulk;
    Link* control_link = nullptr;
    Link* bulk_link = nullptr;
    std::string host;
    Peer peer;
    std::optional<absl::Status> ended;
  };

  int64_t lease_seconds = 600;
  uint64_t window = 0;
  bool echo_bulk = false;
  absl::Status open_error;           // if not OK, of OpenSession
  std::function<void()> before_end;  // called by SessionEnded
  absl::Status resume_error = absl::DataLossError("the worker was started again");

  absl::StatusOr<OpenedSession> OpenSession(const Hello& hello, const Peer& peer) override;
  void SessionOpened(const std::string& session, Link* control, Link* bulk) override;
  absl::Status ResumeSession(const std::string& session, const Hello& hello,
                             const Peer& peer) override;
  DescribeReply Describe(const Peer& peer) override;
  void SessionConnected(const std::string& session) override;
  void SessionDisconnected(const std::string& session, const absl::Status& reason) override;
  void SessionEnded(const std::string& session, const absl::Status& reason) override;

  int opened() const;
  std::string id(int session) const;  // in order of opening
  Session& session(int session);
  absl::Status WaitForEnd(int session);
  void WaitForDisconnects(int count);
  void WaitForConnects(int count);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> ids_;
  std::map<std::string, std::unique_ptr<Session>> sessions_;
  int connects_ = 0, disconnects_ = 0;
};

// Collects lines of a log.
class LogLines {
 public:
  std::function<void(absl::string_view)> function();
  std::vector<std::string> lines() const;
  // Waits for a line that contains `text`, and returns it.
  std::string WaitFor(const std::string& text);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// The port of "host:port".
int PortOf(const std::string& address);

}  // namespace penstock::remote
