#include "penstock/io/testing/canned_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include <arpa/inet.h>
#include <sys/socket.h>

#include "penstock/base/status.h"

namespace penstock::io {

CannedServer::CannedServer(std::string response)
    : CannedServer(std::vector<std::string>{std::move(response)}) {}

CannedServer::CannedServer(std::vector<std::string> responses)
    : CannedServer(std::function<std::string(const std::string&)>(
          [responses = std::move(responses), next = size_t{0}](const std::string&) mutable {
            return responses[std::min(next++, responses.size() - 1)];
          })) {}

CannedServer::CannedServer(std::function<std::string(const std::string& request)> response)
    : CannedServer(std::function<CannedResponse(const std::string&)>(
          [response = std::move(response)](const std::string& request) {
            return CannedResponse{response(request)};
          })) {}

CannedServer::CannedServer(std::function<CannedResponse(const std::string& request)> response)
    : respond_(std::move(response)),
      listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      thread_(1, "canned-server") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  PENSTOCK_CHECK(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  PENSTOCK_CHECK(::listen(listening_.get(), 16) == 0);
  PENSTOCK_CHECK(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) ==
                 0);
  port_ = ntohs(address.sin_port);
  thread_.Schedule([this] { Serve(); });
}

CannedServer::~CannedServer() {
  stopping_ = true;
  ::shutdown(listening_.get(), SHUT_RDWR);  // wakes accept
}

std::vector<std::string> CannedServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void CannedServer::Serve() {
  std::vector<FileDescriptor> silent;
  while (!stopping_) {
    FileDescriptor client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) continue;
    // Test requests arrive in one piece.
    char request[16384];
    const ssize_t n = ::recv(client.get(), request, sizeof(request), 0);
    if (n <= 0) continue;
    const std::string text(request, n);
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(text);
    }
    const CannedResponse response = respond_(text);
    ::send(client.get(), response.bytes.data(), response.bytes.size(), MSG_NOSIGNAL);
    if (!response.stays_open && !response.bytes.empty()) continue;
    silent.push_back(std::move(client));
    ++held_;
  }
}

std::string CannedHttp(const std::string& status, const std::string& body,
                       const std::string& header) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nConnection: close\r\nContent-Length: ", body.size(),
                      "\r\n", header, "\r\n", body);
}

}  // namespace penstock::io
