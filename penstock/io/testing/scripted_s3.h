// ScriptedS3: a read-only emulator of S3 on a loopback port that injects the faults of a test's
// script. Its objects are files of a FileSystem, which Writer() writes directly, bypassing the
// service.
//
//   ScriptedS3 s3;
//   WriteFile(*s3.objects(), "memory://bucket/run/file", bytes);
//   const auto fs = MakeS3FileSystem(s3.Writer());
//   s3.SetScript([](const ScriptedS3::Request& r) -> std::optional<CannedResponse> {
//     if (r.number != 3) return std::nullopt;
//     return CannedResponse{CannedHttp("503 Slow Down", "")};
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
    int number = 0;  // from 0, in order of arrival
    bool is_list = false;
    bool is_head = false;
    std::string object;            // for a listing: its prefix
    std::string authorization;     // value of the header
    std::string correct_response;  // the correct response
  };
  // Response to send instead of the correct one; no value: the correct one.
  using Script = std::function<std::optional<CannedResponse>(const Request&)>;

  ScriptedS3();

  // File system of the objects: "memory://bucket/NAME" is the object NAME.
  const std::shared_ptr<FileSystem>& objects() const { return objects_; }
  // File system for writing and removing, in place of the AWS client.
  std::shared_ptr<FileSystem> Writer() const;

  void SetScript(Script script);
  // URI of an object, s3://USER@bucket/NAME?...; `user` is "KEY:SECRET@", or empty.
  std::string Uri(absl::string_view name, absl::string_view user = "id:hush@") const;
  int requests() const;
  // Number of connections that were left open with a partial response.
  int64_t held() const { return server_.held(); }

 private:
  CannedResponse Respond(const std::string& raw_request);
  std::string CorrectResponse(const Request& request, const std::string& raw_request) const;
  std::string Listing(const std::string& prefix, bool one_level) const;

  const std::shared_ptr<FileSystem> objects_;
  mutable std::mutex mutex_;
  Script script_;        // guarded by mutex_
  int requests_ = 0;     // guarded by mutex_
  CannedServer server_;  // last member: its thread calls Answer
};

}  // namespace penstock::io
