// A storage service of a test's own that speaks S3's protocol on a loopback port, for reading and
// listing, and does wrong what the test's script says. Its objects are files of a file system, into
// which Writer() writes past the service.
//
//   ScriptedS3 s3;
//   WriteFile(*s3.objects(), "memory://bucket/run/file", bytes);
//   const auto fs = MakeS3FileSystem(s3.Writer(), ...);
//   s3.SetScript([](const ScriptedS3::Request& r) {
//     return r.number == 3 ? CannedAnswer{CannedHttp("503 Slow Down", "")} : std::nullopt;
//   });
//   ReadFile(*fs, s3.Uri("run/file"));
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/io/testing/canned_server.h"

namespace penstock::io {

class ScriptedS3 {
 public:
  struct Request {
    int number = 0;  // from 0, in the order of their arrival
    bool is_list = false;
    bool is_head = false;
    std::string object;  // of a listing: its prefix
    std::string good;    // the answer that is right
  };
  // What to answer instead of answering well; none: it answers well.
  using Script = std::function<std::optional<CannedAnswer>(const Request&)>;

  ScriptedS3();

  // "memory://bucket/NAME" is the object NAME.
  const std::shared_ptr<FileSystem>& objects() const { return objects_; }
  // What writes and removes, in place of the client of AWS.
  std::shared_ptr<FileSystem> Writer() const;

  void SetScript(Script script);
  // s3://USER@bucket/NAME?...; `user` is "KEY:SECRET@", or nothing.
  std::string Uri(absl::string_view name, absl::string_view user = "id:hush@") const;
  int requests() const;
  // Connections that were left open without the rest of an answer.
  int64_t held() const { return server_.held(); }

 private:
  CannedAnswer Answer(const std::string& question);
  std::string Good(const Request& request, const std::string& question) const;
  std::string Listing(const std::string& prefix, bool one_level) const;

  const std::shared_ptr<FileSystem> objects_;
  mutable std::mutex mutex_;
  Script script_;        // guarded by mutex_
  int requests_ = 0;     // guarded by mutex_
  CannedServer server_;  // the last: it calls Answer
};

}  // namespace penstock::io
