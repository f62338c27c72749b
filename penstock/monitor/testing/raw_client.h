// A TCP connection for tests of servers: sends bytes as they are and reads until the other side
// closes.
#pragma once

#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::monitor::testing {

class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) const { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Everything until the server closes the connection.
  std::string ReadAll() const {
    std::string all;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = recv(fd_, buffer, sizeof(buffer), 0)) > 0)
      all.append(buffer, static_cast<size_t>(n));
    return all;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

// The response to `request`, which needs its empty line.
inline std::string Ask(int port, const std::string& request) {
  const RawClient client(port);
  client.Send(request);
  return client.ReadAll();
}

inline std::string Get(int port, const std::string& path, const std::string& headers = "") {
  return Ask(port, "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + "\r\n");
}

inline std::string BodyOf(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

}  // namespace penstock::monitor::testing
