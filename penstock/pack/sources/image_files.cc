#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/pack/image_record.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/sources/record_sources.h"

namespace penstock::pack {
namespace {

class ImageFileSource : public RecordSource {
 public:
  ImageFileSource(io::FileSystem& fs, ImageList list, RecompressOptions recompress)
      : fs_(fs), list_(std::move(list)), recompress_(std::move(recompress)) {}

  int64_t size() const override { return static_cast<int64_t>(list_.images.size()); }
  std::string Name(int64_t i) const override { return io::DisplayName(list_.images[i].uri); }
  std::vector<std::string> classes() const override { return list_.classes; }
  bool waits_for_network() const override {
    return !list_.images.empty() && IsRemote(list_.images[0].uri);
  }

  absl::StatusOr<std::string> Make(int64_t i) const override {
    PENSTOCK_ASSIGN_OR_RETURN(std::string file, ReadInput(fs_, list_.images[i].uri));
    PENSTOCK_ASSIGN_OR_RETURN(const RecompressedImage image,
                              Recompress(std::move(file), recompress_));
    return ImageRecord(image, list_.images[i].class_index, list_.classes);
  }

  Job job() const override {
    Fingerprint images;
    for (const LabeledImage& image : list_.images) {
      images.Add(absl::string_view(image.uri));
      images.Add(image.class_index);
      images.Add(image.bytes);
    }
    Fingerprint classes;
    for (const std::string& c : list_.classes) classes.Add(absl::string_view(c));
    Job job{
        {"the list of images", absl::StrCat(size(), " (", images.ToString(), ")")},
        {"the list of classes", absl::StrCat(list_.classes.size(), " (", classes.ToString(), ")")}};
    recompress_.AddTo(job);
    return job;
  }

 private:
  io::FileSystem& fs_;
  const ImageList list_;
  const RecompressOptions recompress_;
};

}  // namespace

std::unique_ptr<RecordSource> ImageFiles(io::FileSystem& fs, ImageList list,
                                         RecompressOptions recompress) {
  return std::make_unique<ImageFileSource>(fs, std::move(list), std::move(recompress));
}

}  // namespace penstock::pack
