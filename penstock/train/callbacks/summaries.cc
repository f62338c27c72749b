#include "penstock/train/callbacks/summaries.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::train {
namespace {

using base::Array;
using base::DType;

// An array as doubles; INVALID_ARGUMENT for what is no number.
absl::StatusOr<Array> AsDoubles(absl::string_view tag, const Array& values) {
  absl::StatusOr<Array> doubles = values.Cast(DType::kF64);
  if (doubles.ok()) return doubles;
  return base::WithContext(doubles.status(), absl::StrCat("summary '", tag, "'"));
}

// A Summary of one value: its tag, then other fields.
std::string SummaryOf(absl::string_view tag, absl::string_view fields) {
  std::string value, summary;
  AppendBytesField(value, 1, tag);
  absl::StrAppend(&value, fields);
  AppendBytesField(summary, 1, value);
  return summary;
}

// ---- Histograms ----

// Upper limits of the buckets, ascending.
const std::vector<double>& BucketLimits() {
  static const auto& limits = *new std::vector<double>([] {
    constexpr double kMax = std::numeric_limits<double>::max();
    std::vector<double> above;
    for (double v = 1.0e-12; v < 1.0e20; v *= 1.1) above.push_back(v);
    above.push_back(kMax);
    std::vector<double> all(above.rbegin(), above.rend());
    for (double& limit : all) limit = -limit;
    all.push_back(0);
    all.insert(all.end(), above.begin(), above.end());
    return all;
  }());
  return limits;
}

std::string PackedDoubles(const std::vector<double>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(double));
}

// ---- Images ----

// Bytes [height, width, channels] of numbers, in float32 as TensorFlow: the maximum is exactly 255.
std::vector<uint8_t> Pixels(absl::Span<const double> numbers, int64_t channels) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  const bool negative = low < 0;
  const auto size = static_cast<float>(negative ? std::max(std::abs(low), std::abs(high)) : high);
  const float scale = size > 0 && std::isfinite(size) ? (negative ? 127.0F : 255.0F) / size : 0;
  const float offset = negative ? 128 : 0;
  std::vector<uint8_t> pixels(numbers.size());
  for (size_t i = 0; i < numbers.size(); i += static_cast<size_t>(channels)) {
    bool finite = true;
    for (int64_t c = 0; c < channels; ++c) {
      const double number = numbers[i + static_cast<size_t>(c)];
      finite = finite && std::isfinite(number);
      if (!finite) break;
      pixels[i + static_cast<size_t>(c)] = static_cast<uint8_t>(
          std::clamp(static_cast<float>(number) * scale + offset, 0.0F, 255.0F));
    }
    if (finite) continue;
    std::fill_n(pixels.begin() + static_cast<int64_t>(i), channels, uint8_t{0});
    pixels[i] = 255;
  }
  return pixels;
}

absl::StatusOr<std::string> ImageField(const uint8_t* pixels, int64_t height, int64_t width,
                                       int64_t channels) {
  const Array image = Array::View(DType::kU8, {height, width, channels}, pixels, nullptr);
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(image));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string png, image::EncodePng(view));
  std::string field, out;
  AppendVarintField(field, 1, static_cast<uint64_t>(height));
  AppendVarintField(field, 2, static_cast<uint64_t>(width));
  AppendVarintField(field, 3, static_cast<uint64_t>(channels));
  AppendBytesField(field, 4, png);
  AppendBytesField(out, 4, field);
  return out;
}

// ---- Confusion matrices ----

constexpr int64_t kMaxTableClasses = 50;

int64_t LargestOf(absl::Span<const double> row) {
  if (row.size() == 1) return row[0] > 0.5 ? 1 : 0;
  return std::max_element(row.begin(), row.end()) - row.begin();
}

// "|", escaped for a table in Markdown.
std::string Cell(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

std::string NameOf(const std::vector<std::string>& names, int64_t i) {
  return static_cast<size_t>(i) < names.size() ? Cell(names[static_cast<size_t>(i)])
                                               : absl::StrCat(i);
}

std::string ConfusionTable(absl::Span<const double> counts, int64_t classes,
                           const std::vector<std::string>& names) {
  std::string text = "| true \\ predicted |";
  for (int64_t c = 0; c < classes; ++c) absl::StrAppend(&text, " ", NameOf(names, c), " |");
  absl::StrAppend(&text, "\n|---|");
  for (int64_t c = 0; c < classes; ++c) absl::StrAppend(&text, "---:|");
  for (int64_t r = 0; r < classes; ++r) {
    absl::StrAppend(&text, "\n| ", NameOf(names, r), " |");
    for (int64_t c = 0; c < classes; ++c) {
      absl::StrAppend(&text, " ", counts[static_cast<size_t>(r * classes + c)], " |");
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> HistogramSummary(absl::string_view tag, const Array& values) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array doubles, AsDoubles(tag, values));
  const std::vector<double>& limits = BucketLimits();
  std::vector<double> counts(limits.size());
  double low = std::numeric_limits<double>::max(), high = -low, number = 0, sum = 0, squares = 0;
  for (const double value : doubles.values<double>()) {
    if (!std::isfinite(value)) continue;
    const auto limit = std::upper_bound(limits.begin(), limits.end(), value);
    // The largest double is above every limit.
    counts[std::min<size_t>(static_cast<size_t>(limit - limits.begin()), limits.size() - 1)] += 1;
    low = std::min(low, value);
    high = std::max(high, value);
    number += 1;
    sum += value;
    squares += value * value;
  }
  // Runs of empty buckets are one.
  std::vector<double> ends, shown;
  for (size_t i = 0; i < limits.size(); ++i) {
    while (counts[i] == 0 && i + 1 < limits.size() && counts[i + 1] == 0) ++i;
    ends.push_back(limits[i]);
    shown.push_back(counts[i]);
  }
  std::string histogram, field;
  AppendDoubleField(histogram, 1, low);
  AppendDoubleField(histogram, 2, high);
  AppendDoubleField(histogram, 3, number);
  AppendDoubleField(histogram, 4, sum);
  AppendDoubleField(histogram, 5, squares);
  AppendBytesField(histogram, 6, PackedDoubles(ends));
  AppendBytesField(histogram, 7, PackedDoubles(shown));
  AppendBytesField(field, 5, histogram);
  const auto other = static_cast<double>(doubles.num_elements()) - number;
  std::string summary;
  if (number > 0) summary = SummaryOf(tag, field);
  if (other > 0)
    absl::StrAppend(&summary, ScalarSummary({{absl::StrCat(tag, "/not_finite"), other}}));
  return summary;
}

absl::StatusOr<std::string> ImageSummary(absl::string_view tag, const Array& images,
                                         int max_outputs) {
  std::vector<int64_t> dims(images.shape().begin(), images.shape().end());
  if (dims.size() == 2) dims.push_back(1);
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  constexpr int64_t kMaxSide = 65535;
  if (dims.size() != 4 || (dims[3] != 1 && dims[3] != 3) || dims[1] < 1 || dims[2] < 1 ||
      dims[1] > kMaxSide || dims[2] > kMaxSide) {
    return absl::InvalidArgumentError(
        absl::StrCat("image summary '", tag,
                     "': expected [batch, height, width, channels] with 1 or 3 channels ",
                     "and up to ", kMaxSide, " pixels a side, got ", images.shape().ToString()));
  }
  const int64_t count = std::min<int64_t>(dims[0], std::max(max_outputs, 0));
  const int64_t size = dims[1] * dims[2] * dims[3];
  Array numbers;
  if (images.dtype() != DType::kU8) {
    const Array flat = *images.Reshape({dims[0], size});
    PENSTOCK_ASSIGN_OR_RETURN(numbers, AsDoubles(tag, flat.Slice(0, count)));
  }
  std::string summary;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<uint8_t> scaled;
    const uint8_t* pixels = nullptr;
    if (images.dtype() == DType::kU8) {
      pixels = images.data<uint8_t>() + i * size;
    } else {
      scaled = Pixels(numbers.values<double>().subspan(static_cast<size_t>(i * size),
                                                       static_cast<size_t>(size)),
                      dims[3]);
      pixels = scaled.data();
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string field,
                              ImageField(pixels, dims[1], dims[2], dims[3]));
    const std::string own =
        max_outputs == 1 ? absl::StrCat(tag, "/image") : absl::StrCat(tag, "/image/", i);
    absl::StrAppend(&summary, SummaryOf(own, field));
  }
  return summary;
}

std::string TextSummary(absl::string_view tag, absl::string_view markdown) {
  constexpr uint64_t kString = 7;  // DT_STRING
  std::string tensor, plugin, metadata, fields;
  AppendVarintField(tensor, 1, kString);  // TensorProto { 1: dtype, 2: shape, 8: string_val }
  AppendBytesField(tensor, 2, "");        // a scalar
  AppendBytesField(tensor, 8, markdown);
  AppendBytesField(plugin, 1, "text");  // SummaryMetadata { 1: PluginData { 1: plugin_name } }
  AppendBytesField(metadata, 1, plugin);
  AppendBytesField(fields, 8, tensor);
  AppendBytesField(fields, 9, metadata);
  return SummaryOf(tag, fields);
}

absl::StatusOr<Array> CountConfusion(const Array& labels, const Array& outputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array truth, AsDoubles("labels", labels));
  PENSTOCK_ASSIGN_OR_RETURN(const Array scores, AsDoubles("outputs", outputs));
  const base::Shape &of_labels = labels.shape(), &of_outputs = outputs.shape();
  const int64_t rows = of_outputs.rank() == 2 ? of_outputs.dim(0) : -1;
  const int64_t width = rows >= 0 ? of_outputs.dim(1) : 0;
  const int64_t classes = width == 1 ? 2 : width;
  const bool sparse = of_labels == base::Shape({rows}) || of_labels == base::Shape({rows, 1});
  if (rows < 0 || width < 1 || (!sparse && !(of_labels == base::Shape({rows, classes})))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a confusion matrix needs outputs [rows, classes] and labels [rows] or [rows, classes], ",
        "got ", of_outputs.ToString(), " and ", of_labels.ToString()));
  }
  Array counts = Array::Zeros(DType::kI64, {classes, classes});
  auto* const out = counts.mutable_data<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    const auto row = [i](const Array& array, int64_t length) {
      return array.values<double>().subspan(static_cast<size_t>(i * length),
                                            static_cast<size_t>(length));
    };
    const double label = sparse ? truth.values<double>()[static_cast<size_t>(i)]
                                : static_cast<double>(LargestOf(row(truth, classes)));
    if (!(label >= 0 && label < static_cast<double>(classes) && label == std::floor(label))) {
      return absl::InvalidArgumentError(
          absl::StrCat("the label ", label, " of row ", i, " is no class from 0 to ", classes - 1));
    }
    ++out[static_cast<int64_t>(label) * classes + LargestOf(row(scores, width))];
  }
  return counts;
}

absl::StatusOr<std::string> ConfusionSummary(absl::string_view tag, const Array& counts,
                                             const std::vector<std::string>& names) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array doubles, AsDoubles(tag, counts));
  const base::Shape& shape = counts.shape();
  if (shape.rank() != 2 || shape.dim(0) != shape.dim(1) || shape.dim(0) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "confusion matrix '", tag, "': expected [classes, classes], got ", shape.ToString()));
  }
  const int64_t classes = shape.dim(0);
  const absl::Span<const double> cells = doubles.values<double>();
  // A square for each pair; one pixel where there are thousands.
  const int64_t side = std::max<int64_t>({1, 8 * (classes <= 100 ? 1 : 0), 256 / classes});
  const int64_t pixels = classes * side;
  std::vector<uint8_t> image(static_cast<size_t>(pixels * pixels));
  double right = 0, all = 0;
  for (int64_t r = 0; r < classes; ++r) {
    const auto row = cells.subspan(static_cast<size_t>(r * classes), static_cast<size_t>(classes));
    double sum = 0;
    for (const double count : row) sum += count;
    all += sum;
    right += row[static_cast<size_t>(r)];
    for (int64_t c = 0; c < classes; ++c) {
      const double part = sum > 0 ? row[static_cast<size_t>(c)] / sum : 0;
      const auto gray = static_cast<uint8_t>(std::clamp(255 * part, 0.0, 255.0));
      for (int64_t y = r * side; y < (r + 1) * side; ++y) {
        std::fill_n(image.begin() + y * pixels + c * side, side, gray);
      }
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string field, ImageField(image.data(), pixels, pixels, 1));
  std::string summary = SummaryOf(absl::StrCat(tag, "/image"), field);
  if (classes <= kMaxTableClasses) {
    absl::StrAppend(
        &summary, TextSummary(absl::StrCat(tag, "/table"), ConfusionTable(cells, classes, names)));
  }
  absl::StrAppend(&summary,
                  ScalarSummary({{absl::StrCat(tag, "/accuracy"), all > 0 ? right / all : 0.0}}));
  return summary;
}

}  // namespace penstock::train
