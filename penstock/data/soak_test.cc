// Repeatedly opens, partially reads, and destroys iterators of many pipelines, then checks that no
// file descriptors, threads, or memory leak. Takes a few seconds as a test; `tools/soak SECONDS`
// runs longer.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <malloc.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/data/dataset.h"
#include "penstock/data/error_report.h"
#include "penstock/formats/npy.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {
namespace soak_test {

using base::Array;
using base::DType;
using base::NamedArrays;

constexpr int64_t kRounds = base::FewerIfSanitized(1200);  // default number of rounds
// Warm-up rounds, after which the baseline is measured.
constexpr int64_t kWarm = base::FewerIfSanitized(300);
constexpr int64_t kRecords = 300;

int64_t CountEntries(const char* folder) {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += !entry.path().empty();
  return count;
}

struct Held {
  int64_t files = 0;
  int64_t threads = 0;
  int64_t megabytes = 0;  // resident set size

  static Held Now() {
    malloc_trim(0);
    int64_t size = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> size >> resident;
    return {CountEntries("/proc/self/fd"), CountEntries("/proc/self/task"),
            resident * sysconf(_SC_PAGESIZE) >> 20};
  }
  std::string ToString() const {
    return absl::StrCat(files, " files, ", threads, " threads, ", megabytes, " MB");
  }
};

// A joined thread may remain in /proc for a moment.
Held HeldOnceThreadsAreGone(int64_t threads) {
  Held held = Held::Now();
  for (int i = 0; i < 5000 && held.threads > threads; ++i) {
    std::this_thread::yield();
    held.threads = CountEntries("/proc/self/task");
  }
  return held;
}

// Files of all formats, and pipelines that read them.
class Soak : public ::testing::Test {
 protected:
  Soak() : root_(absl::StrCat(::testing::TempDir(), "/soak_", absl::Hex(base::EntropySeed()))) {
    std::filesystem::create_directories(root_);
    report_ = *ErrorReport(Path("report"));
    WriteShards();
    WriteTexts();
    NamedArrays arrays;
    arrays.Set("x", Array::Zeros(DType::kF32, {kRecords, 8}));
    arrays.Set("y", Array::Zeros(DType::kI64, {kRecords}));
    PENSTOCK_CHECK_OK(formats::WriteNpz(*fs_, Path("a.npz"), arrays));
    PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("a.npy"), arrays[0].second));
  }
  ~Soak() override { std::filesystem::remove_all(root_); }

  std::string Path(absl::string_view name) const { return absl::StrCat(root_, "/", name); }

  // Some records are corrupt, or not an Example, or their image is invalid.
  void WriteShards() {
    const std::string image =
        *image::EncodePng(*image::ViewOf(Array::Zeros(DType::kU8, {9, 7, 3})));
    for (int shard = 0; shard < 3; ++shard) {
      for (const auto kind : {record::Compression::kNone, record::Compression::kGzip}) {
        const absl::string_view end = kind == record::Compression::kNone ? ".tfrec" : ".tfrec.gz";
        auto writer = *record::TfRecordWriter::Create(*fs_, Path(absl::StrCat(shard, end)),
                                                      {.compression = kind});
        for (int64_t i = 0; i < kRecords; ++i) {
          record::ExampleBuilder example;
          example.SetBytes("image", i % 50 == 3 ? "none" : image);
          example.SetInt64("x", i);
          example.SetInt64List("list", std::vector<int64_t>(static_cast<size_t>(i % 4), i));
          PENSTOCK_CHECK_OK(writer->Append(i % 70 == 9 ? "\xff" : example.Serialize()));
        }
        PENSTOCK_CHECK_OK(writer->Close());
      }
    }
  }

  void WriteTexts() {
    for (int file = 0; file < 4; ++file) {
      std::string lines;
      for (int64_t i = 0; i < kRecords; ++i) absl::StrAppend(&lines, i, ",", i / 2.0, ",word\n");
      PENSTOCK_CHECK_OK(io::WriteFile(*fs_, Path(absl::StrCat(file, ".csv")), lines));
    }
  }

  Dataset Records(const TfRecordOptions& options = {}) const {
    return Dataset::FromTfRecords({Path("*.tfrec")}, options);
  }
  static Dataset Parsed(const Dataset& records) {
    return records
        .ParseExample(
            {.features = {{.name = "image", .dtype = DType::kString},
                          {.name = "x", .dtype = DType::kI64},
                          {.name = "list", .dtype = DType::kI64, .variable_length = true}}})
        .IgnoreErrors();
  }
  static Dataset Decoded(const Dataset& records) {
    return Parsed(records).DecodeImage({.height = 5, .width = 5}).IgnoreErrors();
  }

  std::vector<Dataset> Pipelines() {
    const Dataset csv = Dataset::FromCsv(
        {Path("*.csv")},
        {.columns = {{"a", DType::kI64}, {"b", DType::kF32}, {"c", DType::kString}},
         .header = false});
    const Dataset npz = Dataset::FromNpy(Path("a.npz"));
    const auto generator = [](const GeneratorContext& context) -> ElementGenerator {
      return [i = int64_t{0}, context](NamedArrays* element) mutable -> absl::StatusOr<bool> {
        if (i == kRecords || context.cancelled()) return false;
        element->Set("value", Array::Scalar<int64_t>(i++));
        return true;
      };
    };
    const Dataset generated =
        Dataset::FromGenerator(generator, {{"value", DType::kI64, {}}}, {.read_ahead = 4});
    const auto open = [this](const NamedArrays&) -> absl::StatusOr<Dataset> {
      return Dataset::FromText({Path("*.csv")}, {.parallel_files = 2});
    };
    return {
        Decoded(Records()).RandomSeed().PaddedBatch(16).Repeat().Prefetch(2),
        Decoded(Records({.global_shuffle = true})).PaddedBatch(16),
        Decoded(Records({.shuffle_files = true, .skip_corrupt = true}).Shuffle(50))
            .Batch(8, {.ragged = {"list"}})
            .Unbatch(),
        Parsed(Dataset::FromTfRecords({Path("*.tfrec.gz")})).Cache().PaddedBatch(4).Repeat(2),
        Parsed(Records()).Cache(Path("cache")).Shuffle(30).PaddedBatch(4),
        csv.Cache(Path(absl::StrCat("cache", folders_++))).Window(3, {.shift = 2}),
        Parsed(Records().Take(99))
            .Snapshot(Path(absl::StrCat("snapshot", folders_++)), {.shard_bytes = 1000}),
        csv.Batch(7).Rebatch(5).Take(60),
        csv.Filter([](const NamedArrays& in) -> absl::StatusOr<bool> {
             return in.Find("a")->item<int64_t>() % 2 == 0;
           })
            .Concatenate(csv.Shard(3, 1)),
        Dataset::FromText({Path("*.csv")}, {.parallel_files = 3}).Enumerate().Batch(9),
        Dataset::FromFiles({Path("*.csv"), Path("*.tfrec")}, {.parallel_files = 5}).Repeat(),
        npz.Shuffle(64).Batch(32).Repeat(),
        Dataset::FromNpy(Path("a.npy"), {.access = NpyAccess::kStream, .block_bytes = 512})
            .Batch(5),
        Dataset::Zip({npz, generated, Dataset::Random()}, {.prefixes = {"a", "b", "c"}}).Batch(3),
        Dataset::Sample({Dataset::Range(0, 100), generated}, {1, 2})
            .Scan({{"sum", Array::Scalar<int64_t>(0)}},
                  [](const NamedArrays& in, NamedArrays* state, NamedArrays* out) {
                    const int64_t sum =
                        state->Find("sum")->item<int64_t>() + in[0].second.item<int64_t>();
                    state->Set("sum", Array::Scalar(sum));
                    out->Set("value", Array::Scalar(sum));
                    return absl::OkStatus();
                  }),
        Dataset::Range(0, 20).Interleave(
            open, {.makes = {{"line", DType::kString, {}}}, .cycle_length = 3}),
    };
  }

  // Makes an iterator with random options, reads some elements, and destroys it.
  void Round(const Dataset& dataset, base::ThreadPool* pool, base::Random& random) {
    IteratorOptions options = {
        .pool = random.Below(2) == 0 ? pool : nullptr,
        .seed = random.Next(),
        .deterministic = random.Below(2) == 0,
        .epoch = static_cast<int64_t>(random.Below(3)),
        .skip = static_cast<int64_t>(random.Below(4) == 0 ? random.Below(20) : 0),
        .on_skipped = report_};
    auto iterator = dataset.MakeIterator(options);
    ASSERT_TRUE(iterator.ok()) << iterator.status();
    // Reads no, some, or (rarely) all elements.
    const uint64_t kind = random.Below(20);
    const uint64_t max_elements = kind < 4 ? 0 : kind < 19 ? random.Below(30) : 1000;
    NamedArrays element;
    for (uint64_t i = 0; i < max_elements; ++i) {
      const auto more = (*iterator)->Next(&element);
      ASSERT_TRUE(more.ok()) << more.status();
      if (!*more) break;
    }
    if (random.Below(8) == 0) {
      options.seed = std::nullopt;
      options.epoch = options.skip = 0;
      options.state = (*iterator)->State();
      ASSERT_TRUE(dataset.MakeIterator(options).ok());  // destroyed immediately
    }
  }

  const std::string root_;
  const std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
  OnSkipped report_;
  int folders_ = 0;
};

TEST_F(Soak, LeavesNothingBehind) {
  double seconds = 0;
  if (const char* setting = std::getenv("PENSTOCK_SOAK_SECONDS")) {
    ASSERT_TRUE(absl::SimpleAtod(setting, &seconds)) << setting;
  }
  const uint64_t seed = base::EntropySeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  base::Random random(seed);
  base::ThreadPool pool(2);
  std::vector<Dataset> pipelines = Pipelines();
  const double begin = base::Clock::Real()->Seconds();
  const auto done = [&](int64_t round) {
    if (seconds == 0) return round >= kRounds;
    // Runs long enough for a comparison.
    return base::Clock::Real()->Seconds() - begin >= seconds && round >= 2 * kWarm;
  };
  const int64_t threads = CountEntries("/proc/self/task");
  Held first;
  int64_t rounds = 0;
  for (; !done(rounds) && !HasFatalFailure(); ++rounds) {
    const size_t which = random.Below(pipelines.size());
    SCOPED_TRACE(pipelines[which].ToString());
    Round(pipelines[which], &pool, random);
    // Recreates the datasets, and with them the contents of in-memory caches.
    if (rounds % 200 == 199) pipelines = Pipelines();
    if (rounds == kWarm) first = HeldOnceThreadsAreGone(threads);
    if (seconds > 0 && rounds % 5000 == 4999) {
      std::printf("%lld iterators: %s\n", static_cast<long long>(rounds) + 1,
                  Held::Now().ToString().c_str());
      std::fflush(stdout);
    }
  }
  pipelines.clear();
  ASSERT_GT(rounds, kWarm) << "too few to compare";
  const Held last = HeldOnceThreadsAreGone(first.threads);
  std::printf("%lld iterators: %s; after %lld there were %s\n", static_cast<long long>(rounds),
              last.ToString().c_str(), static_cast<long long>(kWarm), first.ToString().c_str());
  EXPECT_LE(last.files, first.files);
  EXPECT_LE(last.threads, first.threads);
  if (base::kSanitized) return;  // sanitizers delay reuse of freed memory
  // The tolerance is for the allocator; it does not depend on the number of rounds.
  EXPECT_LE(last.megabytes, first.megabytes + 48);
}

}  // namespace soak_test
}  // namespace penstock::data
