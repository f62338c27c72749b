// A client that speaks HTTP/2 wrongly, byte by byte.
//
//   Attacker attacker(worker.port());
//   attacker.Send(kPreface + Http2Frame(kSettings, 0, 0, ""));
//   const bool ended = attacker.Flood([](int i) { return Http2Frame(kPing, 0, 0, "12345678"); }, 100000);
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace penstock::tests {

// Types of frames and flags (RFC 9113, 6).
inline constexpr int kData = 0, kHeaders = 1, kPriority = 2, kResetStream = 3, kSettings = 4,
                     kPing = 6, kWindowUpdate = 8, kContinuation = 9;
inline constexpr int kEndStream = 1, kEndHeaders = 4;

std::string Http2Frame(int type, int flags, uint32_t stream, const std::string& payload);
// Like Http2Frame, but claims another length.
std::string Http2Frame(int type, int flags, uint32_t stream, const std::string& payload,
                       uint32_t claimed);
// The preface and empty settings.
std::string Http2Begin();
// A header block (RFC 7541) of a call of a method, by default the worker's Connect, without credentials.
std::string CallHeaders(const std::string& path = "/penstock.remote.Worker/Connect");
// A literal header that enters the dynamic table if `index`.
std::string LiteralHeader(const std::string& name, const std::string& value, bool index);

// A TCP connection to a port of this host.
class Attacker {
 public:
  explicit Attacker(int port);
  ~Attacker();
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  int fd() const { return fd_; }
  // False when the peer has ended the connection, or takes nothing for a second.
  bool Send(const std::string& bytes);
  // Sends piece 0, 1, ... `count`-1; reads and drops what comes only if `reads`. True if all was sent.
  bool Flood(const std::function<std::string(int)>& piece, int count, bool reads = true);
  void Drop();  // what has come
  // Waits until the peer has ended the connection.
  void AwaitEnd();

 private:
  int fd_;
};

}  // namespace penstock::tests
