// Messages of an object header, which describe a dataset or are an attribute: parsers of their
// bytes. Internal to this folder.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/save/hdf5/hdf5_bytes.h"

namespace penstock::save::hdf5 {

// A message that was read from an object header.
struct Message {
  int type = 0;
  bool is_shared = false;  // the body is the place of the message
  uint64_t offset = 0;     // of the body
  std::string body = {};
};
// Types of messages.
inline constexpr int kDataspace = 1, kLinkInfo = 2, kDatatype = 3, kLink = 6, kExternalFiles = 7,
                     kLayout = 8, kFilters = 11, kAttribute = 12, kContinuation = 16,
                     kSymbolTable = 17, kAttributeInfo = 21;

absl::StatusOr<base::Shape> ParseDataspace(Cursor cursor);

// The type of elements in a file.
struct ElementType {
  enum class Kind {
    kNumber,        // of `dtype`
    kOpaque2,       // two bytes without meaning
    kFixedText,     // of `size` bytes
    kVariableText,  // in a global heap
  };
  Kind kind = Kind::kNumber;
  base::DType dtype = base::DType::kInvalid;
  bool big_endian = false;
  bool space_padded = false;
  uint64_t size = 0;
};
// Removes the type from the cursor. UNIMPLEMENTED for types that have no DType and are not strings.
absl::StatusOr<ElementType> ParseDatatype(Cursor& cursor);

struct Layout {
  enum class Kind { kCompact, kContiguous, kChunked };
  Kind kind = Kind::kContiguous;
  uint64_t address = kUndefined;  // of the elements, or of the index of chunks
  uint64_t size = 0;              // of the elements in bytes; not of chunks
  std::string compact = {};
  std::vector<uint64_t> chunk = {};  // extents
  uint64_t element_size = 0;         // of an element in a chunk
};
absl::StatusOr<Layout> ParseLayout(Cursor cursor);

enum class Filter { kDeflate = 1, kShuffle = 2, kFletcher32 = 3 };
struct FilterStep {
  Filter filter;
  uint64_t element_size = 1;  // of kShuffle
};
// In the order of writing. UNIMPLEMENTED for other filters.
absl::StatusOr<std::vector<FilterStep>> ParseFilters(Cursor cursor);

struct Attribute {
  std::string name;
  ElementType type = {};
  base::Shape shape = {};
  uint64_t offset = 0;
  absl::string_view data = {};  // in the message
};
// The name alone, for the search.
absl::StatusOr<std::string> ParseAttributeName(const Message& message);
absl::StatusOr<Attribute> ParseAttribute(const Message& message);

}  // namespace penstock::save::hdf5
