#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/cli/command.h"
#include "penstock/cli/image_list.h"
#include "penstock/image/image.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace {

struct Unreadable {
  std::string uri;
  std::string why;
};

class Pack : public Command {
 public:
  void Describe(CLI::App& app) override {
    app.add_option("images", folder_,
                   "A folder of folders named after their labels: IMAGES/LABEL/NAME.jpg");
    app.add_option("--csv", csv_, "Instead of a folder: lines of path,label");
    app.add_option("--out", out_, "The folder for the shards, local, gs:// or s3://")->required();
    app.add_option("--shards", shards_, "How many shards; 0: as many as give about 100 MB each")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
    app.add_option("--classes", classes_,
                   "The labels in the order of their numbers; default: those found, sorted")
        ->delimiter(',');
    app.add_option("--seed", seed_,
                   "Of the order of the images; the same seed gives the same bytes")
        ->capture_default_str();
    app.add_flag("--skip-unreadable", skip_unreadable_,
                 "Leave images out that cannot be read, and list them");
    app.add_flag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    if (folder_.empty() == csv_.empty()) {
      return absl::InvalidArgumentError("give either a folder of images or --csv FILE");
    }
    PENSTOCK_ASSIGN_OR_RETURN(ImageList list, csv_.empty() ? ImagesOfFolder(*fs_, folder_, classes_)
                                                           : ImagesOfCsv(*fs_, csv_, classes_));
    Shuffle(list.images);
    PENSTOCK_RETURN_IF_ERROR(CheckAll(list.images));
    const std::vector<int64_t> first = Divide(static_cast<int64_t>(list.images.size()));
    std::vector<std::string> written(first.size() - 1);
    PENSTOCK_RETURN_IF_ERROR(fs_->CreateFolder(out_));
    PENSTOCK_RETURN_IF_ERROR(WriteShards(list, first, written));
    PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*fs_, io::JoinPath(out_, "classes.txt"),
                                           absl::StrCat(absl::StrJoin(list.classes, "\n"), "\n")));
    Report(list, written);
    return absl::OkStatus();
  }

 private:
  void Shuffle(std::vector<LabelledImage>& images) const {
    base::Random random(seed_);
    for (size_t i = images.size(); i > 1; --i) std::swap(images[i - 1], images[random.Below(i)]);
  }

  // Looks at every image before the first shard is written: an image that cannot be read is found
  // in the first minute, not after an hour, and the shards' names hold the right counts.
  absl::Status CheckAll(std::vector<LabelledImage>& images) {
    std::vector<std::string> problems(images.size());
    std::atomic<int64_t> bytes = 0;
    base::ParallelFor(pool_, 0, static_cast<int64_t>(images.size()), [&](int64_t i) {
      const absl::StatusOr<std::string> file = io::ReadFile(*fs_, images[i].uri);
      const absl::Status status = file.ok() ? image::Decode(*file).status() : file.status();
      if (!status.ok()) problems[i] = std::string(status.message());
      if (file.ok()) bytes += static_cast<int64_t>(file->size());
    });
    total_bytes_ = bytes;
    std::vector<LabelledImage> good;
    for (size_t i = 0; i < images.size(); ++i) {
      if (problems[i].empty()) {
        good.push_back(images[i]);
      } else {
        unreadable_.push_back({images[i].uri, problems[i]});
      }
    }
    for (const Unreadable& u : unreadable_)
      std::fprintf(stderr, "unreadable: %s: %s\n", u.uri.c_str(), u.why.c_str());
    if (!unreadable_.empty() && !skip_unreadable_) {
      return absl::InvalidArgumentError(
          absl::StrCat(unreadable_.size(), " of ", images.size(),
                       " images cannot be read (listed above); mend them, or leave them "
                       "out with --skip-unreadable. Nothing was written."));
    }
    if (good.empty()) return absl::InvalidArgumentError("no image can be read");
    images = std::move(good);
    return absl::OkStatus();
  }

  // Where each shard begins, and the end.
  std::vector<int64_t> Divide(int64_t images) const {
    constexpr int64_t kShardBytes = 100'000'000;
    const int64_t wanted = shards_ > 0 ? shards_ : (total_bytes_ + kShardBytes - 1) / kShardBytes;
    const int64_t count = std::clamp<int64_t>(wanted, 1, images);
    std::vector<int64_t> first;
    for (int64_t s = 0; s <= count; ++s) first.push_back(images * s / count);
    return first;
  }

  absl::Status WriteShards(const ImageList& list, const std::vector<int64_t>& first,
                           std::vector<std::string>& written) {
    std::mutex mutex;
    absl::Status failure;
    base::ParallelFor(pool_, 0, static_cast<int64_t>(written.size()), [&](int64_t shard) {
      const std::string name =
          absl::StrFormat("%02d-%d.tfrec", shard, first[shard + 1] - first[shard]);
      const std::string uri = io::JoinPath(out_, name);
      const absl::Status status = WriteShard(list, first[shard], first[shard + 1], uri);
      std::lock_guard lock(mutex);
      if (status.ok()) {
        written[shard] = uri;
      } else if (failure.ok()) {
        failure = status;
      }
    });
    return failure;
  }

  absl::Status WriteShard(const ImageList& list, int64_t begin, int64_t end,
                          const std::string& uri) {
    PENSTOCK_ASSIGN_OR_RETURN(auto writer, record::TfRecordWriter::Create(*fs_, uri));
    record::ExampleBuilder example;
    std::string bytes;
    for (int64_t i = begin; i < end; ++i) {
      const LabelledImage& image = list.images[i];
      PENSTOCK_ASSIGN_OR_RETURN(const std::string file, io::ReadFile(*fs_, image.uri));
      const absl::StatusOr<image::ImageInfo> info = image::ReadInfo(file);
      if (!info.ok()) return base::WithContext(info.status(), image.uri);
      std::vector<float> one_hot(list.classes.size());
      one_hot[image.class_index] = 1;
      example.SetBytes("image", file);
      example.SetInt64("class", image.class_index);
      example.SetBytes("label", list.classes[image.class_index]);
      example.SetFloatList("one_hot_class", one_hot);
      example.SetInt64List("size", {info->height, info->width});
      example.SerializeTo(&bytes);
      PENSTOCK_RETURN_IF_ERROR(writer->Append(bytes));
    }
    return writer->Close();
  }

  void Report(const ImageList& list, const std::vector<std::string>& written) const {
    if (json_) {
      nlohmann::ordered_json json{
          {"images", list.images.size()}, {"classes", list.classes}, {"shards", written}};
      json["unreadable"] = nlohmann::ordered_json::array();
      for (const Unreadable& u : unreadable_)
        json["unreadable"].push_back({{"uri", u.uri}, {"why", u.why}});
      std::printf("%s\n", json.dump(2).c_str());
      return;
    }
    std::printf("packed %zu images of %zu classes into %zu %s in %s\n", list.images.size(),
                list.classes.size(), written.size(), written.size() == 1 ? "shard" : "shards",
                out_.c_str());
    if (!unreadable_.empty())
      std::printf("left out %zu unreadable images (listed above)\n", unreadable_.size());
  }

  std::string folder_, csv_, out_;
  int64_t shards_ = 0;
  std::vector<std::string> classes_;
  uint64_t seed_ = 0;
  bool skip_unreadable_ = false, json_ = false;

  std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
  base::ThreadPool pool_;
  int64_t total_bytes_ = 0;
  std::vector<Unreadable> unreadable_;
};

}  // namespace

std::unique_ptr<Command> PackCommand() { return std::make_unique<Pack>(); }

}  // namespace penstock::cli
