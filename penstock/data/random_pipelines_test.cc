// Compares random pipelines with a plain interpreter: the same elements for any number of threads,
// resumed at every position, on several machines, with little memory; the same set if not
// deterministic.
//
// Some 60 pipelines by default. To run longer (tools/fuzz does), or to repeat one:
//   PENSTOCK_FUZZ_SECONDS=600 build/release/penstock/data/data_tests --file random_pipelines_test
//   PENSTOCK_PIPELINE=123 build/release/penstock/data/data_tests --file random_pipelines_test
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/data/testing/random_pipeline.h"

namespace penstock::data {
namespace random_pipelines_test {

using base::NamedArrays;
using testing::PlainElement;
using testing::PlainPoll;
using testing::PlainStagePtr;
using testing::RandomFiles;
using testing::RandomPipeline;
using testing::RandomPipelines;

using Elements = std::vector<std::string>;

// Limit of elements per dataset, which may have no end.
constexpr size_t kMaxElements = 50;
// Limit of interpreter steps per element: a Filter of an endless source may drop everything.
constexpr int64_t kMaxSteps = 20'000;

// Ends the program and names the pipeline if there is no progress for too long.
class Watchdog {
 public:
  Watchdog() : thread_([this] { Run(); }) {}
  ~Watchdog() {
    Say("");
    thread_.join();
  }
  // Sets the current activity; "" stops the watchdog.
  void Say(std::string what) {
    std::lock_guard lock(mutex_);
    what_ = std::move(what);
    ++step_;
    changed_.notify_all();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (int64_t seen = step_; step_ == 0 || !what_.empty(); seen = step_) {
      if (changed_.wait_for(lock, std::chrono::seconds(120), [&] { return step_ != seen; })) {
        continue;
      }
      if (step_ == 0) continue;
      std::fprintf(stderr, "no progress for 120 s: %s\n", what_.c_str());
      std::abort();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t step_ = 0;
  std::string what_;
  std::thread thread_;
};

// The first elements, with the iterator's state before each and after the last.
struct Got {
  Elements elements;
  std::vector<IteratorState> states;
  absl::Status status;
};

Got Read(const Dataset& dataset, const IteratorOptions& options, size_t max_elements) {
  Got got;
  auto iterator = dataset.MakeIterator(options);
  got.status = iterator.status();
  if (!iterator.ok()) return got;
  got.states.push_back((*iterator)->State());
  NamedArrays element;
  while (got.elements.size() < max_elements) {
    const auto more = (*iterator)->Next(&element);
    got.status = more.status();
    if (!more.ok() || !*more) break;
    got.elements.push_back(Print(testing::ToPlain(element)));
    got.states.push_back((*iterator)->State());
  }
  return got;
}

Elements From(const Elements& all, size_t begin) {
  return Elements(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
}

std::string Difference(const Elements& want, const Elements& got) {
  size_t at = 0;
  while (at < want.size() && at < got.size() && want[at] == got[at]) ++at;
  const auto print = [at](const Elements& elements) {
    return at < elements.size() ? elements[at] : std::string("(end)");
  };
  return absl::StrCat("they differ at ", at, " of ", want.size(), ":\n  want ", print(want),
                      "\n  got  ", print(got));
}

// One pipeline. Each check returns what went wrong, or "".
class Case {
 public:
  Case(const RandomFiles& files, const std::string& folder, uint64_t seed, Watchdog& watchdog)
      : files_(files),
        random_(files, folder, seed),
        watchdog_(watchdog),
        name_(absl::StrCat("pipeline ", seed)),
        pipeline_(random_.Make()),
        pool_(static_cast<int>(1 + random_.Below(4))),
        seed_(static_cast<uint64_t>(random_.Below(1'000'000))),
        epoch_(random_.Below(3)) {}

  std::string Description() const { return pipeline_.dataset.ToString(); }

  std::string Check() {
    if (!pipeline_.dataset.status().ok()) return pipeline_.dataset.status().ToString();
    const auto want = Plain(HostShard());
    if (!want.has_value()) return "";  // the interpreter reached its limit
    want_ = *want;
    for (std::string (Case::*check)() :
         {&Case::CheckElements, &Case::CheckCardinality, &Case::CheckResuming, &Case::CheckDropping,
          &Case::CheckLittleMemory, &Case::CheckWithoutOrder, &Case::CheckMachines}) {
      const std::string wrong = (this->*check)();
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  bool ends() const { return want_.size() < kMaxElements; }

  std::optional<Elements> Plain(const HostShard& host) const {
    const auto limit = std::make_shared<testing::PlainLimit>();
    const testing::PlainIterator in = Start(pipeline_.plain, seed_, epoch_, host, limit);
    Elements all;
    PlainElement element;
    while (all.size() < kMaxElements) {
      limit->steps_left = kMaxSteps;
      const PlainPoll poll = in(&element);
      if (limit->steps_left < 0) return std::nullopt;
      if (poll == PlainPoll::kEnd) break;
      if (poll == PlainPoll::kElement) all.push_back(Print(element));
    }
    return all;
  }

  IteratorOptions FreshOptions() {
    IteratorOptions options = Options();
    options.seed = seed_;
    options.epoch = epoch_;
    return options;
  }
  IteratorOptions Options() {
    IteratorOptions options = {.file_system = files_.file_system()};
    if (!random_.OneIn(8)) options.pool = &pool_;
    return options;
  }

  Got Read(const std::string& what, const IteratorOptions& options, size_t max_elements) {
    watchdog_.Say(absl::StrCat(name_, ", ", what, "\n", Description()));
    return random_pipelines_test::Read(pipeline_.dataset, options, max_elements);
  }

  std::string Compare(const std::string& what, const IteratorOptions& options, const Elements& want,
                      size_t max_elements) {
    const Got got = Read(what, options, max_elements);
    if (!got.status.ok()) return absl::StrCat(what, ": ", got.status.ToString());
    return got.elements == want ? "" : absl::StrCat(what, ": ", Difference(want, got.elements));
  }

  std::string CheckElements() {
    const Got got = Read("reading", FreshOptions(), kMaxElements);
    states_ = got.states;
    if (!got.status.ok()) return got.status.ToString();
    return got.elements == want_ ? "" : Difference(want_, got.elements);
  }

  std::string CheckCardinality() {
    const auto count = pipeline_.dataset.Cardinality({.file_system = files_.file_system()});
    if (!count.ok()) return absl::StrCat("Cardinality: ", count.status().ToString());
    const auto size = static_cast<int64_t>(want_.size());
    const bool fits = *count == kUnknownCardinality ||
                      (ends() ? *count == size : *count == kInfiniteCardinality || *count >= size);
    return fits ? "" : absl::StrCat("Cardinality is ", *count, " of ", size, " elements");
  }

  std::string CheckResuming() {
    for (size_t at = 0; at <= want_.size(); ++at) {
      IteratorOptions options = Options();
      options.state = *IteratorState::Parse(states_[at].ToString());
      const std::string what = absl::StrCat("resumed at ", at);
      const Got got = Read(what, options, kMaxElements - at);
      if (!got.status.ok()) return absl::StrCat(what, ": ", got.status.ToString());
      const Elements want = From(want_, at);
      if (got.elements != want) return absl::StrCat(what, ": ", Difference(want, got.elements));
      if (got.states.back().ToString() != states_.back().ToString()) {
        return absl::StrCat(what, ": ends at ", got.states.back().ToString());
      }
    }
    return "";
  }

  std::string CheckDropping() {
    for (int i = 0; i < 3; ++i)
      Read("dropping", FreshOptions(), static_cast<size_t>(random_.Below(12)));
    return "";
  }

  std::string CheckLittleMemory() {
    IteratorOptions options = FreshOptions();
    options.memory_bytes = 1 + random_.Below(random_.OneIn(2) ? 300 : 20'000);
    const std::string what = absl::StrCat("with ", options.memory_bytes, " bytes");
    const Got got = Read(what, options, kMaxElements);
    if (absl::IsResourceExhausted(got.status)) return "";
    if (!got.status.ok()) return absl::StrCat(what, ": ", got.status.ToString());
    return got.elements == want_ ? "" : absl::StrCat(what, ": ", Difference(want_, got.elements));
  }

  std::string CheckWithoutOrder() {
    if (pipeline_.depends_on_order || !ends()) return "";
    IteratorOptions options = FreshOptions();
    options.deterministic = false;
    Got got = Read("without order", options, kMaxElements);
    if (!got.status.ok()) return absl::StrCat("without order: ", got.status.ToString());
    Elements want = want_;
    std::sort(want.begin(), want.end());
    std::sort(got.elements.begin(), got.elements.end());
    if (got.elements == want) return "";
    return absl::StrCat("without order: ", Difference(want, got.elements));
  }

  std::string CheckMachines() {
    if (pipeline_.shared_batch < 2) return "";
    const int64_t count = 2 + random_.Below(pipeline_.shared_batch - 1);
    for (int64_t index = 0; index < count; ++index) {
      const HostShard host = {count, index};
      const auto want = Plain(host);
      if (!want.has_value()) return "";
      IteratorOptions options = FreshOptions();
      options.host = host;
      const std::string what = absl::StrCat("machine ", index, " of ", count);
      const std::string wrong = Compare(what, options, *want, kMaxElements);
      if (!wrong.empty()) return wrong;
      const auto at = static_cast<size_t>(random_.Below(static_cast<int64_t>(want->size()) + 1));
      options = Options();
      options.host = host;
      options.state = states_[0];
      options.state->elements = static_cast<int64_t>(at);
      options.state->hosts = count;
      const std::string resumed = Compare(absl::StrCat(what, " resumed at ", at), options,
                                          From(*want, at), kMaxElements - at);
      if (!resumed.empty()) return resumed;
    }
    return "";
  }

  const RandomFiles& files_;
  RandomPipelines random_;
  Watchdog& watchdog_;
  const std::string name_;
  const RandomPipeline pipeline_;
  base::ThreadPool pool_;
  const uint64_t seed_;
  const int64_t epoch_;
  Elements want_;
  std::vector<IteratorState> states_;
};

std::optional<uint64_t> FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  uint64_t value = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

class RandomPipelinesTest : public ::testing::Test {
 protected:
  ~RandomPipelinesTest() override { std::filesystem::remove_all(root_); }

  // Returns whether pipeline `seed` matches the reference interpreter.
  bool Run(uint64_t seed) {
    const std::string folder = absl::StrCat(root_, "/", folders_++);
    Case one(files_, folder, seed, watchdog_);
    const std::string wrong = one.Check();
    std::filesystem::remove_all(folder);
    if (wrong.empty()) return true;
    ADD_FAILURE() << "pipeline " << seed << ": " << wrong.substr(0, 2000) << "\n"
                  << one.Description() << "again: PENSTOCK_PIPELINE=" << seed
                  << " build/release/penstock/data/data_tests --file random_pipelines_test";
    return false;
  }

 private:
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/random_pipelines_", absl::Hex(base::EntropySeed()));
  int folders_ = 0;
  const RandomFiles files_;
  Watchdog watchdog_;
};

TEST_F(RandomPipelinesTest, MatchReferenceInterpreter) {
  if (const auto seed = FromEnvironment("PENSTOCK_PIPELINE")) {
    // A failure may depend on timing.
    for (int again = 0; again < 30 && Run(*seed); ++again) {
    }
    return;
  }
  if (const auto seconds = FromEnvironment("PENSTOCK_FUZZ_SECONDS")) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(*seconds);
    const uint64_t first = base::EntropySeed() >> 16;
    uint64_t seed = first;
    for (int wrong = 0; wrong < 10 && std::chrono::steady_clock::now() < end; ++seed) {
      wrong += Run(seed) ? 0 : 1;
    }
    std::printf("pipelines %llu to %llu\n", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(seed));
    return;
  }
  for (int64_t seed = 0; seed < base::FewerIfSanitized(60); ++seed) Run(seed);
}

}  // namespace random_pipelines_test
}  // namespace penstock::data
