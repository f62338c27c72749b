// Benchmark of the input pipeline, which `bench/run data` runs beside its peers:
//
//   bench_data make FOLDER      writes eight shards of 250 photographs, 331x331, JPEG of quality 90
//   bench_data serve FOLDER WORK
//                               for each line of stdin, runs the workload WORK for about a second
//                               and prints {"items_per_second": 3072.0, "peak_rss": 104857600}
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <jpeglib.h>
#include <sys/resource.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;
using data::Dataset;
using data::Iterator;

constexpr int kShards = 8;
constexpr int kImagesPerShard = 250;
constexpr int kSide = 331;
constexpr int kSmallSide = 192;
constexpr int kBatch = 128;
constexpr int64_t kCifarImages = 50'000;
constexpr double kSeconds = 1.0;
constexpr double kWarmSeconds =
    0.3;  // start of a round that is not measured: drains the read-ahead

double Now() { return base::Clock::Real()->Seconds(); }

absl::Status MakeShards(io::FileSystem& fs, const std::string& folder) {
  std::vector<Array> photos;
  for (const char* name : {"china", "flower"}) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::string file,
        io::ReadFile(fs, absl::StrCat("third_party/unpacked/photos/", name, ".jpg")));
    PENSTOCK_ASSIGN_OR_RETURN(photos.emplace_back(), image::Decode(file));
  }
  base::Random random(0);
  for (int s = 0; s < kShards; ++s) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto writer,
        record::TfRecordWriter::Create(fs, absl::StrFormat("%s/%02d.tfrec", folder, s)));
    for (int i = 0; i < kImagesPerShard; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView photo, image::ViewOf(photos[i % 2]));
      PENSTOCK_ASSIGN_OR_RETURN(const image::Box box,
                                image::RandomCrop(photo.size(), {kSide, kSide}, random));
      PENSTOCK_ASSIGN_OR_RETURN(
          const std::string jpeg,
          image::EncodeJpeg(photo.Crop(box), {.quality = 90, .optimize = false}));
      record::ExampleBuilder example;
      example.SetBytes("image", jpeg);
      example.SetInt64("class", i % 5);
      PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
    }
    PENSTOCK_RETURN_IF_ERROR(writer->Close());
  }
  return absl::OkStatus();
}

Dataset Examples(const std::string& folder) {
  return Dataset::FromTfRecords({folder + "/*.tfrec"})
      .ParseExample({.features = {{.name = "image", .dtype = DType::kString},
                                  {.name = "class", .dtype = DType::kI64}}});
}

Dataset Images(const std::string& folder, const data::DecodeImageOptions& options) {
  return Examples(folder).DecodeImage(options).Shuffle(300).Repeat().Batch(kBatch);
}

// Returns random images, of CIFAR's number and size.
NamedArrays Cifar() {
  Array pixels = Array::Uninitialized(DType::kU8, {kCifarImages, 32, 32, 3});
  base::Random random(1);
  uint8_t* bytes = pixels.mutable_data<uint8_t>();
  for (int64_t i = 0; i < pixels.num_elements(); ++i)
    bytes[i] = static_cast<uint8_t>(random.Next());
  Array labels = Array::Zeros(DType::kI64, {kCifarImages});
  NamedArrays arrays;
  arrays.Append("image", std::move(pixels));
  arrays.Append("class", std::move(labels));
  return arrays;
}

struct Done {
  int64_t items = 0;
  double seconds = 0;
};

// Reads from an endless iterator, which is kept between calls.
class Reading {
 public:
  explicit Reading(const Dataset& dataset) : iterator_(dataset.MakeIterator({.seed = 1}).value()) {}

  Done operator()() {
    ReadFor(kWarmSeconds);
    return ReadFor(kSeconds);
  }

 private:
  Done ReadFor(double seconds) {
    const double begin = Now();
    Done done;
    while (done.seconds < seconds) {
      NamedArrays batch;
      PENSTOCK_CHECK(iterator_->Next(&batch).value());
      done.items += kBatch;
      done.seconds = Now() - begin;
    }
    return done;
  }

  std::shared_ptr<Iterator> iterator_;
};

// Runs the decoder alone, from memory, on all cores; each core overwrites the same output.
class LibjpegAlone {
 public:
  explicit LibjpegAlone(const std::string& folder) {
    auto iterator = Examples(folder).MakeIterator({.seed = 1}).value();
    for (NamedArrays example; iterator->Next(&example).value();) {
      files_.emplace_back(example.Find("image")->values<absl::string_view>()[0]);
    }
  }

  Done operator()() const {
    const double begin = Now();
    std::atomic<int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < base::NumCores(); ++i) {
      threads.emplace_back([&] {
        std::vector<uint8_t> pixels(size_t{kSide} * kSide * 3);
        while (Now() - begin < kSeconds) {
          const auto file = static_cast<size_t>(next++);
          DecodeOne(files_[file % files_.size()], pixels.data());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return {next, Now() - begin};
  }

 private:
  static void DecodeOne(const std::string& file, uint8_t* pixels) {
    jpeg_decompress_struct cinfo;
    jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);  // exits on errors
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&cinfo, TRUE);
    cinfo.out_color_space = JCS_RGB;
    jpeg_start_decompress(&cinfo);
    while (cinfo.output_scanline < cinfo.output_height) {
      JSAMPROW row = pixels + size_t{cinfo.output_scanline} * kSide * 3;
      jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
  }

  std::vector<std::string> files_;
};

// Copies random rows of CIFAR into a batch, in one thread; the batch's memory is reused.
class Memcpy {
 public:
  explicit Memcpy(const NamedArrays& arrays) : pixels_(*arrays.Find("image")) {
    base::Random random(2);
    for (int i = 0; i < kCifarImages; ++i) {
      rows_.push_back(static_cast<int64_t>(random.Below(kCifarImages)));
    }
  }

  Done operator()() {
    constexpr size_t kBytes = size_t{32} * 32 * 3;
    const uint8_t* from = pixels_.data<uint8_t>();
    size_t next = 0;
    const double begin = Now();
    Done done;
    while (done.seconds < kSeconds) {
      for (int i = 0; i < kBatch; ++i) {
        std::memcpy(&batch_[i * kBytes], from + rows_[next++ % rows_.size()] * kBytes, kBytes);
      }
      asm volatile("" : : "r"(batch_.data()) : "memory");
      done.items += kBatch;
      done.seconds = Now() - begin;
    }
    return done;
  }

 private:
  const Array pixels_;
  std::vector<int64_t> rows_;
  std::vector<uint8_t> batch_ = std::vector<uint8_t>(size_t{kBatch} * 32 * 32 * 3);
};

std::map<std::string, std::function<std::function<Done()>()>> AllWork(const std::string& folder) {
  return {
      {"decode", [=] { return Reading(Images(folder, {.height = kSide, .width = kSide})); }},
      {"decode_float",
       [=] {
         return Reading(Images(folder, {.height = kSide,
                                        .width = kSide,
                                        .dtype = DType::kF32,
                                        .normalize = {.scale = 1 / 255.0f}}));
       }},
      {"resize",
       [=] { return Reading(Images(folder, {.height = kSmallSide, .width = kSmallSide})); }},
      // A random resized crop of each image (Inception); only the crop is decoded.
      {"crop",
       [=] {
         return Reading(Images(folder, {.height = kSmallSide,
                                        .width = kSmallSide,
                                        .random_crop = image::RandomResizedCrop{}}));
       }},
      {"libjpeg", [=] { return LibjpegAlone(folder); }},
      {"raw",
       [=] {
         return Reading(Dataset::FromTfRecords({folder + "/*.tfrec"}).Repeat().Batch(kBatch));
       }},
      {"parse", [=] { return Reading(Examples(folder).Repeat().Batch(kBatch)); }},
      {"memory",
       [] { return Reading(Dataset::FromArrays(Cifar()).Repeat().Shuffle(2048).Batch(kBatch)); }},
      {"memcpy", [] { return Memcpy(Cifar()); }},
  };
}

int Serve(const std::string& folder, const std::string& name) {
  const auto all = AllWork(folder);
  const auto found = all.find(name);
  if (found == all.end()) {
    std::fprintf(stderr, "bench_data: unknown workload '%s'\n", name.c_str());
    return 2;
  }
  const std::function<Done()> work = found->second();
  for (std::string line; std::getline(std::cin, line);) {
    const Done done = work();
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << absl::StrFormat("{\"items_per_second\": %.1f, \"peak_rss\": %d}",
                                 done.items / done.seconds, usage.ru_maxrss * 1024)
              << std::endl;
  }
  return 0;
}

int Main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "serve" && argc == 4) return Serve(argv[2], argv[3]);
  if (what == "make" && argc == 3) {
    const absl::Status status = MakeShards(*io::FileSystem::Default(), argv[2]);
    if (status.ok()) return 0;
    std::fprintf(stderr, "bench_data: %s\n", status.ToString().c_str());
    return 1;
  }
  std::fprintf(stderr, "usage: bench_data make FOLDER | serve FOLDER WORK\n");
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
