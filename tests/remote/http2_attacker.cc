#include "tests/remote/http2_attacker.h"

#include <algorithm>
#include <cerrno>

#include "gtest/gtest.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::tests {
namespace {

// An integer with a prefix of `bits` bits (RFC 7541, 5.1).
std::string HpackInteger(int first, int bits, size_t value) {
  const size_t most = (size_t{1} << bits) - 1;
  if (value < most) return std::string(1, static_cast<char>(first | static_cast<int>(value)));
  std::string bytes(1, static_cast<char>(first | static_cast<int>(most)));
  for (value -= most; value >= 128; value /= 128) {
    bytes += static_cast<char>(value % 128 | 128);
  }
  return bytes + static_cast<char>(value);
}

}  // namespace

std::string Http2Frame(int type, int flags, uint32_t stream, const std::string& payload) {
  return Http2Frame(type, flags, stream, payload, static_cast<uint32_t>(payload.size()));
}

std::string Http2Frame(int type, int flags, uint32_t stream, const std::string& payload,
                       uint32_t claimed) {
  std::string frame;
  for (int shift = 16; shift >= 0; shift -= 8) frame += static_cast<char>(claimed >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}

std::string Http2Begin() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(kSettings, 0, 0, "");
}

std::string LiteralHeader(const std::string& name, const std::string& value, bool index) {
  return std::string(1, index ? '\x40' : '\0') + HpackInteger(0, 7, name.size()) + name +
         HpackInteger(0, 7, value.size()) + value;
}

std::string CallHeaders(const std::string& path) {
  // :method POST and :scheme http are in the static table.
  return "\x83\x86" + LiteralHeader(":path", path, false) +
         LiteralHeader(":authority", "worker", false) +
         LiteralHeader("content-type", "application/grpc", false) +
         LiteralHeader("te", "trailers", false);
}

Attacker::Attacker(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

Attacker::~Attacker() { ::close(fd_); }

bool Attacker::Send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    pollfd writable = {.fd = fd_, .events = POLLOUT, .revents = 0};
    if (::poll(&writable, 1, 1000) <= 0) return false;
    const ssize_t count =
        ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) return false;
    sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  return true;
}

void Attacker::Drop() {
  char bytes[16384];
  while (::recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) continue;
}

bool Attacker::Flood(const std::function<std::string(int)>& piece, int count, bool reads) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += piece(i);
    if (bytes.size() < 16384 && i + 1 < count) continue;
    if (!Send(bytes)) return false;
    bytes.clear();
    if (reads) Drop();
  }
  return true;
}

void Attacker::AwaitEnd() {
  char bytes[4096];
  while (::recv(fd_, bytes, sizeof(bytes), 0) > 0) continue;
}

}  // namespace penstock::tests
