// Zero-copy reader of the wire format of tf.train.Example
// (tensorflow/core/example/{example,feature}.proto). Used by example.cc and example_parser.cc only.
//
//   Example   { Features features = 1; }
//   Features  { map<string, Feature> feature = 1; }      // entries { key = 1, value = 2 }
//   Feature   { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
//   BytesList { repeated bytes value = 1; }   FloatList { repeated float }   Int64List { ... int64
//   }
//
// As in protobuf: fields that are unknown, or have an unexpected wire type, are skipped; numbers
// may be packed or not; of two entries with the same name the last wins; a list in several parts is
// their concatenation, and a list of another kind replaces earlier ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

#include "penstock/base/dtype.h"
#include "penstock/record/wire.h"

namespace penstock::record::internal {

static_assert(std::endian::native == std::endian::little,
              "floats are copied without byte swapping");

// Kind of a list; the values are the field numbers in Feature.
enum class ListKind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// The dtype of a list's values: kString, kF32 or kI64; kInvalid for kNone.
base::DType DTypeOfList(ListKind kind);
// Inverse of DTypeOfList; kNone for dtypes that an Example cannot contain.
ListKind ListOfDType(base::DType dtype);

// The encoded list of one feature, usually in one part.
struct FeatureList {
  ListKind kind = ListKind::kNone;
  absl::InlinedVector<absl::string_view, 1> parts;
};

// Parses an encoded Feature. Returns false if it is malformed, as do the other readers in this
// file.
bool ReadFeature(absl::string_view feature, FeatureList* list, WireError* error);

// Calls visit(absl::string_view name, absl::string_view feature) for each entry of the feature map,
// in wire order.
template <typename Visit>
bool ForEachFeature(absl::string_view example, WireError* error, Visit&& visit) {
  auto read_entry = [&](absl::string_view bytes) {
    absl::string_view name(bytes.data(), 0);
    absl::string_view feature(bytes.data(), 0);
    int values = 0;
    WireScanner entry(bytes);
    while (entry.Next()) {
      if (entry.Is(1, WireType::kBytes)) name = entry.bytes();
      if (!entry.Is(2, WireType::kBytes)) continue;
      feature = entry.bytes();
      ++values;
    }
    *error = entry.error();
    // Protobuf would merge them; no known writer does this, so it is treated as malformed.
    if (entry.ok() && values > 1) *error = {"a feature has two values", feature.data()};
    if (error->what != nullptr) return false;
    visit(name, feature);
    return true;
  };
  WireScanner message(example);
  while (message.Next()) {
    if (!message.Is(1, WireType::kBytes)) continue;
    WireScanner features(message.bytes());
    while (features.Next()) {
      if (features.Is(1, WireType::kBytes) && !read_entry(features.bytes())) return false;
    }
    if (!features.ok()) {
      *error = features.error();
      return false;
    }
  }
  *error = message.error();
  return message.ok();
}

// Output of fixed capacity: stores the values that fit and counts all.
template <typename T>
struct FixedSink {
  T* out;
  int64_t capacity;
  int64_t count = 0;

  void Add(T value) {
    if (count < capacity) out[count] = value;
    ++count;
  }
  void AddRaw(const char* values, int64_t n) {
    const int64_t fits = std::min(n, capacity - count);
    if (fits > 0) std::memcpy(out + count, values, static_cast<size_t>(fits) * sizeof(T));
    count += n;
  }
};

// Output that appends to a vector.
template <typename T>
struct VectorSink {
  std::vector<T>* out;

  void Add(T value) { out->push_back(value); }
  void AddRaw(const char* values, int64_t n) {
    if (n == 0) return;
    const size_t before = out->size();
    out->resize(before + static_cast<size_t>(n));
    std::memcpy(out->data() + before, values, static_cast<size_t>(n) * sizeof(T));
  }
};

// Calls read(scanner) for each field of a list's messages; `read` returns an error message, or
// nullptr.
template <typename Read>
bool ForEachField(const FeatureList& list, WireError* error, Read&& read) {
  for (absl::string_view part : list.parts) {
    WireScanner scanner(part);
    while (scanner.Next()) {
      if (const char* what = read(scanner)) {
        *error = {what, scanner.bytes().data()};
        return false;
      }
    }
    if (!scanner.ok()) {
      *error = scanner.error();
      return false;
    }
  }
  return true;
}

// Reads the values of `list` into `sink`; the type of the second argument must correspond to the
// list's kind. Strings are views into the record.
template <typename Sink>
bool ReadValues(const FeatureList& list, absl::string_view, Sink& sink, WireError* error) {
  return ForEachField(list, error, [&](const WireScanner& field) -> const char* {
    if (field.Is(1, WireType::kBytes)) sink.Add(field.bytes());
    return nullptr;
  });
}

template <typename Sink>
bool ReadValues(const FeatureList& list, float, Sink& sink, WireError* error) {
  return ForEachField(list, error, [&](const WireScanner& field) -> const char* {
    if (!field.Is(1, WireType::kFixed32) && !field.Is(1, WireType::kBytes)) return nullptr;
    const absl::string_view bytes = field.bytes();
    if (bytes.size() % sizeof(float) != 0) return "a packed list of floats is truncated";
    sink.AddRaw(bytes.data(), static_cast<int64_t>(bytes.size() / sizeof(float)));
    return nullptr;
  });
}

template <typename Sink>
bool ReadValues(const FeatureList& list, int64_t, Sink& sink, WireError* error) {
  return ForEachField(list, error, [&](const WireScanner& field) -> const char* {
    if (field.Is(1, WireType::kVarint)) sink.Add(static_cast<int64_t>(field.varint()));
    if (!field.Is(1, WireType::kBytes)) return nullptr;
    const char* p = field.bytes().data();
    const char* end = p + field.bytes().size();
    while (p < end) {
      uint64_t value;
      if (!ReadVarint(&p, end, &value)) return "a packed list of integers is truncated";
      sink.Add(static_cast<int64_t>(value));
    }
    return nullptr;
  });
}

// Calls body(T{}) with the C++ type of a list's values and returns its result. Requires kind !=
// kNone.
template <typename Body>
bool VisitList(ListKind kind, Body&& body) {
  if (kind == ListKind::kBytes) return body(absl::string_view());
  if (kind == ListKind::kFloat) return body(float{});
  return body(int64_t{});
}

// The error as text: "a field extends past the end, at byte 17 of 120".
std::string DescribeWireError(const WireError& error, absl::string_view record);

}  // namespace penstock::record::internal
