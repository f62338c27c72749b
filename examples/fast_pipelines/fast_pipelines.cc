// Why is training waiting for its images? Measures the same images as single files and as shards,
// and draws nine of them.
//
//   fast_pipelines photos gs://bucket/shards nine.png
//
// `photos` has one folder per class. The shards may be on any file system; they are packed first.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/io/write_check.h"
#include "penstock/pack/pack.h"

using namespace penstock;

constexpr int kSide = 128;

data::Dataset Decoded(const data::Dataset& images) {
  return images.DecodeImage({.height = kSide, .width = kSide}).Batch(32).Prefetch();
}

data::Dataset SingleFiles(const std::string& folder) {
  return Decoded(data::Dataset::FromImageFolder(folder));
}

data::Dataset Shards(const std::string& pattern) {
  return Decoded(data::Dataset::FromTfRecords({pattern}, {.shuffle_files = true})
                     .Shuffle(2048)
                     .ParseExample({.features = {{.name = "image", .dtype = base::DType::kString},
                                                 {.name = "class", .dtype = base::DType::kI64}}}));
}

// Images per second over one epoch.
absl::StatusOr<double> Speed(const data::Dataset& batches) {
  const auto begin = std::chrono::steady_clock::now();
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, batches.MakeIterator());
  int64_t images = 0;
  for (base::NamedArrays batch;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) break;
    images += batch.Find("image")->dim(0);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(images) / seconds.count();
}

// The first nine images of a batch as one picture, three in a row (matplotlib's subplot(3, 3, i)).
absl::Status DrawNine(const data::Dataset& batches, const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, batches.MakeIterator());
  base::NamedArrays batch;
  PENSTOCK_ASSIGN_OR_RETURN(const bool any, iterator->Next(&batch));
  if (!any) return absl::InvalidArgumentError("there are no images to draw");
  const base::Array& images = *batch.Find("image");
  base::Array picture = base::Array::Zeros(base::DType::kU8, {3 * kSide, 3 * kSide, 3});
  for (int64_t i = 0; i < std::min<int64_t>(9, images.dim(0)); ++i) {
    const uint8_t* from = images.Row(i).data<uint8_t>();
    for (int64_t y = 0; y < kSide; ++y) {
      const int64_t row = (i / 3) * kSide + y;
      std::copy_n(from + y * kSide * 3, kSide * 3,
                  picture.mutable_data<uint8_t>() + (row * 3 + i % 3) * kSide * 3);
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(picture));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string png, image::EncodePng(view));
  return io::WriteFile(*io::FileSystem::Default(), file, png);
}

absl::Status Run(const std::string& photos, const std::string& out, const std::string& nine) {
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFile(*io::FileSystem::Default(), nine));
  PENSTOCK_ASSIGN_OR_RETURN(const pack::Packed packed,
                            pack::ImageFolder({.images = {photos}}, {.out = out, .shards = 4}));
  std::printf("%lld images of %zu classes in %zu shards\n", static_cast<long long>(packed.records),
              packed.classes.size(), packed.shards.size());
  PENSTOCK_ASSIGN_OR_RETURN(const double files, Speed(SingleFiles(photos)));
  PENSTOCK_ASSIGN_OR_RETURN(const double shards, Speed(Shards(io::JoinPath(out, "*.tfrec"))));
  std::printf("single files: %.0f images/s, shards: %.0f images/s, %.1f times as fast\n", files,
              shards, shards / files);
  PENSTOCK_RETURN_IF_ERROR(DrawNine(Shards(io::JoinPath(out, "*.tfrec")), nine));
  std::printf("nine images: %s\n", nine.c_str());
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: fast_pipelines PHOTOS SHARDS-FOLDER NINE.png\n");
    return 2;
  }
  const absl::Status status = Run(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
