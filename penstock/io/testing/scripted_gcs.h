// ScriptedGcs: a read-only emulator of the JSON API of Google Cloud Storage on a loopback port that
// injects the faults of a test's script and counts requests.
//
//   ScriptedGcs gcs;
//   gcs.Put("file", bytes);
//   gcs.SetScript([](const ScriptedGcs::Request& r) {
//     return ScriptedGcs::Fault{.status = r.number < 3 ? 503 : 0};
//   });
//   fs->OpenInput(gcs.Uri("file"));       // gs://anonymous@bucket/file?...
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/thread_pool.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

class ScriptedGcs {
 public:
  struct Request {
    int number = 0;          // from 0, in order of arrival
    std::string object;      // for a listing: its prefix
    bool is_list = false;    // a listing, always sent as one page
    bool one_level = false;  // with the delimiter '/'
    bool is_media = false;   // the object's bytes, not its metadata
    int64_t begin = 0;       // first byte of the requested range
    int64_t end = 0;         // end of the range (exclusive)
    int64_t generation = 0;  // precondition; 0 if there is none
    std::string authorization;
  };

  // What to send instead of the normal response.
  struct Fault {
    int status = 0;  // respond with this status, and with `page` or an error of the service
    std::string header = {};  // additional header lines
    int64_t cut_after = -1;   // send this many bytes of the body, then
    enum {
      kClose,
      kHang,
      kTrickle
    } then = kClose;                  // close the connection, hang, or send single bytes slowly
    bool understates_length = false;  // Content-Length is that of the truncated body
    bool overstates_length =
        false;              // Content-Length exceeds the body, after which the server closes
    std::string page = {};  // respond with 200, or `status`, and this body
    std::string raw = {};   // send this instead of a response, and close
    bool endless = false;   // repeat the body (`page`) until the client disconnects
  };
  using Script = std::function<Fault(const Request&)>;
  // A script of transient faults for half of the requests, selected at random by their number:
  // status 503, or a response that is truncated within its first MiB, after which the server closes
  // the connection, goes on as if the response were complete, or hangs.
  static Fault RandomFault(const Request& request);

  explicit ScriptedGcs(int max_connections = 80);
  ~ScriptedGcs();

  // Writes an object, as a new generation.
  void Put(const std::string& object, std::string bytes);
  void Remove(const std::string& object);
  // From now on ignores generation preconditions and serves the current contents.
  void IgnoreGenerations();
  // Called for each request, on any thread.
  void SetScript(Script script);
  // Barrier, used once: requests for bytes of a generation wait until `requests` of them are
  // waiting, or until no new one has arrived for a second; the test then sees fewer in
  // max_in_flight().
  void HoldUntil(int requests);

  std::string Uri(absl::string_view object, absl::string_view options = "") const;
  int port() const { return port_; }

  std::vector<Request> requests() const;
  int connections() const { return connections_; }
  // Maximum number of concurrent requests for bytes of a generation.
  int max_in_flight() const;
  // Number of responses that were left hanging or trickling.
  int64_t hung() const { return hung_; }

 private:
  struct Object {
    int64_t generation;
    std::shared_ptr<const std::string> bytes;
  };

  void Accept();
  void Serve(FileDescriptor client);
  // Returns false if the connection must be closed.
  bool Respond(int fd, Request request);
  void Hold();
  std::string Listing(const Request& request);
  bool Send(int fd, absl::string_view bytes);
  // Blocks until the client disconnects; meanwhile sends one byte of `trickle` per millisecond.
  void Hang(int fd, absl::string_view trickle);

  FileDescriptor listening_;
  int port_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  Script script_;
  std::map<std::string, Object> objects_;
  int64_t generation_ = 1000;
  std::vector<Request> requests_;
  std::vector<int> open_;  // connections, to be shut down by the destructor
  bool checks_generations_ = true;
  int hold_until_ = 0;
  int held_ = 0;
  int released_ = 0;  // number of times that the held requests were released
  int max_in_flight_ = 0;

  std::atomic<int> connections_ = 0;
  std::atomic<int64_t> hung_ = 0;

  base::ThreadPool threads_;  // one blocking thread per connection
};

}  // namespace penstock::io
