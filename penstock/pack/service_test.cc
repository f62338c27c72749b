// Fault injection at each request of a conversion to a gs:// service. A transient fault costs time
// but no record. A persistent fault is an error that names the object, after which a second run
// resumes. No fault makes an input count as unreadable.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/thread_pool.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"
#include "penstock/pack/convert.h"
#include "penstock/pack/pack.h"
#include "penstock/pack/sources/record_sources.h"

namespace penstock::pack {
namespace service_test {

using Code = absl::StatusCode;
using Fault = io::ScriptedGcs::Fault;
using Files = std::map<std::string, std::string>;
using io::IsStatus;
using Request = io::ScriptedGcs::Request;
using ::testing::HasSubstr;

constexpr char kPage[] = "<html>The service is being maintained</html>";

std::string Png(int value) {
  base::Array pixels = base::Array::Zeros(base::DType::kU8, {4, 4, 1});
  pixels.mutable_data<uint8_t>()[0] = static_cast<uint8_t>(value);
  return *image::EncodePng(*image::ViewOf(pixels));
}

Files FilesIn(io::FileSystem& fs, const std::string& folder) {
  Files files;
  const auto listed = fs.ListRecursive(folder);
  if (absl::IsNotFound(listed.status())) return files;
  EXPECT_TRUE(listed.ok()) << listed.status();
  for (const io::FileInfo& file : *listed) {
    files[io::Basename(file.uri)] = *io::ReadFile(fs, file.uri);
  }
  return files;
}

absl::StatusOr<ShardPlan> Pack(io::FileSystem& in, const std::string& images, io::FileSystem& out,
                               const std::string& folder) {
  const PackOptions options{.out = folder, .shards = 2, .seed = 1, .threads = 1};
  PENSTOCK_RETURN_IF_ERROR(CheckOut(out, options));
  PENSTOCK_ASSIGN_OR_RETURN(ImageList list, ListImages(in, {.images = {images}}));
  const std::unique_ptr<RecordSource> source = ImageFiles(in, std::move(list), {});
  return Convert(out, *source, options);
}

struct NamedFault {
  const char* name;
  Fault fault;
  bool retried = true;    // a transient fault is retried
  bool lists_too = true;  // affects listings, too; false if it would be a valid, shorter listing
};

std::vector<NamedFault> Faults() {
  return {{"Status401", {.status = 401}, false},
          {"Status403", {.status = 403}, false},
          {"Status403Page", {.status = 403, .page = kPage}},
          {"Status404", {.status = 404}, true, false},
          {"Status404Page", {.status = 404, .page = kPage}},
          {"Status429", {.status = 429}},
          {"Status500", {.status = 500}},
          {"Status503", {.status = 503}},
          {"Page", {.page = kPage}},
          {"EmptyJson", {.page = "{}"}, true, false},
          {"Garbage", {.raw = std::string("\x16\x03\x01\0\xff\xfe garbage\r\n\r\n", 18)}},
          {"EndlessError", {.status = 503, .page = std::string(100000, 'x'), .endless = true}},
          {"Silence", {.cut_after = 0, .then = Fault::kHang}},
          {"CutInTheBody", {.cut_after = 20}},
          {"StallInTheBody", {.cut_after = 20, .then = Fault::kHang}},
          {"Trickle", {.cut_after = 20, .then = Fault::kTrickle}},
          {"ShortAnswer", {.cut_after = 20, .understates_length = true}}};
}

class PackFromGcs : public ::testing::TestWithParam<NamedFault> {
 protected:
  PackFromGcs() {
    for (int i = 0; i < 4; ++i) {
      gcs_.Put(absl::StrCat("photos/", i % 2 == 0 ? "even" : "odd", "/", i, ".png"), Png(i));
    }
    EXPECT_OK(Run());
    reference_ = FilesIn(*memory_, "memory://out");
    EXPECT_EQ(reference_.size(), 2 * 2 + 2u) << "two shards, their indices, classes, the plan";
  }

  absl::StatusOr<ShardPlan> Run() {
    return Pack(*fs_, gcs_.Uri("photos"), *memory_, "memory://out");
  }
  void RemoveOut() { ASSERT_OK(memory_->RemoveRecursively("memory://out")); }

  // Checks that a run made the shards, or failed with an error that names an object and after which
  // a second run resumes.
  void CheckResult(const absl::StatusOr<ShardPlan>& made) {
    if (made.ok()) {
      ASSERT_TRUE(made->unreadable.empty()) << made->unreadable[0].why;
    } else {
      ASSERT_TRUE(absl::IsUnavailable(made.status()) || absl::IsUnauthenticated(made.status()) ||
                  absl::IsPermissionDenied(made.status()))
          << made.status();
      ASSERT_THAT(std::string(made.status().message()), HasSubstr("gs://bucket"));
      ASSERT_NE(FilesIn(*memory_, "memory://out"), reference_);
      gcs_.SetScript({});
      ASSERT_OK(Run());
    }
    ASSERT_TRUE(FilesIn(*memory_, "memory://out") == reference_);
  }

  io::ScriptedGcs gcs_{/*max_connections=*/8};
  const std::shared_ptr<io::FileSystem> memory_ = io::MakeMemoryFileSystem();
  io::FakeTime time_{[this] { return gcs_.hung(); }};
  const std::shared_ptr<io::FileSystem> fs_ =
      io::MakeGcsFileSystem(io::MakeMemoryFileSystem(), {.http = time_.Http(), .seed = 1});
  Files reference_;
};

INSTANTIATE_TEST_SUITE_P(Faults, PackFromGcs, ::testing::ValuesIn(Faults()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(PackFromGcs, LosesNoRecordToTransientFaults) {
  int number = 0;
  for (bool reached = true; reached; ++number) {
    SCOPED_TRACE(absl::StrCat("request ", number));
    RemoveOut();
    const int first = static_cast<int>(gcs_.requests().size());
    gcs_.SetScript([&, first, number](const Request& r) {
      const bool affected = r.number - first == number && (GetParam().lists_too || !r.is_list);
      return affected ? GetParam().fault : Fault{};
    });
    const auto made = Run();
    reached = static_cast<int>(gcs_.requests().size()) - first > number;
    gcs_.SetScript({});
    if (GetParam().retried) {
      ASSERT_OK(made);
    }
    CheckResult(made);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(number, 6);
}

TEST_P(PackFromGcs, ReportsPersistentFaultsWhileRetrying) {
  for (const char* object : {"photos/even/2.png", "photos/odd/", "photos"}) {
    SCOPED_TRACE(object);
    RemoveOut();
    gcs_.SetScript([&](const Request& r) {
      const bool affected =
          absl::StartsWith(r.object, object) && (GetParam().lists_too || !r.is_list);
      return affected ? GetParam().fault : Fault{};
    });
    const double began = time_.Seconds();
    (void)time_.TakeReports();
    const auto made = Run();
    // A truncated response that is resumed at its end is complete after some attempts.
    if (GetParam().fault.cut_after < 20) {
      ASSERT_FALSE(made.ok());
    }
    const double seconds = time_.Seconds() - began;
    EXPECT_LE(seconds, 8 * 81.0);  // number of requests times the retry limit
    const std::vector<std::string> reports = time_.TakeReports();
    if (seconds > 60) {
      ASSERT_FALSE(reports.empty());
      EXPECT_THAT(reports[0], HasSubstr("'gs://bucket"));
      EXPECT_THAT(reports[0],
                  ::testing::AnyOf(HasSubstr(": 5 s so far"), HasSubstr(": 6 s so far")));
    }
    CheckResult(made);
    if (HasFatalFailure()) return;
  }
}

// Reads succeed (the bucket is empty), writes fail. Writes use Google's client, which has a real
// clock: therefore each fault is persistent and the retry limit is short.
TEST(PackToGcs, NamesObjectInErrorsOfWrites) {
  const struct {
    const char* name;
    std::string answer;
    Code code;
  } kFaults[] = {
      {"503", io::CannedHttp("503 Busy", "{}"), Code::kUnavailable},
      {"403", io::CannedHttp("403 Forbidden", R"({"error": {"code": 403, "message": "no"}})"),
       Code::kPermissionDenied},
      {"404 page", io::CannedHttp("404 Not Found", kPage), Code::kUnavailable},
      {"404 text", io::CannedHttp("404 Not Found", "default backend - 404"), Code::kUnavailable},
      {"page", io::CannedHttp("200 OK", kPage), Code::kUnavailable},
      {"cut", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", Code::kUnavailable},
      {"garbage", "\x16\x03\x01 garbage\r\n\r\n", Code::kUnavailable},
  };
  const auto memory = io::MakeMemoryFileSystem();
  ASSERT_OK(io::WriteFile(*memory, "memory://in/a/0.png", Png(0)));
  base::ThreadPool pool(std::size(kFaults));  // all faults reach their retry limits in parallel
  base::ParallelFor(pool, 0, std::size(kFaults), [&](int64_t i) {
    const auto& fault = kFaults[i];
    const io::CannedServer server([&](const std::string& question) {
      if (!absl::StartsWith(question, "GET")) return fault.answer;
      const bool lists = absl::StrContains(question.substr(0, question.find('\r')), "/o?");
      return lists
                 ? io::CannedHttp("200 OK", R"({"kind": "storage#objects"})")
                 : io::CannedHttp("404 Not Found", R"({"error": {"code": 404, "message": "no"}})");
    });
    const auto gcs = io::MakeGcsFileSystem(io::MakeArrowFileSystem());
    const std::string out = absl::StrCat("gs://anonymous@b/out?scheme=http&retry_limit_seconds=0.2",
                                         "&endpoint_override=127.0.0.1:", server.port());
    EXPECT_THAT(Pack(*memory, "memory://in", *gcs, out), IsStatus(fault.code, "'gs://b/out/"))
        << fault.name;
  });
}

TEST(PackToGcs, ResumesInterruptedConversion) {
  ASSERT_OK_AND_ASSIGN(io::Emulator * emulator, io::Emulator::Gcs());
  const auto gcs = io::MakeGcsFileSystem(io::MakeArrowFileSystem());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, emulator->MakeBucket(*gcs));
  const std::string out = io::JoinPath(bucket, "out");
  const auto memory = io::MakeMemoryFileSystem();
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK(io::WriteFile(*memory, absl::StrCat("memory://in/a/", i, ".png"), Png(i)));
  }
  ASSERT_OK(Pack(*memory, "memory://in", *memory, "memory://out"));

  // The third image is unavailable.
  class Away : public io::ForwardingFileSystem {
   public:
    explicit Away(std::shared_ptr<io::FileSystem> next) : ForwardingFileSystem(std::move(next)) {}
    absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
      if (++opened_ == 3) return absl::UnavailableError(absl::StrCat("cannot reach ", uri));
      return ForwardingFileSystem::OpenInput(uri);
    }

   private:
    int opened_ = 0;
  } away(memory);
  EXPECT_THAT(Pack(away, "memory://in", *gcs, out),
              IsStatus(Code::kUnavailable, "Stopped after 1 shards"));
  EXPECT_THAT(CheckShardsComplete(*gcs, {io::JoinPath(out, "00-2.tfrec")}),
              IsStatus(Code::kFailedPrecondition, "are incomplete"));
  ASSERT_OK(Pack(*memory, "memory://in", *gcs, out));
  EXPECT_TRUE(FilesIn(*gcs, out) == FilesIn(*memory, "memory://out"));
  EXPECT_OK(CheckShardsComplete(*gcs, {io::JoinPath(out, "00-2.tfrec")}));
}

// Credentials and options in a name do not make another folder of it: with `overwrite` the shards
// would be removed before they are read.
TEST(ReshardInGcs, RejectsTheSameFolderUnderAnotherName) {
  ASSERT_OK_AND_ASSIGN(io::Emulator * emulator, io::Emulator::Gcs());
  const std::shared_ptr<io::FileSystem> gcs = io::MakeGcsFileSystem(io::MakeArrowFileSystem());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, emulator->MakeBucket(*gcs));
  const std::string folder = io::JoinPath(bucket, "shards");
  ASSERT_OK_AND_ASSIGN(const Packed packed,
                       Table({{"x", base::Array::Of<int64_t>({2}, {1, 2})}},
                             {.out = folder, .shards = 1, .file_system = gcs}));
  const absl::Status status =
      Reshard({.shards = {folder}},
              {.out = folder + "&location=EU", .overwrite = true, .file_system = gcs})
          .status();
  EXPECT_THAT(status, IsStatus(Code::kInvalidArgument, "is the folder of the input shards"));
  EXPECT_OK(gcs->Stat(packed.shards[0])) << "the input was removed before it was read";
}

}  // namespace service_test
}  // namespace penstock::pack
