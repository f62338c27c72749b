// WireScanner: a zero-copy parser of the protocol buffers wire format
// (https://protobuf.dev/programming-guides/encoding) for untrusted bytes: for any input it
// terminates, stays in bounds, and either returns fields or an error with its position.
//
//   WireScanner scanner(message);
//   while (scanner.Next()) {
//     if (scanner.Is(1, WireType::kBytes)) Use(scanner.bytes());   // others are skipped
//   }
//   if (!scanner.ok()) return scanner.error();
#pragma once

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace penstock::record {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  // strings, messages, packed lists
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// A malformed message: description and address of the byte. `what` is a string literal; nullptr
// means no error.
struct WireError {
  const char* what = nullptr;
  const char* at = nullptr;
};

// Reads the base-128 varint at *p and advances *p past it; false if it does not end before `end` or
// within 10 bytes. Bits beyond 64 are dropped, as in protobuf.
inline bool ReadVarint(const char** p, const char* end, uint64_t* value) {
  uint64_t result = 0;
  const char* q = *p;
  for (int shift = 0; shift < 70 && q < end; shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(*q++);
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      *p = q;
      return true;
    }
  }
  return false;
}

class WireScanner {
 public:
  explicit WireScanner(absl::string_view message)
      : p_(message.data()), end_(message.data() + message.size()) {}

  // Advances to the next field, skipping groups. False at the end of the message and on error:
  // check ok() then.
  bool Next();

  bool Is(uint32_t field, WireType type) const {
    return tag_ == ((field << 3) | static_cast<uint32_t>(type));
  }
  // The value of the current field, depending on its wire type.
  absl::string_view bytes() const { return bytes_; }  // kBytes, and the raw fixed-width types
  uint64_t varint() const { return varint_; }         // kVarint

  bool ok() const { return error_.what == nullptr; }
  const WireError& error() const { return error_; }

 private:
  bool Fail(const char* what) {
    error_ = {what, p_};
    return false;
  }
  bool ReadTag();
  bool ReadValue();
  bool SkipGroup();
  bool ReadBytes(uint64_t size);

  const char* p_;
  const char* end_;
  uint32_t tag_ = 0;
  absl::string_view bytes_;
  uint64_t varint_ = 0;
  WireError error_;
};

inline bool WireScanner::ReadBytes(uint64_t size) {
  if (size > static_cast<uint64_t>(end_ - p_)) return Fail("a field extends past the end");
  bytes_ = absl::string_view(p_, static_cast<size_t>(size));
  p_ += size;
  return true;
}

inline bool WireScanner::ReadTag() {
  uint64_t tag;
  if (!ReadVarint(&p_, end_, &tag)) return Fail("a field tag is truncated");
  if (tag > 0xffffffffu || tag < 8) return Fail("a field number is invalid");
  tag_ = static_cast<uint32_t>(tag);
  return true;
}

// Not for groups.
inline bool WireScanner::ReadValue() {
  uint64_t size;
  switch (static_cast<WireType>(tag_ & 7)) {
    case WireType::kVarint:
      return ReadVarint(&p_, end_, &varint_) || Fail("a varint is truncated");
    case WireType::kFixed64:
      return ReadBytes(8);
    case WireType::kBytes:
      if (!ReadVarint(&p_, end_, &size)) return Fail("a length is truncated");
      return ReadBytes(size);
    case WireType::kFixed32:
      return ReadBytes(4);
    default:
      return Fail("a field has an invalid wire type");
  }
}

inline bool WireScanner::Next() {
  while (p_ < end_ && ok()) {
    if (!ReadTag()) return false;
    if (static_cast<WireType>(tag_ & 7) != WireType::kStartGroup) return ReadValue();
    if (!SkipGroup()) return false;
  }
  return false;
}

// Groups contain fields up to an end tag with the same number. Nested groups only need to be
// balanced; their depth is limited as in protobuf.
inline bool WireScanner::SkipGroup() {
  constexpr int kMaxDepth = 100;
  uint32_t open[kMaxDepth];
  int depth = 0;
  open[depth++] = tag_ >> 3;
  while (depth > 0) {
    if (p_ == end_) return Fail("a group has no end tag");
    if (!ReadTag()) return false;
    const WireType type = static_cast<WireType>(tag_ & 7);
    if (type == WireType::kStartGroup) {
      if (depth == kMaxDepth) return Fail("groups are nested too deeply");
      open[depth++] = tag_ >> 3;
    } else if (type == WireType::kEndGroup) {
      if (open[--depth] != tag_ >> 3) return Fail("an end-group tag does not match its group");
    } else if (!ReadValue()) {
      return false;
    }
  }
  return true;
}

}  // namespace penstock::record
