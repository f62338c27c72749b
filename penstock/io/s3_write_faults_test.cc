// Faults of the network between AWS's client, which writes to s3://, and a real server on loopback;
// crossed with small objects (one request), new and replaced, and large ones (multipart). Each cell
// ends with the old object or the new one, with the new one if the write succeeded, and otherwise
// with an error whose code callers can act on.
//
// The client retries on the real clock, so all cells run at once.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/thread_pool.h"
#include "penstock/io/arrow_file_system.h"
#include "penstock/io/s3_file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace s3_write_faults_test {

using Code = absl::StatusCode;
using Fault = LatencyProxy::Fault;

constexpr char kPage[] = "<html>Log in to the hotel</html>";

std::string Error(const std::string& status, absl::string_view code) {
  return CannedHttp(status, absl::StrCat("<Error><Code>", code, "</Code></Error>"));
}

std::string Content(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 7 + i / 251 + seed) % 253);
  return bytes;
}

struct Cell {
  std::string name;
  Fault fault;
  bool stays = false;              // else only the first connections meet it
  Code code = Code::kUnavailable;  // of an error
  bool is_error = false;           // it cannot succeed
};

std::vector<Cell> Cells() {
  std::vector<Cell> cells = {
      {"503", {.unavailable = true}},
      {"500", {.answer = Error("500 Internal Server Error", "InternalError")}},
      {"garbage", {.answer = std::string("\x16\x03\x01\0\xff\xfe garbage\r\n\r\n", 18)}},
      {"half a head", {.answer = "HTTP/1.1 200 OK\r\nContent-Le"}},
      {"stalls before the answer", {.cut_after = 0, .stalls = true}},
      {"403 stays",
       {.answer = Error("403 Forbidden", "AccessDenied")},
       true,
       Code::kPermissionDenied,
       true},
      {"bad key stays",
       {.answer = Error("403 Forbidden", "InvalidAccessKeyId")},
       true,
       Code::kUnauthenticated,
       true},
      {"404 page stays",
       {.answer = CannedHttp("404 Not Found", kPage)},
       true,
       Code::kUnavailable,
       true},
      {"404 text stays",
       {.answer = CannedHttp("404 Not Found", "default backend - 404")},
       true,
       Code::kUnavailable,
       true},
      {"no bucket stays",
       {.answer = Error("404 Not Found", "NoSuchBucket")},
       true,
       Code::kNotFound,
       true},
      {"page stays", {.answer = CannedHttp("200 OK", kPage)}, true, Code::kUnavailable, true},
  };
  for (const int64_t bytes : {0, 10, 100}) {
    cells.push_back({absl::StrCat("answer cut at ", bytes), {.cut_after = bytes}});
  }
  for (const int64_t bytes : {0, 100, 1000, 100'000, 6'000'000}) {
    cells.push_back({absl::StrCat("request cut at ", bytes), {.cut_request_after = bytes}});
  }
  return cells;
}

TEST(S3WriteFaults, LeaveTheOldObjectOrTheNewOne) {
  ASSERT_OK_AND_ASSIGN(Emulator * s3, Emulator::S3());
  const auto direct = MakeS3FileSystem(MakeArrowFileSystem());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, s3->MakeBucket(*direct));
  const std::vector<Cell> cells = Cells();
  const int64_t count = 3 * static_cast<int64_t>(cells.size());
  base::ThreadPool pool(static_cast<int>(count));
  const std::string old_bytes = Content(5000, 1);
  base::ParallelFor(pool, 0, count, [&](int64_t i) {
    const Cell& cell = cells[i / 3];
    const bool is_large = i % 3 == 1, replaces = i % 3 == 2;
    const std::string what = absl::StrCat(cell.name, is_large ? ", large" : ", small",
                                          replaces ? ", replaces" : ", new");
    const std::string uri = JoinPath(bucket, absl::StrCat("f", i, "/object"));
    if (replaces) {
      EXPECT_OK(WriteFile(*direct, uri, old_bytes)) << what;
    }
    LatencyProxy proxy({.upstream_port = s3->port()});
    // The client gives up a stalled connection after seconds: one has to do.
    const int faulty = cell.fault.stalls ? 1 : 2;
    proxy.SetFaults(
        [&](int connection) { return cell.stays || connection < faulty ? cell.fault : Fault{}; });
    const std::string bytes = Content(is_large ? 7 << 20 : 200'000, 2);
    const absl::Status status =
        WriteFile(*MakeArrowFileSystem(),
                  absl::StrReplaceAll(
                      uri, {{absl::StrCat(":", s3->port()), absl::StrCat(":", proxy.port())}}),
                  bytes);
    const absl::StatusOr<std::string> now = ReadFile(*direct, uri);
    const bool is_new = now.ok() && *now == bytes;
    const bool is_old = replaces ? now.ok() && *now == old_bytes : absl::IsNotFound(now.status());
    EXPECT_TRUE(is_new || is_old) << what << ": neither the old object nor the new one; "
                                  << now.status();
    if (status.ok()) {
      EXPECT_TRUE(is_new && !cell.is_error) << what << ": it was not written";
    } else {
      EXPECT_THAT(status, IsStatus(cell.code, absl::StrCat("/f", i, "/object'"))) << what;
    }
    const auto listed = direct->ListRecursive(JoinPath(bucket, absl::StrCat("f", i)));
    EXPECT_EQ(listed.ok() ? listed->size() : 0, is_new || replaces ? 1u : 0u) << what;
  });
}

}  // namespace s3_write_faults_test
}  // namespace penstock::io
