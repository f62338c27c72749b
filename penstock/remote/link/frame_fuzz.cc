// Arbitrary bytes, in slices of arbitrary sizes, as frames. What is accepted, encoded again, must equal the
// bytes that were read; reading terminates and stays in bounds.
//
// The first byte selects the size of slices, and whether the rest becomes the header and payload of a correct
// frame with one byte changed: checksums cannot be guessed. Such a frame must be rejected.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/remote/link/frame.h"

namespace penstock::remote {
namespace {

constexpr int64_t kFuzzLimit = 1 << 16;

std::vector<Slice> FuzzSlices(const std::string& bytes, size_t step) {
  std::vector<Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += step) {
    const auto part = std::make_shared<const std::string>(bytes.substr(i, step));
    slices.push_back({part, reinterpret_cast<const std::byte*>(part->data()), part->size()});
  }
  return slices;
}

std::string EncodeAgain(const Frame& frame) {
  std::string payload;
  for (const Slice& slice : frame.payload) {
    payload.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  std::string bytes;
  AppendFrame(frame.type, frame.sequence, frame.ack, frame.header, payload.size(),
              PayloadCrc(frame.payload), &bytes);
  return bytes + payload;
}

void ParseAll(const std::string& bytes, size_t step) {
  FrameParser parser(FuzzSlices(bytes, step), kFuzzLimit);
  std::string again;
  Frame frame;
  for (;;) {
    const absl::StatusOr<bool> more = parser.Next(&frame);
    if (!more.ok()) break;
    if (!*more) {
      PENSTOCK_CHECK(again == bytes);
      return;
    }
    again += EncodeAgain(frame);
  }
  PENSTOCK_CHECK(bytes.compare(0, again.size(), again) == 0);
}

void ChangeOneByte(const std::string& bytes, size_t step) {
  if (bytes.size() < 4) return;
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  Frame frame;
  frame.type = FrameType::kMessage;
  frame.sequence = at(0);
  const std::string content = bytes.substr(4);
  frame.header = content.substr(0, at(1));
  frame.payload = FuzzSlices(content.substr(frame.header.size()), step);
  std::string encoded = EncodeAgain(frame);
  ParseAll(encoded, step);
  if (at(2) == 0) return;
  char& changed = encoded[(at(3) * size_t{257}) % encoded.size()];
  changed = static_cast<char>(changed ^ at(2));
  FrameParser parser(FuzzSlices(encoded, step), kFuzzLimit);
  PENSTOCK_CHECK(!parser.Next(&frame).ok());
}

}  // namespace
}  // namespace penstock::remote

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t step = 1 + data[0] / 2 * size_t{3};
  if (data[0] % 2 == 0) {
    penstock::remote::ParseAll(bytes, step);
  } else {
    penstock::remote::ChangeOneByte(bytes, step);
  }
  return 0;
}
