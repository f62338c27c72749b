// CannedServer: an HTTP server on a loopback port with predefined responses, for cases that an
// emulator never produces: permission denied, overload, no response.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/base/thread_pool.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

struct CannedResponse {
  std::string bytes = {};
  bool stays_open = false;  // hangs instead of closing the connection
};

class CannedServer {
 public:
  // Always sends `response`; if it is empty, accepts connections and never responds.
  explicit CannedServer(std::string response);
  // Sends the responses in order, then repeats the last one.
  explicit CannedServer(std::vector<std::string> responses);
  // Computes each response from the headers and body of the request.
  explicit CannedServer(std::function<std::string(const std::string& request)> response);
  explicit CannedServer(std::function<CannedResponse(const std::string& request)> response);
  ~CannedServer();

  int port() const { return port_; }
  // All requests received so far, headers and body.
  std::vector<std::string> requests() const;
  // Number of connections that were left open with a partial response or none.
  int64_t held() const { return held_; }

 private:
  void Serve();

  const std::function<CannedResponse(const std::string& request)> respond_;
  FileDescriptor listening_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> held_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  base::ThreadPool thread_;
};

// A complete HTTP response: CannedHttp("403 Forbidden", "{}").
std::string CannedHttp(const std::string& status, const std::string& body,
                       const std::string& header = "");

}  // namespace penstock::io
