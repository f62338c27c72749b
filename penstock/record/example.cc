#include "penstock/record/example.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/record/example_wire.h"

namespace penstock::record {
namespace internal {

base::DType DTypeOfList(ListKind kind) {
  constexpr base::DType kDTypes[] = {base::DType::kInvalid, base::DType::kString, base::DType::kF32,
                                     base::DType::kI64};
  return kDTypes[static_cast<int>(kind)];
}

ListKind ListOfDType(base::DType dtype) {
  for (ListKind kind : {ListKind::kBytes, ListKind::kFloat, ListKind::kInt64}) {
    if (DTypeOfList(kind) == dtype) return kind;
  }
  return ListKind::kNone;
}

bool ReadFeature(absl::string_view feature, FeatureList* list, WireError* error) {
  list->kind = ListKind::kNone;
  list->parts.clear();
  WireScanner scanner(feature);
  while (scanner.Next()) {
    for (ListKind kind : {ListKind::kBytes, ListKind::kFloat, ListKind::kInt64}) {
      if (!scanner.Is(static_cast<uint32_t>(kind), WireType::kBytes)) continue;
      if (list->kind != kind) list->parts.clear();
      list->kind = kind;
      list->parts.push_back(scanner.bytes());
    }
  }
  *error = scanner.error();
  return scanner.ok();
}

std::string DescribeWireError(const WireError& error, absl::string_view record) {
  return absl::StrCat(error.what, ", at byte ", error.at - record.data(), " of ", record.size());
}

}  // namespace internal

namespace {

using base::Array;
using internal::ListKind;

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// Appends the tag and length of a field of type kBytes; the content follows.
void AppendHeader(uint32_t field, size_t size, std::string* out) {
  AppendVarint((field << 3) | static_cast<uint32_t>(WireType::kBytes), out);
  AppendVarint(size, out);
}

// Field numbers below 16 have a one-byte tag.
size_t FieldSize(size_t size) { return 1 + VarintSize(size) + size; }

// Wraps an encoded list in a Feature message.
std::string EncodeFeature(ListKind kind, size_t list_size) {
  std::string out;
  out.reserve(FieldSize(list_size));
  AppendHeader(static_cast<uint32_t>(kind), list_size, &out);
  return out;
}

// An entry of the feature map.
size_t EntrySize(absl::string_view name, absl::string_view feature) {
  return FieldSize(name.size()) + FieldSize(feature.size());
}

}  // namespace

void ExampleBuilder::SetBytesList(absl::string_view name,
                                  absl::Span<const absl::string_view> values) {
  size_t size = 0;
  for (absl::string_view value : values) size += FieldSize(value.size());
  std::string feature = EncodeFeature(ListKind::kBytes, size);
  for (absl::string_view value : values) {
    AppendHeader(1, value.size(), &feature);
    feature.append(value.data(), value.size());
  }
  features_.insert_or_assign(std::string(name), std::move(feature));
}

void ExampleBuilder::SetFloatList(absl::string_view name, absl::Span<const float> values) {
  const size_t packed = values.size() * sizeof(float);
  std::string feature = EncodeFeature(ListKind::kFloat, packed == 0 ? 0 : FieldSize(packed));
  if (packed > 0) {
    AppendHeader(1, packed, &feature);
    feature.append(reinterpret_cast<const char*>(values.data()), packed);
  }
  features_.insert_or_assign(std::string(name), std::move(feature));
}

void ExampleBuilder::SetInt64List(absl::string_view name, absl::Span<const int64_t> values) {
  size_t packed = 0;
  for (int64_t value : values) packed += VarintSize(static_cast<uint64_t>(value));
  std::string feature = EncodeFeature(ListKind::kInt64, packed == 0 ? 0 : FieldSize(packed));
  if (packed > 0) AppendHeader(1, packed, &feature);
  for (int64_t value : values) AppendVarint(static_cast<uint64_t>(value), &feature);
  features_.insert_or_assign(std::string(name), std::move(feature));
}

void ExampleBuilder::SetArray(absl::string_view name, const Array& values) {
  switch (values.dtype()) {
    case base::DType::kInvalid:
      features_.insert_or_assign(std::string(name), std::string());
      return;
    case base::DType::kString:
      return SetBytesList(name, values.values<absl::string_view>());
    case base::DType::kF32:
      return SetFloatList(name, values.values<float>());
    default:
      return SetInt64List(name, values.values<int64_t>());
  }
}

std::string ExampleBuilder::Serialize() const {
  std::string out;
  SerializeTo(&out);
  return out;
}

void ExampleBuilder::SerializeTo(std::string* out) const {
  size_t size = 0;
  for (const auto& [name, feature] : features_) size += FieldSize(EntrySize(name, feature));
  out->clear();
  out->reserve(FieldSize(size));
  AppendHeader(1, size, out);
  for (const auto& [name, feature] : features_) {
    AppendHeader(1, EntrySize(name, feature), out);
    AppendHeader(1, name.size(), out);
    out->append(name);
    AppendHeader(2, feature.size(), out);
    out->append(feature);
  }
}

namespace {

bool ReadArray(absl::string_view feature, Array* out, WireError* error) {
  internal::FeatureList list;
  if (!internal::ReadFeature(feature, &list, error)) return false;
  *out = Array();
  if (list.kind == ListKind::kNone) return true;
  return internal::VisitList(list.kind, [&](auto type) {
    using T = decltype(type);
    auto values = std::make_shared<std::vector<T>>();
    internal::VectorSink<T> sink{values.get()};
    if (!internal::ReadValues(list, type, sink, error)) return false;
    const T* data = values->data();
    const base::Shape shape{static_cast<int64_t>(values->size())};
    *out = Array::View(base::DTypeOf<T>(), shape, data, std::move(values));
    return true;
  });
}

}  // namespace

absl::StatusOr<FeatureMap> ReadExample(absl::string_view record) {
  FeatureMap features;
  WireError error;
  WireError inner;
  const bool whole = internal::ForEachFeature(
      record, &error, [&](absl::string_view name, absl::string_view feature) {
        if (inner.what == nullptr) ReadArray(feature, &features[std::string(name)], &inner);
      });
  if (whole && inner.what == nullptr) return features;
  return absl::DataLossError(absl::StrCat(
      "not a tf.train.Example: ", internal::DescribeWireError(whole ? inner : error, record)));
}

std::string DescribeExample(absl::string_view record, int max_features) {
  const absl::StatusOr<FeatureMap> features = ReadExample(record);
  if (!features.ok()) return std::string(features.status().message());
  if (features->empty()) return "nothing";
  std::string out;
  int left = max_features;
  for (const auto& [name, values] : *features) {
    if (left-- == 0) {
      return absl::StrCat(out, ", ... ", features->size() - static_cast<size_t>(max_features),
                          " more");
    }
    const std::string what = !values.valid() ? "empty"
                                             : absl::StrCat(values.dtype() == base::DType::kString
                                                                ? "bytes"
                                                                : base::DTypeName(values.dtype()),
                                                            " (", values.num_elements(), ")");
    absl::StrAppend(&out, out.empty() ? "" : ", ", absl::CHexEscape(name), " ", what);
  }
  return out;
}

}  // namespace penstock::record
