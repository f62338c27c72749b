#include "penstock/cli/report/shard_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/cli/report/html_text.h"
#include "penstock/cli/report/terminal_image.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace {

using base::DType;

bool IsOneText(const base::Array& values) {
  return values.valid() && values.dtype() == DType::kString && values.num_elements() == 1;
}

std::string LabelOf(const record::FeatureMap& features) {
  const auto label = features.find("label");
  if (label != features.end() && IsOneText(label->second))
    return std::string(label->second.data<absl::string_view>()[0]);
  for (const char* name : {"class", "label"}) {
    const auto number = features.find(name);
    if (number != features.end() && number->second.valid() &&
        number->second.dtype() == DType::kI64 && number->second.num_elements() == 1)
      return absl::StrCat(number->second.item<int64_t>());
  }
  return "";
}

// Returns the encoded image of a record, found by its first bytes; the feature `image` if there are
// several.
std::string ImageOf(const record::FeatureMap& features) {
  std::string found;
  for (const auto& [name, values] : features) {
    if (!IsOneText(values) || (name != "image" && !found.empty())) continue;
    const absl::string_view bytes = values.data<absl::string_view>()[0];
    if (image::ReadInfo(bytes).ok()) found = std::string(bytes);
  }
  return found;
}

// Reservoir sampling (Vitter's algorithm R).
class Reservoir {
 public:
  explicit Reservoir(int size) : size_(static_cast<uint64_t>(size)) {}
  // Returns the position in the sample for record number `seen`, or end() to discard it.
  std::vector<ShardSample>::iterator Place(int64_t seen, std::vector<ShardSample>& samples) {
    if (samples.size() < size_) return samples.emplace(samples.end());
    const uint64_t at = random_.Below(static_cast<uint64_t>(seen) + 1);
    return at < size_ ? samples.begin() + static_cast<int64_t>(at) : samples.end();
  }

 private:
  const uint64_t size_;
  base::Random random_{0};
};

// Scales the longer side down to `side`.
image::DecodeOptions Thumbnail(const image::ImageInfo& info, int side) {
  image::DecodeOptions options{.channels = 0, .apply_orientation = true};
  const bool turned = info.orientation >= 5;
  const int height = turned ? info.width : info.height, width = turned ? info.height : info.width;
  const double scale = static_cast<double>(side) / std::max({height, width, side});
  options.resize = image::Resize{.height = std::max(1, static_cast<int>(height * scale)),
                                 .width = std::max(1, static_cast<int>(width * scale)),
                                 .antialias = true};
  return options;
}

absl::StatusOr<base::Array> DecodeThumbnail(absl::string_view bytes, int side) {
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageInfo info, image::ReadInfo(bytes));
  return image::Decode(bytes, Thumbnail(info, side));
}

// Returns an <img> of at most 256 pixels per side, or the decoder's error.
std::string ImageTag(const ShardSample& sample) {
  constexpr int kSide = 256;
  const absl::StatusOr<base::Array> pixels = DecodeThumbnail(sample.image, kSide);
  if (!pixels.ok()) return HtmlText(pixels.status().message());
  const absl::StatusOr<std::string> jpeg =
      image::EncodeJpeg(*image::ViewOf(*pixels), {.quality = 90});
  if (!jpeg.ok()) return HtmlText(jpeg.status().message());
  return absl::StrFormat("<img alt=\"%s\" src=\"data:image/jpeg;base64,%s\">",
                         HtmlText(sample.label), absl::Base64Escape(*jpeg));
}

std::string Caption(const ShardSample& sample) {
  return sample.label.empty() ? absl::StrCat("record ", sample.record) : sample.label;
}

}  // namespace

absl::StatusOr<ShardReport> MakeShardReport(io::FileSystem& fs, const std::string& uri,
                                            int samples) {
  PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(fs, uri));
  ShardReport report{.uri = io::DisplayName(uri),
                     .schema = "none: the shard is empty",
                     .first = "",
                     .labels = {},
                     .samples = {}};
  Reservoir reservoir(samples);
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
    if (block.empty()) break;
    if (report.records == 0) {
      const absl::StatusOr<record::ExampleSchema> inferred = record::InferSchema(block.records);
      report.schema = inferred.ok() ? inferred->ToString() : "not tf.train.Example records";
      if (inferred.ok()) report.first = record::DescribeExample(block.records[0]);
    }
    for (absl::string_view bytes : block.records) {
      report.bytes += static_cast<int64_t>(bytes.size());
      const int64_t number = report.records++;
      const absl::StatusOr<record::FeatureMap> features = record::ReadExample(bytes);
      if (!features.ok()) continue;
      const std::string label = LabelOf(*features);
      if (!label.empty()) ++report.labels[label];
      const auto place = reservoir.Place(number, report.samples);
      if (place != report.samples.end())
        *place = {.record = number, .label = label, .image = ImageOf(*features)};
    }
  }
  std::sort(report.samples.begin(), report.samples.end(),
            [](const ShardSample& a, const ShardSample& b) { return a.record < b.record; });
  return report;
}

std::string DrawSamples(const ShardReport& report) {
  constexpr int kSide = 12, kColumns = 3;
  std::string out;
  std::vector<base::Array> images;
  std::vector<std::string> captions;
  const auto draw_row = [&] {
    out += DrawImages(images, captions, kColumns * (2 * kSide + 3));
    images.clear();
    captions.clear();
  };
  for (const ShardSample& sample : report.samples) {
    const absl::StatusOr<base::Array> pixels = DecodeThumbnail(sample.image, kSide);
    if (!pixels.ok()) continue;
    images.push_back(*pixels);
    // A label may contain escape codes or newlines.
    captions.push_back(absl::CHexEscape(Caption(sample)).substr(0, 2 * kSide));
    if (images.size() == kColumns) draw_row();
  }
  if (!images.empty()) draw_row();
  return out;
}

std::string HtmlPage(const std::vector<ShardReport>& reports) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Shards</title>\n"
      "<style>body{font-family:sans-serif;margin:2em}"
      ".grid{display:grid;grid-template-columns:repeat(3,max-content);gap:1em}"
      "figure{margin:0}img{min-width:96px;image-rendering:pixelated}</style></head><body>\n";
  for (const ShardReport& report : reports) {
    absl::StrAppendFormat(&html,
                          "<h2>%s</h2>\n<p>%d records, %.1f MB, all checksums are valid</p>\n"
                          "<p>Schema: %s</p>\n",
                          HtmlText(report.uri), report.records,
                          static_cast<double>(report.bytes) / 1e6, HtmlText(report.schema));
    if (!report.labels.empty()) {
      html += "<details><summary>Labels</summary><table>\n";
      for (const auto& [label, count] : report.labels)
        absl::StrAppendFormat(&html, "<tr><td>%s</td><td>%d</td></tr>\n", HtmlText(label), count);
      html += "</table></details>\n";
    }
    html += "<div class=\"grid\">\n";
    for (const ShardSample& sample : report.samples) {
      if (sample.image.empty()) continue;
      absl::StrAppendFormat(&html, "<figure>%s<figcaption>%s</figcaption></figure>\n",
                            ImageTag(sample), HtmlText(Caption(sample)));
    }
    html += "</div>\n";
  }
  return html + "</body></html>\n";
}

}  // namespace penstock::cli
