#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/formats/npy.h"
#include "penstock/io/uri.h"
#include "penstock/pack/sources/pixel_source.h"
#include "penstock/pack/sources/record_sources.h"

namespace penstock::pack {
namespace {

using base::Array;
using base::DType;

// Reshapes `array` to [n, height, width, channels].
absl::StatusOr<Array> AsImages(const std::string& name, const Array& array) {
  if (array.dtype() != DType::kU8) {
    return absl::InvalidArgumentError(
        absl::StrCat("array '", name, "' is ", array.TypeString(),
                     "; images must be uint8, with values from 0 to 255; convert the array first"));
  }
  if (array.rank() >= 3 && (array.dim(1) == 0 || array.dim(2) == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("array '", name, "' is ", array.TypeString(), "; its images have no pixels"));
  }
  if (array.rank() == 3) return array.Reshape({array.dim(0), array.dim(1), array.dim(2), 1});
  if (array.rank() == 4 && (array.dim(3) == 1 || array.dim(3) == 3)) return array;
  return absl::InvalidArgumentError(
      absl::StrCat("array '", name, "' is ", array.TypeString(),
                   "; expected uint8[n,height,width] or uint8[n,height,width,1 or 3]"));
}

absl::StatusOr<std::vector<int64_t>> TextLabels(absl::Span<const absl::string_view> texts,
                                                std::vector<std::string>& classes) {
  if (classes.empty())
    classes = SortedClasses(std::vector<std::string>(texts.begin(), texts.end()));
  std::vector<int64_t> labels;
  for (absl::string_view text : texts) {
    const auto at = std::find(classes.begin(), classes.end(), text);
    if (at == classes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("image ", labels.size(), " has label '", text,
                                                     "', which is not one of the classes"));
    }
    labels.push_back(at - classes.begin());
  }
  return labels;
}

absl::StatusOr<std::vector<int64_t>> NumberLabels(const Array& array,
                                                  std::vector<std::string>& classes) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array numbers, array.Cast(DType::kI64));
  const auto values = numbers.values<int64_t>();
  std::vector<int64_t> labels(values.begin(), values.end());
  const int64_t max = labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end());
  constexpr int64_t kMaxClasses = 1'000'000;
  if (max >= kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("label ", max, " is too large; the maximum is ", kMaxClasses - 1));
  }
  const int64_t count = classes.empty() ? max + 1 : static_cast<int64_t>(classes.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= count) {
      return absl::InvalidArgumentError(absl::StrCat("image ", i, " has label ", labels[i],
                                                     ", but there are ", count, " classes"));
    }
  }
  for (int64_t c = static_cast<int64_t>(classes.size()); c < count; ++c)
    classes.push_back(absl::StrCat(c));
  return labels;
}

absl::StatusOr<std::vector<int64_t>> AsLabels(const std::string& name, const Array& array,
                                              int64_t count, std::vector<std::string>& classes) {
  const bool is_integer = array.dtype() != DType::kInvalid && array.dtype() <= DType::kU64;
  if (array.num_elements() != count || array.rank() == 0 || array.dim(0) != count ||
      (!is_integer && array.dtype() != DType::kString)) {
    return absl::InvalidArgumentError(absl::StrCat("array '", name, "' is ", array.TypeString(),
                                                   "; expected ", count,
                                                   " labels, integers or strings"));
  }
  if (is_integer) return NumberLabels(array, classes);
  return TextLabels(array.values<absl::string_view>(), classes);
}

absl::StatusOr<std::unique_ptr<RecordSource>> ImagesOf(const std::string& origin,
                                                       const std::string& images_name,
                                                       const std::string& labels_name,
                                                       const ImageArraysOptions& input) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array images, AsImages(images_name, input.images));
  Pixels pixels{.origin = origin,
                .image = [images](int64_t i) { return images.Row(i); },
                .class_indices = {},
                .classes = input.classes};
  PENSTOCK_ASSIGN_OR_RETURN(pixels.class_indices,
                            AsLabels(labels_name, input.labels, images.dim(0), pixels.classes));
  Fingerprint content;
  for (int64_t extent : images.shape()) content.Add(extent);
  content.Add(absl::string_view(static_cast<const char*>(images.raw()),
                                static_cast<size_t>(images.num_bytes())));
  return PixelImages(std::move(pixels), content.ToString(), input.recompress);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> ArrayImages(const std::string& origin,
                                                          const ImageArraysOptions& input) {
  for (const Array* array : {&input.images, &input.labels}) {
    if (!array->valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat(array == &input.images ? "images" : "labels", " is not set"));
    }
  }
  auto source = ImagesOf(origin, "images", "labels", input);
  if (!source.ok()) return base::WithContext(source.status(), origin);
  return source;
}

absl::StatusOr<std::unique_ptr<RecordSource>> NpzImages(io::FileSystem& fs,
                                                        const NpzOptions& input) {
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays arrays, formats::ReadNpz(fs, input.file));
  const auto here = [&](const absl::Status& status) {
    return base::WithContext(status, io::DisplayName(input.file));
  };
  const Array* x = arrays.Find(input.images);
  const Array* y = arrays.Find(input.labels);
  if (x == nullptr || y == nullptr) {
    return here(absl::NotFoundError(absl::StrCat(
        "array '", x == nullptr ? input.images : input.labels, "' not found; the file has ",
        arrays.ToString(), ". Choose the arrays of the images and of the labels by name")));
  }
  auto source = ImagesOf(
      io::DisplayName(input.file), input.images, input.labels,
      {.images = *x, .labels = *y, .classes = input.classes, .recompress = input.recompress});
  if (!source.ok()) return here(source.status());
  return source;
}

}  // namespace penstock::pack
