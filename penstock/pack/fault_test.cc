// Fault injection for conversions: status codes are injected at every call of the input and of the
// output file system, once and persistently, for every kind of source.
//
// Each case ends with the bytes of an uninterrupted run or with an error, never with fewer records.
// After an error a second run completes the shards; until then the folder is rejected as
// incomplete. A persistent fault from some call on leaves the same files as a kill at that call.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/pack/convert.h"
#include "penstock/pack/sources/record_sources.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"
#include "penstock/save/testing/faulty_file_system.h"

namespace penstock::pack {
namespace fault_test {

using Code = absl::StatusCode;
using Files = std::map<std::string, std::string>;
using ::testing::HasSubstr;

constexpr char kIn[] = "memory://in";
constexpr char kOut[] = "memory://out";

struct Fault {
  bool of_input = false;    // false: of the output file system
  int64_t at = -1;          // number of the failing call; -1: none
  bool persistent = false;  // all later calls fail as well
  Code code = Code::kOk;

  std::string ToString() const {
    return absl::StrCat(absl::StatusCodeToString(code), persistent ? " from call " : " at call ",
                        at, of_input ? " of reading" : " of writing");
  }
};

// Injects a fault and counts the calls.
struct FaultyCalls {
  Fault fault;
  std::atomic<int64_t> reads = 0, writes = 0;

  save::FaultyFileSystem::Fault Of(bool input) {
    return [this, input](int64_t call) {
      ++(input ? reads : writes);
      const bool hit = fault.of_input == input && fault.at >= 0 &&
                       (call == fault.at || (fault.persistent && call > fault.at));
      return hit ? absl::Status(fault.code, "injected") : absl::OkStatus();
    };
  }
};

using Open = std::function<absl::StatusOr<std::unique_ptr<RecordSource>>(io::FileSystem& fs)>;

struct Kind {
  const char* name;
  void (*make)(io::FileSystem& fs);
  Open open;
};

std::string Png(int value) {
  base::Array pixels = base::Array::Zeros(base::DType::kU8, {4, 4, 1});
  pixels.mutable_data<uint8_t>()[0] = static_cast<uint8_t>(value);
  return *image::EncodePng(*image::ViewOf(pixels));
}

void Write(io::FileSystem& fs, const std::string& name, absl::string_view bytes) {
  ASSERT_TRUE(io::WriteFile(fs, io::JoinPath(kIn, name), bytes).ok());
}

void MakeImages(io::FileSystem& fs) {
  for (int i = 0; i < 5; ++i) {
    Write(fs, absl::StrCat(i % 2 == 0 ? "even/" : "odd/", i, ".png"), Png(i));
  }
  Write(fs, "labels.csv", "path,label\neven/0.png,even\nodd/1.png,odd\neven/2.png,even\n");
}

void MakeShards(io::FileSystem& fs) {
  for (const bool zipped : {false, true}) {
    auto writer = record::TfRecordWriter::Create(
        fs, io::JoinPath(kIn, zipped ? "b.tfrec.gz" : "00-3.tfrec"),
        {.compression = zipped ? record::Compression::kGzip : record::Compression::kNone});
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE((*writer)->Append(absl::StrCat("record ", zipped, " ", i)).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }
  Write(fs, "classes.txt", "even\nodd\n");
}

void MakeCifar(io::FileSystem& fs) {
  for (int file = 1; file <= 2; ++file) {
    std::string bytes(size_t{2} * 3073, static_cast<char>(file));
    bytes[3073] = 3;
    Write(fs, absl::StrCat("data_batch_", file, ".bin"), bytes);
  }
  Write(fs, "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
}

void MakeTfds(io::FileSystem& fs) {
  Write(fs, "features.json",
        R"({"pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
            "featuresDict": {"features": {
              "image": {"pythonClassName": "x.Image", "image": {}},
              "label": {"pythonClassName": "x.ClassLabel", "classLabel": {"numClasses": "2"}}}}})");
  Write(fs, "label.labels.txt", "even\nodd\n");
  for (int file = 0; file < 2; ++file) {
    auto writer = record::TfRecordWriter::Create(
        fs, io::JoinPath(kIn, absl::StrCat("d-train.tfrecord-0000", file, "-of-00002")));
    for (int i = 0; i < 2; ++i) {
      record::ExampleBuilder example;
      example.SetBytes("image", Png(10 * file + i));
      example.SetInt64("label", i);
      ASSERT_TRUE((*writer)->Append(example.Serialize()).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenImages(io::FileSystem& fs) {
  PENSTOCK_ASSIGN_OR_RETURN(ImageList list, ListImages(fs, {.images = {kIn}}));
  return ImageFiles(fs, std::move(list), {});
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenLabels(io::FileSystem& fs) {
  PENSTOCK_ASSIGN_OR_RETURN(const ImageLabels labels,
                            ReadImageLabels(fs, io::JoinPath(kIn, "labels.csv")));
  PENSTOCK_ASSIGN_OR_RETURN(ImageList list, ListImages(fs, {.labels = &labels}));
  return ImageFiles(fs, std::move(list), {});
}

const std::vector<Kind>& Kinds() {
  static const auto* const kinds = new std::vector<Kind>{
      {"Images", &MakeImages, &OpenImages},
      {"Labels", &MakeImages, &OpenLabels},
      {"Shards", &MakeShards,
       [](io::FileSystem& fs) {
         return ShardRecords(fs, {io::JoinPath(kIn, "00-3.tfrec"), io::JoinPath(kIn, "b.tfrec.gz")},
                             "image", {});
       }},
      {"Cifar", &MakeCifar, [](io::FileSystem& fs) { return CifarImages(fs, kIn, "train", {}); }},
      {"Tfds", &MakeTfds, [](io::FileSystem& fs) { return TfdsImages(fs, {.folder = kIn}); }},
  };
  return *kinds;
}

Files FilesIn(io::FileSystem& fs, const std::string& folder) {
  Files files;
  const auto listed = fs.ListRecursive(folder);
  if (absl::IsNotFound(listed.status())) return files;
  EXPECT_TRUE(listed.ok()) << listed.status();
  for (const io::FileInfo& file : *listed) {
    // Ignores a file of CheckWritableFolder that could not be removed.
    if (absl::StrContains(file.uri, "penstock-write-check-")) continue;
    files[file.uri.substr(folder.size())] = *io::ReadFile(fs, file.uri);
  }
  return files;
}

// Returns OK if a reader accepts the folder as a complete data set.
absl::Status CheckComplete(io::FileSystem& fs) {
  std::vector<std::string> shards;
  for (const auto& [name, bytes] : FilesIn(fs, kOut)) {
    if (absl::EndsWith(name, ".tfrec")) shards.push_back(absl::StrCat(kOut, name));
  }
  if (shards.empty()) return absl::NotFoundError("no shards");
  return CheckShardsComplete(fs, shards);
}

class PackFaults : public ::testing::TestWithParam<size_t> {
 protected:
  PackFaults() {
    kind().make(*memory_);
    in_ = FilesIn(*memory_, kIn);
    EXPECT_TRUE(Run({}).ok());
    reference_ = FilesIn(*memory_, kOut);
    reads_ = calls_.reads;
    writes_ = calls_.writes;
    EXPECT_TRUE(CheckComplete(*memory_).ok());
  }

  const Kind& kind() const { return Kinds()[GetParam()]; }

  // Converts like `penstock pack --skip-unreadable`.
  absl::StatusOr<ShardPlan> Run(const Fault& fault, bool overwrite = false) {
    calls_.fault = fault;
    calls_.reads = calls_.writes = 0;
    using save::FaultyFileSystem;
    FaultyFileSystem in(memory_, calls_.Of(true), FaultyFileSystem::Counts::kEveryCall);
    FaultyFileSystem out(memory_, calls_.Of(false), FaultyFileSystem::Counts::kEveryCall);
    const PackOptions options{
        .out = kOut, .shards = 2, .seed = 1, .threads = 1, .overwrite = overwrite};
    PENSTOCK_RETURN_IF_ERROR(CheckOut(out, options));
    PENSTOCK_ASSIGN_OR_RETURN(const auto source, kind().open(in));
    return Convert(out, *source, options);
  }

  void RemoveOut() {
    for (const auto& [name, bytes] : FilesIn(*memory_, kOut)) {
      ASSERT_TRUE(memory_->Remove(absl::StrCat(kOut, name)).ok());
    }
  }

  // Checks the result of a run with this fault, and the files that it left.
  void CheckResult(const Fault& fault, const absl::StatusOr<ShardPlan>& made) {
    const Files out = FilesIn(*memory_, kOut);
    ASSERT_TRUE(FilesIn(*memory_, kIn) == in_) << "an input has changed";
    if (out != reference_) {
      ASSERT_FALSE(CheckComplete(*memory_).ok()) << "the folder passes for a complete data set";
    }
    if (made.ok()) {
      ASSERT_TRUE(made->unreadable.empty());
      ASSERT_TRUE(out == reference_) << "the run succeeded with different files";
      return;
    }
    const Code code = made.status().code();
    const bool is_stray_code = code == Code::kFailedPrecondition || code == Code::kAlreadyExists ||
                               code == Code::kUnavailable;
    ASSERT_TRUE(code == fault.code || is_stray_code) << made.status();
    // A missing shard, and two checks that disagree, have messages of their own.
    ASSERT_THAT(std::string(made.status().message()),
                ::testing::AnyOf(HasSubstr("injected"), HasSubstr("memory://")));
  }

  // Returns true for a persistent NOT_FOUND of the optional file of class names: without it, the
  // class names are numbers.
  static bool HidesOptionalFile(const Fault& fault, const absl::StatusOr<ShardPlan>& made) {
    return fault.code == Code::kNotFound && fault.of_input && fault.persistent && made.ok() &&
           made->unreadable.empty();
  }

  // Returns true if the fault made one input unreadable: DATA_LOSS from the storage.
  static bool IsSkipped(const Fault& fault, const absl::StatusOr<ShardPlan>& made) {
    if (fault.code != Code::kDataLoss || !fault.of_input || !made.ok()) return false;
    if (made->unreadable.empty()) return false;
    EXPECT_THAT(made->unreadable[0].why, HasSubstr("injected"));
    EXPECT_TRUE(fault.persistent || made->unreadable.size() == 1);
    return true;
  }

  // Returns the codes that the code under test distinguishes (under a sanitizer one of them), and
  // one of the other codes, which varies with the call. tools/fuzz tests all codes.
  static std::vector<Code> CodesAt(int64_t call) {
    if (std::getenv("PENSTOCK_FUZZ_SECONDS") != nullptr) {
      std::vector<Code> all;
      for (int code = 1; code <= 16; ++code) all.push_back(static_cast<Code>(code));
      return all;
    }
    const Code others[] = {
        Code::kCancelled,          Code::kUnknown,          Code::kDeadlineExceeded,
        Code::kAlreadyExists,      Code::kPermissionDenied, Code::kResourceExhausted,
        Code::kFailedPrecondition, Code::kAborted,          Code::kOutOfRange,
        Code::kUnimplemented,      Code::kInternal,         Code::kUnauthenticated};
    const Code distinct[] = {Code::kNotFound, Code::kDataLoss, Code::kUnavailable,
                             Code::kInvalidArgument};
    const Code other = others[call % std::size(others)];
    if (base::kSanitized) return {distinct[call % std::size(distinct)], other};
    return {distinct[0], distinct[1], distinct[2], distinct[3], other};
  }

  void ForEveryFault(const std::function<void(const Fault&)>& use) {
    for (const bool of_input : {true, false}) {
      const int64_t calls = of_input ? reads_ : writes_;
      ASSERT_GT(calls, 3);
      for (int64_t at = 0; at < calls; ++at) {
        for (const Code code : CodesAt(at)) {
          for (const bool persistent : {false, true}) {
            const Fault fault{of_input, at, persistent, code};
            SCOPED_TRACE(fault.ToString());
            use(fault);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }

  const std::shared_ptr<io::FileSystem> memory_ = io::MakeMemoryFileSystem();
  FaultyCalls calls_;
  int64_t reads_ = 0, writes_ = 0;  // number of calls of a run without faults
  Files in_, reference_;
};

INSTANTIATE_TEST_SUITE_P(Sources, PackFaults, ::testing::Range(size_t{0}, Kinds().size()),
                         [](const auto& info) { return std::string(Kinds()[info.param].name); });

TEST_P(PackFaults, CompleteOrFailWithResumableError) {
  ForEveryFault([&](const Fault& fault) {
    RemoveOut();
    const absl::StatusOr<ShardPlan> made = Run(fault);
    if (IsSkipped(fault, made) || HidesOptionalFile(fault, made)) {
      ASSERT_TRUE(Run({}, /*overwrite=*/true).ok());
    } else {
      CheckResult(fault, made);
      if (HasFatalFailure()) return;
      const absl::StatusOr<ShardPlan> again = Run({});
      ASSERT_TRUE(again.ok()) << again.status() << ", after " << made.status();
    }
    ASSERT_TRUE(FilesIn(*memory_, kOut) == reference_) << "the second run made different files";
  });
}

TEST_P(PackFaults, KeepFinishedShards) {
  ForEveryFault([&](const Fault& fault) {
    const absl::StatusOr<ShardPlan> made = Run(fault);
    // Shards that seem to be missing are rewritten.
    ASSERT_TRUE(FilesIn(*memory_, kOut) == reference_ || fault.code == Code::kNotFound);
    CheckResult(fault, made);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(Run({}).ok());
    ASSERT_TRUE(FilesIn(*memory_, kOut) == reference_);
  });
}

TEST_P(PackFaults, NeverLeaveMixedShardsWhenOverwriting) {
  ForEveryFault([&](const Fault& fault) {
    const absl::StatusOr<ShardPlan> made = Run(fault, /*overwrite=*/true);
    if (!IsSkipped(fault, made) && !HidesOptionalFile(fault, made)) CheckResult(fault, made);
    if (HasFatalFailure()) return;
    const absl::StatusOr<ShardPlan> again = Run({}, /*overwrite=*/true);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_TRUE(FilesIn(*memory_, kOut) == reference_);
  });
}

// A run is stopped after it published a shard but before it saved the plan; then an input changes.
TEST(PackLeftovers, RejectsShardsThatAreNotInThePlan) {
  const auto fs = io::MakeMemoryFileSystem();
  MakeImages(*fs);
  const PackOptions options{.out = kOut, .shards = 2, .threads = 1};
  const auto source = OpenImages(*fs);
  ASSERT_TRUE(source.ok());
  ASSERT_TRUE(io::WriteFile(*fs, absl::StrCat(kOut, "/notes.txt"), "mine").ok());
  // Stops after the second shard was published, before the plan contains it.
  int plans = 0;
  class Stops : public io::ForwardingFileSystem {
   public:
    Stops(std::shared_ptr<io::FileSystem> next, int* plans)
        : ForwardingFileSystem(std::move(next)), plans_(plans) {}
    absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
      if (io::Basename(uri) == kShardPlanFile && (*plans_)++ == 2)
        return absl::UnavailableError("killed");
      return ForwardingFileSystem::Create(uri);
    }

   private:
    int* const plans_;
  } stops(fs, &plans);
  ASSERT_FALSE(Convert(stops, **source, options).ok());
  ASSERT_TRUE(fs->Stat(absl::StrCat(kOut, "/01-3.tfrec")).ok());
  // Its images become unreadable, so that the shard changes.
  for (const char* name : {"even/0.png", "even/2.png", "even/4.png", "odd/1.png", "odd/3.png"}) {
    const std::string image = *io::ReadFile(*fs, io::JoinPath(kIn, name));
    Write(*fs, name, std::string(image.size(), 'x'));
  }
  const auto made = Convert(*fs, **source, options);
  EXPECT_TRUE(absl::IsFailedPrecondition(made.status())) << made.status();
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("01-3.tfrec is not one of the 1"));
  EXPECT_FALSE(CheckShardsComplete(*fs, {absl::StrCat(kOut, "/00-2.tfrec")}).ok());
  ASSERT_TRUE(fs->Remove(absl::StrCat(kOut, "/01-3.tfrec")).ok());
  EXPECT_TRUE(Convert(*fs, **source, options).ok());
  EXPECT_TRUE(fs->Stat(absl::StrCat(kOut, "/notes.txt")).ok());
}

TEST(PackInputs, SkipsMissingLabeledFilesOnlyIfTheirFolderExists) {
  const auto fs = io::MakeMemoryFileSystem();
  MakeImages(*fs);
  ASSERT_TRUE(fs->Remove(absl::StrCat(kIn, "/even/2.png")).ok());
  const auto source = OpenLabels(*fs);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto made = Convert(*fs, **source, {.out = kOut, .threads = 1});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->unreadable.size(), 1u);
  EXPECT_EQ(made->unreadable[0].name, absl::StrCat(kIn, "/even/2.png"));
  // The folder is missing, as if it were unmounted.
  for (const char* name : {"even/0.png", "even/4.png"}) {
    ASSERT_TRUE(fs->Remove(io::JoinPath(kIn, name)).ok());
  }
  const auto stopped = Convert(*fs, **source, {.out = "memory://out2", .threads = 1});
  EXPECT_TRUE(absl::IsNotFound(stopped.status())) << stopped.status();
  EXPECT_THAT(std::string(stopped.status().message()), HasSubstr("memory://in/even"));
}

TEST(PackInputs, SkipsImagesThatExceedTheDecoderLimits) {
  const auto fs = io::MakeMemoryFileSystem();
  MakeImages(*fs);
  // A PNG header with 60,000 x 60,000 pixels exceeds the decoder's limit.
  std::string bomb = Png(1);
  for (const size_t at : {size_t{16}, size_t{20}})
    bomb.replace(at, 4, std::string("\0\0\xea\x60", 4));
  Write(*fs, "odd/1.png", bomb);
  const auto source = OpenImages(*fs);
  const auto made = Convert(*fs, **source, {.out = kOut, .threads = 1});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->unreadable.size(), 1u);
  EXPECT_EQ(made->records(), 4);
}

}  // namespace fault_test
}  // namespace penstock::pack
