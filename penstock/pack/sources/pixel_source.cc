#include "penstock/pack/sources/pixel_source.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/pack/image_record.h"

namespace penstock::pack {
namespace {

class PixelSource : public RecordSource {
 public:
  PixelSource(Pixels pixels, std::string content, RecompressOptions recompress)
      : pixels_(std::move(pixels)),
        content_(std::move(content)),
        recompress_(std::move(recompress)) {}

  int64_t size() const override { return static_cast<int64_t>(pixels_.class_indices.size()); }
  std::string Name(int64_t i) const override { return absl::StrCat(pixels_.origin, ":", i); }
  std::vector<std::string> classes() const override { return pixels_.classes; }

  absl::StatusOr<std::string> Make(int64_t i) const override {
    const base::Array image = pixels_.image(i);
    PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(image));
    PENSTOCK_ASSIGN_OR_RETURN(const RecompressedImage file, EncodePixels(view, recompress_));
    return ImageRecord(file, pixels_.class_indices[i], pixels_.classes);
  }

  Job job() const override {
    Fingerprint labels;
    for (int64_t c : pixels_.class_indices) labels.Add(c);
    for (const std::string& c : pixels_.classes) labels.Add(absl::string_view(c));
    Job job{{"the images", absl::StrCat(size(), " (", content_, ")")},
            {"the labels", labels.ToString()}};
    recompress_.AddTo(job);
    return job;
  }

 private:
  const Pixels pixels_;
  const std::string content_;
  const RecompressOptions recompress_;
};

}  // namespace

std::unique_ptr<RecordSource> PixelImages(Pixels pixels, std::string content,
                                          RecompressOptions recompress) {
  return std::make_unique<PixelSource>(std::move(pixels), std::move(content),
                                       std::move(recompress));
}

}  // namespace penstock::pack
