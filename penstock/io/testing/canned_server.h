// A server on a loopback port that answers every request with predefined texts, for answers that a
// real emulator never gives: permission denied, overload, silence.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/base/thread_pool.h"
#include "penstock/io/file_descriptor.h"

namespace penstock::io {

struct CannedAnswer {
  std::string bytes = {};
  bool stays_open = false;  // says nothing more, instead of closing the connection
};

class CannedServer {
 public:
  // With an empty answer it takes connections and stays silent.
  explicit CannedServer(std::string answer);
  // Sends the answers in order, then repeats the last one.
  explicit CannedServer(std::vector<std::string> answers);
  // Computes the answer to each request from the request's headers and body.
  explicit CannedServer(std::function<std::string(const std::string& question)> answer);
  explicit CannedServer(std::function<CannedAnswer(const std::string& question)> answer);
  ~CannedServer();

  int port() const { return port_; }
  // What it was asked so far, head and body.
  std::vector<std::string> questions() const;
  // How many connections were left open, with a part of an answer or none.
  int64_t held() const { return held_; }

 private:
  void Serve();

  const std::function<CannedAnswer(const std::string& question)> answer_;
  FileDescriptor listening_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> held_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> questions_;
  base::ThreadPool thread_;
};

// A whole HTTP answer: CannedHttp("403 Forbidden", "{}").
std::string CannedHttp(const std::string& status, const std::string& body,
                       const std::string& header = "");

}  // namespace penstock::io
