// Network faults between the AWS and Google clients that write to s3:// and gs://, and a real
// server on loopback; for small objects, new and replaced, and large ones (multipart uploads).
// Every case must end with the old or the new object: the new one if the write succeeded, and
// otherwise an error whose code callers can act on. A transient fault is not an error.
//
// The clients retry on the real clock, so all cells run at once.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/thread_pool.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/s3/s3_file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace write_faults_test {

using Code = absl::StatusCode;
using Fault = LatencyProxy::Fault;

constexpr char kPage[] = "<html>Log in to the hotel</html>";

struct Service {
  const char* scheme;
  absl::StatusOr<Emulator*> (*emulator)();
  std::shared_ptr<FileSystem> (*file_system)(std::shared_ptr<FileSystem> writer);
  const char* short_limit;  // a URI option
};

const Service kServices[] = {
    {"gs", [] { return Emulator::Gcs(); },
     [](std::shared_ptr<FileSystem> writer) { return MakeGcsFileSystem(std::move(writer)); },
     "&retry_limit_seconds=1"},
    {"s3", [] { return Emulator::S3(); },
     [](std::shared_ptr<FileSystem> writer) { return MakeS3FileSystem(std::move(writer)); }, ""},
};

// An error response of the service.
std::string Error(absl::string_view scheme, const std::string& status, absl::string_view code) {
  if (scheme == "gs") {
    return CannedHttp(status, absl::StrCat(R"({"error": {"code": )", status.substr(0, 3),
                                           R"(, "message": ")", code, R"("}})"));
  }
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
  // The error if the fault is persistent; no value: only the first connections are affected.
  std::optional<Code> error = std::nullopt;
};

std::vector<Cell> Cells(absl::string_view scheme) {
  const std::string page = CannedHttp("200 OK", kPage);
  const std::string not_found_page = CannedHttp("404 Not Found", kPage);
  const std::string not_found_text = CannedHttp("404 Not Found", "default backend - 404");
  std::vector<Cell> cells = {
      {"503", {.unavailable = true}},
      {"500", {.response = Error(scheme, "500 Internal Server Error", "InternalError")}},
      {"garbage", {.response = std::string("\x16\x03\x01\0\xff\xfe garbage\r\n\r\n", 18)}},
      {"half a head", {.response = "HTTP/1.1 200 OK\r\nContent-Le"}},
      {"stalls before the response", {.cut_after = 0, .stalls = true}},
      {"page", {.response = page}},
      {"empty page", {.response = CannedHttp("200 OK", "")}},
      {"404 page", {.response = not_found_page}},
      {"404 text", {.response = not_found_text}},
      {"page stays", {.response = page}, Code::kUnavailable},
      {"404 page stays", {.response = not_found_page}, Code::kUnavailable},
      {"404 text stays", {.response = not_found_text}, Code::kUnavailable},
      {"403 stays",
       {.response = Error(scheme, "403 Forbidden", "AccessDenied")},
       Code::kPermissionDenied},
      {"no bucket stays",
       {.response = Error(scheme, "404 Not Found", "NoSuchBucket")},
       Code::kNotFound},
  };
  if (scheme == "s3") {
    cells.push_back({"bad key stays",
                     {.response = Error(scheme, "403 Forbidden", "InvalidAccessKeyId")},
                     Code::kUnauthenticated});
  }
  for (const int64_t bytes : {0, 10, 100}) {
    cells.push_back({absl::StrCat("response cut at ", bytes), {.cut_after = bytes}});
  }
  for (const int64_t bytes : {0, 100, 1000, 100'000, 6'000'000}) {
    cells.push_back({absl::StrCat("request cut at ", bytes), {.cut_request_after = bytes}});
  }
  return cells;
}

class WriteFaults : public testing::TestWithParam<Service> {};

INSTANTIATE_TEST_SUITE_P(Services, WriteFaults, testing::ValuesIn(kServices),
                         [](const auto& info) { return std::string(info.param.scheme); });

TEST_P(WriteFaults, LeaveOldOrNewObject) {
  const Service& service = GetParam();
  ASSERT_OK_AND_ASSIGN(Emulator * emulator, service.emulator());
  const auto direct = service.file_system(MakeArrowFileSystem());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, emulator->MakeBucket(*direct));
  const std::vector<Cell> cells = Cells(service.scheme);
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
    LatencyProxy proxy({.upstream_port = emulator->port()});
    // The clients time out a stalled connection after several seconds, so only one stalls.
    const int faulty = cell.fault.stalls ? 1 : 2;
    proxy.SetFaults(
        [&](int connection) { return cell.error || connection < faulty ? cell.fault : Fault{}; });
    const std::string bytes = Content(is_large ? 7 << 20 : 200'000, 2);
    std::string through = absl::StrReplaceAll(
        uri, {{absl::StrCat(":", emulator->port()), absl::StrCat(":", proxy.port())}});
    if (cell.error) absl::StrAppend(&through, service.short_limit);
    const absl::Status status = WriteFile(
        *MakeArrowFileSystem({.s3_retry_limit_seconds = cell.error ? 1 : kRetryLimitSeconds}),
        through, bytes);
    const absl::StatusOr<std::string> now = ReadFile(*direct, uri);
    const bool is_new = now.ok() && *now == bytes;
    const bool is_old = replaces ? now.ok() && *now == old_bytes : absl::IsNotFound(now.status());
    EXPECT_TRUE(is_new || is_old) << what << ": neither the old object nor the new one; "
                                  << now.status();
    if (cell.error) {
      EXPECT_THAT(status, IsStatus(*cell.error, absl::StrCat("/f", i, "/object'"))) << what;
    } else {
      EXPECT_OK(status) << what;
      EXPECT_TRUE(is_new) << what << ": it was not written";
    }
    const auto listed = direct->ListRecursive(JoinPath(bucket, absl::StrCat("f", i)));
    EXPECT_EQ(listed.ok() ? listed->size() : 0, is_new || replaces ? 1u : 0u) << what;
  });
}

}  // namespace write_faults_test
}  // namespace penstock::io
