// A storage service on a loopback port for tests: it serves and lists objects like the JSON API of
// Google Cloud Storage, read-only, and injects the faults of the test's script, which a real
// emulator cannot do. It counts the requests.
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
#include "penstock/io/file_descriptor.h"

namespace penstock::io {

class ScriptedGcs {
 public:
  struct Request {
    int number = 0;          // from 0, in order of arrival
    std::string object;      // for a listing: its prefix
    bool is_list = false;    // a listing, always sent as one page
    bool one_level = false;  // with the delimiter '/'
    bool is_media = false;   // bytes, not the description
    int64_t begin = 0;       // of the range asked for
    int64_t end = 0;         // behind its last byte
    int64_t generation = 0;  // 0 when none was named
    std::string authorization;
  };

  // What to send instead of the normal answer.
  struct Fault {
    int status = 0;           // answer with this status, and with `page` or an error of the service
    std::string header = {};  // and with these additional lines
    int64_t cut_after = -1;   // send this many bytes of the body, then
    enum {
      kClose,
      kHang,
      kTrickle
    } then = kClose;         // close; or send nothing more, or a byte now and then
    bool says_less = false;  // Content-Length is that of the cut body
    bool says_more = false;  // Content-Length exceeds the body, after which the server closes
    std::string page = {};   // answer with 200, or `status`, and this body
    std::string raw = {};    // send this instead of an answer, and close
    bool endless = false;    // repeat the body (`page`) until the client disconnects
  };
  using Script = std::function<Fault(const Request&)>;

  explicit ScriptedGcs(int max_connections = 80);
  ~ScriptedGcs();

  // A new generation of the object.
  void Put(const std::string& object, std::string bytes);
  void Remove(const std::string& object);
  // From now on it answers with what is there, whatever generation is asked for.
  void ForgetGenerations();
  // Called for each request, on any thread.
  void SetScript(Script script);
  // Requests for bytes of a generation wait until so many are waiting, once; or until none has come
  // for a second, and then the test finds fewer in most_in_flight().
  void HoldUntil(int requests);

  std::string Uri(absl::string_view object, absl::string_view options = "") const;
  int port() const { return port_; }

  std::vector<Request> requests() const;
  int connections() const { return connections_; }
  // Requests for bytes of a generation that were there at once.
  int most_in_flight() const;
  // Answers that were left hanging or trickling.
  int64_t hung() const { return hung_; }

 private:
  struct Object {
    int64_t generation;
    std::shared_ptr<const std::string> bytes;
  };

  void Accept();
  void Serve(FileDescriptor client);
  // False when the connection is to be closed.
  bool Answer(int fd, Request request);
  void Hold();
  std::string Listing(const Request& request);
  bool Send(int fd, absl::string_view bytes);
  // Until the client leaves; meanwhile sends a byte a millisecond of these.
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
  std::vector<int> open_;  // connections, to be woken at the end
  bool knows_generations_ = true;
  int hold_until_ = 0;
  int held_ = 0;
  int released_ = 0;  // how often those that were held were let go
  int most_in_flight_ = 0;

  std::atomic<int> connections_ = 0;
  std::atomic<int64_t> hung_ = 0;

  base::ThreadPool threads_;  // one for each connection, which blocks it
};

}  // namespace penstock::io
