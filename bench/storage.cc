// How fast training data comes from an object store that is far away, beside the same store nearby,
// in the same run, rounds of the two in turns:
//
//   shards, decoded     TFRecords of JPEGs, decoded, in batches, 50 ms away | the same, 0 ms
//   shards, read        the same without decoding
//   shards, decoded     as above                                           | one file after the
//   other many small files    FromFiles, decoded, 50 ms away                     | one file after
//   the other
//
// The store is the emulator that tests use, behind a proxy that delays bytes (both times: 0 ms goes
// through a proxy as well). Each round makes a new file system: connections are made anew.
//
// bench_storage [images per shard] [shards] [rounds] [passes]          (300 12 5 3 when not given)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/arrow_file_system.h"
#include "penstock/io/gcs_file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock {
namespace {

using data::Dataset;

constexpr int kSide = 331;
constexpr int64_t kSmallFiles = 512;

double Now() { return base::Clock::Real()->Seconds(); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// About 36 kB, with as many bits a pixel as photographs have.
std::string Photograph(uint64_t seed) {
  base::Random random(seed);
  std::vector<uint8_t> pixels(kSide * kSide * 3);
  const double fx = 0.02 + 0.05 * random.Uniform(), fy = 0.02 + 0.05 * random.Uniform();
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const double base = 128 + 80 * std::sin(fx * x + fy * y) * std::cos(fy * x - fx * y);
      for (int c = 0; c < 3; ++c) {
        const double noise = 34 * (random.Uniform() - 0.5);
        pixels[(y * kSide + x) * 3 + c] =
            static_cast<uint8_t>(std::clamp(base + 20 * c - 20 + noise, 0.0, 255.0));
      }
    }
  }
  return image::EncodeJpeg(image::TightView(pixels.data(), {kSide, kSide}, 3), {.quality = 90})
      .value();
}

std::shared_ptr<io::FileSystem> NewFileSystem() {
  return io::MakeGcsFileSystem(io::MakeArrowFileSystem());
}

// The same bucket by way of a proxy.
std::string Through(const io::LatencyProxy& proxy, int port, const std::string& uri) {
  return absl::StrReplaceAll(
      uri, {{absl::StrCat("127.0.0.1:", port), absl::StrCat("127.0.0.1:", proxy.port())}});
}

Dataset Shards(const std::string& bucket) {
  return Dataset::FromTfRecords({io::JoinPath(bucket, "*.tfrec")});
}

Dataset Decoded(const Dataset& records) {
  return records
      .ParseExample({.features = {{.name = "image", .dtype = base::DType::kString},
                                  {.name = "class", .dtype = base::DType::kI64}}})
      .DecodeImage();
}

// Elements a second of all batches.
double Rate(const Dataset& batches, int64_t elements) {
  const double begin = Now();
  auto iterator = batches.MakeIterator({.file_system = NewFileSystem(), .seed = 1}).value();
  int64_t seen = 0;
  for (base::NamedArrays batch; iterator->Next(&batch).value();) {
    seen += batch[0].second.shape().dim(0);
  }
  PENSTOCK_CHECK(seen == elements);
  return static_cast<double>(seen) / (Now() - begin);
}

void Print(const char* work, const char* peer, const std::vector<double>& ours,
           const std::vector<double>& theirs, double bar) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  const double ratio = Median(ratios);
  std::printf("%-32s %8.0f /s   %-24s %8.0f /s   ratio %7.3f   ", work, Median(ours), peer,
              Median(theirs), ratio);
  if (bar > 0) {
    std::printf("bar %g   %s\n", bar, ratio >= bar ? "holds" : "DOES NOT HOLD");
  } else {
    std::printf("no bar\n");
  }
  std::fflush(stdout);
}

double FilesOneByOne(const std::string& bucket, int64_t count) {
  const auto fs = NewFileSystem();
  const double begin = Now();
  for (int64_t i = 0; i < count; ++i) {
    const std::string file =
        io::ReadFile(*fs, io::JoinPath(bucket, absl::StrFormat("small/%05d.jpg", i))).value();
    PENSTOCK_CHECK_OK(image::Decode(file));
  }
  return static_cast<double>(count) / (Now() - begin);
}

void Run(int per_shard, int shards, int rounds, int passes) {
  io::Emulator* const gcs = io::Emulator::Gcs().value();
  const auto fs = NewFileSystem();
  const std::string bucket = gcs->MakeBucket(*fs).value();
  std::vector<std::string> photographs;
  int64_t bytes = 0;
  for (int i = 0; i < 64; ++i) {
    photographs.push_back(Photograph(static_cast<uint64_t>(i)));
    bytes += static_cast<int64_t>(photographs.back().size());
  }
  for (int s = 0; s < shards; ++s) {
    auto writer =
        record::TfRecordWriter::Create(*fs, io::JoinPath(bucket, absl::StrFormat("%03d.tfrec", s)))
            .value();
    record::ExampleBuilder example;
    for (int i = 0; i < per_shard; ++i) {
      example.SetBytes("image", photographs[static_cast<size_t>(s * 7 + i) % photographs.size()]);
      example.SetInt64("class", i % 104);
      PENSTOCK_CHECK_OK(writer->Append(example.Serialize()));
    }
    PENSTOCK_CHECK_OK(writer->Close());
  }
  for (int64_t i = 0; i < kSmallFiles; ++i) {
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, io::JoinPath(bucket, absl::StrFormat("small/%05d.jpg", i)),
                                    photographs[static_cast<size_t>(i) % photographs.size()]));
  }
  std::printf("%d shards of %d images of %.0f kB, %d passes, %d rounds\n", shards, per_shard,
              static_cast<double>(bytes) / 64 / 1e3, passes, rounds);

  io::LatencyProxy near({.upstream_port = gcs->port()});
  io::LatencyProxy far({.upstream_port = gcs->port(), .round_trip_seconds = 0.05});
  const std::string here = Through(near, gcs->port(), bucket);
  const std::string there = Through(far, gcs->port(), bucket);
  const int64_t elements = int64_t{passes} * shards * per_shard;
  const auto train = [&](const std::string& at) {
    return Decoded(Shards(at)).Batch(128).Repeat(passes).Prefetch(2);
  };
  const auto read = [&](const std::string& at) {
    return Shards(at).Batch(128).Repeat(passes).Prefetch(2);
  };
  std::vector<double> decoded_far, decoded_near, read_far, read_near, one_by_one, files;
  for (int i = 0; i < rounds; ++i) {
    decoded_near.push_back(Rate(train(here), elements));
    decoded_far.push_back(Rate(train(there), elements));
    read_near.push_back(Rate(read(here), elements));
    read_far.push_back(Rate(read(there), elements));
    one_by_one.push_back(FilesOneByOne(there, 40));
    files.push_back(Rate(Dataset::FromFiles({io::JoinPath(there, "small/*.jpg")})
                             .DecodeImage({.column = "bytes"})
                             .Batch(64),
                         kSmallFiles));
  }
  Print("shards, decoded, 50 ms", "the same, 0 ms", decoded_far, decoded_near, 0.9);
  Print("shards, read, 50 ms", "the same, 0 ms", read_far, read_near, 0);
  Print("shards, decoded, 50 ms", "file after file, 50 ms", decoded_far, one_by_one, 30);
  Print("FromFiles, decoded, 50 ms", "file after file, 50 ms", files, one_by_one, 0);
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::max(1, std::atoi(argv[i])) : otherwise;
  };
  penstock::Run(number(1, 300), number(2, 12), number(3, 5), number(4, 3));
  return 0;
}
