#include "penstock/remote/testing/link_sessions.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::remote {

Slice SliceOf(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()};
}

std::string BytesOf(const Message& message) {
  std::string bytes;
  for (const Slice& slice : message.payload) {
    bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return bytes;
}

void RecordingReceiver::OnMessage(Message message) {
  std::string text = absl::StrCat(message.header, "|", BytesOf(message));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !hold_; });
  messages_.push_back(std::move(text));
  Link* echo = echo_;
  changed_.notify_all();
  lock.unlock();
  if (echo == nullptr) return;
  message.header.insert(0, "echo ");
  (void)echo->Post(std::move(message));  // an error if the link is closing
}

void RecordingReceiver::OnDisconnected(const absl::Status&) {
  std::lock_guard lock(mutex_);
  ++disconnects_;
  changed_.notify_all();
}

void RecordingReceiver::OnReconnected() {
  std::lock_guard lock(mutex_);
  ++reconnects_;
  changed_.notify_all();
}

void RecordingReceiver::OnClosed(const absl::Status& reason) {
  std::lock_guard lock(mutex_);
  closed_ = reason;
  ++closes_;
  changed_.notify_all();
}

std::vector<std::string> RecordingReceiver::WaitForMessages(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return messages_.size() >= count || closed_; });
  return messages_;
}

absl::Status RecordingReceiver::WaitForClose() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_.has_value(); });
  return *closed_;
}

void RecordingReceiver::WaitForReconnects(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reconnects_ >= count; });
}

void RecordingReceiver::WaitForDisconnects(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return disconnects_ >= count; });
}

std::vector<std::string> RecordingReceiver::messages() const {
  std::lock_guard lock(mutex_);
  return messages_;
}

int RecordingReceiver::closes() const {
  std::lock_guard lock(mutex_);
  return closes_;
}

void RecordingReceiver::set_echo(Link* link) {
  std::lock_guard lock(mutex_);
  echo_ = link;
}

void RecordingReceiver::Hold(bool hold) {
  std::lock_guard lock(mutex_);
  hold_ = hold;
  changed_.notify_all();
}

absl::StatusOr<OpenedSession> EchoHandler::OpenSession(const Hello& hello, const Peer& peer) {
  std::lock_guard lock(mutex_);
  PENSTOCK_RETURN_IF_ERROR(open_error);
  std::string id = absl::StrCat("session-", ids_.size());
  id.resize(16, '.');
  auto session = std::make_unique<Session>();
  session->host = hello.host();
  session->peer = peer;
  OpenedSession opened;
  opened.reply.set_session(id);
  opened.reply.set_epoch(7);
  opened.reply.set_lease_seconds(lease_seconds);
  opened.reply.set_window(window);
  opened.reply.mutable_worker()->set_platform("echo");
  opened.control = &session->control;
  opened.bulk = &session->bulk;
  ids_.push_back(id);
  sessions_[id] = std::move(session);
  changed_.notify_all();
  return opened;
}

void EchoHandler::SessionOpened(const std::string& session, Link* control, Link* bulk) {
  std::lock_guard lock(mutex_);
  Session& opened = *sessions_[session];
  opened.control_link = control;
  opened.bulk_link = bulk;
  opened.control.set_echo(control);
  if (echo_bulk) opened.bulk.set_echo(bulk);
}

absl::Status EchoHandler::ResumeSession(const std::string& session, const Hello&, const Peer&) {
  std::lock_guard lock(mutex_);
  return sessions_.count(session) > 0 ? absl::OkStatus() : resume_error;
}

DescribeReply EchoHandler::Describe(const Peer& peer) {
  DescribeReply reply;
  reply.mutable_worker()->set_platform("echo");
  reply.set_monitor(peer.identity);
  return reply;
}

void EchoHandler::SessionConnected(const std::string&) {
  std::lock_guard lock(mutex_);
  ++connects_;
  changed_.notify_all();
}

void EchoHandler::SessionDisconnected(const std::string&, const absl::Status&) {
  std::lock_guard lock(mutex_);
  ++disconnects_;
  changed_.notify_all();
}

void EchoHandler::SessionEnded(const std::string& session, const absl::Status& reason) {
  if (before_end) before_end();
  std::lock_guard lock(mutex_);
  sessions_[session]->ended = reason;
  sessions_[session]->control_link = nullptr;
  sessions_[session]->bulk_link = nullptr;
  changed_.notify_all();
}

int EchoHandler::opened() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(ids_.size());
}

std::string EchoHandler::id(int session) const {
  std::lock_guard lock(mutex_);
  return ids_[static_cast<size_t>(session)];
}

EchoHandler::Session& EchoHandler::session(int session) {
  std::lock_guard lock(mutex_);
  return *sessions_[ids_[static_cast<size_t>(session)]];
}

absl::Status EchoHandler::WaitForEnd(int session) {
  std::unique_lock lock(mutex_);
  Session& waited = *sessions_[ids_[static_cast<size_t>(session)]];
  changed_.wait(lock, [&] { return waited.ended.has_value(); });
  return *waited.ended;
}

void EchoHandler::WaitForDisconnects(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return disconnects_ >= count; });
}

void EchoHandler::WaitForConnects(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return connects_ >= count; });
}

std::function<void(absl::string_view)> LogLines::function() {
  return [this](absl::string_view line) {
    std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
    changed_.notify_all();
  };
}

std::vector<std::string> LogLines::lines() const {
  std::lock_guard lock(mutex_);
  return lines_;
}

std::string LogLines::WaitFor(const std::string& text) {
  std::unique_lock lock(mutex_);
  std::string found;
  changed_.wait(lock, [&] {
    for (const std::string& line : lines_) {
      if (absl::StrContains(line, text)) found = line;
    }
    return !found.empty();
  });
  return found;
}

int PortOf(const std::string& address) {
  return std::atoi(address.substr(address.rfind(':') + 1).c_str());
}

}  // namespace penstock::remote
