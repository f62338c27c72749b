// Benchmark of the throughput of training data from a remote object store:
//
//   bench_storage serve FOLDER WORK   for each line of stdin, runs the workload WORK for about two
//                                     seconds and prints
//                                     {"items_per_second": 3072.0, "peak_rss": 104857600}
//   bench_storage FOLDER [ROUNDS]     runs all workloads alternately and prints the ratios
//
// FOLDER is the output of `bench_data make`. Its shards, and some of their images as single files,
// are uploaded to the emulator that tests use, which is behind a proxy that delays bytes
// (io/testing/latency_proxy.h) by a round-trip time of 50 ms or 0. The workloads:
//
//   near, far            shards, repeated, read, decoded and batched; without and with latency
//   read_near, read_far  the same without decoding
//   files                FromFiles, decoded and batched, with latency
//   one_by_one           one file after another, decoded, with latency
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include <sys/resource.h>

#include "penstock/base/clock.h"
#include "penstock/base/median.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/image/image.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/uri.h"

namespace penstock {
namespace {

using base::DType;
using base::NamedArrays;
using data::Dataset;

constexpr double kRoundTripSeconds = 0.05;
constexpr int kBatch = 128;
constexpr int64_t kFiles = 512;
constexpr double kSeconds = 2.0;
constexpr double kWarmSeconds =
    0.3;  // start of a round that is not measured: drains the read-ahead

double Now() { return base::Clock::Real()->Seconds(); }

std::shared_ptr<io::FileSystem> NewFileSystem() {
  return io::MakeGcsFileSystem(io::MakeArrowFileSystem());
}

std::string FileName(int64_t i) { return absl::StrFormat("files/%05d.jpg", i % kFiles); }

Dataset Examples(const std::string& folder) {
  return Dataset::FromTfRecords({io::JoinPath(folder, "*.tfrec")})
      .ParseExample({.features = {{.name = "image", .dtype = DType::kString},
                                  {.name = "class", .dtype = DType::kI64}}});
}

// Bucket of the emulator with the shards of a folder and single images, without and with latency.
class Store {
 public:
  explicit Store(const std::string& folder) : gcs_(*io::Emulator::Gcs().value()) {
    const auto local = io::FileSystem::Default();
    const auto fs = NewFileSystem();
    bucket_ = gcs_.MakeBucket(*fs).value();
    const auto shards = local->List(folder).value();
    for (const io::FileInfo& file : shards) {
      PENSTOCK_CHECK_OK(io::WriteFile(*fs, io::JoinPath(bucket_, io::Basename(file.uri)),
                                      io::ReadFile(*local, file.uri).value()));
    }
    auto examples = Examples(folder).Take(kFiles).MakeIterator().value();
    int64_t count = 0;
    for (NamedArrays example; examples->Next(&example).value(); ++count) {
      PENSTOCK_CHECK_OK(io::WriteFile(*fs, io::JoinPath(bucket_, FileName(count)),
                                      example.Find("image")->data<absl::string_view>()[0]));
    }
    PENSTOCK_CHECK(count == kFiles);
  }

  std::string Near() const { return Through(near_); }
  std::string Far() const { return Through(far_); }

 private:
  std::string Through(const io::LatencyProxy& proxy) const {
    return absl::StrReplaceAll(bucket_,
                               {{absl::StrCat(":", gcs_.port()), absl::StrCat(":", proxy.port())}});
  }

  io::Emulator& gcs_;
  std::string bucket_;
  io::LatencyProxy near_{{.upstream_port = gcs_.port()}};
  io::LatencyProxy far_{{.upstream_port = gcs_.port(), .round_trip_seconds = kRoundTripSeconds}};
};

// Runs for a while and returns the number of items per second.
using Work = std::function<double()>;

Work ReadRepeatedly(const Dataset& dataset) {
  const std::shared_ptr<data::Iterator> iterator =
      dataset.Batch(kBatch)
          .Repeat()
          .Prefetch(2)
          .MakeIterator({.file_system = NewFileSystem()})
          .value();
  return [iterator] {
    const auto read_for = [&](double seconds) {
      const double begin = Now();
      int64_t items = 0;
      double elapsed = 0;
      for (; elapsed < seconds; elapsed = Now() - begin) {
        NamedArrays batch;
        PENSTOCK_CHECK(iterator->Next(&batch).value());
        items += batch[0].second.shape().dim(0);
      }
      return static_cast<double>(items) / elapsed;
    };
    read_for(kWarmSeconds);
    return read_for(kSeconds);
  };
}

Work OneByOne(const std::string& bucket) {
  return [bucket, fs = NewFileSystem(), next = int64_t{0}]() mutable {
    const double begin = Now();
    int64_t items = 0;
    for (; Now() - begin < kSeconds; ++items) {
      const auto file = io::ReadFile(*fs, io::JoinPath(bucket, FileName(next++)));
      PENSTOCK_CHECK_OK(image::Decode(file.value()));
    }
    return static_cast<double>(items) / (Now() - begin);
  };
}

std::map<std::string, std::function<Work()>> AllWork(const Store& store) {
  return {
      {"near", [&] { return ReadRepeatedly(Examples(store.Near()).DecodeImage()); }},
      {"far", [&] { return ReadRepeatedly(Examples(store.Far()).DecodeImage()); }},
      {"read_near", [&] { return ReadRepeatedly(Examples(store.Near())); }},
      {"read_far", [&] { return ReadRepeatedly(Examples(store.Far())); }},
      {"files",
       [&] {
         return ReadRepeatedly(Dataset::FromFiles({io::JoinPath(store.Far(), "files/*.jpg")})
                                   .DecodeImage({.column = "bytes"}));
       }},
      {"one_by_one", [&] { return OneByOne(store.Far()); }},
  };
}

int Serve(const std::string& folder, const std::string& name) {
  const Store store(folder);
  const auto all = AllWork(store);
  const auto found = all.find(name);
  if (found == all.end()) {
    std::fprintf(stderr, "bench_storage: unknown workload '%s'\n", name.c_str());
    return 2;
  }
  const Work work = found->second();
  for (std::string line; std::getline(std::cin, line);) {
    const double rate = work();
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << absl::StrFormat("{\"items_per_second\": %.1f, \"peak_rss\": %d}", rate,
                                 usage.ru_maxrss * 1024)
              << std::endl;
  }
  return 0;
}

struct Line {
  const char* ours;
  const char* peer;
  double target;  // minimum ratio; 0: none
};

constexpr Line kLines[] = {
    {"far", "near", 0.9},
    {"far", "one_by_one", 30},
    {"files", "one_by_one", 0},
    {"read_far", "read_near", 0},
};

void Compare(const std::string& folder, int rounds) {
  const Store store(folder);
  for (const Line& line : kLines) {
    const auto all = AllWork(store);
    const Work ours = all.at(line.ours)(), peer = all.at(line.peer)();
    std::vector<double> a, b, ratios;
    for (int i = 0; i < rounds; ++i) {
      a.push_back(ours());
      b.push_back(peer());
      ratios.push_back(a.back() / b.back());
    }
    std::printf("%-10s %8.0f /s   %-10s %8.0f /s   ratio %7.3f   %s\n", line.ours, base::Median(a),
                line.peer, base::Median(b), base::Median(ratios),
                line.target == 0 ? "no target"
                : base::Median(ratios) >= line.target
                    ? absl::StrCat("target ", line.target, ": met").c_str()
                    : absl::StrCat("target ", line.target, ": MISSED").c_str());
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "serve") return Serve(argv[2], argv[3]);
  if (argc == 2 || argc == 3) {
    Compare(argv[1], argc == 3 ? std::max(1, std::atoi(argv[2])) : 5);
    return 0;
  }
  std::fprintf(stderr, "usage: bench_storage FOLDER [ROUNDS] | serve FOLDER WORK\n");
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
