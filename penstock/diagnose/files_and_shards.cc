// Comparison of the same images as single files and as a shard.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/diagnose/data_bench.h"
#include "penstock/image/image.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::diagnose {
namespace {

constexpr int64_t kMaxImages = 500;
constexpr int64_t kMaxBytes = 64 << 20;

// New folder that the destructor removes with its contents.
class ScratchFolder {
 public:
  ScratchFolder(io::FileSystem& fs, const std::string& parent)
      : fs_(fs),
        uri_(io::JoinPath(parent,
                          absl::StrCat("penstock-bench-", absl::Hex(base::EntropySeed())))) {}
  ~ScratchFolder() { fs_.RemoveRecursively(uri_).IgnoreError(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string Path(const std::string& name) const { return io::JoinPath(uri_, name); }

 private:
  io::FileSystem& fs_;
  const std::string uri_;
};

// Reads a sample of files at regular intervals.
absl::StatusOr<std::vector<std::string>> SampleOfFiles(io::FileSystem& fs,
                                                       const std::vector<std::string>& files) {
  std::vector<std::string> images;
  const size_t step = std::max<size_t>(1, files.size() / kMaxImages);
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size() && bytes < kMaxBytes; i += step) {
    if (static_cast<int64_t>(images.size()) == kMaxImages) break;
    PENSTOCK_ASSIGN_OR_RETURN(images.emplace_back(), io::ReadFile(fs, files[i]));
    bytes += static_cast<int64_t>(images.back().size());
  }
  return images;
}

// Reads the first images of the shards.
absl::StatusOr<std::vector<std::string>> SampleOfShards(io::FileSystem& fs,
                                                        const std::vector<std::string>& shards,
                                                        const std::string& feature) {
  std::vector<std::string> images;
  int64_t bytes = 0;
  for (const std::string& shard : shards) {
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(fs, shard));
    for (;;) {
      PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
      if (block.empty()) break;
      for (int64_t i = 0; i < block.size(); ++i) {
        const auto features = record::ReadExample(block.records[i]);
        if (!features.ok()) return base::WithContext(features.status(), block.Origin(i));
        const auto image = features->find(feature);
        if (image == features->end() || image->second.dtype() != base::DType::kString ||
            image->second.num_elements() != 1)
          continue;
        images.emplace_back(image->second.data<absl::string_view>()[0]);
        bytes += static_cast<int64_t>(images.back().size());
        if (static_cast<int64_t>(images.size()) == kMaxImages || bytes >= kMaxBytes) return images;
      }
    }
  }
  return images;
}

// Removes unreadable images, which would be errors of the measurement.
void RemoveUnreadable(std::vector<std::string>& images) {
  images.erase(std::remove_if(images.begin(), images.end(),
                              [](const std::string& bytes) { return !image::Decode(bytes).ok(); }),
               images.end());
}

absl::StatusOr<std::vector<std::string>> WriteFiles(io::FileSystem& fs, const ScratchFolder& folder,
                                                    const std::vector<std::string>& images) {
  std::vector<std::string> files(images.size());
  std::vector<absl::Status> written(images.size());
  PENSTOCK_ASSIGN_OR_RETURN(const auto pool, base::ThreadPool::Make(16, "write"));
  base::ParallelFor(*pool, 0, static_cast<int64_t>(images.size()), [&](int64_t i) {
    const auto info = image::ReadInfo(images[i]);
    const bool png = info.ok() && info->format == image::Format::kPng;
    files[i] = folder.Path(absl::StrCat("files/", i, png ? ".png" : ".jpg"));
    written[i] = io::WriteFile(fs, files[i], images[i]);
  });
  for (const absl::Status& status : written) PENSTOCK_RETURN_IF_ERROR(status);
  return files;
}

absl::StatusOr<std::string> WriteShard(io::FileSystem& fs, const ScratchFolder& folder,
                                       const std::vector<std::string>& images) {
  const std::string shard = folder.Path(absl::StrCat("00-", images.size(), ".tfrec"));
  PENSTOCK_ASSIGN_OR_RETURN(auto writer, record::TfRecordWriter::Create(fs, shard));
  record::ExampleBuilder example;
  for (const std::string& bytes : images) {
    example.SetBytes("image", bytes);
    PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
  }
  PENSTOCK_RETURN_IF_ERROR(writer->Close());
  return shard;
}

absl::StatusOr<FilesAndShards::Side> MeasureSide(io::FileSystem& fs, PipelineOptions options,
                                                 std::vector<std::string> files,
                                                 const MeasureOptions& measure) {
  options.data = std::move(files);
  PENSTOCK_ASSIGN_OR_RETURN(const Pipeline pipeline, MakePipeline(fs, options));
  FilesAndShards::Side side;
  DropFromPageCache(pipeline.data.files);
  PENSTOCK_ASSIGN_OR_RETURN(const Measured cold, Measure(pipeline.rungs[0].once, measure));
  // Includes the first batch, since a pass over a small sample has few others.
  side.read_cold = cold.seconds > 0 ? static_cast<double>(cold.elements) / cold.seconds : 0;
  PENSTOCK_ASSIGN_OR_RETURN(const Measured warm, Measure(pipeline.rungs[0].endless, measure));
  side.read_warm = warm.rate();
  PENSTOCK_ASSIGN_OR_RETURN(const Measured decoded, Measure(pipeline.rungs[1].endless, measure));
  side.decode_warm = decoded.rate();
  return side;
}

}  // namespace

absl::StatusOr<FilesAndShards> CompareFilesAndShards(std::shared_ptr<io::FileSystem> fs,
                                                     const Pipeline& pipeline,
                                                     const PipelineOptions& options,
                                                     const std::string& scratch,
                                                     const MeasureOptions& measure) {
  const bool from_files = pipeline.data.format == DataFormat::kImages;
  const std::vector<std::string>& files = pipeline.data.files;
  auto sample =
      from_files ? SampleOfFiles(*fs, files) : SampleOfShards(*fs, files, pipeline.image_feature);
  PENSTOCK_RETURN_IF_ERROR(sample.status());
  RemoveUnreadable(*sample);
  if (sample->empty()) return absl::InvalidArgumentError("the sample contains no readable image");

  FilesAndShards out;
  out.elements = static_cast<int64_t>(sample->size());
  for (const std::string& bytes : *sample) out.bytes += static_cast<int64_t>(bytes.size());

  // Writes both to the same folder in the same way.
  const ScratchFolder folder(*fs, scratch);
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> single, WriteFiles(*fs, folder, *sample));
  PENSTOCK_ASSIGN_OR_RETURN(std::string shard, WriteShard(*fs, folder, *sample));
  const PipelineOptions plain{.data = {},
                              .format = {},
                              .batch_size = std::min(options.batch_size, out.elements),
                              .image_size = pipeline.decoded,
                              .channels = options.channels,
                              .shuffle = 0,
                              .parallel_files = options.parallel_files};
  MeasureOptions shorter = measure;
  shorter.seconds = std::min(measure.seconds, 2.0);
  shorter.seconds_per_batch = 0;
  PENSTOCK_ASSIGN_OR_RETURN(out.files, MeasureSide(*fs, plain, std::move(single), shorter));
  PENSTOCK_ASSIGN_OR_RETURN(out.shards, MeasureSide(*fs, plain, {std::move(shard)}, shorter));
  return out;
}

}  // namespace penstock::diagnose
