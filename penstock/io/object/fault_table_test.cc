// Fault table of object storage: faults of the service, the network, and the credentials, for each
// operation. Every case must end within a time limit with the right result or with an error whose
// code callers can act on, never with NotFound or DataLoss; waits of more than 5 seconds are
// reported. See pack/service_test.cc for the same faults during a conversion and
// save/checkpoint_service_test.cc during a resume.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/thread_pool.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/http/network_wait.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/s3/s3_file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/empty_home.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace fault_table_test {

using Code = absl::StatusCode;
using Fault = ScriptedGcs::Fault;
using Request = ScriptedGcs::Request;

constexpr char kPage[] = "<html>Log in to the guest network</html>";

std::string Content() {
  std::string bytes(200000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 251);
  return bytes;
}

// Returns OK if the result is right, and Internal otherwise.
absl::Status Right(bool is_right) {
  return is_right ? absl::OkStatus() : absl::InternalError("a wrong result, with status OK");
}

struct Operation {
  const char* name;
  std::function<absl::Status(FileSystem& fs, const std::string& uri)> run;  // applied to "d/file"
};

const std::vector<Operation>& Operations() {
  static const auto* const operations = new std::vector<Operation>{
      {"ReadFile",
       [](FileSystem& fs, const std::string& uri) {
         const auto read = ReadFile(fs, uri);
         return read.ok() ? Right(*read == Content()) : read.status();
       }},
      {"ReadRange",
       [](FileSystem& fs, const std::string& uri) {
         const auto file = fs.OpenRandomAccess(uri);
         if (!file.ok()) return file.status();
         std::string part(100000, '\0');
         const auto n = (*file)->Read(1000, absl::MakeSpan(part.data(), part.size()));
         return n.ok() ? Right(part == Content().substr(1000, 100000)) : n.status();
       }},
      {"Stat",
       [](FileSystem& fs, const std::string& uri) {
         const auto info = fs.Stat(uri);
         return info.ok() ? Right(!info->is_directory && info->size == 200000) : info.status();
       }},
      {"List",
       [](FileSystem& fs, const std::string& uri) {
         const auto listed = fs.List(Dirname(uri));
         return listed.ok() ? Right(listed->size() == 1 && listed->front().uri == uri)
                            : listed.status();
       }},
      {"Glob",
       [](FileSystem& fs, const std::string& uri) {
         const auto found = Glob(fs, JoinPath(Dirname(uri), "fi*e"));
         return found.ok() ? Right(*found == std::vector<std::string>{uri}) : found.status();
       }},
  };
  return *operations;
}

struct ServiceFault {
  const char* name;
  Fault fault;
  Code code;                 // expected if the fault is persistent
  bool is_transient = true;  // a transient fault must be invisible
  bool media_only = false;   // other requests get a normal response
  double longest = 60 + 21;  // seconds: the retry limit plus one stalled attempt
};

Fault Status(int status, std::string page = "", std::string header = "") {
  return {.status = status, .header = std::move(header), .page = std::move(page)};
}

const std::vector<ServiceFault>& ServiceFaults() {
  static const auto* const faults = new std::vector<ServiceFault>{
      {"Status408", Status(408), Code::kUnavailable},
      {"Status429", Status(429), Code::kUnavailable},
      {"Status500", Status(500), Code::kUnavailable},
      {"Status502", Status(502, kPage), Code::kUnavailable},
      {"Status503", Status(503), Code::kUnavailable},
      {"Status504", Status(504), Code::kUnavailable},
      {"RetryAfter120", Status(429, "", "Retry-After: 120\r\n"), Code::kUnavailable, true, false,
       121},
      {"RetryAfterAYear", Status(503, "", "Retry-After: 31536000\r\n"), Code::kUnavailable, true,
       false, 301},
      {"RetryAfterNan", Status(503, "", "Retry-After: nan\r\n"), Code::kUnavailable},
      {"Status301", Status(301, kPage, "Location: http://127.0.0.1:1/\r\n"), Code::kUnavailable},
      {"Status302", Status(302, kPage, "Location: http://127.0.0.1:1/\r\n"), Code::kUnavailable},
      {"Status400", Status(400), Code::kInvalidArgument, false},
      {"Status400Page", Status(400, kPage), Code::kUnavailable},
      {"Status401", Status(401), Code::kUnauthenticated, false},
      {"Status403", Status(403), Code::kPermissionDenied, false},
      {"Status403Page", Status(403, kPage), Code::kUnavailable},
      {"Status404Page", Status(404, kPage), Code::kUnavailable},
      {"Status404Text", Status(404, "default backend - 404"), Code::kUnavailable},
      {"Status405Page", Status(405, kPage), Code::kUnavailable},
      {"Status407Page", Status(407, kPage), Code::kUnavailable},
      {"Status418Page", Status(418, kPage), Code::kUnavailable},
      {"Status999Page", Status(999, kPage), Code::kUnavailable},
      {"Status204", {.raw = "HTTP/1.1 204 No Content\r\n\r\n"}, Code::kUnavailable},
      {"Page", {.page = kPage}, Code::kUnavailable},
      {"JsonOfAnother", {.page = R"({"status": "ok"})"}, Code::kUnavailable},
      {"NestedJson", {.page = std::string(500000, '[')}, Code::kUnavailable},
      {"OtherJson",
       {.page = R"({"items": 5, "size": "-5", "generation": "1"})"},
       Code::kUnavailable},
      {"CutInTheHead", {.raw = "HTTP/1.1 200 OK\r\nContent-Le"}, Code::kUnavailable},
      {"Garbage",
       {.raw = std::string("\x16\x03\x01\0\xff\xfe garbage\r\n\r\n", 18)},
       Code::kUnavailable},
      {"EndlessHead",
       {.raw = absl::StrCat("HTTP/1.1 200 OK\r\nX: ", std::string(2 << 20, 'x'))},
       Code::kUnavailable},
      {"EndlessPage", {.page = std::string(100000, 'x'), .endless = true}, Code::kUnavailable},
      {"EndlessError",
       {.status = 503, .page = std::string(100000, 'x'), .endless = true},
       Code::kUnavailable},
      {"EndlessNotFound",
       {.status = 404, .page = std::string(100000, 'x'), .endless = true},
       Code::kUnavailable},
      {"Silence", {.cut_after = 0, .then = Fault::kHang}, Code::kUnavailable},
      {"CutInTheBody", {.cut_after = 1000}, Code::kUnavailable, true, true},
      {"ShortAnswer",
       {.cut_after = 1000, .understates_length = true},
       Code::kUnavailable,
       true,
       true},
      {"Trickle", {.cut_after = 1000, .then = Fault::kTrickle}, Code::kUnavailable, true, true},
      // All bytes arrive before the failure.
      {"BrokenBehindTheBody", {.overstates_length = true}, Code::kOk, true, true},
  };
  return *faults;
}

class ServiceFaultTable : public testing::TestWithParam<std::tuple<size_t, size_t>> {
 protected:
  ServiceFaultTable() { gcs_.Put("d/file", Content()); }

  const ServiceFault& fault() const { return ServiceFaults()[std::get<0>(GetParam())]; }
  const Operation& operation() const { return Operations()[std::get<1>(GetParam())]; }

  // Applies `fault` to the first `times` requests.
  void Break(int times) {
    gcs_.SetScript([=, left = std::make_shared<std::atomic<int>>(times), this](const Request& r) {
      const bool concerned = r.is_media || !fault().media_only;
      return concerned && left->fetch_sub(1) > 0 ? fault().fault : Fault{};
    });
  }

  // Wait reports since the last call, without the lines that report the end of a wait.
  std::vector<std::string> Reports() {
    std::vector<std::string> reports;
    for (std::string& line : time_.TakeReports()) {
      if (absl::StrContains(line, " so far, attempt ")) reports.push_back(std::move(line));
    }
    return reports;
  }

  absl::Status Run(const std::string& uri) { return operation().run(*fs_, uri); }

  ScriptedGcs gcs_{/*max_connections=*/8};
  FakeTime time_{[this] { return gcs_.hung(); }};
  const std::shared_ptr<FileSystem> fs_ =
      MakeGcsFileSystem(MakeMemoryFileSystem(), {.http = time_.Http(), .seed = 1});
};

TEST_P(ServiceFaultTable, TransientFaultIsInvisibleOrClearError) {
  Break(/*times=*/fault().longest > 100 ? 1 : 2);  // a long Retry-After leaves one more attempt
  const absl::Status status = Run(gcs_.Uri("d/file"));
  if (fault().is_transient) {
    EXPECT_OK(status);
  } else {
    EXPECT_THAT(status, IsStatus(fault().code, "'gs://bucket"));
  }
}

TEST_P(ServiceFaultTable, EndsInTimeAndReportsTheWait) {
  Break(/*times=*/1 << 30);
  const absl::Status status = Run(gcs_.Uri("d/file"));
  const bool is_concerned = !fault().media_only || absl::StartsWith(operation().name, "Read");
  if (!is_concerned || fault().code == Code::kOk) {
    EXPECT_OK(status);
  } else if (!fault().media_only || fault().fault.then != Fault::kClose) {
    EXPECT_THAT(status, IsStatus(fault().code, "'gs://bucket"));
  }
  EXPECT_LE(time_.Seconds(), fault().longest);
  if (time_.Seconds() <= NetworkWaits::kFirstReportSeconds) return;
  const std::vector<std::string> reports = Reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_THAT(reports[0], testing::HasSubstr("'gs://bucket"));
  EXPECT_THAT(reports[0], testing::AnyOf(testing::HasSubstr(": 5 s so far"),
                                         testing::HasSubstr(": 6 s so far")));
  EXPECT_THAT(reports[0], testing::HasSubstr("giving up in "));
}

std::vector<size_t> UpTo(size_t n) {
  std::vector<size_t> all;
  for (size_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ServiceFaultTable,
                         testing::Combine(testing::ValuesIn(UpTo(ServiceFaults().size())),
                                          testing::ValuesIn(UpTo(Operations().size()))),
                         [](const auto& info) {
                           return absl::StrCat(ServiceFaults()[std::get<0>(info.param)].name, "_",
                                               Operations()[std::get<1>(info.param)].name);
                         });

// Faults that look like a missing file.
class NotFoundTable : public ServiceFaultTable {};

TEST_P(NotFoundTable, IsReportedWhenServiceConfirmsTwice) {
  EXPECT_THAT(Run(gcs_.Uri("e/other")), IsStatus(Code::kNotFound, "gs://bucket/"));
  EXPECT_EQ(time_.Seconds(), 0);
}

// A 404 is not trusted if the service's own listing contains the file.
TEST_P(NotFoundTable, IsNotReportedIfListingContradicts) {
  gcs_.SetScript([](const Request& r) { return r.is_list ? Fault{} : Status(404); });
  const bool lists =
      absl::StrContains(operation().name, "List") || absl::StrContains(operation().name, "Glob");
  const absl::Status status = Run(gcs_.Uri("d/file"));
  if (lists) {
    EXPECT_OK(status);
  } else {
    EXPECT_THAT(status, IsStatus(Code::kUnavailable, "contradicts"));
    EXPECT_LE(time_.Seconds(), 61);
  }
}

TEST_P(NotFoundTable, IsNotReportedWhenASecondRequestSucceeds) {
  gcs_.SetScript([](const Request& r) { return r.number == 0 ? Status(404) : Fault{}; });
  EXPECT_OK(Run(gcs_.Uri("d/file")));
}

TEST_P(NotFoundTable, IsNotReportedForRefusedPortOrUnresolvedName) {
  for (const std::string& host : {std::string("127.0.0.1:1"), std::string(64, 'a') + ".x"}) {
    const double began = time_.Seconds();
    (void)Reports();
    EXPECT_THAT(
        Run(absl::StrCat("gs://anonymous@bucket/d/file?scheme=http&endpoint_override=", host)),
        IsStatus(Code::kUnavailable, "did not respond"));
    EXPECT_NEAR(time_.Seconds() - began, 60, 1);
    EXPECT_FALSE(Reports().empty());
  }
  EXPECT_OK(Run(gcs_.Uri("d/file")));  // an outage of one service does not affect the next
}

INSTANTIATE_TEST_SUITE_P(All, NotFoundTable,
                         testing::Combine(testing::Values(0),
                                          testing::ValuesIn(UpTo(Operations().size()))),
                         [](const auto& info) {
                           return Operations()[std::get<1>(info.param)].name;
                         });

// Listings that only a broken or hostile service sends.
class ListingFaults : public ServiceFaultTable {};

TEST_F(ListingFaults, AreErrorsAndEnd) {
  const auto listing = [](absl::string_view fields) {
    return absl::StrCat(R"({"kind": "storage#objects", )", fields, "}");
  };
  for (const std::string& page :
       {listing(R"("items": [{"name": "d/file", "size": "1", "generation": "1"}],
                   "nextPageToken": "same")"),
        listing(R"("prefixes": [""])"), listing(R"("prefixes": ["/"])"),
        listing(R"("items": [{"name": "d/file", "size": "-5", "generation": "1"}])"),
        listing(R"("items": [{"name": "elsewhere", "size": "5", "generation": "1"}])"),
        listing(
            absl::StrCat(R"("items": )", std::string(500000, '['), std::string(500000, ']')))}) {
    gcs_.SetScript([&](const Request&) { return Fault{.page = page}; });
    EXPECT_THAT(fs_->List(gcs_.Uri("d")), IsStatus(Code::kUnavailable, "gs://bucket/d"))
        << page.substr(0, 100);
  }
}

// Another service's page in the middle of a listing: its rest is asked for again.
TEST_F(ListingFaults, JsonOfAnotherServiceDoesNotEndAListing) {
  std::atomic<int> lists = 0;
  gcs_.SetScript([&](const Request& request) {
    if (!request.is_list) return Fault{};
    const int number = lists++;
    if (number == 0) {
      return Fault{.page = R"({"kind": "storage#objects", "nextPageToken": "t",
          "items": [{"name": "d/a", "size": "1", "generation": "1"}]})"};
    }
    if (number == 1) return Fault{.page = R"({"status": "ok"})"};
    return Fault{.page = R"({"kind": "storage#objects",
        "items": [{"name": "d/b", "size": "1", "generation": "1"}]})"};
  });
  const auto listed = fs_->List(gcs_.Uri("d"));
  ASSERT_OK(listed);
  EXPECT_EQ(listed->size(), 2u);
}

TEST_F(ListingFaults, OmitUnaddressableNames) {
  gcs_.SetScript([](const Request&) {
    return Fault{.page = R"({"kind": "storage#objects", "items": [
        {"name": "d/a", "size": "1", "generation": "1"},
        {"name": "d/b//c", "size": "1", "generation": "1"},
        {"name": "d/..", "size": "1", "generation": "1"},
        {"name": "d/./x", "size": "1", "generation": "1"},
        {"name": "d/nul\u0000x", "size": "1", "generation": "1"},
        {"name": "d/z", "size": "1", "generation": "1"}], "prefixes": ["d//", "d/../"]})"};
  });
  testing::internal::CaptureStderr();
  const auto found = Glob(*fs_, gcs_.Uri("d/**"));
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_OK(found);
  EXPECT_THAT(*found, testing::ElementsAre(gcs_.Uri("d/a"), gcs_.Uri("d/z")));
  EXPECT_THAT(said, testing::HasSubstr("omitting 6 of the objects in 'gs://bucket/d/'"));
  EXPECT_THAT(said, testing::HasSubstr("'d/b//c'"));
}

// S3 is read by the same code, with different responses. This service has one object, "d/file", in
// a one-level listing, and applies the test's fault to each request first.
class S3Faults : public testing::Test {
 protected:
  // Returns "" for a normal response.
  using Fault = std::function<std::string(absl::string_view question)>;

  static std::string Xml(const std::string& status, absl::string_view code) {
    return CannedHttp(status, absl::StrCat("<Error><Code>", code, "</Code></Error>"));
  }

  static std::string Good(absl::string_view question) {
    const std::string size = absl::StrCat(Content().size());
    if (absl::StrContains(question, "list-type=2")) {
      return CannedHttp(
          "200 OK", absl::StrContains(question, "prefix=e")
                        ? std::string("<ListBucketResult></ListBucketResult>")
                        : absl::StrCat("<ListBucketResult><Contents><Key>d/file</Key><Size>", size,
                                       "</Size></Contents></ListBucketResult>"));
    }
    if (!absl::StrContains(question, "/d/file")) {
      return absl::StartsWith(question, "HEAD") ? CannedHttp("404 Not Found", "")
                                                : Xml("404 Not Found", "NoSuchKey");
    }
    if (absl::StartsWith(question, "HEAD")) {
      return absl::StrCat("HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"e\"\r\nContent-Length: ",
                          size, "\r\n\r\n");
    }
    int64_t begin = 0, last = 0;
    const size_t at = question.find("range: bytes=");
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(question.substr(at + 13, question.find("\r\n", at) - at - 13), '-');
    if (!absl::SimpleAtoi(range.first, &begin) || !absl::SimpleAtoi(range.second, &last)) {
      return CannedHttp("400 Bad", "");
    }
    const std::string part = Content().substr(begin, last - begin + 1);
    return CannedHttp("206 Partial Content", part,
                      absl::StrCat("ETag: \"e\"\r\nContent-Range: bytes ", begin, "-",
                                   begin + part.size() - 1, "/", size, "\r\n"));
  }

  // Runs each operation on a file, against a service with this fault.
  std::vector<absl::Status> RunAll(absl::string_view file, Fault fault) {
    const CannedServer server([&](const std::string& question) {
      const std::string bad = fault(question);
      return bad.empty() ? Good(question) : bad;
    });
    const auto fs = MakeS3FileSystem(MakeMemoryFileSystem(), {.http = time_.Http()});
    std::vector<absl::Status> all;
    for (const Operation& operation : Operations()) {
      all.push_back(operation.run(
          *fs, absl::StrCat("s3://id:hush@bucket/", file, "?scheme=http&region=eu-west-1",
                            "&endpoint_override=127.0.0.1:", server.port())));
    }
    return all;
  }

  FakeTime time_;
};

TEST_F(S3Faults, AreInvisibleWhenTransient) {
  const std::string bad[] = {CannedHttp("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"),
                             Xml("400 Bad Request", "RequestTimeout"),
                             CannedHttp("200 OK", kPage),
                             CannedHttp("404 Not Found", kPage),
                             CannedHttp("404 Not Found", ""),
                             CannedHttp("302 Found", kPage),
                             "HTTP/1.1 200 OK\r\nContent-Le"};
  int asked = 0;
  const auto all = RunAll("d/file", [&](absl::string_view question) {
    if (asked++ % 2 != 0) return std::string();
    const size_t which = asked / 2 % std::size(bad);
    const bool has_code = !absl::StartsWith(question, "HEAD");
    return which == 1 && !has_code ? std::string() : bad[which];
  });
  for (const absl::Status& status : all) EXPECT_OK(status);
  EXPECT_GE(asked, 2 * 5);  // each request failed once
}

TEST_F(S3Faults, AreClearErrorsWhenPersistent) {
  const struct {
    std::string response;
    Code code;
    Code head_code;  // expected for HEAD, whose responses have no body that names the cause
  } kFaults[] = {
      {CannedHttp("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"), Code::kUnavailable,
       Code::kUnavailable},
      {CannedHttp("200 OK", kPage), Code::kUnavailable, Code::kUnavailable},
      {CannedHttp("404 Not Found", kPage), Code::kUnavailable, Code::kUnavailable},
      {CannedHttp("302 Found", kPage), Code::kUnavailable, Code::kUnavailable},
      {CannedHttp("403 Forbidden", kPage), Code::kUnavailable, Code::kPermissionDenied},
      {Xml("403 Forbidden", "AccessDenied"), Code::kPermissionDenied, Code::kPermissionDenied},
      {Xml("403 Forbidden", "InvalidAccessKeyId"), Code::kUnauthenticated, Code::kPermissionDenied},
      {Xml("400 Bad Request", "ExpiredToken"), Code::kUnauthenticated, Code::kUnauthenticated},
      {Xml("404 Not Found", "NoSuchBucket"), Code::kNotFound, Code::kNotFound},
  };
  for (const auto& fault : kFaults) {
    const double began = time_.Seconds();
    const auto all = RunAll("d/file", [&](absl::string_view) { return fault.response; });
    for (size_t i = 0; i < all.size(); ++i) {
      const absl::string_view name = Operations()[i].name;
      const bool begins_with_head = name == "ReadRange" || name == "Stat";
      EXPECT_THAT(all[i], IsStatus(begins_with_head ? fault.head_code : fault.code, "s3://bucket"))
          << name;
      EXPECT_THAT(std::string(all[i].message()), testing::Not(testing::HasSubstr("hush")));
    }
    EXPECT_LE(time_.Seconds() - began, Operations().size() * 61.0);
  }
}

TEST_F(S3Faults, AreNotFoundOnlyIfListingLacksFile) {
  for (const absl::Status& status :
       RunAll("e/other", [](absl::string_view) { return std::string(); })) {
    EXPECT_THAT(status, IsStatus(Code::kNotFound, "s3://bucket/e"));
  }
  EXPECT_EQ(time_.Seconds(), 0);
  const auto all = RunAll("d/file", [](absl::string_view question) {
    if (absl::StrContains(question, "list-type=2")) return std::string();
    return absl::StartsWith(question, "HEAD") ? CannedHttp("404 Not Found", "")
                                              : Xml("404 Not Found", "NoSuchKey");
  });
  for (size_t i = 0; i < all.size(); ++i) {
    if (absl::StartsWith(Operations()[i].name, "Read")) {
      EXPECT_THAT(all[i], IsStatus(Code::kUnavailable, "contradicts"));
    }
    EXPECT_FALSE(absl::IsNotFound(all[i])) << all[i];
  }
}

class CredentialFaults : public testing::Test {
 protected:
  const EmptyHome home_;
  FakeTime time_;
};

// No request is sent: without credentials, nothing can be learned about objects.
TEST_F(CredentialFaults, OfGoogleAreNeverAboutTheObject) {
  const CannedServer revoked(CannedHttp("400 Bad Request", R"({"error": "invalid_grant"})"));
  const CannedServer busy(CannedHttp("503 Busy", "{}"));
  const CannedServer page(CannedHttp("200 OK", kPage));
  const CannedServer gone(CannedHttp("404 Not Found", kPage));
  const CannedServer cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"access_token\": ");
  const CannedServer nested(CannedHttp("200 OK", std::string(500000, '[')));
  const struct {
    const char* name;
    std::string file;
    Code code;
  } kFaults[] = {
      {"missing", "/no/such/key.json", Code::kUnauthenticated},
      {"a folder", home_.folder(), Code::kUnauthenticated},
      {"empty", home_.Put("empty", ""), Code::kUnauthenticated},
      {"no JSON", home_.Put("page", kPage), Code::kUnauthenticated},
      {"nested JSON", home_.Put("nested", std::string(500000, '[')), Code::kUnauthenticated},
      {"no key", home_.Put("no_key", R"({"type": "service_account", "client_email": "a@b"})"),
       Code::kUnauthenticated},
      {"revoked", home_.Put("revoked", EmptyHome::GoogleUser(revoked.port())),
       Code::kUnauthenticated},
      {"busy", home_.Put("busy", EmptyHome::GoogleUser(busy.port())), Code::kUnavailable},
      {"a page", home_.Put("a_page", EmptyHome::GoogleUser(page.port())), Code::kUnavailable},
      {"a 404 of something else", home_.Put("gone", EmptyHome::GoogleUser(gone.port())),
       Code::kUnavailable},
      {"cut", home_.Put("cut", EmptyHome::GoogleUser(cut.port())), Code::kUnavailable},
      {"nested response", home_.Put("nested2", EmptyHome::GoogleUser(nested.port())),
       Code::kUnavailable},
      {"refused", home_.Put("refused", EmptyHome::GoogleUser(1)), Code::kUnavailable},
  };
  for (const auto& fault : kFaults) {
    ::setenv("GOOGLE_APPLICATION_CREDENTIALS", fault.file.c_str(), 1);
    for (const Operation& operation : Operations()) {
      const auto fs = MakeGcsFileSystem(MakeMemoryFileSystem(), {.http = time_.Http()});
      const double began = time_.Seconds();
      EXPECT_THAT(operation.run(*fs, "gs://bucket/d/file"), IsStatus(fault.code, ""))
          << fault.name << ", " << operation.name;
      EXPECT_LE(time_.Seconds() - began, 61) << fault.name << ", " << operation.name;
    }
  }
}

TEST_F(CredentialFaults, OfGoogleAreTheSameThroughArrow) {
  for (const std::string& file : {std::string("/no/such/key.json"), home_.folder()}) {
    ::setenv("GOOGLE_APPLICATION_CREDENTIALS", file.c_str(), 1);
    const auto fs = MakeArrowFileSystem();
    const std::string uri = "gs://bucket/d/file";
    for (const absl::Status& status :
         {fs->OpenInput(uri).status(), fs->Stat(uri).status(), fs->List(uri).status(),
          WriteFile(*fs, uri, "x"), fs->Remove(uri), fs->RemoveRecursively(uri)}) {
      EXPECT_THAT(status, IsStatus(Code::kUnauthenticated, file));
    }
  }
}

// A secret that is mounted while the program runs is found; the error names its file.
TEST_F(CredentialFaults, OfGoogleAppearingLateAreFound) {
  const std::string uri = "gs://bucket/d/file?endpoint_override=127.0.0.1:1";
  const auto fs = MakeGcsFileSystem(MakeMemoryFileSystem(), {.http = time_.Http()});
  EXPECT_THAT(ReadFile(*fs, uri), IsStatus(Code::kUnavailable, "gs://bucket/d/file"));
  const std::string file = home_.Put(".config/gcloud/application_default_credentials.json", "");
  EXPECT_THAT(ReadFile(*fs, uri), IsStatus(Code::kUnauthenticated, file));
}

// Expired keys are reloaded from the file, where another program renews them.
TEST_F(CredentialFaults, OfS3AreRetriedWithReloadedKeys) {
  const auto keys = [](absl::string_view id) {
    return absl::StrCat("[default]\naws_access_key_id = ", id, "\naws_secret_access_key = s\n");
  };
  const std::string file = home_.Put("credentials", keys("old"));
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", file.c_str(), 1);
  const std::string expired = CannedHttp(
      "400 Bad Request", "<Error><Code>ExpiredToken</Code><Message>expired</Message></Error>");
  const std::string text =
      CannedHttp("206 Partial Content", "text", "ETag: \"e\"\r\nContent-Range: bytes 0-3/4\r\n");
  const CannedServer server({text, expired, text});
  const auto fs = MakeS3FileSystem(MakeMemoryFileSystem(), {.http = time_.Http()});
  const std::string uri = absl::StrCat("s3://bucket/x?scheme=http&region=eu-west-1",
                                       "&endpoint_override=127.0.0.1:", server.port());
  ASSERT_OK(ReadFile(*fs, uri));
  home_.Put("credentials", keys("new"));
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs, uri));
  EXPECT_EQ(read, "text");
  const std::vector<std::string> questions = server.requests();
  ASSERT_EQ(questions.size(), 3u);
  EXPECT_THAT(questions[1], testing::HasSubstr("Credential=old/"));
  EXPECT_THAT(questions[2], testing::HasSubstr("Credential=new/"));
  // If the file still contains the same key, the error is returned immediately.
  const CannedServer refuses(expired);
  EXPECT_THAT(ReadFile(*fs, absl::StrCat("s3://bucket/x?scheme=http&region=eu-west-1",
                                         "&endpoint_override=127.0.0.1:", refuses.port())),
              IsStatus(Code::kUnauthenticated, "expired"));
  EXPECT_EQ(refuses.requests().size(), 1u);
}

TEST_F(CredentialFaults, OfS3DoNotHideRegion) {
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", home_.Put("credentials", "").c_str(), 1);
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) ::unsetenv(name);
  const CannedServer away(CannedHttp("503 Busy", ""));
  const CannedServer page(CannedHttp("200 OK", kPage));
  for (const int port : {away.port(), page.port(), 1}) {
    const auto fs = MakeS3FileSystem(
        MakeMemoryFileSystem(),
        {.http = time_.Http(), .s3_region_url = absl::StrCat("http://127.0.0.1:", port)});
    for (const Operation& operation : Operations()) {
      const double began = time_.Seconds();
      EXPECT_THAT(operation.run(*fs, "s3://bucket/d/file"),
                  IsStatus(Code::kUnavailable, "region of 's3://bucket'"));
      EXPECT_NEAR(time_.Seconds() - began, 60, 1);
    }
  }
}

// Writes go through Arrow, whose clients use the real clock, so each fault is persistent and the
// retry limit is short.
TEST(WriteFaults, AreClearErrorsAndEnd) {
  const struct {
    const char* name;
    std::string response;
    Code code;
  } kFaults[] = {
      {"503", CannedHttp("503 Busy", "{}"), Code::kUnavailable},
      {"429", CannedHttp("429 Too Many", "{}"), Code::kUnavailable},
      {"401", CannedHttp("401 Unauthorized", R"({"error": {"code": 401, "message": "who?"}})"),
       Code::kUnauthenticated},
      {"403", CannedHttp("403 Forbidden", R"({"error": {"code": 403, "message": "no"}})"),
       Code::kPermissionDenied},
      {"404", CannedHttp("404 Not Found", R"({"error": {"code": 404, "message": "no bucket"}})"),
       Code::kNotFound},
      {"403 page", CannedHttp("403 Forbidden", kPage), Code::kUnavailable},
      {"404 page", CannedHttp("404 Not Found", kPage), Code::kUnavailable},
      {"404 text", CannedHttp("404 Not Found", "default backend - 404"), Code::kUnavailable},
      {"404 of nothing", CannedHttp("404 Not Found", ""), Code::kUnavailable},
      {"404 JSON of another", CannedHttp("404 Not Found", R"({"error": "no such route"})"),
       Code::kUnavailable},
      {"page", CannedHttp("200 OK", kPage), Code::kUnavailable},
      {"cut", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", Code::kUnavailable},
      {"garbage", std::string("\x16\x03\x01 garbage\r\n\r\n"), Code::kUnavailable},
  };
  const auto fs = MakeArrowFileSystem();
  base::ThreadPool pool(std::size(kFaults));  // each blocks until its limit
  base::ParallelFor(pool, 0, std::size(kFaults), [&](int64_t i) {
    const auto& fault = kFaults[i];
    const CannedServer server(fault.response);
    EXPECT_THAT(WriteFile(*fs,
                          absl::StrCat("gs://anonymous@b/x?scheme=http&retry_limit_seconds=0.2",
                                       "&endpoint_override=127.0.0.1:", server.port()),
                          "text"),
                IsStatus(fault.code, "'gs://b/x'"))
        << fault.name;
  });
  EXPECT_THAT(WriteFile(*fs,
                        "gs://anonymous@b/x?scheme=http&retry_limit_seconds=0.2"
                        "&endpoint_override=127.0.0.1:1",
                        "text"),
              IsStatus(Code::kUnavailable, "'gs://b/x'"));
}

TEST(Secrets, AreOmittedFromMessages) {
  const auto fs = MakeS3FileSystem(MakeArrowFileSystem());
  const std::string uri = "s3://KEY:hush/hush@b/x?scheme=http&endpoint_override=127.0.0.1:1";
  for (const std::string& name :
       {uri, std::string("s3:/KEY:hush@b/x"), std::string("s3://KEY:hush@/x"),
        std::string("s3://KEY:hush@b//x"), std::string("s3://KEY:hush@b/x?no_such_option=1"),
        std::string("s3://KEY:hush@b/x/"), std::string("hottp://KEY:hush@b/x")}) {
    for (const absl::Status& status :
         {fs->OpenInput(name).status(), Glob(*fs, name + "/*?*//").status(),
          fs->Create(name).status()}) {
      EXPECT_THAT(std::string(status.message()), testing::Not(testing::HasSubstr("hush"))) << name;
    }
  }
  EXPECT_EQ(DisplayName("s3://KEY:hu/sh@b/x?region=eu"), "s3://b/x");
  EXPECT_EQ(DisplayName("gs://b/a@b?c"), "gs://b/a@b?c");
  EXPECT_EQ(DisplayName("/data/a:b@c"), "/data/a:b@c");
}

}  // namespace fault_table_test
}  // namespace penstock::io
